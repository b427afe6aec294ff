// SPDX-License-Identifier: Apache-2.0
// An update of n weights, as kernels/optimizer.cpp makes it, by the formulas of kernels/formulas/.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "functions.glsl"
#include "memory.glsl"

layout(local_size_x = 256, local_size_x_id = 12) in;
layout(constant_id = 1) const uint OPTIMIZER = 0;
layout(constant_id = 2) const bool HAS_SHARES = false;
layout(constant_id = 3) const bool CENTERED = false;
layout(constant_id = 4) const bool HAS_MOMENTUM = false;
layout(constant_id = 5) const bool CLIPS_VALUES = false;
// Settings are flushed by the host. An optimiser with shares has no betas: they come in their place, so that operands
// and their steps still fit into push constants. `factors` (optimizer_factors.comp), `squares` and arrays of state may
// be null. Nothing moves while the word at `skip` is not 0.
#include "learning_operands.inc"
#define WEFT_OPERANDS WEFT_OPTIMIZER_OPERANDS
#include "operands.glsl"

struct Weight {
  float weight, gradient, first, second, third;
};
struct Settings {
  float rate, weight_decay, momentum, dampening, beta1, beta2, alpha, epsilon, correction1, correction2;
  float velocity_share, gradient_share;
  bool has_shares, centered, has_momentum;
};

#include "kernels/formulas/clip.inc"

#define WEFT_OPTIMIZER_STEP(name) void step_##name(inout Weight u, Settings s)
#include "kernels/formulas/optimizers.def"
#undef WEFT_OPTIMIZER_STEP

#define WEFT_OPTIMIZER(number, name, arrays, used, corrects, defaults, takes) \
  const uint kArraysOf_##name = arrays;
#include "kernels/formulas/optimizers.def"
#undef WEFT_OPTIMIZER

uint most_arrays() {
#define WEFT_OPTIMIZER(number, name, arrays, used, corrects, defaults, takes) \
  if (OPTIMIZER == number) return kArraysOf_##name;
#include "kernels/formulas/optimizers.def"
#undef WEFT_OPTIMIZER
  return 0;
}

void move(inout Weight u, Settings s) {
#define WEFT_OPTIMIZER(number, name, arrays, used, corrects, defaults, takes) \
  if (OPTIMIZER == number) step_##name(u, s);
#include "kernels/formulas/optimizers.def"
#undef WEFT_OPTIMIZER
}

// Weights of a thread whose loads are under way together. Emulated arithmetic is long: one.
#ifdef WEFT_EMULATED
const uint kAhead = 1;
#else
const uint kAhead = 4;
#endif

float value_at(uint64_t array, uint i, uint least_arrays) {
  return most_arrays() >= least_arrays && array != 0ul ? flushed(Floats(array).at[i]) : 0.0;
}
void keep(uint64_t array, uint i, uint least_arrays, float value) {
  if (most_arrays() >= least_arrays && array != 0ul) Floats(array).at[i] = value;
}

void main() {
  if (!load_operands()) return;
  if (skip != 0ul && Words(skip).at[0] != 0) return;
  Settings s;
  s.rate = rate;
  s.weight_decay = weight_decay;
  s.momentum = momentum;
  s.dampening = dampening;
  s.beta1 = beta1;
  s.beta2 = beta2;
  s.alpha = alpha;
  s.epsilon = epsilon;
  s.correction1 = s.correction2 = 1.0;
  s.velocity_share = beta1;
  s.gradient_share = beta2;
  s.has_shares = HAS_SHARES;
  s.centered = CENTERED;
  s.has_momentum = HAS_MOMENTUM;
  if (factors != 0ul) {
    s.rate = flushed(Floats(factors).at[0]);
    s.correction1 = flushed(Floats(factors).at[1]);
    s.correction2 = flushed(Floats(factors).at[2]);
  }
  float factor = squares != 0ul ? clip_factor(flushed(Floats(squares).at[0]), clip_limit) : 1.0;
  for (uint i = item(); i < count; i += kAhead * items()) {
    Weight own[kAhead];
    [[unroll]] for (uint j = 0; j < kAhead; ++j) {
      uint at = min(i + j * items(), count - 1);
      own[j].weight = flushed(Floats(w).at[at]);
      own[j].gradient = flushed(Floats(g).at[at]);
      own[j].first = value_at(first, at, 1u);
      own[j].second = value_at(second, at, 2u);
      own[j].third = value_at(third, at, 3u);
    }
    [[unroll]] for (uint j = 0; j < kAhead; ++j) {
      uint at = i + j * items();
      if (at >= count) break;
      Weight u = own[j];
      if (CLIPS_VALUES)
        u.gradient = clip_value(u.gradient, clip_limit);
      else if (squares != 0ul)
        u.gradient = mul(u.gradient, factor);
      move(u, s);
      Floats(w).at[at] = u.weight;
      keep(first, at, 1u, u.first);
      keep(second, at, 2u, u.second);
      keep(third, at, 3u, u.third);
    }
  }
}
