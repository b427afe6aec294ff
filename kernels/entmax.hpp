// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

namespace weft::kernels {

/// y = alpha-entmax(x / temperature) along each row: with r = (alpha - 1) (x - largest) / temperature, the threshold
/// t in [-1, 0) that makes the sum of y = max(r - t, 0)^(1 / (alpha - 1)) one. alpha = 2 is sparsemax; alpha = 1 is
/// softmax, which has an operation of its own. Elements at or below the threshold are exactly 0. y may be x.
///   A row that holds a NaN or +inf, or nothing but -inf, becomes NaN.
/// @shape  x, y [rows, cols], cols >= 1; temperature > 0; alpha_minus_one = alpha - 1 > 0
/// @exact  30 bisections over the bits of -t, then the closed form for alpha = 1.5 and 2, a mixture of the last two
///         candidates for others; for all but 2 a division by the sum. Sums by R2 (docs/numerics.md, section 11)
/// @source Martins and Astudillo 2016, arXiv:1602.02068; Peters, Niculae and Martins 2019, arXiv:1905.05702
void entmax(const ConstMatrixView& x, float alpha_minus_one, float temperature, const MatrixView& y) noexcept;

/// dx = s (dy - sum(s dy) / sum(s)) / temperature with s = y^(2 - alpha) where y > 0, else 0. dx may be dy.
/// For alpha > 2, where the slope at the threshold is infinite, s is at most e^40.
/// @shape  y, dy, dx [rows, cols]
/// @exact  the sums by rule R2
/// @source Peters, Niculae and Martins 2019, proposition 2
void entmax_backward(const ConstMatrixView& y, const ConstMatrixView& dy, float alpha_minus_one, float temperature,
                     const MatrixView& dx) noexcept;

}  // namespace weft::kernels
