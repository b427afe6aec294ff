// SPDX-License-Identifier: Apache-2.0
// dw[o][k] = fma(dy[b][o], x[b][k], dw[o][k]) for b ascending: 4 outputs by 4 inputs a thread, samples streaming by.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "memory.glsl"

layout(local_size_x = 128) in;
#define WEFT_OPERANDS(X)                                                              \
  X(uint64_t, dy) X(uint64_t, x) X(uint64_t, dw)                                      \
  X(uint, outputs) X(uint, inputs) X(uint, rows) X(uint, dy_stride) X(uint, x_stride)
#include "operands.glsl"

void main() {
  load_operands();
  uint quad = gl_LocalInvocationID.x & 3, slot = gl_LocalInvocationID.x >> 2, panels = (outputs + 15) / 16;
  for (uint p = gl_WorkGroupID.y; p < panels; p += gl_NumWorkGroups.y)
    for (uint first = gl_WorkGroupID.x * 128; first < inputs; first += gl_NumWorkGroups.x * 128) {
      Quads panel = panel_at(dw, p, inputs);
      uint o = p * 16 + quad * 4;
      vec4 sum[4];
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        uint k = first + slot + i * 32;
        sum[i] = vec4(0.0);
        if (k < inputs) sum[i] = operand(panel.at[k * 4 + quad]);
      }
      for (uint b = 0; b < rows; ++b) {
        Floats up = row_at(dy, b, dy_stride), from = row_at(x, b, x_stride);
        vec4 d = vec4(0.0);
        [[unroll]] for (uint j = 0; j < 4; ++j)
          if (o + j < outputs) d[j] = operand(up.at[o + j]);
        [[unroll]] for (uint i = 0; i < 4; ++i) {
          uint k = first + slot + i * 32;
          if (k < inputs) sum[i] = fused(d, operand(from.at[k]), sum[i]);
        }
      }
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        uint k = first + slot + i * 32;
        // Lanes past the last output keep what they hold.
        if (k < inputs)
          [[unroll]] for (uint j = 0; j < 4; ++j)
            if (o + j < outputs) panel.at[k * 4 + quad][j] = sum[i][j];
      }
    }
}
