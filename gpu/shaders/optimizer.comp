// SPDX-License-Identifier: Apache-2.0
// A step of sgd, momentum or AdamW on n weights.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "memory.glsl"

layout(local_size_x = 256) in;
const uint kSgd = 0, kMomentum = 1, kAdamw = 2;
layout(constant_id = 1) const uint OPERATION = kSgd;
layout(constant_id = 2) const bool NESTEROV = false;
// sgd: rate, decay. momentum: also keep, rest. AdamW: rate, decay, then beta1, 1 - beta1, beta2, 1 - beta2, epsilon and,
// in memory, the two corrections. Flushed by the host. Nothing moves while the word at `skip` is not 0.
#define WEFT_OPERANDS(X)                                                                                         \
  X(uint64_t, w) X(uint64_t, m) X(uint64_t, v) X(uint64_t, g) X(uint64_t, corrections) X(uint64_t, skip)         \
  X(uint, count)                                                                                                 \
  X(float, rate) X(float, decay) X(float, keep) X(float, rest) X(float, keep2) X(float, rest2) X(float, epsilon)
#include "operands.glsl"

void main() {
  if (!load_operands()) return;
  if (skip != 0ul && Words(skip).at[0] != 0) return;
  float correction1 = 1.0, correction2 = 1.0;
  if (OPERATION == kAdamw) {
    correction1 = flushed(Floats(corrections).at[0]);
    correction2 = flushed(Floats(corrections).at[1]);
  }
  for (uint i = item(); i < count; i += items()) {
    float weight = flushed(Floats(w).at[i]), gradient = flushed(Floats(g).at[i]);
    if (OPERATION == kSgd) {
      weight = fused(negated(rate), fused(decay, weight, gradient), weight);
    } else if (OPERATION == kMomentum) {
      float t = fused(decay, weight, gradient);
      float velocity = fused(keep, flushed(Floats(v).at[i]), mul(rest, t));
      Floats(v).at[i] = velocity;
      weight = fused(negated(rate), NESTEROV ? fused(keep, velocity, t) : velocity, weight);
    } else {
      float first = fused(keep, flushed(Floats(m).at[i]), mul(rest, gradient));
      float second = fused(keep2, flushed(Floats(v).at[i]), mul(rest2, mul(gradient, gradient)));
      Floats(m).at[i] = first;
      Floats(v).at[i] = second;
      float direction = divide(divide(first, correction1), add(root(divide(second, correction2)), epsilon));
      weight = fused(negated(rate), direction, fused(decay, weight, weight));
    }
    Floats(w).at[i] = weight;
  }
}
