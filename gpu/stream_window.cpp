// SPDX-License-Identifier: Apache-2.0
// Convolutions and pools.

#include "gpu/internal/push.hpp"
#include "gpu/internal/stream.hpp"
#include "gpu/shaders/window_operands.inc"

#include "kernels/linear_integer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

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
enum TableNumbers : std::uint32_t { WEFT_WINDOW_TABLE_NUMBERS(WEFT_ENUMERATOR) };
static_assert(sizeof(Geometry) <= kTablesAt && kTablesAt % 16 == 0);

Geometry geometry_of(const Window& window) {
  Geometry g{};
  g.channels = word(window.channels), g.groups = word(window.groups);
  for (std::size_t a = 0; a < Window::kAxes; ++a) {
    g.image[a] = word(window.in[a]), g.windows[a] = word(window.out[a]), g.kernel[a] = word(window.kernel[a]);
    g.stride[a] = word(window.stride[a]), g.padding[a] = word(window.padding[a]);
    g.dilation[a] = word(window.dilation[a]);
  }
  return g;
}

std::uint64_t place(Recorder& recorder, const Window& window, bool adaptive, bool counts_padding) {
  Geometry g = geometry_of(window);
  g.adaptive = adaptive, g.counts_padding = counts_padding;
  return recorder.parameters(&g, sizeof g);
}

/// Taps of each window on an axis that lie in the image, by window: bits.
std::vector<std::uint64_t> taps_inside(const Window& window, std::size_t axis) {
  std::vector<std::uint64_t> inside(window.out[axis]);
  for (std::size_t p = 0; p < inside.size(); ++p)
    for (std::size_t t = 0; t < window.kernel[axis]; ++t) {
      const std::size_t at = p * window.stride[axis] + t * window.dilation[axis];
      if (at >= window.padding[axis] && at - window.padding[axis] < window.in[axis]) inside[p] |= std::uint64_t{1} << t;
    }
  return inside;
}

// Columns behind the last one, which shaders read and do not use.
constexpr std::size_t kColumnStep = 16, kMoreColumns = 3 * kColumnStep;
constexpr std::size_t kMostTaps = std::size_t{1} << kTapBits, kMostTableBytes = std::size_t{1} << 20;
std::size_t table_columns(const Window& window) {
  return groups_of(window.columns(), kColumnStep) * kColumnStep + kMoreColumns;
}
std::size_t table_bytes(const Window& window) {
  return kTablesAt + window.positions() * 4 * sizeof(uint) + table_columns(window) * sizeof(uint);
}

/// The geometry, and behind it the tables of gpu/shaders/window_tables.glsl.
std::uint64_t place_tables(Recorder& recorder, const Window& window) {
  std::vector<uint> words(table_bytes(window) / sizeof(uint));
  const Geometry g = geometry_of(window);
  std::memcpy(words.data(), &g, sizeof g);
  const std::vector<std::uint64_t> inside[] = {taps_inside(window, 0), taps_inside(window, 1), taps_inside(window, 2)};
  uint* to = words.data() + kTablesAt / sizeof(uint);
  for (std::size_t i = 0; i < window.positions(); ++i, to += 4) {
    const Window::Extents p = Window::split(i, window.out);
    std::ptrdiff_t begin = 0;
    for (std::size_t a = 0; a < Window::kAxes; ++a)
      begin = begin * static_cast<std::ptrdiff_t>(window.in[a]) + static_cast<std::ptrdiff_t>(p[a] * window.stride[a]) -
              static_cast<std::ptrdiff_t>(window.padding[a]);
    std::uint64_t taps = 0;
    for (std::size_t z = 0; z < window.kernel[0]; ++z)
      for (std::size_t y = 0; y < window.kernel[1]; ++y)
        if ((inside[0][p[0]] >> z & 1) != 0 && (inside[1][p[1]] >> y & 1) != 0)
          taps |= inside[2][p[2]] << (z * window.kernel[1] + y) * window.kernel[2];
    to[0] = static_cast<uint>(begin), to[1] = static_cast<uint>(taps), to[2] = static_cast<uint>(taps >> 32);
  }
  for (std::size_t i = 0; i < table_columns(window); ++i) {
    const std::size_t k = std::min(i, window.columns() - 1), tap = k % window.taps();
    std::size_t offset = 0;
    for (std::size_t a = 0; a < Window::kAxes; ++a)
      offset = offset * window.in[a] + Window::split(tap, window.kernel)[a] * window.dilation[a];
    to[i] = word((k / window.taps() * window.plane() + offset) << kTapBits | tap);
  }
  return recorder.parameters(words.data(), words.size() * sizeof(uint));
}

