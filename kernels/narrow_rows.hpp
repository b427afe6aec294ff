// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

#include "core/dtype.hpp"

#include <cstddef>
#include <string_view>
#include <vector>

namespace weft::kernels {

/// Types that values between layers are rounded to: rows of narrow_types.def.
bool is_narrow(Dtype dtype) noexcept;
/// Their names, float32 first, which is no rounding.
const std::vector<std::string_view>& value_dtype_names();

/// Bytes of a row of `cols` values: the scale's exponent where the type has one, and the codes; a multiple of 4.
/// @error  none: float32 takes four bytes a value
std::size_t narrow_row_bytes(Dtype dtype, std::size_t cols) noexcept;

/// Rounds each row to the nearest numbers of the type, ties to the even code; finite values saturate. Types with a
/// scale (fp8, int8) stand for code * 2^e, where e >= -100 is the least with max |x| <= largest * 2^e in the row, so
/// nothing below 2^127 saturates and scaling is exact; the others (bfloat16, float16) have none. A second rounding
/// changes nothing. A row with a value that is not finite stays as it is.
/// @shape  rows [rows, cols], in place
/// @exact  the same bits on every ISA: integer arithmetic and products with powers of two
/// @source Micikevicius et al. 2022, "FP8 Formats for Deep Learning", arXiv:2209.05433 (E4M3 forward, E5M2 backward,
///         a scale from the largest magnitude); the power of two, its rounding up and one a row: original here
void round_rows(Dtype dtype, const MatrixView& rows) noexcept;

/// The same rounding into memory and back: row i at `to` + i * narrow_row_bytes. What round_rows gave comes back equal,
/// but -0 of int8, which is +0. Of a row with values that are not finite infinities are the largest number, and NaN is
/// 0, where the type has none. float32: a copy.
void encode_rows(Dtype dtype, const ConstMatrixView& from, std::byte* to) noexcept;
void decode_rows(Dtype dtype, const std::byte* from, const MatrixView& to) noexcept;

}  // namespace weft::kernels
