// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"
#include "kernels/weight.hpp"

#include <cstddef>
#include <cstdint>

namespace weft::kernels {

/// The column that an index held as a float names, of `columns`: rounded down, and never another than 0 .. columns - 1.
/// Below 0, and NaN: 0; at `columns` and above: the last.
inline std::size_t column_of(float index, std::size_t columns) noexcept {
  if (!(index >= 1.0f)) return 0;
  return index >= static_cast<float>(columns) ? columns - 1 : static_cast<std::size_t>(index);
}
inline constexpr std::size_t kNoColumn = ~std::size_t{0};

/// Entries of a table that is a weight: its columns, so that 16 features of an entry are one line of a panel, or its
/// rows, as those of a dense layer that gives a value for each entry.
enum class TableEntries : int { columns, rows };

/// y[b][t] = entry x[b][t] of w, dequantized.
/// @shape  w [out, in], x [B, tokens] -> y [B, tokens * out]; entries that are rows: y [B, tokens * in]
/// @dtype  all 21: the values of kernels/weight.hpp; float64 is rounded to float32
/// @thread any, inside FlushSubnormals
/// @exact  moves (float32), or one decoding an element: same bits on every ISA
void embedding(const ConstWeight& w, const ConstMatrixView& x, const MatrixView& y,
               TableEntries entries = TableEntries::columns) noexcept;

/// Entry x[b][t] of dw += dy[b][t], for b and then t ascending; entry `skipped` gets nothing.
/// @shape  x [B, tokens], dy [B, tokens * out] or, entries that are rows, [B, tokens * in], dw [out, in]
/// @exact  one addition an element
void embedding_backward(const ConstMatrixView& x, const ConstMatrixView& dy, std::size_t skipped, const Panels& dw,
                        TableEntries entries = TableEntries::columns) noexcept;

}  // namespace weft::kernels
