// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <memory>

namespace weft::mesh {

/// Transposed convolution: what a convolution's gradient does to its input.
///   y[o][i] = activation(sum over p, t with p stride + t dilation - padding = i, over c in o's group, of
///             w[c][o, t] x[c][p] + b[o])
/// Each axis has (in - 1) stride - 2 padding + (kernel - 1) dilation + output_padding + 1 outputs.
/// @shape  x [rows, channels, ...spatial], w [channels, out / groups * kernel], b [out] -> y [rows, out, ...]; w is
///         PyTorch's weight [channels, out / groups, ...kernel] with its last axes flat
/// @dtype  w in every type; it is dequantized, so activations are never quantised
/// @exact  rule R1 over c, then windows ascending; docs/numerics.md, section 13
/// @source Zeiler et al. 2010; PyTorch's ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
Result<std::unique_ptr<Layer>> make_conv_transposed1d(const Shape& in, std::size_t out, OptionReader& options);
Result<std::unique_ptr<Layer>> make_conv_transposed2d(const Shape& in, std::size_t out, OptionReader& options);
Result<std::unique_ptr<Layer>> make_conv_transposed3d(const Shape& in, std::size_t out, OptionReader& options);

}  // namespace weft::mesh
