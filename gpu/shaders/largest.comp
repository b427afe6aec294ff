// SPDX-License-Identifier: Apache-2.0
// The largest of some values, at least 0.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "memory.glsl"

layout(local_size_x = 64) in;
#include "perturb_operands.inc"
#define WEFT_OPERANDS WEFT_LARGEST_OPERANDS
#include "operands.glsl"

shared float largest_[64];

void main() {
  load_operands();
  uint lane = gl_LocalInvocationID.x;
  float found = 0.0;
  for (uint i = lane; i < count; i += 64) {
    float value = flushed(Floats(x).at[i]);
    if (value > found) found = value;
  }
  largest_[lane] = found;
  barrier();
  for (uint reach = 32; reach > 0; reach /= 2) {
    if (lane < reach && largest_[lane + reach] > largest_[lane]) largest_[lane] = largest_[lane + reach];
    barrier();
  }
  if (lane == 0) Floats(y).at[0] = largest_[0];
}
