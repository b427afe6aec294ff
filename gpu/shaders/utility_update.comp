// SPDX-License-Identifier: Apache-2.0
// Utilities of weights take gradients in, as kernels/perturb.cpp does, and the largest is kept.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "functions.glsl"
#include "memory.glsl"

layout(local_size_x = 256, local_size_x_id = 12) in;
#include "perturb_operands.inc"
#define WEFT_OPERANDS WEFT_UTILITY_UPDATE_OPERANDS
#include "operands.glsl"

void main() {
  if (!load_operands()) return;
  float found = 0.0;
  for (uint i = item(); i < count; i += items()) {
    float use = negated(mul(flushed(Floats(g).at[i]), flushed(Floats(w).at[i])));
    use = at_most(most, at_least(negated(most), use));
    float now = fused(decay, flushed(Floats(u).at[i]), mul(sub(1.0, decay), use));
    Floats(u).at[i] = now;
    if (now > found) found = now;
  }
  // Numbers above 0 are in the order of their bits.
  if (found > 0.0) atomicMax(Words(largest).at[0], bits(found));
}
