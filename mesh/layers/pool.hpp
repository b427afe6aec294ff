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
Result<std::unique_ptr<Layer>> make_max_pool(const Shape& in, std::size_t out, OptionReader& options);

/// The mean of each window, channel by channel, with outputs as max_pool has.
///   y = (sum of the window's elements, from +0 in their order) / their number
/// @exact  docs/numerics.md, section 13
/// @source PyTorch's AvgPool1d, AvgPool2d, AvgPool3d
Result<std::unique_ptr<Layer>> make_avg_pool(const Shape& in, std::size_t out, OptionReader& options);

/// max_pool and avg_pool to a given size: window p of an axis with n elements and m outputs goes from floor(p n / m) to
/// ceil((p + 1) n / m).
/// @source PyTorch's AdaptiveMaxPool2d, AdaptiveAvgPool2d and their kin
Result<std::unique_ptr<Layer>> make_adaptive_max_pool(const Shape& in, std::size_t out, OptionReader& options);
Result<std::unique_ptr<Layer>> make_adaptive_avg_pool(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
