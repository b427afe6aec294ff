// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

namespace weft::kernels {

/// y = log softmax(x) + base[row]: e = exp(x - largest), y = (x - largest) - log(sum(e)), then + base where there is
/// one.
///   A row that holds a NaN or +inf, or nothing but -inf, becomes NaN.
/// @shape  x, y [rows, cols], cols >= 1; base [rows, 1] or data null; y may be x
/// @exact  the sum by rule R2
void log_softmax(const ConstRows& x, const ConstRows& base, const Rows& y) noexcept;

/// dbase = sum(dy), dx = dy - exp(y - base) dbase, one fma an element; dx may be dy.
/// @shape  y, dy, dx [rows, cols]; base [rows, 1] or data null; dbase [rows, 1] or data null, added to
/// @exact  the sum by rule R2
void log_softmax_backward(const ConstRows& y, const ConstRows& base, const ConstRows& dy, const Rows& dx,
                          const Rows& dbase) noexcept;

/// y = log(max(x, 2^-126)): never -inf. y may be x.
void log_floored(const ConstRows& x, const Rows& y) noexcept;
/// dx = dy / max(x, 2^-126); dx may be dy.
void log_floored_backward(const ConstRows& x, const ConstRows& dy, const Rows& dx) noexcept;

}  // namespace weft::kernels
