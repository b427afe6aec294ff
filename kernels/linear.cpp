// SPDX-License-Identifier: Apache-2.0
#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/linear.cpp"
#include "kernels/linear.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/internal/held_bytes.hpp"
#include "kernels/internal/linear_scratch.hpp"
#include "kernels/isa.hpp"
#include "kernels/linear_outputs-inl.hpp"
#include "kernels/linear_tiles-inl.hpp"
#include "kernels/simd/panel-inl.hpp"
#if !WEFT_ISA_IS_SCALAR && HWY_TARGET == HWY_WASM
#include "kernels/internal/wasm_dot.hpp"
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

#if WEFT_ISA_IS_SCALAR

// Rule R1 as docs/numerics.md states it: the reference for all other code here.
float dot(const ConstPanels& w, std::size_t o, const float* x) noexcept {
  float total = 0.0f;
  for (std::size_t first = 0; first < w.in; first += kChunk) {
    float sum = 0.0f;
    for (std::size_t k = first; k < std::min(w.in, first + kChunk); ++k)
      sum = std::fma(w.data[panel_index(w.in, o, k)], x[k], sum);
    total += sum;
  }
  return total;
}

void linear_batch(const ConstPanels& w, const float* bias, const ConstMatrixView& x, Activation activation,
                  const MatrixView& z, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  const Outputs outputs{bias, activation, z, y};
  for (std::size_t b = 0; b < x.rows; ++b) {
    float* to = outputs.before_activation(b);
    for (std::size_t o = 0; o < w.out; ++o) {
      const float total = dot(w, o, x.row(b));
      to[o] = bias ? total + bias[o] : total;
    }
    outputs.finish(b, 0, w.out);
  }
}

void linear_row(const ConstPanels& w, const float* bias, const float* x, Activation activation, float* z, float* y,
                const ConstPanels&) noexcept {
  linear_batch(w, bias, {x, 1, w.in, w.in}, activation, {z, 1, w.out, w.out}, {y, 1, w.out, w.out});
}

#else

using V = PanelVector;
constexpr PanelTag kTag;

// --- one row -----------------------------------------------------------------------------------------------------

// Four k at a time from each of four panels: measured 95 % of a plain read loop from L2 (one k: 89 %, eight: 90 %).
[[maybe_unused]] constexpr std::size_t kRowPanels = 4, kStep = 4;

template <std::size_t P, std::size_t C, std::size_t J>
HWY_INLINE void gemv_step(const float* const (&panel)[P], const float* x, std::size_t k,
                          V (&sum)[C][P][kPanelVectors]) {
  V xs[C][J];
  WEFT_UNROLL for (std::size_t c = 0; c < C; ++c) {
    WEFT_UNROLL for (std::size_t j = 0; j < J; ++j) xs[c][j] = hn::Set(kTag, x[k + c * kChunk + j]);
  }
  WEFT_UNROLL for (std::size_t c = 0; c < C; ++c) {
    WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
      WEFT_UNROLL for (std::size_t j = 0; j < J; ++j) {
        const float* from = panel[p] + (k + c * kChunk + j) * kPanelWidth;
        WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) {
          const V ws = hn::Load(kTag, from + v * kPanelLanes);
          sum[c][p][v] = hn::MulAdd(ws, xs[c][j], sum[c][p][v]);
        }
      }
    }
  }
}

// Chunks at k, C of them side by side, so that a row of few outputs does not wait for the adder; their sums still add
// up in order.
template <std::size_t P, std::size_t C>
HWY_INLINE void gemv_chunks(const float* const (&panel)[P], const float* x, std::size_t k, std::size_t length,
                            V (&total)[P][kPanelVectors]) {
  constexpr std::size_t J = kStep / C;
  V sum[C][P][kPanelVectors];
  WEFT_UNROLL for (std::size_t c = 0; c < C; ++c) {
    WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[c][p][v] = hn::Zero(kTag);
    }
  }
  const std::size_t end = k + length;
  for (; k + J <= end; k += J) gemv_step<P, C, J>(panel, x, k, sum);
  for (; k < end; ++k) gemv_step<P, C, 1>(panel, x, k, sum);
  WEFT_UNROLL for (std::size_t c = 0; c < C; ++c) {
    WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) total[p][v] = hn::Add(total[p][v], sum[c][p][v]);
    }
  }
}

