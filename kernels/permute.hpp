// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

#include <array>
#include <cstddef>
#include <span>

namespace weft::kernels {

/// Order of axes in which a tensor is read: result axes outermost first, each with its extent and its stride in the
/// source.
struct AxisOrder {
  static constexpr std::size_t kMaxRank = 8;
  std::size_t rank = 0;
  std::array<std::size_t, kMaxRank> extent{}, stride{};

  /// Result axis i is axis order[i] of a row-major tensor `shape`; at most kMaxRank axes, each once.
  static AxisOrder make(std::span<const std::size_t> shape, std::span<const std::size_t> order) noexcept;
  /// Of what make(shape, order) gave, the way back to `shape`.
  static AxisOrder inverse(std::span<const std::size_t> shape, std::span<const std::size_t> order) noexcept;
};

/// Each row's values in another order of their axes. Moves bits.
/// @shape  x, y [rows, volume of the order's extents]; y aliases nothing
void permute(const ConstMatrixView& x, const AxisOrder& order, const MatrixView& y) noexcept;

}  // namespace weft::kernels
