// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/internal/dequantize_reference.hpp"
#include "kernels/linear_dequantized.hpp"

#include <cstddef>

/// Decoding kernels, one translation unit for each family of types, so that each compiles in bearable time.
///   dequantize  values of a part into [panels][count][16], padding lanes +0
///   row     one row's products by rule R1, plus bias
/// All inside FlushSubnormals; same bits on every ISA.
namespace weft::kernels::detail {

/// float16, bfloat16, fp8_e4m3, fp8_e5m2.
void dequantize_floats(const ConstWeight& w, const DequantizedPart& part, float* to) noexcept;
void row_of_floats(const ConstWeight& w, const float* bias, const float* x, float* to) noexcept;

/// The types whose codes lie in words: fp4, ternary, binary and integers of 8 bits and fewer.
void dequantize_words(const ConstWeight& w, const DequantizedPart& part, float* to) noexcept;
void row_of_words(const ConstWeight& w, const float* bias, const float* x, float* to) noexcept;

/// Integers of 16 bits and more.
void dequantize_integers(const ConstWeight& w, const DequantizedPart& part, float* to) noexcept;
void row_of_integers(const ConstWeight& w, const float* bias, const float* x, float* to) noexcept;

/// float64: sums in binary64, rounded to float once at the end.
void dequantize_doubles(const ConstWeight& w, const DequantizedPart& part, float* to) noexcept;
void rows_of_doubles(const ConstWeight& w, const float* bias, const ConstMatrixView& x, const MatrixView& to) noexcept;
/// Columns [first, first + count) of dx.
void transposed_doubles(const ConstWeight& w, const ConstMatrixView& dy, const MatrixView& dx, std::size_t first,
                        std::size_t count) noexcept;
void column_sums_of_doubles(const ConstWeight& w, float* s) noexcept;

/// This thread's workspace for dequantized weights, as linear_scratch is for packed rows. The two are apart because the
/// float32 kernels use theirs while they read this one.
float* dequantize_scratch(std::size_t floats) noexcept;

}  // namespace weft::kernels::detail
