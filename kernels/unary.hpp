// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/activation.hpp"
#include "kernels/views.hpp"

namespace weft::kernels {

/// y = activation(x), element by element; y may be x.
///   A NaN gives a NaN. At -inf: linear, leaky_relu -inf; elu, tanh -1; the others 0. At +inf the limits too.
///   linear copies bits, subnormals included; the others flush.
/// @shape  x [rows, cols], y the same
/// @exact  same bits on every ISA, and as fused into `linear`
void unary(Activation activation, const ConstMatrixView& x, const MatrixView& y) noexcept;

/// dx = dy * activation'(z), with y = activation(z); dx may be dy.
/// Reads z where `needs_preactivation`, else y; the other one's data may be null.
///   relu and leaky_relu at 0 have slope 0 and 0.01; relu gives +0 where the slope is 0, whatever dy is.
/// @shape  z, y, dy, dx [rows, cols]
/// @exact  same bits on every ISA
void unary_backward(Activation activation, const ConstMatrixView& z, const ConstMatrixView& y,
                    const ConstMatrixView& dy, const MatrixView& dx) noexcept;

/// True when the slope is computed from z = the activation's input, as kernels/activations.def says; otherwise it is
/// computed from y, so z need not be kept.
constexpr bool needs_preactivation(Activation activation) noexcept {
  constexpr char kSlopeOf[] = {
#define WEFT_ACTIVATION(name, slope_of, formula) #slope_of[0],
#include "kernels/activations.def"
#undef WEFT_ACTIVATION
  };
  return kSlopeOf[static_cast<int>(activation)] == 'z';
}

/// The scalar reference of one element of `unary`.
float activate(Activation activation, float x) noexcept;
/// The scalar reference of one element of `unary_backward`; `v` is z or y, as `needs_preactivation` says.
float activate_backward(Activation activation, float v, float dy) noexcept;

}  // namespace weft::kernels
