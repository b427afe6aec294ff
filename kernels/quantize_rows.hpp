// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

#include "core/encoding.hpp"

#include <cstddef>
#include <cstdint>

namespace weft::kernels {

/// Blocks of 32 that a row of `cols` numbers has; the last may be shorter.
inline constexpr std::size_t quantized_blocks(std::size_t cols) noexcept {
  return (cols + kScaleBlock - 1) / kScaleBlock;
}

/// Rows as int8 codes: with blocks = quantized_blocks(cols), `codes` is [rows][blocks * 32], `scales` and `sums` are
/// [rows][blocks]. Codes past `cols` are 0; sums[i][t] is the sum of block t's codes.
struct QuantizedRows {
  std::int8_t* codes = nullptr;
  float* scales = nullptr;
  std::int32_t* sums = nullptr;
};

/// The least that a row is divided by where all of it has one scale: the float32 nearest to 1e-5.
inline constexpr float kLeastOfRow = 1e-5f;

/// Activations to int8, each block of 32 consecutive elements of a row with a scale of its own.
///   m = max|x|;  scale = m / 127;  code = round to nearest even(x * (127 / m)), so -127 to 127
/// A block with an infinity or a NaN has the canonical NaN as its scale, one with m < 2^-100 has +0; their codes are 0.
/// Activations::int8_row: m = max(max|x| of the whole row, kLeastOfRow) for each of its blocks (Ma et al. 2024, "The
/// Era of 1-bit LLMs", arXiv:2402.17764, and the floor of BitNet b1.58 2B-4T as it is published).
/// @shape  x [B, n] -> codes [B, ceil(n/32) * 32], scales and sums [B, ceil(n/32)]
/// @thread any, inside FlushSubnormals
/// @exact  same bits on every ISA; a row's codes depend on that row alone
void quantize_rows(const ConstMatrixView& x, const QuantizedRows& to,
                   Activations activations = Activations::int8) noexcept;

}  // namespace weft::kernels
