// SPDX-License-Identifier: Apache-2.0
// Sets bits of a word where something is found in a matrix: infinities or NaNs, or nothing but zeros. In bits: no
// arithmetic. Nothing but zeros is asked of one group, which sees all.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"

layout(local_size_x = 256, local_size_x_id = 12) in;
#include "rows_operands.inc"
WEFT_FINITE_NUMBERS(WEFT_NUMBER)
layout(constant_id = 1) const uint QUESTION = kNotFinite;
#define WEFT_OPERANDS WEFT_FINITE_OPERANDS
#include "operands.glsl"
shared uint others;
const uint kAhead = 8;  // elements of a thread whose loads are under way together

uint bits_at(uint e) {
  uint i = x_stride == cols ? 0 : e / cols;
  return floatBitsToUint(row_at(x, i, x_stride).at[e - i * cols]);
}

void main() {
  bool exists = load_operands();
  bool found = false;
  if (QUESTION == kNotFinite) {
    if (!exists) return;
    uint count = rows * cols, step_ = items();
    for (uint e = item(); e < count; e += kAhead * step_) {
      uint own[kAhead];
      [[unroll]] for (uint i = 0; i < kAhead; ++i) own[i] = bits_at(min(e + i * step_, count - 1));
      [[unroll]] for (uint i = 0; i < kAhead; ++i) found = found || (own[i] & 0x7f800000u) == 0x7f800000u;
    }
    if (found) atomicOr(Words(word).at[0], bits);
    return;
  }
  if (gl_LocalInvocationID.x == 0) others = 0;
  barrier();
  // A subnormal is a zero, as for all operations. `rows` whole parts of x_stride elements, and `cols` more: their
  // number may exceed 32 bits.
  for (uint part = 0; part <= rows; ++part) {
    Floats from = row_at(x, part, x_stride);
    uint end = part < rows ? x_stride : cols;
    for (uint e = gl_LocalInvocationID.x; e < end; e += gl_WorkGroupSize.x)
      found = found || (floatBitsToUint(from.at[e]) & 0x7f800000u) != 0u;
  }
  if (found) atomicOr(others, 1u);
  barrier();
  if (gl_LocalInvocationID.x == 0 && others == 0u) atomicOr(Words(word).at[0], bits);
}