// Large tiles of 128 rows and 128 or 64 columns of a product, where there are enough of them to keep a device busy.
constexpr std::size_t kBusyTiles = 100, kLargeTile = 128, kHalfTile = 64, kPanel = kernels::kPanelWidth;
// Rows of a tile of groups of 128 threads.
constexpr std::size_t kSmallTile = 32;
// With fewer a thread for each sum is faster than a tile that is mostly empty.
constexpr std::size_t kFewOutputs = 4, kFewChannels = 8;
bool has_tiles(const Window& window, std::size_t out, std::size_t rows) {
  const std::size_t reach =
      window.group_channels() * window.plane() + window.dilation[0] * window.kernel[0] * window.in[1] * window.in[2] +
      window.dilation[1] * window.kernel[1] * window.in[2] + window.dilation[2] * window.kernel[2];
  return (window.groups == 1 || out / window.groups % kPanel == 0) && window.taps() <= kMostTaps &&
         reach >> (31 - kTapBits) == 0 && table_bytes(window) <= kMostTableBytes &&
         rows * std::max(window.positions(), window.plane()) >> 31 == 0;
}
bool stands_in_quads(const MatrixView& m) {
  return m.data == nullptr || (address(m.data) % 16 == 0 && (m.rows <= 1 || m.stride % 4 == 0));
}

/// A shader of convolutions and its groups. Shaders of tiles have constants 2 and 3, and tables behind the geometry.
struct ConvolutionForm {
  const Shader& kernel;
  Groups groups;
  bool has_tables = false;
  std::uint32_t one_chunk = 0, aligned = 0;
};

/// Windows' inputs have one scale each.
bool has_row_scale(const ConstWeight& w) noexcept {
  return kernels::sums_integers(w) && w.activations == Activations::int8_row;
}

