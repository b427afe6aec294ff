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
///
/// parameter  | default | unit | meaning
/// -----------|---------|------|--------
/// out        | none    | channels | output channels, required
/// kernel     | none    | elements | taps on each axis: one number, or one an axis; required
/// stride     | 1       | elements | from one window to the next, likewise
/// padding    | 0       | elements | zeros before and after each axis, likewise
/// dilation   | 1       | elements | from one tap to the next, likewise
/// groups     | 1       | -    | divides the channels of both sides; as many as channels: depthwise
/// activation | linear  | -    | a row of kernels/activations.def
/// bias       | true    | -    | whether b exists
/// init       | xavier  | -    | as dense; a weight's fans are channels / groups * taps and out / groups * taps
Result<std::unique_ptr<Layer>> make_conv1d(const Shape& in, std::size_t out, OptionReader& options);
Result<std::unique_ptr<Layer>> make_conv2d(const Shape& in, std::size_t out, OptionReader& options);
Result<std::unique_ptr<Layer>> make_conv3d(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
