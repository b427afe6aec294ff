// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/stream.hpp"

#include <algorithm>
#include <bit>

namespace weft::gpu {
namespace {

// Push constants, as the shaders declare them.
struct LinearPush {
  std::uint64_t w, scales, zeros, bias, x, x_scales, z, y, noted;
  std::uint32_t outputs, inputs, rows, x_stride, z_stride, y_stride, note, unused;
};
struct TransposedPush {
  std::uint64_t w, scales, zeros, dy, dx;
  std::uint32_t outputs, inputs, rows, dy_stride, dx_stride;
};
struct QuantizePush {
  std::uint64_t x, codes, scales;
  std::uint32_t rows, cols, x_stride, blocks;
};
struct OuterPush {
  std::uint64_t dy, x, dw;
  std::uint32_t outputs, inputs, rows, dy_stride, x_stride;
};

// The numbers of gpu/shaders/weights.glsl.
static_assert(static_cast<int>(Dtype::float64) == 0 && static_cast<int>(Dtype::int64) == 7 &&
              static_cast<int>(Dtype::uint32) == 14 && static_cast<int>(Dtype::float32) == 1 &&
              static_cast<int>(Dtype::fp4) == 6 && static_cast<int>(Dtype::int16) == 9 &&
              static_cast<int>(Dtype::int2) == 12 && static_cast<int>(Dtype::uint16) == 15 &&
              static_cast<int>(Dtype::binary) == 20 && static_cast<int>(Granularity::channel) == 1 &&
              static_cast<int>(Granularity::block32) == 2);
static_assert(kernels::kPanelWidth == 16 && kernels::kChunk == 64 && kScaleBlock == 32);

// Rows from which a tile of 64 rows is better than reading the weights once a row.
constexpr std::size_t kTileRows = 5;
constexpr std::size_t kTile = 64, kFewTiles = 16;
constexpr std::size_t kCached = std::size_t{1} << 20;  // panels' rows, all rows' reads together
// Large tiles do more with what they fetch; but then there must be enough of them to keep a device busy.
std::size_t tile_side(std::size_t across, std::size_t down) noexcept {
  constexpr std::size_t kBusy = 100;
  return groups_of(across, 2 * kTile) * groups_of(down, 2 * kTile) >= kBusy ? 2 * kTile : kTile;
}
// Rows from which linear_transposed_tile.comp is better than linear_transposed.comp.
constexpr std::size_t kManyRows = 9;
// linear_row.comp and its kin have 32 places in a group, each for a chunk of a panel.
constexpr std::size_t kPlaces = 32;
// So many chunks one thread sums by itself where the layer is small: others share its group, and hide its waiting.
constexpr std::size_t kSerialChunks = 2;
// linear_cell.glsl has its rows in y alone.
constexpr std::size_t kCellRows = 65535;

bool is_aligned(const ConstRows& m) noexcept { return address(m.data) % 16 == 0 && (m.rows <= 1 || m.stride % 4 == 0); }

/// Threads for a layer that needs few of a group's: the others are other layers'.
std::uint32_t shares_of(std::size_t panels) noexcept { return word(kPlaces / std::bit_ceil(panels)); }

/// A form of the layer: its shader, slots for chunks (of a tile: whether it is a large one), groups.
struct Form {
  const Shader& kernel;
  std::size_t slots;
  Groups groups;
  bool quantised = false;   // reads rows that were quantised before
  bool knows_bias = false;  // a pipeline of its own where there is none
};

Form row_form(bool is_integer, const ConstWeight& w, std::size_t rows) {
  static const Shader &row = shader("linear_row"), &integer = shader("linear_integer");
  const std::size_t panels = kernels::panel_count(w.out), chunks = groups_of(w.in, kernels::kChunk);
  if (!is_integer && chunks <= kSerialChunks && panels <= kPlaces) return {row, 1, {1, rows, shares_of(panels)}};
  const std::size_t slots = std::min(kPlaces, std::bit_ceil(std::max<std::size_t>(chunks, 1)));
  return {is_integer ? integer : row, slots, {groups_of(panels, kPlaces / slots), rows}, is_integer};
}

Form form_of(const Context& context, bool is_integer, const ConstWeight& w, std::size_t rows) {
  static const Shader &doubles = shader("linear_double"), &tile = shader("linear_tile"), &cell = shader("linear_cell"),
                      &dots = shader("linear_cell_dots");
  const std::size_t panels = kernels::panel_count(w.out);
  if (w.dtype == Dtype::float64) return {doubles, 1, {panels, rows}};
  if (is_integer && w.in <= kernels::kChunk && panels <= kPlaces && rows <= kCellRows)
    return {context.info.dot_product ? dots : cell, 1, {1, rows, shares_of(panels)}, false, true};
  // Few tiles leave most of a device idle; the caches hold weights that few tiles share.
  const bool is_narrow = groups_of(w.out, kTile) * groups_of(rows, kTile) < kFewTiles && panels * w.in * rows < kCached;
  if (is_integer || rows < kTileRows || is_narrow) return row_form(is_integer, w, rows);
  const std::size_t side = tile_side(w.out, rows);
  return {tile, side > kTile, {groups_of(w.out, side), groups_of(rows, side), 1, false}};
}

}  // namespace

void Stream::linear(const ConstWeight& stored, const float* bias, const ConstRows& x, Activation activation,
                    const Rows& z, const Rows& y) {
  if (x.rows == 0 || stored.out == 0) return;
  const ConstWeight w = stored.dtype == Dtype::float64 ? stored : decoded(stored);
  LinearPush push{address(w.codes),
                  address(w.scales),
                  address(w.zeros),
                  address(bias),
                  address(x.data),
                  0,
                  address(z.data),
                  address(y.data),
                  0,
                  word(w.out),
                  word(w.in),
                  word(x.rows),
                  word(x.stride),
                  word(z.stride),
                  word(y.stride),
                  0,
                  0};
  const auto kind = static_cast<std::uint32_t>(activation), dtype = static_cast<std::uint32_t>(w.dtype),
             granularity = static_cast<std::uint32_t>(w.granularity);
  const WeightRanges ranges(w);
  const bool is_integer = w.activations == Activations::int8 && has_integer_kernel(w.dtype);
  const bool aligned = is_aligned(x) && is_aligned(z) && is_aligned(y) && address(bias) % 16 == 0;
  const Form form = form_of(recorder_->context(), is_integer, w, x.rows);
  Range from = range(x);
  if (form.quantised) {
    const QuantizedOnDevice q = quantize(x);
    push.x = q.codes.begin;
    push.x_scales = q.scales.begin;
    from = {q.codes.begin, q.scales.end};
    if (!status()) return;
  }
  const bool has_bias = form.knows_bias && bias;
  recorder_->dispatch(form.kernel, {kind, word(form.slots), aligned, has_bias, dtype, granularity}, push, form.groups,
                      {ranges.codes, ranges.scales, ranges.zeros, range(bias, w.out * sizeof(float)), from},
                      {range(z), range(y)});
  if (w.dtype != Dtype::float64) last_linear_ = {y.data, y.rows, y.cols, y.stride, recorder_->collected()};
}

bool Stream::note_in_last_linear(const ConstRows& x, std::uint32_t* noted, std::uint32_t bits) {
  const bool is_its_output = recorder_->collected() != 0 && last_linear_.dispatch == recorder_->collected() &&
                             x.data == last_linear_.y && x.rows == last_linear_.rows && x.cols == last_linear_.cols &&
                             x.stride == last_linear_.stride;
  static_assert(offsetof(LinearPush, note) + sizeof bits <= sizeof(LinearPush));
  return is_its_output && recorder_->note_in_last(offsetof(LinearPush, noted), offsetof(LinearPush, note), noted, bits);
}

Stream::QuantizedOnDevice Stream::quantize(const ConstRows& x) {
  static const Shader& kernel = shader("quantize_rows");
  const std::size_t blocks = groups_of(x.cols, kScaleBlock), all = x.rows * blocks;
  const std::uint64_t at = scratch(all * (kScaleBlock + sizeof(float)));
  const QuantizedOnDevice to{{at, at + all * kScaleBlock}, {at + all * kScaleBlock, at + all * (kScaleBlock + 4)}};
  const QuantizePush push{address(x.data), to.codes.begin, to.scales.begin, word(x.rows),
                          word(x.cols),    word(x.stride), word(blocks)};
  constexpr std::size_t kBlocks = 32;  // of a group
  recorder_->dispatch(kernel, {}, push, {groups_of(all, kBlocks), 1}, {range(x)}, {to.codes, to.scales});
  return to;
}

void Stream::linear_transposed(const ConstWeight& w, const ConstRows& dy, const Rows& dx) {
  if (dy.rows == 0 || w.in == 0) return;
  record_transposed(w, dy, dx, false);
}

void Stream::absolute_column_sums(const ConstWeight& w, float* s) {
  if (w.in == 0) return;
  record_transposed(w, {nullptr, 1, w.out, w.out}, {s, 1, w.in, w.in}, true);
}

void Stream::record_transposed(const ConstWeight& stored, const ConstRows& dy, const Rows& dx, bool absolute) {
  const ConstWeight w = stored.dtype == Dtype::float64 ? stored : decoded(stored);
  static const Shader &kernel = shader("linear_transposed"), &doubles = shader("linear_transposed_double");
  const TransposedPush push{address(w.codes), address(w.scales), address(w.zeros), address(dy.data), address(dx.data),
                            word(w.out),      word(w.in),        word(dy.rows),    word(dy.stride),  word(dx.stride)};
  const auto dtype = static_cast<std::uint32_t>(w.dtype), granularity = static_cast<std::uint32_t>(w.granularity);
  const WeightRanges ranges(w);
  const auto reads = {ranges.codes, ranges.scales, ranges.zeros, range(dy)};
  if (w.dtype == Dtype::float64)
    return recorder_->dispatch(doubles, {0, 0, 0, absolute, dtype, granularity}, push, {groups_of(w.in, 4), dy.rows},
                               reads, {range(dx)});
  if (dy.rows >= kManyRows && !absolute) {
    static const Shader& tile = shader("linear_transposed_tile");
    constexpr std::size_t kSide = 16;
    recorder_->dispatch(tile, {0, is_aligned(dy), 0, 0, dtype, granularity}, push,
                        {groups_of(w.in, kSide), groups_of(dy.rows, kSide)}, reads, {range(dx)});
    return;
  }
  // One row is bound by memory: threads for few inputs each. Many rows use a weight several times.
  const std::size_t inputs = dy.rows == 1 ? 1 : 4, rows = dy.rows == 1 ? 1 : 4;
  recorder_->dispatch(kernel, {0, word(inputs), word(rows), absolute, dtype, granularity}, push,
                      {groups_of(w.in, 4 * inputs), groups_of(dy.rows, rows)}, reads, {range(dx)});
}

void Stream::outer_accumulate(const ConstRows& dy, const ConstRows& x, const Panels& dw) {
  if (dy.rows == 0 || dw.out == 0 || dw.in == 0) return;
  static const Shader& kernel = shader("outer_accumulate");
  const OuterPush push{address(dy.data), address(x.data), address(dw.data), word(dw.out),
                       word(dw.in),      word(dy.rows),   word(dy.stride),  word(x.stride)};
  const std::size_t side = tile_side(dw.in, dw.out);
  recorder_->dispatch(kernel, {side > kTile, is_aligned(dy) && is_aligned(x)}, push,
                      {groups_of(dw.in, side), groups_of(dw.out, side)}, {range(dy), range(x)},
                      {range(ConstPanels(dw))});
}

}  // namespace weft::gpu
