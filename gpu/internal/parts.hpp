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

/// Cuts a matrix of any size into such parts; mostly one.
template <class Body>
void for_parts(std::size_t rows, std::size_t cols, const Body& body) {
  if (rows == 0 || cols == 0) return;
  constexpr std::size_t kMost = std::size_t{1} << 31;
  const std::size_t wide = std::min(cols, kMost), high = std::max<std::size_t>(kMost / wide, 1);
  for (std::size_t row = 0; row < rows; row += high)
    for (std::size_t col = 0; col < cols; col += wide)
      body(Cut{row, std::min(high, rows - row), col, std::min(wide, cols - col)});
}

inline kernels::ConstRows part_of(const kernels::ConstRows& m, const Cut& p) noexcept {
  return {m.data ? m.row(p.row) + p.col : nullptr, p.rows, p.cols, m.stride};
}

}  // namespace weft::gpu
