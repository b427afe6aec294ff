// SPDX-License-Identifier: Apache-2.0
// Philox 4x32-10 as kernels/noise-inl.hpp draws it: Gumbel noise added to rows, or dropout's masks.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lanes.glsl"
#include "philox.glsl"
#include "position.glsl"

layout(constant_id = 1) const bool MASK = false;
#include "noise_operands.inc"
#define WEFT_OPERANDS WEFT_NOISE_OPERANDS
#include "operands.glsl"

void put(Floats to, uint at, uint64_t v) {
  to.at[at] = float(uint(v & 0xfffffful));
  to.at[at + 1] = float(uint(v >> 24 & 0xfffffful));
}

float drawn(uint word, float v) {
  if (MASK) return word < threshold ? 0.0 : scale;
  float u = mul(add(float(word >> 9), 0.5), 1.1920928955078125e-07);
  return sub(flushed(v), exact_log(negated(exact_log(u))));
}

void main() {
  load_operands();
  FOR_EACH_ROW(first) {
    uint i = min(row_of(first), rows - 1);
    bool stores = row_of(first) < rows;
    Floats from = row_at(state, i, state_stride), values = row_at(x, i, x_stride), to = row_at(y, i, y_stride);
    uint64_t counter = read_position(from, 0), stream = read_position(from, 2);
    if (stream == 0ul) stream = uint64_t(i) + 1ul;
    memoryBarrierBuffer();  // the next state may be this one
    barrier();
    if (stores && lane() == 0) {
      Floats next = row_at(next_state, i, next_stride);
      put(next, 0, counter + 1ul);
      put(next, 2, stream);
    }
    uint high = uint(counter >> 32) | uint(stream >> 32) << 16;
    for (uint chunk = lane() / 16; chunk * 64 < cols && stores; chunk += 4) {
      uvec4 words = philox(uvec4(chunk * 16 + lane() % 16, uint(counter), high, uint(stream)), uvec2(key0, key1));
      for (uint w = 0; w < 4; ++w) {
        uint j = chunk * 64 + w * 16 + lane() % 16;
        if (j < cols) to.at[j] = drawn(words[w], MASK ? 0.0 : values.at[j]);
      }
    }
  }
}
