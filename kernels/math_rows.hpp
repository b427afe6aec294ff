// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

#include <string_view>

namespace weft::kernels {

/// The transcendental functions of kernels/math.hpp, for whole rows.
enum class Function : int { exp, expm1_nonpositive, log, log1p_unit, tanh, sigmoid, erf, sin, cos };
inline constexpr int kFunctionCount = 9;

std::string_view name(Function function) noexcept;

/// y = function(x), element by element; y may be x.
/// @shape  x [rows, cols], y the same
/// @exact  same bits on every ISA as the scalar function
void apply(Function function, const ConstMatrixView& x, const MatrixView& y) noexcept;

}  // namespace weft::kernels
