// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

namespace weft::kernels {

enum class BinaryOp : int { add, sub, mul, max, min };

/// y = a op b, element by element; y may be a or b.
///   max and min: a NaN in either operand gives a NaN; of equal operands (both zeros too) b is taken.
/// @shape  a, b, y [rows, cols]
/// @exact  same bits on every ISA; chosen results are flushed like computed ones
void binary(BinaryOp op, const ConstMatrixView& a, const ConstMatrixView& b, const MatrixView& y) noexcept;

/// y = alpha x; y may be x.
void scale(float alpha, const ConstMatrixView& x, const MatrixView& y) noexcept;

/// y = fma(alpha, x, y); y may be x.
void axpy(float alpha, const ConstMatrixView& x, const MatrixView& y) noexcept;

/// y = x, bit by bit: subnormals and NaN payloads too. y may be x.
void copy(const ConstMatrixView& x, const MatrixView& y) noexcept;

void fill(float value, const MatrixView& y) noexcept;

}  // namespace weft::kernels
