// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

#include <cstdint>

namespace weft::kernels {

/// With e = exp(x - largest) and S = sum(e) along each row:
///   loss = log(S) - (x[label] - largest);  dx = e / S, less 1 at the label. dx may be logits.
/// @shape  logits, dx [rows, cols], labels [rows], each below cols; loss [rows] or null
/// @exact  the sum by rule R2
void cross_entropy(const ConstMatrixView& logits, const std::uint32_t* labels, float* loss,
                   const MatrixView& dx) noexcept;

/// With d = x - target:  loss = sum(d^2) / cols;  dx = 2 d / cols. dx may be x or target.
/// @shape  x, target, dx [rows, cols]; loss [rows] or null
/// @exact  the sum by rule R2, one fma an element; divisions correctly rounded
void mean_squared_error(const ConstMatrixView& x, const ConstMatrixView& target, float* loss,
                        const MatrixView& dx) noexcept;

}  // namespace weft::kernels
