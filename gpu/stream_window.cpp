// SPDX-License-Identifier: Apache-2.0
// Convolutions and pools.

#include "gpu/internal/stream.hpp"

namespace weft::gpu {
namespace {

// As gpu/shaders/window.glsl reads it.
struct Geometry {
  std::uint32_t channels, groups;
  std::uint32_t image[3], windows[3], kernel[3], stride[3], padding[3], dilation[3];
  std::uint32_t adaptive, counts_padding;
};
struct ConvolvePush {
  std::uint64_t geometry, w, scales, zeros, bias, x, z, y;
  std::uint32_t outputs, rows, x_stride, z_stride, y_stride;
};
struct ConvolveOuterPush {
  std::uint64_t geometry, dy, x, dw;
  std::uint32_t outputs, rows, dy_stride, x_stride;
};
struct PoolPush {
  std::uint64_t geometry, x, index, y;
  std::uint32_t rows, x_stride, index_stride, y_stride;
};
enum PoolKind : std::uint32_t { kMax, kMaxBackward, kMean, kMeanBackward };  // of gpu/shaders/pool.comp

constexpr std::size_t kThreads = 128, kTile = 16;

std::uint64_t place(Recorder& recorder, const Window& window, bool adaptive, bool counts_padding) {
  Geometry g{};
  g.channels = word(window.channels), g.groups = word(window.groups);
  for (std::size_t a = 0; a < Window::kAxes; ++a) {
    g.image[a] = word(window.in[a]), g.windows[a] = word(window.out[a]), g.kernel[a] = word(window.kernel[a]);
    g.stride[a] = word(window.stride[a]), g.padding[a] = word(window.padding[a]);
    g.dilation[a] = word(window.dilation[a]);
  }
  g.adaptive = adaptive, g.counts_padding = counts_padding;
  return recorder.parameters(&g, sizeof g);
}

void convolution(Recorder& recorder, const Shader& kernel, const Window& window, const ConstWeight& w,
                 const float* bias, std::size_t biases, const ConstRows& x, Activation activation, const Rows& z,
                 const Rows& y, Groups groups) {
  if (x.rows == 0) return;
  const ConvolvePush push{place(recorder, window, false, false),
                          address(w.codes),
                          address(w.scales),
                          address(w.zeros),
                          address(bias),
                          address(x.data),
                          address(z.data),
                          address(y.data),
                          word(w.out),
                          word(x.rows),
                          word(x.stride),
                          word(z.stride),
                          word(y.stride)};
  const WeightRanges ranges(w);
  recorder.dispatch(kernel,
                    {static_cast<std::uint32_t>(activation), 0, 0, 0, static_cast<std::uint32_t>(w.dtype),
                     static_cast<std::uint32_t>(w.granularity)},
                    push, groups,
                    {ranges.codes, ranges.scales, ranges.zeros, range(bias, biases * sizeof(float)), range(x)},
                    {range(z), range(y)});
}

void pool_with(Recorder& recorder, PoolKind kind, const Pool& pool, const ConstRows& x, const ConstRows& index,
               const ConstRows& y) {
  static const Shader& kernel = shader("pool");
  if (x.rows == 0) return;
  const bool backward = kind == kMaxBackward || kind == kMeanBackward;
  const PoolPush push{place(recorder, pool.window, pool.is_adaptive, pool.counts_padding),
                      address(x.data),
                      address(index.data),
                      address(y.data),
                      word(x.rows),
                      word(x.stride),
                      word(index.stride),
                      word(y.stride)};
  const std::size_t each = backward ? pool.window.plane() : pool.window.positions();
  const Range index_read = backward ? range(index) : Range(), index_written = backward ? Range() : range(index);
  recorder.dispatch(kernel, {kind}, push, {groups_of(each, kThreads), x.rows * pool.window.channels},
                    {range(x), index_read}, {range(y), index_written});
}

}  // namespace

void Stream::convolve(const Window& window, const ConstWeight& w, const float* bias, const ConstRows& x,
                      Activation activation, const Rows& z, const Rows& y, float*) {
  static const Shader &kernel = shader("convolve"), &doubles = shader("convolve_double"),
                      &integer = shader("convolve_integer"), &dots = shader("convolve_integer_dots");
  if (w.activations == Activations::int8 && has_integer_kernel(w.dtype)) {
    const std::size_t tiles = window.groups * groups_of(w.out / window.groups, kTile);
    return convolution(*recorder_, recorder_->context().info.dot_product ? dots : integer, window, w, bias, w.out, x,
                       activation, z, y, {groups_of(window.positions(), kTile), x.rows * tiles});
  }
  const bool is_double = w.dtype == Dtype::float64;
  convolution(*recorder_, is_double ? doubles : kernel, window, is_double ? w : decoded(w), bias, w.out, x, activation,
              z, y, {groups_of(window.positions(), kTile), x.rows * kernels::panel_count(w.out)});
}

void Stream::convolve_transposed(const Window& window, const ConstWeight& w, const float* bias, const ConstRows& x,
                                 Activation activation, const Rows& z, const Rows& y, float*) {
  static const Shader& kernel = shader("convolve_transposed");
  convolution(*recorder_, kernel, window, decoded(w), bias, window.channels, x, activation, z, y,
              {groups_of(window.plane(), kThreads), x.rows * window.channels});
}

void Stream::convolve_outer(const Window& window, const ConstRows& dy, const ConstRows& x, const Panels& dw, float*) {
  if (x.rows == 0) return;
  static const Shader& kernel = shader("convolve_outer");
  const ConvolveOuterPush push{place(*recorder_, window, false, false),
                               address(dy.data),
                               address(x.data),
                               address(dw.data),
                               word(dw.out),
                               word(x.rows),
                               word(dy.stride),
                               word(x.stride)};
  recorder_->dispatch(kernel, {}, push, {groups_of(dw.in, kTile), kernels::panel_count(dw.out)}, {range(dy), range(x)},
                      {range(ConstPanels(dw))});
}

void Stream::max_pool(const Pool& pool, const ConstRows& x, const Rows& y, const Rows& index) {
  pool_with(*recorder_, kMax, pool, x, index, y);
}
void Stream::max_pool_backward(const Pool& pool, const ConstRows& index, const ConstRows& dy, const Rows& dx) {
  pool_with(*recorder_, kMaxBackward, pool, dy, index, dx);
}
void Stream::avg_pool(const Pool& pool, const ConstRows& x, const Rows& y) {
  pool_with(*recorder_, kMean, pool, x, {}, y);
}
void Stream::avg_pool_backward(const Pool& pool, const ConstRows& dy, const Rows& dx) {
  pool_with(*recorder_, kMeanBackward, pool, dy, {}, dx);
}

}  // namespace weft::gpu
