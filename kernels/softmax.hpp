// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

namespace weft::kernels {

/// y = softmax(x / temperature) along each row: e = exp((x - largest) / temperature), y = e / sum(e). y may be x.
///   A row that holds a NaN or +inf, or nothing but -inf, becomes NaN.
/// @shape  x, y [rows, cols], cols >= 1; temperature > 0
/// @exact  the sum by rule R2; divisions correctly rounded
void softmax(const ConstMatrixView& x, float temperature, const MatrixView& y) noexcept;

/// dx = y (dy - sum(y dy)) / temperature; dx may be dy.
/// @shape  y, dy, dx [rows, cols]
/// @exact  the sum by rule R2, one fma an element
void softmax_backward(const ConstMatrixView& y, const ConstMatrixView& dy, float temperature,
                      const MatrixView& dx) noexcept;

}  // namespace weft::kernels
