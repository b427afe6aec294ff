// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"
#include "kernels/window.hpp"

#include <cstddef>

namespace weft::kernels {

/// Windows over each channel by itself: those of `window`, or adaptive ones: window p of an axis with `n` elements and
/// `m` windows goes from floor(p n / m) to ceil((p + 1) n / m). Windows of the first kind may go past the image;
/// elements outside do not exist. Each holds at least one element.
struct Pool {
  Window window;
  bool is_adaptive = false;
  /// Averages divide by the window's elements within the padded image, not by those within the image.
  bool counts_padding = true;
};

/// The elements of window `p` on an axis: `count` of them from `first` on, `step` apart; `full` with padding.
struct PoolBin {
  std::size_t first, count, step, full;
};
PoolBin bin_of(const Pool& pool, std::size_t axis, std::size_t p) noexcept;

/// The largest element of each window.
/// The first of equal ones wins; a NaN wins over all numbers, the last NaN over the others (as in PyTorch). index is
/// where the winner stands in its plane (a whole number, below 2^24).
/// @shape  x [B, image] -> y [B, channels * positions], index like y, or data == null
/// @thread any, inside FlushSubnormals
/// @exact  comparisons and moves only; subnormals compare as zeros
/// @source PyTorch max_pool2d
void max_pool(const Pool& pool, const ConstMatrixView& x, const MatrixView& y, const MatrixView& index) noexcept;
/// dx[i] = sum of dy over the windows that i won, from +0, windows ascending.
/// @shape  index, dy [B, channels * positions] -> dx [B, image]
void max_pool_backward(const Pool& pool, const ConstMatrixView& index, const ConstMatrixView& dy,
                       const MatrixView& dx) noexcept;

/// The sum of each window's elements, from +0 in the window's order, divided by their number.
/// @shape  x [B, image] -> y [B, channels * positions]
/// @exact  same bits on every ISA
void avg_pool(const Pool& pool, const ConstMatrixView& x, const MatrixView& y) noexcept;
/// dx[i] = sum of dy / number over the windows that hold i, from +0, windows ascending.
void avg_pool_backward(const Pool& pool, const ConstMatrixView& dy, const MatrixView& dx) noexcept;

}  // namespace weft::kernels