#if HWY_TARGET == HWY_WASM
constexpr std::size_t kHeldPanels = 16;

/// `count` panels from `first` on of one row, up to the bias.
void gemv_panels(const ConstPanels& w, const float* x, const float* bias, float* to, std::size_t first,
                 std::size_t count) noexcept {
  alignas(16) float totals[kHeldPanels * kPanelWidth];
  wasm::dot_panels(w.data + first * w.in * kPanelWidth, x, w.in, count, totals);
  const std::size_t o = first * kPanelWidth, width = std::min(count * kPanelWidth, w.out - o);
  std::size_t i = 0;
  for (; bias && i + kPanelLanes <= width; i += kPanelLanes)
    hn::Store(hn::Add(hn::Load(kTag, totals + i), hn::LoadU(kTag, bias + o + i)), kTag, totals + i);
  for (; bias && i < width; ++i) totals[i] += bias[o + i];
  std::memcpy(to + o, totals, width * sizeof(float));
}
#else

/// Panels first .. first + P - 1 of one row, up to the bias.
template <std::size_t P>
HWY_INLINE void gemv_panels(const ConstPanels& w, const float* x, const float* bias, float* to, std::size_t first) {
  constexpr std::size_t C = kRowPanels / P;
  const std::size_t o = first * kPanelWidth;
  const float* panel[P];
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
    panel[p] = w.data + (first + p) * w.in * kPanelWidth;
    // One register each: g++ would otherwise make an index of every distance between them and run out of registers.
    __asm__("" : "+r"(panel[p]));
  }
  V total[P][kPanelVectors];
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
    WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) total[p][v] = hn::Zero(kTag);
  }
  std::size_t k = 0;
  if constexpr (C > 1)
    for (; k + C * kChunk <= w.in; k += C * kChunk) gemv_chunks<P, C>(panel, x, k, kChunk, total);
  for (; k + kChunk <= w.in; k += kChunk) gemv_chunks<P, 1>(panel, x, k, kChunk, total);
  if (k < w.in) gemv_chunks<P, 1>(panel, x, k, w.in - k, total);
  if (o + P * kPanelWidth <= w.out) {
    WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) {
        const std::size_t at = o + p * kPanelWidth + v * kPanelLanes;
        if (bias) total[p][v] = hn::Add(total[p][v], hn::LoadU(kTag, bias + at));
        hn::StoreU(total[p][v], kTag, to + at);
      }
    }
  } else {
    alignas(64) float rest[P * kPanelWidth];
    WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v)
          hn::Store(total[p][v], kTag, rest + p * kPanelWidth + v * kPanelLanes);
    }
    for (std::size_t i = 0; o + i < w.out; ++i) to[o + i] = bias ? rest[i] + bias[o + i] : rest[i];
  }
}

#endif

// Lines of each of the next weights' panels that are prefetched, measured with chains of 16 to 4096 cells of 64 x
// 64: a few hide behind the activation; more are paid for, as sums of 64 steps wait for the adder, not for their loads.
constexpr std::size_t kAheadLines = 6;

void linear_row(const ConstPanels& w, const float* bias, const float* x, Activation activation, float* z, float* y,
                const ConstPanels& ahead) noexcept {
  WEFT_ISA_RAN();
  float* const to = z ? z : y;
  const std::size_t panels = panel_count(w.out);
#if HWY_TARGET == HWY_WASM
  for (std::size_t p = 0; p < panels; p += kHeldPanels)
    gemv_panels(w, x, bias, to, p, std::min(kHeldPanels, panels - p));
#else
  std::size_t p = 0;
  for (; p + kRowPanels <= panels; p += kRowPanels) gemv_panels<kRowPanels>(w, x, bias, to, p);
  if (p < panels) {
    if (panels - p == 3)
      gemv_panels<3>(w, x, bias, to, p);
    else if (panels - p == 2)
      gemv_panels<2>(w, x, bias, to, p);
    else
      gemv_panels<1>(w, x, bias, to, p);
  }
#endif
  if (ahead.data) {
    const std::size_t lines = std::min(kAheadLines, ahead.in), count = std::min(kRowPanels, panel_count(ahead.out));
    for (std::size_t k = 0; k < lines; ++k)
      for (std::size_t i = 0; i < count; ++i) __builtin_prefetch(ahead.data + (i * ahead.in + k) * kPanelWidth);
  }
  if (activation != Activation::linear)
    activate_row(activation, to, y, w.out);
  else if (to != y)
    std::memcpy(y, to, w.out * sizeof(float));
}

