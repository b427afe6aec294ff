// SPDX-License-Identifier: Apache-2.0
// An update with noise, as kernels/perturb.cpp makes it: a thread has the four weights of a block of Philox.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "functions.glsl"
#include "memory.glsl"
#include "philox.glsl"

layout(local_size_x = 256, local_size_x_id = 12) in;
layout(constant_id = 1) const bool PROTECTS = true;
#include "perturb_operands.inc"
#define WEFT_OPERANDS WEFT_PERTURBED_STEP_OPERANDS
#include "operands.glsl"
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Counts { uint64_t at[]; };

#include "kernels/formulas/clip.inc"

bool is_padding(uint at) {
  if (outputs == 0u) return false;
  return at / (inputs * 16u) * 16u + at % 16u >= outputs;
}

float noise_of(uint word) {
  uint sum = (word & 0xffu) + (word >> 8 & 0xffu) + (word >> 16 & 0xffu) + (word >> 24);
  return mul(scale, float(int(sum) - int(mean)));
}

void main() {
  if (!load_operands()) return;
  float rate = flushed(Floats(factors).at[0]), kept = mul(rate, weight_decay);
  float top = flushed(Floats(largest).at[0]), use = top > 0.0 ? top : 1.0;
  float factor = squares != 0ul ? clip_factor(flushed(Floats(squares).at[0]), limit) : 1.0;
  uint64_t number = Counts(updates).at[0] & 0xfffffffffffful;
  uint blocks = (count + 63u) / 64u * 16u;
  for (uint block = item(); block < blocks; block += items()) {
    uvec4 words = philox(uvec4(block, uint(number), uint(number >> 32), 1u), uvec2(key0, key1));
    for (uint i = 0; i < 4; ++i) {
      uint at = block / 16u * 64u + i * 16u + block % 16u;
      if (at >= count) break;
      float added = noise_of(words[i]);
      float moves = sub(1.0, exact_sigmoid(divide(flushed(Floats(u).at[at]), use)));
      float gradient = mul(factor, flushed(Floats(g).at[at])), weight = flushed(Floats(w).at[at]);
      float direction = PROTECTS ? mul(add(gradient, added), moves) : fused(added, moves, gradient);
      float moved = fused(negated(rate), direction, fused(negated(kept), weight, weight));
      Floats(w).at[at] = is_padding(at) ? 0.0 : moved;
    }
  }
}