void convolution(Recorder& recorder, const ConvolutionForm& form, const Window& window, const ConstWeight& w,
                 const float* bias, std::size_t biases, const ConstMatrixView& x, Activation activation,
                 const MatrixView& z, const MatrixView& y) {
  if (x.rows == 0) return;
  const ConvolvePush push{form.has_tables ? place_tables(recorder, window) : place(recorder, window, false, false),
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
  recorder.dispatch(form.kernel,
                    {static_cast<std::uint32_t>(activation), form.one_chunk, form.aligned, has_row_scale(w),
                     static_cast<std::uint32_t>(w.dtype), static_cast<std::uint32_t>(w.granularity)},
                    push, form.groups,
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
                      &integer = shader("convolve_integer"), &dots = shader("convolve_integer_dots"),
                      &large = shader("convolve_large"), &half = shader("convolve_half"),
                      &tile = shader("convolve_tile"), &narrow = shader("convolve_small");
  const Window& window = op.window;
  const auto record = [&](const ConvolutionForm& form, const ConstWeight& w) {
    convolution(*recorder_, form, window, w, op.bias, op.w.out, op.x, op.activation, op.z, op.y);
  };
  if (kernels::sums_integers(op.w)) {
    const std::size_t tiles = window.groups * groups_of(op.w.out / window.groups, kWindowTile);
    return record({recorder_->context().info.dot_product ? dots : integer,
                   {groups_of(window.positions(), kWindowTile), op.x.rows * tiles}},
                  op.w);
  }
  const Groups small{groups_of(window.positions(), kWindowTile), op.x.rows * kernels::panel_count(op.w.out)};
  if (op.w.dtype == Dtype::float64) return record({doubles, small}, op.w);
  const ConstWeight w = dequantized(op.w);
  const std::size_t each = op.w.out / window.groups, rows = op.x.rows * window.positions();
  const auto groups = [&](std::size_t side_rows, std::size_t side_outputs) {
    return groups_of(rows, side_rows) * groups_of(each, side_outputs) * window.groups;
  };
  if (has_tiles(window, op.w.out, op.x.rows) && each >= kFewOutputs && rows >= kHalfTile) {
    const bool aligned = window.positions() % 4 == 0 && stands_in_quads(op.z) && stands_in_quads(op.y);
    const DeviceInfo& device = recorder_->context().info;
    const bool is_wide = device.group_threads == kWideThreads;
    const bool is_large = is_wide && each > kHalfTile && groups(kLargeTile, kLargeTile) >= kBusyTiles,
               is_half = is_wide && groups(kLargeTile, kHalfTile) >= kBusyTiles;
    const std::size_t side = is_half ? kLargeTile : is_wide ? kHalfTile : kSmallTile;
    const std::size_t count = is_large ? groups(kLargeTile, kLargeTile) : groups(side, kHalfTile);
    if (count <= device.max_groups[0])
      return record({is_large  ? large
                     : is_half ? half
                     : is_wide ? tile
                               : narrow,
                     {count, 1, 1, false},
                     true,
                     0,
                     aligned},
                    w);
  }
  record({kernel, small}, w);
}

void Stream::lower(const ops::ConvolveTransposed& op) {
  static const Shader &kernel = shader("convolve_transposed"), &large = shader("convolve_transposed_large"),
                      &half = shader("convolve_transposed_half"), &tile = shader("convolve_transposed_tile"),
                      &narrow = shader("convolve_transposed_small");
  const Window& window = op.window;
  const ConstWeight w = dequantized(op.w);
  const auto record = [&](const ConvolutionForm& form) {
    convolution(*recorder_, form, window, w, op.bias, window.channels, op.x, op.activation, op.z, op.y);
  };
  const std::size_t phases = Window::product(window.stride), each = window.group_channels();
  // Of the phase that has most of them.
  std::size_t rows = op.x.rows;
  for (std::size_t a = 0; a < Window::kAxes; ++a) rows *= groups_of(window.in[a], window.stride[a]);
  const auto groups = [&](std::size_t side_rows, std::size_t side_channels) {
    return groups_of(rows, side_rows) * groups_of(each, side_channels) * window.groups;
  };
  if (has_tiles(window, op.w.out, op.x.rows) && each >= kFewChannels && rows >= kHalfTile) {
    const bool aligned = phases == 1 && window.plane() % 4 == 0 && stands_in_quads(op.z) && stands_in_quads(op.y);
    const DeviceInfo& device = recorder_->context().info;
    const bool is_wide = device.group_threads == kWideThreads;
    const bool is_large = is_wide && each > kHalfTile && phases * groups(kLargeTile, kLargeTile) >= kBusyTiles,
               is_half = is_wide && phases * groups(kLargeTile, kHalfTile) >= kBusyTiles;
    const std::size_t side = is_half ? kLargeTile : is_wide ? kHalfTile : kSmallTile;
    const std::size_t count = is_large ? groups(kLargeTile, kLargeTile) : groups(side, kHalfTile);
    if (count <= device.max_groups[0] && phases <= device.max_groups[1])
      return record({is_large  ? large
                     : is_half ? half
                     : is_wide ? tile
                               : narrow,
                     {count, phases, 1, false},
                     false,
                     op.w.out / window.groups <= kernels::kChunk,
                     aligned});
  }
  record({kernel, {groups_of(window.plane(), kWindowThreads), op.x.rows * window.channels}});
}

void Stream::lower(const ops::ConvolveOuter& op) {
  if (op.x.rows == 0) return;
  static const Shader &kernel = shader("convolve_outer"), &large = shader("convolve_outer_large"),
                      &half = shader("convolve_outer_half"), &tile = shader("convolve_outer_tile"),
                      &narrow = shader("convolve_outer_small");
  const Window& window = op.window;
  const std::size_t each = op.dw.out / window.groups;
  const bool is_tiled = has_tiles(window, op.dw.out, op.x.rows) && each >= kPanel && op.dw.in >= kPanel;
  const std::uint64_t geometry = is_tiled ? place_tables(*recorder_, window) : place(*recorder_, window, false, false);
  const ConvolveOuterPush push{geometry,        address(op.dy.data), address(op.x.data), address(op.dw.data),
                               word(op.dw.out), word(op.x.rows),     word(op.dy.stride), word(op.x.stride)};
  const auto record = [&](const Shader& shader, Groups groups) {
    recorder_->dispatch(shader, {}, push, groups, {range(op.dy), range(op.x)}, {range(ConstPanels(op.dw))});
  };
  if (!is_tiled) return record(kernel, {groups_of(op.dw.in, kWindowTile), kernels::panel_count(op.dw.out)});
  const auto tiles = [&](std::size_t side) {
    return Groups{groups_of(op.dw.in, side), groups_of(each, side) * window.groups, 1, false};
  };
  if (recorder_->context().info.group_threads < kWideThreads) return record(narrow, tiles(kHalfTile / 2));
  for (const auto& [shader, side] : {std::pair(&large, kLargeTile), std::pair(&half, kHalfTile)})
    if (tiles(side).x * tiles(side).y >= kBusyTiles) return record(*shader, tiles(side));
  record(tile, tiles(kHalfTile / 2));
}

void Stream::lower(const ops::MaxPool& op) { pool_with(*recorder_, kMax, op.pool, op.x, op.index, op.y); }
void Stream::lower(const ops::MaxPoolBackward& op) {
  pool_with(*recorder_, kMaxBackward, op.pool, op.dy, op.index, op.dx);
}
void Stream::lower(const ops::AvgPool& op) { pool_with(*recorder_, kMean, op.pool, op.x, {}, op.y); }
void Stream::lower(const ops::AvgPoolBackward& op) { pool_with(*recorder_, kMeanBackward, op.pool, op.dy, {}, op.dx); }

}  // namespace weft::gpu
