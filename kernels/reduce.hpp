// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

#include <cstdint>

namespace weft::kernels {

/// s[b] = sum over j of a[b][j].
/// @shape  a [rows, cols] -> s [rows]
/// @exact  rule R2: 64 strided lanes, folded by halves
void row_sums(const ConstMatrixView& a, float* s) noexcept;

/// s[b] = sum over j of a[b][j] b[b][j], one fma an element.
/// @shape  a, b [rows, cols] -> s [rows]
/// @exact  rule R2
void row_dots(const ConstMatrixView& a, const ConstMatrixView& b, float* s) noexcept;

/// s[j] = s[j] + a[b][j] for b ascending.
/// @shape  a [rows, cols], s [cols]
void column_accumulate(const ConstMatrixView& a, float* s) noexcept;

/// index[b] = the first j that holds the largest number of row b. A NaN never wins; 0 when all are NaN.
/// @shape  a [rows, cols], cols < 2^32 -> index [rows]
void row_argmax(const ConstMatrixView& a, std::uint32_t* index) noexcept;

}  // namespace weft::kernels
