// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/layers/init.hpp"
#include "mesh/network/layer.hpp"

#include "kernels/op_stream.hpp"
#include "kernels/window.hpp"

#include "core/result.hpp"
#include "core/shape.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// Base of layers that slide windows over images: inputs [channels, ...spatial] with one to three spatial axes.
namespace weft::mesh::spatial {

/// The largest kernel, stride, padding or dilation on an axis.
inline constexpr std::size_t kMost = 65536;

/// A window over `in` with channels and extents set. `axes` spatial axes are wanted, or 0 for any of one to three.
/// @error shape_mismatch: an input of other axes
Result<kernels::Window> window_over(std::string_view object, std::string_view type, const Shape& in, std::size_t axes);

/// Numbers of the last axes in the places of three; the others get `otherwise`.
kernels::Window::Extents in_place(const std::vector<std::size_t>& numbers, std::size_t otherwise);

/// [channels, ...] of the last `axes` extents.
Shape shape_of(std::size_t channels, const kernels::Window::Extents& extents, std::size_t axes);

/// The name of an axis in messages: "depth", "height", "width".
std::string_view axis_name(std::size_t axis);

/// Fills in window.out: floor (or with `rounds_up` ceil) of (in + 2 padding - span) / stride, plus 1. Rounded up, a
/// last window that would start past the image and its lower padding is left out.
/// @error shape_mismatch: a kernel, dilated, that is longer than the padded input
Status count_windows(std::string_view object, kernels::Window& window, bool rounds_up);

/// @error out_of_range: groups that do not divide both numbers of channels
Status check_groups(std::string_view object, std::size_t groups, std::size_t in, std::size_t out);

/// @error too_large: more elements than kernels count
Status check_size(std::string_view object, const kernels::Window& window, std::size_t out);

/// Initializer of a weight matrix [rows, columns] whose fans are not its extents.
Result<Initializer> fill_weight(std::string_view kind, std::size_t rows, std::size_t columns, std::size_t fan_in,
                                std::size_t fan_out, std::string_view object);

/// The gradient of a bias: sums[c] = sums[c] + (sum of d over the elements of channel c, rule R2), samples ascending.
void accumulate_channels(kernels::OpStream& stream, const kernels::ConstMatrixView& d, std::size_t channels,
                         float* workspace, float* sums);

/// The options that convolutions and transposed ones have, on so many axes; `stride` and `padding` say what these are,
/// `own` come before the groups.
std::vector<OptionRow> convolution_options(std::size_t axes, std::string_view stride, std::string_view padding,
                                           std::vector<OptionRow> own = {});

}  // namespace weft::mesh::spatial
