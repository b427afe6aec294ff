// SPDX-License-Identifier: Apache-2.0
// Cosines and sines of the positions of a call, as kernels/internal/rope_table.cpp makes them: Taylor's series in
// binary64, rounded once. A pair of numbers for every (session, token, pair of elements).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "position.glsl"
#include "binary64.glsl"

layout(local_size_x = 64) in;
#include "attention_operands.inc"
#define WEFT_OPERANDS WEFT_ANGLES_OPERANDS
#include "operands.glsl"
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Turns { uint64_t at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) writeonly buffer Angles { uvec2 at[]; };

const uint64_t kTurnUnit = 0x3c1921fb54442d18ul;  // 2 pi / 2^64

// The cosine's bits, then the sine's, of phase / 2^64 turns.
uvec2 cosine_and_sine(uint64_t phase) {
  uint quarter = uint(phase + 0x2000000000000000ul >> 62);
  uint64_t rest = phase - (uint64_t(quarter) << 62), sign = rest & kSign64;
  uint64_t x = mul64(integer64(sign, sign != 0ul ? 0ul - rest : rest), kTurnUnit), x2 = mul64(x, x);
  uint64_t s = kOne64, c = kOne64;
  [[dont_unroll]] for (uint k = 18; k >= 2; k -= 2) {
    c = add64(kOne64, negated64(mul64(divide64_by(x2, k * (k - 1)), c)));
    s = add64(kOne64, negated64(mul64(divide64_by(x2, k * (k + 1)), s)));
  }
  s = mul64(s, x);
  uint64_t sine = (quarter & 1u) != 0u ? c : s, cosine = (quarter & 1u) != 0u ? s : c;
  if ((quarter & 2u) != 0u) sine = negated64(sine);
  if ((quarter + 1u & 2u) != 0u) cosine = negated64(cosine);
  return uvec2(narrowed(mul64(cosine, gain)), narrowed(mul64(sine, gain)));
}

void main() {
  load_operands();
  uint64_t all = uint64_t(sessions) * tokens * pairs, step_ = uint64_t(gl_NumWorkGroups.x) * 64ul;
  for (uint64_t i = gl_GlobalInvocationID.x; i < all; i += step_) {
    uint pair = uint(i % pairs), t = uint(i / pairs % tokens), b = uint(i / pairs / tokens);
    uint64_t position = uint64_t(t);
    if (state != 0ul) position += read_position(row_at(state, b, state_stride), 0);
    Angles(angles + i * 8ul).at[0] = cosine_and_sine(Turns(turns).at[pair] * position);
  }
}
