// SPDX-License-Identifier: Apache-2.0
// Convolutions and pools.

#include "gpu/internal/push.hpp"
#include "gpu/internal/stream.hpp"
#include "gpu/shaders/window_operands.inc"

namespace weft::gpu {
namespace {

using uint = std::uint32_t;
struct Geometry {
#include "gpu/shaders/window_geometry.inc"
};
struct ConvolvePush {
  WEFT_CONVOLVE_OPERANDS(WEFT_MEMBER)
};
struct ConvolveOuterPush {
  WEFT_CONVOLVE_OUTER_OPERANDS(WEFT_MEMBER)
};
struct PoolPush {
  WEFT_POOL_OPERANDS(WEFT_MEMBER)
};
enum PoolKind : std::uint32_t { WEFT_POOL_NUMBERS(WEFT_ENUMERATOR) };

constexpr std::size_t kWindowThreads = 128, kWindowTile = 16;

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
                 const float* bias, std::size_t biases, const ConstMatrixView& x, Activation activation,
                 const MatrixView& z, const MatrixView& y, Groups groups) {
  if (x.rows == 0) return;
  const ConvolvePush push{place(recorder, window, false, false),
                          address(w.codes),
                          address(w.scales),
                          address(w.zero_points),
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
                    {ranges.codes, ranges.scales, ranges.zero_points, range(bias, biases * sizeof(float)), range(x)},
                    {range(z), range(y)});
}

void pool_with(Recorder& recorder, PoolKind kind, const Pool& pool, const ConstMatrixView& x,
               const ConstMatrixView& index, const ConstMatrixView& y) {
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
  recorder.dispatch(kernel, {kind}, push, {groups_of(each, kWindowThreads), x.rows * pool.window.channels},
                    {range(x), index_read}, {range(y), index_written});
}

}  // namespace

void Stream::lower(const ops::Convolve& op) {
  static const Shader &kernel = shader("convolve"), &doubles = shader("convolve_double"),
                      &integer = shader("convolve_integer"), &dots = shader("convolve_integer_dots");
  if (op.w.activations == Activations::int8 && has_integer_kernel(op.w.dtype)) {
    const std::size_t tiles = op.window.groups * groups_of(op.w.out / op.window.groups, kWindowTile);
    return convolution(*recorder_, recorder_->context().info.dot_product ? dots : integer, op.window, op.w, op.bias,
                       op.w.out, op.x, op.activation, op.z, op.y,
                       {groups_of(op.window.positions(), kWindowTile), op.x.rows * tiles});
  }
  const bool is_double = op.w.dtype == Dtype::float64;
  convolution(*recorder_, is_double ? doubles : kernel, op.window, is_double ? op.w : dequantized(op.w), op.bias,
              op.w.out, op.x, op.activation, op.z, op.y,
              {groups_of(op.window.positions(), kWindowTile), op.x.rows * kernels::panel_count(op.w.out)});
}

void Stream::lower(const ops::ConvolveTransposed& op) {
  static const Shader& kernel = shader("convolve_transposed");
  convolution(*recorder_, kernel, op.window, dequantized(op.w), op.bias, op.window.channels, op.x, op.activation, op.z,
              op.y, {groups_of(op.window.plane(), kWindowThreads), op.x.rows * op.window.channels});
}

void Stream::lower(const ops::ConvolveOuter& op) {
  if (op.x.rows == 0) return;
  static const Shader& kernel = shader("convolve_outer");
  const ConvolveOuterPush push{place(*recorder_, op.window, false, false),
                               address(op.dy.data),
                               address(op.x.data),
                               address(op.dw.data),
                               word(op.dw.out),
                               word(op.x.rows),
                               word(op.dy.stride),
                               word(op.x.stride)};
  recorder_->dispatch(kernel, {}, push, {groups_of(op.dw.in, kWindowTile), kernels::panel_count(op.dw.out)},
                      {range(op.dy), range(op.x)}, {range(ConstPanels(op.dw))});
}

void Stream::lower(const ops::MaxPool& op) { pool_with(*recorder_, kMax, op.pool, op.x, op.index, op.y); }
void Stream::lower(const ops::MaxPoolBackward& op) {
  pool_with(*recorder_, kMaxBackward, op.pool, op.dy, op.index, op.dx);
}
void Stream::lower(const ops::AvgPool& op) { pool_with(*recorder_, kMean, op.pool, op.x, {}, op.y); }
void Stream::lower(const ops::AvgPoolBackward& op) { pool_with(*recorder_, kMeanBackward, op.pool, op.dy, {}, op.dx); }

}  // namespace weft::gpu
