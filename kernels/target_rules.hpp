// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

#include <cstdint>

namespace weft::kernels {

/// y[b][j] = value where j is labels[b], else +0.
/// @shape  labels [rows], each below cols; y [rows, cols]
void one_hot(const std::uint32_t* labels, float value, const MatrixView& y) noexcept;

/// Link budget of a row's target, and the factor of the learning rate that follows from it.
///   budget = (cos(a, t) + 1) / 2;  factor = budget < 0.2 ? 0 : 0.5 + 0.5 budget
/// cos is 0 when either norm is 0.
/// @shape  a, t [rows, cols] -> factor [rows]
/// @exact  row_cosine (kernels/row_cosine.hpp), then one addition, two products and a fma
/// @source docs/learning.md, "Link budgets"
void link_budget(const ConstMatrixView& a, const ConstMatrixView& t, float* factor) noexcept;

/// y[b] = s[b] x[b]. May run in place.
void scale_rows(const float* s, const ConstMatrixView& x, const MatrixView& y) noexcept;

/// The displacement that the rule `gap` asks of an input: d = weighted / sums - x where sums > 0.01, else +0, with
/// weighted = t W and sums = column sums of |W|.
/// @shape  weighted, x, d [rows, cols], sums [cols]
void gap_residual(const ConstMatrixView& weighted, const float* sums, const ConstMatrixView& x,
                  const MatrixView& d) noexcept;

}  // namespace weft::kernels
