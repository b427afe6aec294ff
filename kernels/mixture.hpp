// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

#include <cstddef>

namespace weft::kernels {

/// y[b][j] = sum over e ascending of p[b][e] x[b][e * cols + j]: fma from +0. Parts whose p is 0 are not looked at, and
/// may hold anything.
/// @shape  p [rows, parts], x [rows, parts * cols] -> y [rows, cols]; y overlaps nothing
/// @exact  same bits on every ISA
void weighted_sum(const ConstMatrixView& p, const ConstMatrixView& x, const MatrixView& y) noexcept;
/// dp[b][e] = sum over j of dy[b][j] x[b][e * cols + j] (R2), dx[b][e * cols + j] = p[b][e] dy[b][j]; both +0 where p
/// is 0.
void weighted_sum_backward(const ConstMatrixView& p, const ConstMatrixView& x, const ConstMatrixView& dy,
                           const MatrixView& dp, const MatrixView& dx) noexcept;

/// y[b][j] = x[b][j] where it is among the `count` largest of its row, -inf elsewhere; of equal ones the first are
/// kept. A row with a NaN becomes NaN throughout. May run in place.
void top_k_mask(const ConstMatrixView& x, std::size_t count, const MatrixView& y) noexcept;

}  // namespace weft::kernels
