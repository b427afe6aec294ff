// SPDX-License-Identifier: Apache-2.0
// The activations of kernels/activations.def. A pipeline knows its own: the switches cost nothing.
#ifndef WEFT_ACTIVATIONS
#define WEFT_ACTIVATIONS

#include "functions.glsl"

#include "activation_rows.glsl"
#include "kernels/formulas/activations.inc"

#define WEFT_ROW_NUMBER(name, row) const uint kActivation_##name = row;
WEFT_ACTIVATION_ROWS(WEFT_ROW_NUMBER)
layout(constant_id = 1) const uint ACTIVATION = kActivation_linear;

// x flushed, but for the activation linear, which moves bits.
float activate(float x) {
#define WEFT_CASE(name, row) case row: return activate_##name(x);
  switch (ACTIVATION) { WEFT_ACTIVATION_ROWS(WEFT_CASE) }
#undef WEFT_CASE
  return x;
}

// v is z or y, as kernels::needs_preactivation says; v and dy flushed, but for linear.
float activate_backward(float v, float dy) {
#define WEFT_CASE(name, row) case row: return activate_backward_##name(v, dy);
  switch (ACTIVATION) { WEFT_ACTIVATION_ROWS(WEFT_CASE) }
#undef WEFT_CASE
  return dy;
}

#endif  // WEFT_ACTIVATIONS