// --- many rows ---------------------------------------------------------------------------------------------------

constexpr std::size_t kSmallWeights = std::size_t{128} << 10;
// Narrow tiles, of one panel, hold their totals in registers, but load a value for each vector they multiply. They pay
// where loads keep up and both panel and rows come from near; fewer rows held keep them near.
constexpr std::size_t kNarrowInputs = 1024, kNarrowHeldFloats = std::size_t{64} << 10;
// Chunks of inputs that are gone through at once.
constexpr std::size_t kMostChunks = 24;

// Rows that start a multiple of 4 KiB apart fall into the same places of a first-level cache: more of them than it has
// ways are packed. All others are read where they are.
constexpr std::size_t kAliasing = 1024, kAliasedRows = 8;

/// Copies rows as [chunk][R][64]: any stride becomes one that no cache dislikes, at fixed offsets from one pointer.
void pack_rows(const ConstMatrixView& x, const Depth& depth, std::size_t first, std::size_t R, float* to) noexcept {
  std::size_t k = depth.begin;
  for (; k + kChunk <= depth.end; k += kChunk)
    for (std::size_t r = 0; r < R; ++r, to += kChunk) {
      const float* from = x.row(first + r) + k;
      WEFT_UNROLL for (std::size_t i = 0; i < kChunk; i += kPanelLanes)
          hn::Store(hn::LoadU(kTag, from + i), kTag, to + i);
    }
  if (k < depth.end)
    for (std::size_t r = 0; r < R; ++r, to += kChunk)
      std::memcpy(to, x.row(first + r) + k, (depth.end - k) * sizeof(float));
}

using Tile = void (*)(const ConstPanels&, const TileRows&, const Outputs&, const Depth&, std::size_t,
                      std::size_t) noexcept;

// Low tiles prefetch nothing, wherever the weights lie: one form serves both.
template <std::size_t P, bool kIsNear, std::size_t... I>
constexpr std::array<Tile, sizeof...(I)> make_tiles(std::index_sequence<I...>) {
  return {&tile < I + 1, P, kIsNear && (I + 1 >= kPrefetchRows) > ...};
}
template <bool kIsNear>
constexpr auto kSingleTiles = make_tiles<1, kIsNear>(std::make_index_sequence<kTileRows>());
template <bool kIsNear>
constexpr auto kTiles = make_tiles<kTilePanels, kIsNear>(std::make_index_sequence<kTileRows>());
constexpr auto kWideTiles = make_tiles<kWidePanels, false>(std::make_index_sequence<kWideRows>());

/// Panels [p, end) against one block of rows.
std::size_t run_tiles(std::size_t P, Tile one, const ConstPanels& w, const TileRows& x, const Outputs& outputs,
                      const Depth& depth, std::size_t b, std::size_t p, std::size_t end) noexcept {
  for (; p + P <= end; p += P) one(w, x, outputs, depth, b, p);
  return p;
}

