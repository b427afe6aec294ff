// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/recorder.hpp"

#include <algorithm>

namespace weft::gpu {

/// A part of a matrix whose elements a shader can count in 32 bits.
struct Cut {
  std::size_t row, rows, col, cols;
  /// Groups of 256 threads, one an element.
  Groups groups() const noexcept { return groups_for(rows * cols, 256); }
};

/// Elements of a part at most: what a loop counts does not overflow with the step that ends it either.
inline constexpr std::size_t kMostOfPart = std::size_t{1} << 31;

/// Cuts a matrix of any size into such parts; mostly one. `each`: elements that a column of it stands for.
template <class Body>
void for_parts(std::size_t rows, std::size_t cols, const Body& body, std::size_t each = 1,
               std::size_t most = kMostOfPart) {
  if (rows == 0 || cols == 0) return;
  most = std::max<std::size_t>(most / each, 1);
  const std::size_t wide = std::min(cols, most), high = most / wide;
  for (std::size_t row = 0; row < rows; row += high)
    for (std::size_t col = 0; col < cols; col += wide)
      body(Cut{row, std::min(high, rows - row), col, std::min(wide, cols - col)});
}

inline kernels::ConstMatrixView part_of(const kernels::ConstMatrixView& m, const Cut& p) noexcept {
  return {m.data ? m.row(p.row) + p.col : nullptr, p.rows, p.cols, m.stride};
}

}  // namespace weft::gpu
