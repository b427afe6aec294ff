// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Convolution (cross-correlation, as everywhere) over one, two or three axes.
///   y[o][p] = activation(sum over c in o's group, t of w[o][c, t] x[c][p stride + t dilation - padding] + b[o])
/// Elements outside of the input are 0. Each axis has floor((in + 2 padding - (kernel - 1) dilation - 1) / stride) + 1
/// outputs. Output o is of group o / (out / groups), which sees input channels of that group alone.
/// @shape  x [rows, channels, ...spatial], w [out, channels / groups * kernel], b [out] -> y [rows, out, ...]; w is
///         PyTorch's weight [out, channels / groups, ...kernel] with its last axes flat
/// @exact  rule R1 over (channel, tap); docs/numerics.md, section 13
/// @source LeCun et al. 1989; PyTorch's Conv1d, Conv2d, Conv3d
Result<std::unique_ptr<Layer>> make_conv1d(const Shape& in, std::size_t out, OptionReader& options);
Result<std::unique_ptr<Layer>> make_conv2d(const Shape& in, std::size_t out, OptionReader& options);
Result<std::unique_ptr<Layer>> make_conv3d(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