void linear_batch(const ConstPanels& w, const float* bias, const ConstMatrixView& x, Activation activation,
                  const MatrixView& z, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  if (x.rows == 0) return;
  const Outputs outputs{bias, activation, z, y};
  // Deep layers come in parts of their inputs, so that more rows are held and weights come from afar less often; not
  // where all rows are held anyway.
  const std::size_t chunks = std::max<std::size_t>((w.in + kChunk - 1) / kChunk, 1);
  const std::size_t held = detail::held_bytes() / sizeof(float);
  const detail::EvenParts depths(chunks, x.rows * w.in <= held ? chunks : kMostChunks);
  const std::size_t row_floats = (depths.size + (depths.larger > 0)) * kChunk;
  const detail::EvenParts blocks(x.rows, kTileRows);
  const bool is_packed = x.stride % kAliasing == 0 && x.rows > kAliasedRows;
  // Weights that a second-level cache holds come from there for each block anew, and its rows stay in the first.
  const bool is_small = w.in * w.out <= kSmallWeights;
  const bool is_near = is_small && depths.parts == 1 && is_prefetch_costly();
  const auto& tiles = is_near ? kTiles<true> : kTiles<false>;
  const auto& singles = is_near ? kSingleTiles<true> : kSingleTiles<false>;
  const bool is_narrow = kHoldsTotals<1> && w.in <= kNarrowInputs && has_fast_loads();
  const std::size_t fitting = (is_narrow ? kNarrowHeldFloats : held) / (kTileRows * row_floats);
  const detail::EvenParts groups(blocks.parts, is_small ? 1 : std::max<std::size_t>(fitting, 1));  // held together
  const std::size_t most_held = groups.size + (groups.larger > 0);
  float* const packed = is_packed ? detail::linear_scratch(most_held * kTileRows * row_floats) : nullptr;
  const std::size_t end = panel_count(w.out);
  for (std::size_t group = 0; group < groups.parts; ++group) {
    const std::size_t block = groups.begin(group), last = groups.begin(group + 1);
    const auto rows_of = [&](std::size_t i) { return blocks.begin(i + 1) - blocks.begin(i); };
    const auto packed_at = [&](std::size_t i) { return packed + (blocks.begin(i) - blocks.begin(block)) * row_floats; };
    for (std::size_t part = 0; part < depths.parts; ++part) {
      const Depth depth{depths.begin(part) * kChunk, std::min(w.in, depths.begin(part + 1) * kChunk)};
      const auto rows_at = [&](std::size_t i) {
        if (!is_packed) return TileRows{x.row(blocks.begin(i)) + depth.begin, x.stride, kChunk};
        return TileRows{packed_at(i), kChunk, rows_of(i) * kChunk};
      };
      for (std::size_t i = block; i < last && is_packed; ++i)
        pack_rows(x, depth, blocks.begin(i), rows_of(i), packed_at(i));
      // One step over panels serves all rows held, so that weights come from afar once per step.
      const bool wide = rows_of(block) <= kWideRows;
      const std::size_t step = wide ? kWidePanels : is_narrow ? 1 : kTilePanels;
      for (std::size_t p = 0; p < end; p += step) {
        const std::size_t stop = std::min(end, p + step);
        for (std::size_t i = block; i < last; ++i) {
          const std::size_t R = rows_of(i), b = blocks.begin(i);
          std::size_t at = p;
          if (wide && R <= kWideRows)
            at = run_tiles(kWidePanels, kWideTiles[R - 1], w, rows_at(i), outputs, depth, b, at, stop);
          // Few rows of one panel would be too few sums in flight.
          if (wide || !is_narrow) at = run_tiles(kTilePanels, tiles[R - 1], w, rows_at(i), outputs, depth, b, at, stop);
          run_tiles(1, singles[R - 1], w, rows_at(i), outputs, depth, b, at, stop);
        }
      }
    }
  }
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {

constexpr auto kRow = WEFT_DISPATCH(linear_row);
constexpr auto kBatch = WEFT_DISPATCH(linear_batch);

}  // namespace

void linear(const ConstPanels& w, const float* bias, const ConstMatrixView& x, Activation activation,
            const MatrixView& z, const MatrixView& y) noexcept {
  linear(w, bias, x, activation, z, y, ConstPanels{});
}

void linear(const ConstPanels& w, const float* bias, const ConstMatrixView& x, Activation activation,
            const MatrixView& z, const MatrixView& y, const ConstPanels& ahead) noexcept {
  if (x.rows == 1)
    kRow.get()(w, bias, x.data, activation, z.data, y.data, ahead);
  else
    kBatch.get()(w, bias, x, activation, z, y);
}

}  // namespace weft::kernels
#endif
