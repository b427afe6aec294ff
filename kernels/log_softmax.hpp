// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

namespace weft::kernels {

/// y = log softmax(x) + base[row]: e = exp(x - largest), y = (x - largest) - log(sum(e)), then + base where there is
/// one.
///   A row that holds a NaN or +inf, or nothing but -inf, becomes NaN.
/// @shape  x, y [rows, cols], cols >= 1; base [rows, 1] or data null; y may be x
/// @exact  the sum by rule R2
void log_softmax(const ConstMatrixView& x, const ConstMatrixView& base, const MatrixView& y) noexcept;

/// dbase = sum(dy), dx = dy - exp(y - base) dbase, one fma an element; dx may be dy.
/// @shape  y, dy, dx [rows, cols]; base [rows, 1] or data null; dbase [rows, 1] or data null, added to
/// @exact  the sum by rule R2
void log_softmax_backward(const ConstMatrixView& y, const ConstMatrixView& base, const ConstMatrixView& dy,
                          const MatrixView& dx, const MatrixView& dbase) noexcept;

/// y = log(max(x, 2^-126)): never -inf. y may be x.
void clamped_log(const ConstMatrixView& x, const MatrixView& y) noexcept;
/// dx = dy / max(x, 2^-126); dx may be dy.
void clamped_log_backward(const ConstMatrixView& x, const ConstMatrixView& dy, const MatrixView& dx) noexcept;

}  // namespace weft::kernels
