// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/spatial.hpp"

#include "mesh/network/option.hpp"

#include "kernels/convolve.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace weft::mesh::spatial {

using kernels::Window;

Result<Window> window_over(std::string_view object, std::string_view type, const Shape& in, std::size_t axes) {
  const std::size_t wanted = axes == 0 ? std::clamp<std::size_t>(in.size(), 2, 4) - 1 : axes;
  if (in.size() != wanted + 1) {
    const char* const axis_lists[] = {"", "length", "height, width", "depth, height, width"};
    return fail(Errc::shape_mismatch, std::string(object) + ": " + std::string(type) + " reads [channels, " +
                                          axis_lists[wanted] + "], its input is " + weft::to_string(in) +
                                          "; a \"view\" can give it axes");
  }
  Window window;
  window.channels = in[0];
  std::copy(in.begin() + 1, in.end(), window.in.end() - static_cast<std::ptrdiff_t>(wanted));
  return window;
}

Window::Extents in_place(const std::vector<std::size_t>& numbers, std::size_t otherwise) {
  Window::Extents extents;
  extents.fill(otherwise);
  std::copy(numbers.begin(), numbers.end(), extents.end() - static_cast<std::ptrdiff_t>(numbers.size()));
  return extents;
}

Shape shape_of(std::size_t channels, const Window::Extents& extents, std::size_t axes) {
  Shape shape{channels};
  shape.insert(shape.end(), extents.end() - static_cast<std::ptrdiff_t>(axes), extents.end());
  return shape;
}

std::string_view axis_name(std::size_t axis) {
  constexpr std::string_view kNames[] = {"depth", "height", "width"};
  return kNames[axis];
}

Status count_windows(std::string_view object, Window& w, bool rounds_up) {
  for (std::size_t a = 0; a < Window::kAxes; ++a) {
    const std::size_t padded = w.in[a] + 2 * w.padding[a], span = (w.kernel[a] - 1) * w.dilation[a] + 1;
    if (span > padded)
      return fail(Errc::shape_mismatch, std::string(object) + ".kernel: spans " + std::to_string(span) + " of the " +
                                            std::string(axis_name(a)) + ", which is " + std::to_string(padded) +
                                            " with its padding");
    w.out[a] = (padded - span + (rounds_up ? w.stride[a] - 1 : 0)) / w.stride[a] + 1;
    if (rounds_up && (w.out[a] - 1) * w.stride[a] >= w.in[a] + w.padding[a]) --w.out[a];
  }
  return {};
}

Status check_groups(std::string_view object, std::size_t groups, std::size_t in, std::size_t out) {
  if (in % groups == 0 && out % groups == 0) return {};
  return fail(Errc::out_of_range, std::string(object) + ".groups: " + std::to_string(groups) +
                                      " groups do not divide both " + std::to_string(in) + " input and " +
                                      std::to_string(out) + " output channels");
}

Status check_size(std::string_view object, const Window& window, std::size_t out) {
  WEFT_CHECK(volume({window.channels, window.in[0], window.in[1], window.in[2]}));
  WEFT_CHECK(volume({out, window.out[0], window.out[1], window.out[2]}));
  if (kernels::convolve_fits(window, out)) return {};
  return fail(Errc::too_large, std::string(object) + ": " + std::to_string(window.channels) + " and " +
                                   std::to_string(out) + " channels with their padding, or " + std::to_string(out) +
                                   " x " + std::to_string(window.columns()) + " weights, pass 2^31 elements");
}

Result<Initializer> fill_weight(std::string_view kind, std::size_t rows, std::size_t columns, std::size_t fan_in,
                                std::size_t fan_out, std::string_view object) {
  // Orthogonal is a matter of the matrix as it stands.
  return kind == "orthogonal" ? make_initializer(kind, columns, rows, object)
                              : make_initializer(kind, fan_in, fan_out, object);
}

void accumulate_channels(kernels::OpStream& stream, const kernels::ConstMatrixView& d, std::size_t channels,
                         float* workspace, float* sums) {
  const std::size_t plane = d.cols / channels;
  stream.split(channels, kernels::OpStream::kMoved * static_cast<double>(d.rows) * static_cast<double>(d.cols),
               [&](kernels::OpStream& own, std::size_t first, std::size_t count) {
                 for (std::size_t b = 0; b < d.rows; ++b) {
                   own.row_sums({{d.row(b) + first * plane, count, plane, plane}, workspace + first});
                   own.column_accumulate({{workspace + first, 1, count, count}, sums + first});
                 }
               });
}

std::vector<OptionRow> convolution_options(std::size_t axes, std::string_view stride, std::string_view padding,
                                           std::vector<OptionRow> own) {
  const auto on_each_axis = [axes](std::string_view key, const option::Default& fallback, double low,
                                   std::string_view meaning) {
    return option::wholes(key, fallback, low, kMost, axes, axes, "elements", meaning);
  };
  std::vector<OptionRow> rows{
      option::out(option::needed(), "channels", "channels of the output"),
      on_each_axis("kernel", option::needed(), 1, "taps on each axis: one number, or one an axis"),
      on_each_axis("stride", 1, 1, stride), on_each_axis("padding", 0, 0, padding),
      on_each_axis("dilation", 1, 1, "from one tap to the next: one number, or one an axis")};
  std::move(own.begin(), own.end(), std::back_inserter(rows));
  rows.push_back(option::whole("groups", 1, 1, 16777216, "-",
                               "divides the channels of both sides; as many as channels: depthwise"));
  rows.push_back(option::activation("linear"));
  rows.push_back(option::flag("bias", true, "whether b exists; it starts at 0"));
  rows.push_back(option::init("xavier", "how w begins; its fans are channels / groups times taps"));
  return rows;
}

}  // namespace weft::mesh::spatial
