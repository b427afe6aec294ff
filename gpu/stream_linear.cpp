// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/limits.hpp"
#include "gpu/internal/push.hpp"
#include "gpu/internal/stream.hpp"
#include "gpu/shaders/linear_operands.inc"

#include "kernels/linear_integer.hpp"

#include <algorithm>
#include <bit>
#include <string>

namespace weft::gpu {
namespace {

// Push constants, as the shaders declare them.
struct LinearPush {
  WEFT_LINEAR_OPERANDS(WEFT_MEMBER)
};
struct GatedPush {
  WEFT_GATED_OPERANDS(WEFT_MEMBER)
};
struct TransposedPush {
  WEFT_TRANSPOSED_OPERANDS(WEFT_MEMBER)
};
struct QuantizeRowsPush {
  WEFT_QUANTIZE_ROWS_OPERANDS(WEFT_MEMBER)
};
struct OuterPush {
  WEFT_OUTER_OPERANDS(WEFT_MEMBER)
};

// The numbers of gpu/shaders/weights.glsl.
static_assert(static_cast<int>(Dtype::float64) == 0 && static_cast<int>(Dtype::int64) == 7 &&
              static_cast<int>(Dtype::uint32) == 14 && static_cast<int>(Dtype::float32) == 1 &&
              static_cast<int>(Dtype::fp4) == 6 && static_cast<int>(Dtype::int16) == 9 &&
              static_cast<int>(Dtype::int2) == 12 && static_cast<int>(Dtype::uint16) == 15 &&
              static_cast<int>(Dtype::binary) == 20 && static_cast<int>(Granularity::channel) == 1 &&
              static_cast<int>(Granularity::block32) == 2 && static_cast<int>(Granularity::block32_f16) == 3);
static_assert(kernels::kPanelWidth == 16 && kernels::kChunk == 64 && kScaleBlock == 32);

// Rows from which a tile of 64 rows is better. Fewer have their threads' sums side by side, each weight for all.
constexpr std::size_t kTileRows = 9;
constexpr std::uint32_t kRowsAtOnce = 256;  // a row in gpu/shaders/linear_operands.glsl, JOINED
constexpr std::size_t kTile = 64, kFewTiles = 16;
constexpr std::size_t kCached = std::size_t{1} << 20;  // panels' rows, all rows' reads together
// Large tiles do more with what they fetch; but then there must be enough of them to keep a device busy.
constexpr std::size_t kBusy = 100;
bool has_wide_groups(const DeviceInfo& device) noexcept { return device.group_threads == kWideThreads; }
bool has_large_tiles(const DeviceInfo& device, std::size_t across, std::size_t down) noexcept {
  if (!has_wide_groups(device)) return false;
  const std::size_t x = groups_of(across, 2 * kTile), y = groups_of(down, 2 * kTile);
  return x * y >= kBusy && x <= device.max_groups[0] && y <= device.max_groups[1];  // most go round no tiles
}
// Inputs of a layer that linear_chunks.comp computes four chunks at a time.
constexpr std::size_t kFourChunks = 4 * kernels::kChunk;
// Rows from which linear_transposed_tile.comp is better than linear_transposed.comp. Its larger kin has tiles of
// kTransposedSide, and takes the outputs in turns of kTransposedTurn: one that is not full costs as much.
constexpr std::size_t kManyRows = 9, kTransposedSide = 32, kTransposedTurn = 256, kTransposedThreads = 512;
// linear_row.comp and its kin have 32 places in a group, each for a chunk of a panel.
constexpr std::size_t kPlaces = 32, kRowThreads = 4 * kPlaces;
// So many chunks one thread sums by itself where the layer is small: others share its group, and hide its waiting.
constexpr std::size_t kSerialChunks = 2;
// linear_cell.comp has its rows in y alone.
constexpr std::size_t kCellRows = 65535;

bool is_aligned(const ConstMatrixView& m) noexcept {
  return address(m.data) % 16 == 0 && (m.rows <= 1 || m.stride % 4 == 0);
}

/// Rows that a thread of a row form sums at once: many are cut into parts that registers hold.
std::size_t rows_at_once(std::size_t rows) noexcept { return groups_of(rows, groups_of(rows, kTileRows - 1)); }

/// Threads for a layer that needs few of a group's: the others are other layers'.
std::uint32_t shares_of(std::size_t panels) noexcept { return word(kPlaces / std::bit_ceil(panels)); }

/// The shaders of a layer, or of a gated pair of them, whose panels count as one layer's.
struct Shaders {
  explicit Shaders(const std::string& what, std::size_t count)
      : row(shader(what + "_row")),
        doubles(shader(what + "_double")),
        tile(shader(what + "_tile")),
        tile_small(shader(what + "_tile_small")),
        large(shader(what + "_large")),
        chunks(shader(what + "_chunks")),
        cell{shader(what + "_cell"), shader(what + "_cell_dots")},
        integer{shader(what + "_integer"), shader(what + "_integer_dots")},
        integer_tile{shader(what + "_integer_tile"), shader(what + "_integer_tile_dots")},
        integer_tile_small{shader(what + "_integer_tile_small"), shader(what + "_integer_tile_dots_small")},
        matrix(shader(what + "_integer_matrix")),
        matrices(count) {}
  /// With the device's packed dot products or without.
  struct Either {
    const Shader &plain, &dots;
    const Shader& on(const DeviceInfo& device) const noexcept { return device.dot_product ? dots : plain; }
  };
  const Shader &row, &doubles, &tile, &tile_small, &large, &chunks;
  Either cell, integer, integer_tile, integer_tile_small;
  const Shader& matrix;
  std::size_t matrices;
};
const Shaders& shaders_of_one() {
  static const Shaders all("linear", 1);
  return all;
}
const Shaders& shaders_of_pair() {
  static const Shaders all("gated", 2);
  return all;
}

/// A form of the layer: its shader, slots for chunks, groups.
struct Form {
  const Shader& kernel;
  std::size_t slots;
  Groups groups;
  bool quantised = false;   // reads rows that were quantised before
  bool knows_bias = false;  // a pipeline of its own where there is none
  bool is_row = false;      // of few rows; alone in its groups it may be joined with what stands before and behind it
};

/// Bits of gpu/shaders/linear_operands.glsl, JOINED.
constexpr std::uint32_t kNorms = 1, kAdds = 2, kHasRowScale = 4, kHasCodes = 8;

/// A form of few rows that prepares its rows itself: quads of 16 bytes that a group keeps of one; 0: too many.
/// `threads` of a group: those that sum, and more where codes of many inputs are made, which takes a thread long.
struct Joined {
  std::size_t quads = 0, threads = kRowThreads;
  std::uint32_t bits = 0;
  const ValueSources::Norm* norm = nullptr;
};
std::size_t preparing_threads(const DeviceInfo& device, std::size_t blocks) noexcept {
  constexpr std::size_t kMost = 256, kWords = kScaleBlock / 4;  // a word has four codes
  if (!has_wide_groups(device) || device.max_group_threads < kMost) return kRowThreads;
  return std::clamp(std::bit_ceil(blocks * kWords), kRowThreads, kMost);
}
/// Bytes that linear_row.comp and linear_integer.comp share beside a row of `quads`.
std::size_t shared_beside(const Shaders& of, bool is_integer, std::size_t blocks, std::size_t threads) noexcept {
  constexpr std::size_t kQuad = 16, kLanes = 64 * sizeof(float), kMostWords = 4;
  const std::size_t sums = kRowThreads * kQuad, gates = (of.matrices - 1) * kRowThreads * kQuad;
  if (!is_integer) return 4 * sums + gates + kLanes;
  const std::size_t words = std::min(kMostWords, groups_of(blocks * kScaleBlock / 4, threads));
  return sums + gates + kLanes + words * threads * sizeof(float) + (blocks + 1) * sizeof(float);
}
Joined joined_of(const Shaders& of, const DeviceInfo& device, const Form& form, bool is_integer, const ConstWeight& w,
                 std::size_t rows) {
  if (!form.is_row || form.groups.shares != 1) return {};
  if (const std::size_t each = rows_at_once(rows); each > 1)
    return {0, kRowThreads, word(each) * kRowsAtOnce | (is_integer ? kHasCodes : 0)};
  constexpr std::size_t kQuad = 16;
  const std::size_t chunks = groups_of(w.in, kernels::kChunk), blocks = groups_of(w.in, kScaleBlock);
  const std::size_t quads = is_integer ? 2 * blocks : chunks * (kernels::kChunk / 4 + 1);
  const std::size_t threads = is_integer ? preparing_threads(device, blocks) : kRowThreads;
  const std::size_t most = device.group_threads == kWideThreads ? kWideSharedBytes : kLeastSharedBytes;
  if (quads * kQuad + shared_beside(of, is_integer, blocks, threads) > most)
    return {0, kRowThreads, is_integer ? kHasCodes : 0};
  return {quads, threads, is_integer && w.activations == Activations::int8_row ? kHasRowScale : 0};
}

Form row_form(const Shaders& of, const DeviceInfo& device, bool is_integer, const ConstWeight& w, std::size_t rows) {
  const std::size_t panels = of.matrices * kernels::panel_count(w.out), chunks = groups_of(w.in, kernels::kChunk);
  // A pair's shares have barriers, so all of a group must do as many rows.
  if (!is_integer && chunks <= kSerialChunks && panels <= kPlaces && (of.matrices == 1 || rows <= kCellRows))
    return {of.row, 1, {1, rows, shares_of(panels)}, false, false, true};
  const std::size_t slots = std::min(kPlaces / of.matrices, std::bit_ceil(std::max<std::size_t>(chunks, 1)));
  const std::size_t each = rows_at_once(rows);
  return {is_integer ? of.integer.on(device) : of.row,
          slots,
          {groups_of(panels, kPlaces / slots), groups_of(rows, each)},
          is_integer,
          false,
          true};
}

Form form_of(const Shaders& of, const DeviceInfo& device, bool is_integer, const ConstWeight& w, std::size_t rows) {
  const std::size_t panels = of.matrices * kernels::panel_count(w.out), outputs = of.matrices * w.out;
  if (w.dtype == Dtype::float64) return {of.doubles, 1, {panels / of.matrices, rows}};
  if (is_integer && w.in <= kernels::kChunk && panels <= kPlaces && rows <= kCellRows &&
      w.activations != Activations::int8_row)
    return {of.cell.on(device), 1, {1, rows, shares_of(panels)}, false, true};
  // Few tiles leave most of a device idle, while each goes over all inputs. The caches hold weights that rows share.
  const std::size_t tiles = groups_of(outputs, kTile) * groups_of(rows, kTile);
  const bool is_narrow = (tiles < kFewTiles && panels * w.in * rows < kCached) || (tiles < kBusy && rows <= kTile);
  if (rows < kTileRows || is_narrow) return row_form(of, device, is_integer, w, rows);
  if (is_integer) {
    const bool is_large = device.matrix_units && has_large_tiles(device, outputs, rows);
    const std::size_t side = is_large ? 2 * kTile : kTile;
    const Shaders::Either& tile = has_wide_groups(device) ? of.integer_tile : of.integer_tile_small;
    return {is_large ? of.matrix : tile.on(device),
            1,
            {groups_of(outputs, side), groups_of(rows, side), 1, !is_large},
            true};
  }
  const bool is_large = has_large_tiles(device, outputs, rows);
  const std::size_t side = is_large ? 2 * kTile : kTile;
  const Shader& tile = !has_wide_groups(device) ? of.tile_small
                       : is_large               ? of.large
                       : w.in >= kFourChunks    ? of.chunks
                                                : of.tile;
  return {tile, 1, {groups_of(outputs, side), groups_of(rows, side), 1, false}};
}

Constants constants_of(const Form& form, const Joined& joined, const DeviceInfo& device, Activation activation,
                       bool aligned, const float* bias, const ConstWeight& w) {
  const std::size_t quads = joined.norm || form.quantised ? std::max<std::size_t>(joined.quads, 1) : 1;
  return {static_cast<std::uint32_t>(activation),
          word(form.slots),
          aligned,
          form.is_row ? joined.bits : form.knows_bias && bias,
          static_cast<std::uint32_t>(w.dtype),
          static_cast<std::uint32_t>(w.granularity),
          form.is_row ? word(quads) : device.regular_matrices,
          word(form.quantised && quads > 1 ? joined.threads : kRowThreads)};
}

/// Inputs of a float layer up to which each group norms the row by itself. An H200 takes as long for a norm of its own
/// as for that of some hundred inputs in each group, and reads a row that no group keeps in less time.
constexpr std::size_t kNormedInputs = 1024;

/// Joined form of a layer that reads x, which it norms itself where that is known; its operands say so.
template <class Push>
Joined joined_into(Push& push, const Shaders& of, Recorder& recorder, const ValueSources& sources, const Form& form,
                   bool is_integer, const ConstWeight& w, const ConstMatrixView& x) {
  Joined joined = joined_of(of, recorder.context().info, form, is_integer, w, x.rows);
  if (joined.quads == 0 || (!is_integer && w.in > kNormedInputs)) return joined;
  joined.norm = sources.norm_of(recorder, x);
  if (!joined.norm) return joined;
  const ValueSources::Norm& norm = *joined.norm;
  joined.bits |= kNorms;
  push.x = address(norm.x.data), push.x_stride = word(norm.x.stride), push.x_scales = address(norm.gain);
  push.beside = std::bit_cast<std::uint32_t>(norm.epsilon);
  return joined;
}

}  // namespace

template <class Push>
Range Stream::quantized_into(Push& push, const ConstMatrixView& x, const ConstWeight& w) {
  const QuantizedOnDevice q = quantize(x, w);
  push.x = q.codes.begin;
  push.x_scales = q.scales.begin;
  return {q.codes.begin, q.scales.end};
}

void Stream::lower(const ops::Linear& op) {
  if (op.x.rows == 0 || op.w.out == 0) return;
  const ConstWeight w = op.w.dtype == Dtype::float64 ? op.w : dequantized(op.w);
  LinearPush push{address(w.codes),
                  address(w.scales),
                  address(w.zero_points),
                  address(op.bias),
                  address(op.x.data),
                  0,
                  address(op.z.data),
                  address(op.y.data),
                  0,
                  word(w.out),
                  word(w.in),
                  word(op.x.rows),
                  word(op.x.stride),
                  word(op.z.stride),
                  word(op.y.stride),
                  0,
                  0};
  const WeightRanges ranges(w);
  const bool is_integer = kernels::sums_integers(w);
  const bool aligned = is_aligned(op.x) && is_aligned(op.z) && is_aligned(op.y) && address(op.bias) % 16 == 0;
  const DeviceInfo& device = recorder_->context().info;
  const Form form = form_of(shaders_of_one(), device, is_integer, w, op.x.rows);
  Joined joined = joined_into(push, shaders_of_one(), *recorder_, sources_, form, is_integer, w, op.x);
  const Range from = joined.norm                           ? range(joined.norm->x)
                     : form.quantised && joined.quads == 0 ? quantized_into(push, op.x, w)
                                                           : range(op.x);
  if (!status()) return;
  const Constants constants = constants_of(form, joined, device, op.activation, aligned, op.bias, w);
  recorder_->dispatch(form.kernel, constants, push, form.groups,
                      {ranges.codes, ranges.scales, ranges.zero_points, range(op.bias, w.out * sizeof(float)), from,
                       joined.norm ? range(joined.norm->gain, w.in * sizeof(float)) : Range()},
                      {range(op.z), range(op.y)});
  if (w.dtype == Dtype::float64) return;
  last_linear_ = {op.y.data, op.y.rows, op.y.cols, op.y.stride, recorder_->captured()};
  const bool is_alone = form.is_row && form.groups.shares == 1;
  if (is_alone && !(joined.bits & kHasCodes) && !joined.norm && !op.z.data) {
    joined.bits |= kAdds;
    last_linear_.adds =
        GraphCapture::Kernel{&form.kernel, constants_of(form, joined, device, op.activation, aligned, op.bias, w)};
  }
  last_linear_.is_aligned = aligned;
}

bool Stream::add_in_last_linear(const ops::Binary& op) {
  const LastLinear& last = last_linear_;
  if (op.op != BinaryOp::add || !last.adds || recorder_->captured() == 0 || last.dispatch != recorder_->captured())
    return false;
  const ConstMatrixView y{last.y, last.rows, last.cols, last.stride};
  if (is_same(op.a, y) == is_same(op.b, y)) return false;
  const ConstMatrixView other = sources_.source_of(*recorder_, is_same(op.a, y) ? op.b : op.a);
  if (last.is_aligned && !(is_aligned(other) && is_aligned(op.y))) return false;
  return recorder_->change_last<LinearPush>(*last.adds, {range(other)}, {range(op.y)}, [&](LinearPush& push) {
    push.z = address(op.y.data), push.z_stride = word(op.y.stride);
    push.x_scales = address(other.data), push.beside = word(other.stride);
  });
}

void Stream::lower(const ops::GatedLinear& op) {
  if (op.x.rows == 0 || op.w.gate.out == 0) return;
  ConstWeight gate = op.w.gate, up = op.w.up;
  if (has_double_scale(gate.dtype) && gate.dtype != Dtype::float64) {
    const std::size_t bytes = kernels::panels_size(gate.out, gate.in) * sizeof(float);
    const std::uint64_t at = scratch(2 * bytes);
    gate = dequantized(gate, at), up = dequantized(up, at + bytes);
  }
  const auto after = [](const void* from, const void* to) { return address(to) - address(from); };
  GatedPush push{address(gate.codes),
                 address(gate.scales),
                 address(gate.zero_points),
                 address(op.w.gate_bias),
                 after(gate.codes, up.codes),
                 after(gate.scales, up.scales),
                 after(gate.zero_points, up.zero_points),
                 after(op.w.gate_bias, op.w.up_bias),
                 address(op.x.data),
                 0,
                 address(op.y.data),
                 word(gate.out),
                 word(gate.in),
                 word(op.x.rows),
                 word(op.x.stride),
                 word(op.y.stride),
                 0};
  const bool is_integer = kernels::sums_integers(gate);
  const bool aligned = is_aligned(op.x) && is_aligned(op.y) && gate.out % 4 == 0 && address(op.w.gate_bias) % 16 == 0 &&
                       address(op.w.up_bias) % 16 == 0;
  const DeviceInfo& device = recorder_->context().info;
  const Form form = form_of(shaders_of_pair(), device, is_integer, gate, op.x.rows);
  const Joined joined = joined_into(push, shaders_of_pair(), *recorder_, sources_, form, is_integer, gate, op.x);
  const Range from = joined.norm                           ? range(joined.norm->x)
                     : form.quantised && joined.quads == 0 ? quantized_into(push, op.x, gate)
                                                           : range(op.x);
  if (!status()) return;
  const WeightRanges of_gate(gate), of_up(up);
  const std::size_t bias_bytes = gate.out * sizeof(float);
  const Constants constants = constants_of(form, joined, device, op.activation, aligned, op.w.gate_bias, gate);
  recorder_->dispatch(form.kernel, constants, push, form.groups,
                      {of_gate.codes, of_gate.scales, of_gate.zero_points, of_up.codes, of_up.scales, of_up.zero_points,
                       range(op.w.gate_bias, bias_bytes), range(op.w.up_bias, bias_bytes), from,
                       joined.norm ? range(joined.norm->gain, gate.in * sizeof(float)) : Range()},
                      {range(op.y)});
}

bool Stream::flag_in_last_linear(const ConstMatrixView& x, std::uint32_t* flag_word, std::uint32_t bits) {
  const bool is_its_output = recorder_->captured() != 0 && last_linear_.dispatch == recorder_->captured() &&
                             x.data == last_linear_.y && x.rows == last_linear_.rows && x.cols == last_linear_.cols &&
                             x.stride == last_linear_.stride;
  static_assert(offsetof(LinearPush, flag_bits) + sizeof bits <= sizeof(LinearPush));
  return is_its_output &&
         recorder_->flag_in_last(offsetof(LinearPush, flag_word), offsetof(LinearPush, flag_bits), flag_word, bits);
}

Stream::QuantizedOnDevice Stream::quantize(const ConstMatrixView& x, const ConstWeight& w) {
  static const Shader& kernel = shader("quantize_rows");
  const std::size_t blocks = groups_of(x.cols, kScaleBlock), all = x.rows * blocks;
  const std::uint64_t at = scratch(all * (kScaleBlock + sizeof(float)));
  const QuantizedOnDevice to{{at, at + all * kScaleBlock}, {at + all * kScaleBlock, at + all * (kScaleBlock + 4)}};
  const QuantizeRowsPush push{address(x.data), to.codes.begin, to.scales.begin, word(x.rows),
                              word(x.cols),    word(x.stride), word(blocks)};
  constexpr std::size_t kBlocks = 32;                                 // of a group
  const bool has_row_scale = w.activations == Activations::int8_row;  // then a group has a row
  recorder_->dispatch(kernel, {word(8 / bits(w.dtype)), has_row_scale}, push,
                      {has_row_scale ? x.rows : groups_of(all, kBlocks), 1}, {range(x)}, {to.codes, to.scales});
  return to;
}

void Stream::lower(const ops::LinearTransposed& op) {
  if (op.dy.rows == 0 || op.w.in == 0) return;
  record_transposed(op.w, op.dy, op.dx, false);
}

void Stream::lower(const ops::ColumnL1Norms& op) {
  if (op.w.in == 0) return;
  record_transposed(op.w, {nullptr, 1, op.w.out, op.w.out}, {op.s, 1, op.w.in, op.w.in}, true);
}

void Stream::record_transposed(const ConstWeight& stored, const ConstMatrixView& dy, const MatrixView& dx,
                               bool absolute) {
  const ConstWeight w = stored.dtype == Dtype::float64 ? stored : dequantized(stored);
  static const Shader &kernel = shader("linear_transposed"), &doubles = shader("linear_transposed_double");
  const TransposedPush push{
      address(w.codes), address(w.scales), address(w.zero_points), address(dy.data), address(dx.data),
      word(w.out),      word(w.in),        word(dy.rows),          word(dy.stride),  word(dx.stride)};
  const auto dtype = static_cast<std::uint32_t>(w.dtype), granularity = static_cast<std::uint32_t>(w.granularity);
  const WeightRanges ranges(w);
  const auto reads = {ranges.codes, ranges.scales, ranges.zero_points, range(dy)};
  if (w.dtype == Dtype::float64)
    return recorder_->dispatch(doubles, {0, 0, 0, absolute, dtype, granularity}, push, {groups_of(w.in, 4), dy.rows},
                               reads, {range(dx)});
  if (dy.rows >= kManyRows && w.out <= kernels::kPanelWidth && !absolute) {
    static const Shader& panel = shader("linear_transposed_panel");
    constexpr std::size_t kThreads = 256, kRows = 8;
    recorder_->dispatch(panel, {0, 0, 0, 0, dtype, granularity}, push,
                        {groups_of(w.in, kThreads), groups_of(dy.rows, kRows)}, reads, {range(dx)});
    return;
  }
  if (dy.rows >= kManyRows && !absolute) {
    static const Shader &tile = shader("linear_transposed_tile"), &large = shader("linear_transposed_large"),
                        &small = shader("linear_transposed_tile_small");
    const DeviceInfo& device = recorder_->context().info;
    const std::size_t tiles = groups_of(w.in, kTransposedSide) * groups_of(dy.rows, kTransposedSide);
    const bool is_large = tiles >= kBusy && w.out >= kTransposedTurn && has_wide_groups(device) &&
                          device.max_group_threads >= kTransposedThreads;
    const bool is_small = !has_wide_groups(device);
    const std::size_t side = kTransposedSide / (is_large ? 1 : is_small ? 4 : 2);
    recorder_->dispatch(is_large   ? large
                        : is_small ? small
                                   : tile,
                        {0, is_aligned(dy), 0, 0, dtype, granularity}, push,
                        {groups_of(w.in, side), groups_of(dy.rows, side), 1, !is_large}, reads, {range(dx)});
    return;
  }
  // One row is bound by memory: threads for few inputs each. Many rows use a weight several times.
  const std::size_t inputs = dy.rows == 1 ? 1 : 4, rows = dy.rows == 1 ? 1 : 4;
  recorder_->dispatch(kernel, {0, word(inputs), word(rows), absolute, dtype, granularity}, push,
                      {groups_of(w.in, 4 * inputs), groups_of(dy.rows, rows)}, reads, {range(dx)});
}

void Stream::lower(const ops::OuterAccumulate& op) {
  if (op.dy.rows == 0 || op.dw.out == 0 || op.dw.in == 0) return;
  static const Shader &kernel = shader("outer_accumulate"), &large = shader("outer_accumulate_large"),
                      &small = shader("outer_accumulate_small");
  const OuterPush push{address(op.dy.data), address(op.x.data), address(op.dw.data), word(op.dw.out),
                       word(op.dw.in),      word(op.dy.rows),   word(op.dy.stride),  word(op.x.stride)};
  const std::size_t bytes = op.dy.rows * std::max(op.dy.stride, op.x.stride) * sizeof(float);
  const bool is_large = has_large_tiles(recorder_->context().info, op.dw.in, op.dw.out) && bytes >> 32 == 0;
  const std::size_t side = is_large ? 2 * kTile : kTile;
  const Shader& tile = has_wide_groups(recorder_->context().info) ? kernel : small;
  recorder_->dispatch(is_large ? large : tile, {0, is_aligned(op.dy) && is_aligned(op.x)}, push,
                      {groups_of(op.dw.in, side), groups_of(op.dw.out, side)}, {range(op.dy), range(op.x)},
                      {range(ConstPanels(op.dw))});
}

}  // namespace weft::gpu
