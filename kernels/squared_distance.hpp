// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"
#include "kernels/weight.hpp"

namespace weft::kernels {

/// y[b][k] = sum over j of (x[b][j] - c[k][j])^2, from the differences themselves: |x|^2 - 2 x c + |c|^2 would cancel.
/// @shape  c [points, features] in panels, x [rows, features], y [rows, points]; y aliases nothing
/// @dtype  c: any; dequantized to float32 (float64 rounded to it) into a scratch of the thread, which only grows
/// @exact  rule R1 over j: one subtraction, one fma an element (docs/numerics.md, Distances)
void squared_distances(const ConstWeight& c, const ConstMatrixView& x, const MatrixView& y) noexcept;

/// dx[b][j] = 2 sum over k of dy[b][k] (x[b][j] - c[k][j]), rule R2 over k; data == null: not wanted.
/// dc[k][j] = fma(2 dy[b][k], c[k][j] - x[b][j], dc[k][j]) for b ascending; data == null: not wanted.
/// @shape  c [points, features], x, dx [rows, features], dy [rows, points], dc as c; dx and dc alias nothing
/// @exact  same bits on every ISA; dc for any cut of the rows
void squared_distances_backward(const ConstWeight& c, const ConstMatrixView& x, const ConstMatrixView& dy,
                                const MatrixView& dx, const Panels& dc) noexcept;

/// y = sqrt(x), correctly rounded; y may be x.
void square_root(const ConstMatrixView& x, const MatrixView& y) noexcept;
/// dx = dy / (2 y), 0 where y is 0: the slope of a distance where it has a corner. dx may be dy.
void square_root_backward(const ConstMatrixView& y, const ConstMatrixView& dy, const MatrixView& dx) noexcept;

}  // namespace weft::kernels
