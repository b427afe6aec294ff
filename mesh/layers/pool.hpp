// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// The largest element of each window, channel by channel. Axes have floor((in + 2 padding - (kernel - 1) dilation - 1)
/// / stride) + 1 outputs; with ceil_mode that quotient is rounded up, and a last window that would start past the input
/// and its first padding is left out. Padding never wins. The first of equal elements wins and gets the gradient; a NaN
/// wins over all numbers, the last one over the others.
/// @shape  x [rows, channels, ...one to three axes] -> y [rows, channels, ...]
/// @exact  comparisons and moves; gradients windows ascending
/// @source PyTorch's MaxPool1d, MaxPool2d, MaxPool3d
///
/// parameter | default | unit | meaning
/// ----------|---------|------|--------
/// kernel    | none    | elements | taps on each axis: one number, or one an axis; required
/// stride    | kernel  | elements | from one window to the next, likewise
/// padding   | 0       | elements | before and after each axis, likewise; at most kernel / 2
/// dilation  | 1       | elements | from one tap to the next, likewise
/// ceil_mode | false   | -    | whether the number of windows is rounded up
Result<std::unique_ptr<Layer>> make_max_pool(const Shape& in, std::size_t out, OptionReader& options);

/// The mean of each window, channel by channel, with outputs as max_pool has.
///   y = (sum of the window's elements, from +0 in their order) / their number
/// @exact  docs/numerics.md, section 13
/// @source PyTorch's AvgPool1d, AvgPool2d, AvgPool3d
///
/// parameter         | default | unit | meaning
/// ------------------|---------|------|--------
/// kernel            | none    | elements | taps on each axis: one number, or one an axis; required
/// stride            | kernel  | elements | from one window to the next, likewise
/// padding           | 0       | elements | zeros before and after each axis, likewise; at most kernel / 2
/// ceil_mode         | false   | -    | whether the number of windows is rounded up
/// count_include_pad | true    | -    | whether padding counts in "their number"
Result<std::unique_ptr<Layer>> make_avg_pool(const Shape& in, std::size_t out, OptionReader& options);

/// max_pool and avg_pool to a given size: window p of an axis with n elements and m outputs goes from floor(p n / m) to
/// ceil((p + 1) n / m).
/// @source PyTorch's AdaptiveMaxPool2d, AdaptiveAvgPool2d and their kin
///
/// parameter | default | unit | meaning
/// ----------|---------|------|--------
/// size      | none    | elements | outputs on each axis: one number, or one an axis; required
Result<std::unique_ptr<Layer>> make_adaptive_max_pool(const Shape& in, std::size_t out, OptionReader& options);
Result<std::unique_ptr<Layer>> make_adaptive_avg_pool(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
