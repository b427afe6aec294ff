// SPDX-License-Identifier: Apache-2.0
// Self-test of a device's arithmetic (gpu/self_test.cpp): its own operations, then ours.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "functions.glsl"
#include "memory.glsl"

layout(local_size_x = 128) in;
#include "self_test_operands.inc"
#define WEFT_OPERANDS WEFT_SELF_TEST_OPERANDS
#include "operands.glsl"

void main() {
  load_operands();
  uint i = gl_GlobalInvocationID.x;
  if (i >= count) return;
  float u = Floats(a).at[i], v = Floats(b).at[i], w = Floats(c).at[i];
  Floats to = Floats(y);
  to.at[i] = fma(u, v, w);
  to.at[count + i] = u * v;
  to.at[2 * count + i] = u / v;
  to.at[3 * count + i] = sqrt(u);
  // As inner loops read: a device that flushes must do so to operands too.
  to.at[13 * count + i] = fused(operand(u), operand(v), operand(w));
  to.at[14 * count + i] = add(operand(u), operand(w));
  to.at[15 * count + i] = are_finite(vec4(u, v, w, 1.0)) ? 1.0 : 0.0;
  u = flushed(u);
  v = flushed(v);
  w = flushed(w);
  to.at[4 * count + i] = fused(u, v, w);
  to.at[5 * count + i] = add(u, w);
  to.at[6 * count + i] = mul(u, v);
  to.at[7 * count + i] = divide(u, v);
  to.at[8 * count + i] = root(u);
  to.at[9 * count + i] = exact_exp(u);
  to.at[10 * count + i] = exact_tanh(u);
  to.at[11 * count + i] = exact_log(u);
  to.at[12 * count + i] = sub(u, w);
}
