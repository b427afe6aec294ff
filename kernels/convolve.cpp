// SPDX-License-Identifier: Apache-2.0
#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/convolve.cpp"
#include "kernels/convolve.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/internal/convolve_plan.hpp"
#include "kernels/internal/linear_scratch.hpp"
#include "kernels/linear_outputs-inl.hpp"
#include "kernels/simd/panel-inl.hpp"
#include "kernels/windows-inl.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

#if WEFT_ISA_IS_SCALAR

// Rule R1 over `count` products: the definition (docs/numerics.md).
template <class Product>
float serial_chunks(std::size_t count, const Product& step) noexcept {
  float total = 0.0f;
  for (std::size_t first = 0; first < count; first += kChunk) {
    float sum = 0.0f;
    for (std::size_t j = first; j < std::min(count, first + kChunk); ++j) sum = step(j, sum);
    total += sum;
  }
  return total;
}

void convolve(const Window& w, const ConstPanels& weights, const float* bias, const ConstRows& x, Activation activation,
              const Rows& z, const Rows& y, float*) noexcept {
  WEFT_ISA_RAN();
  const Outputs outputs{bias, activation, z, y};
  const std::size_t group_out = weights.out / w.groups, taps = w.taps();
  for (std::size_t b = 0; b < x.rows; ++b) {
    float* to = outputs.before_activation(b);
    for (std::size_t o = 0; o < weights.out; ++o)
      for (std::size_t p = 0; p < w.positions(); ++p) {
        const std::size_t channel = o / group_out * w.group_channels();
        const float total = serial_chunks(weights.in, [&](std::size_t k, float sum) {
          const std::size_t at = w.element(Window::split(p, w.out), Window::split(k % taps, w.kernel));
          const float value = at == w.plane() ? 0.0f : x.row(b)[(channel + k / taps) * w.plane() + at];
          return std::fma(weights.data[panel_index(weights.in, o, k)], value, sum);
        });
        to[o * w.positions() + p] = bias ? total + bias[o] : total;
      }
    outputs.finish(b, 0, weights.out * w.positions());
  }
}

void convolve_transposed(const Window& w, const ConstPanels& weights, const float* bias, const ConstRows& x,
                         Activation activation, const Rows& z, const Rows& y, float*) noexcept {
  WEFT_ISA_RAN();
  const Outputs outputs{bias, activation, z, y};
  const std::size_t group_out = weights.out / w.groups, taps = w.taps();
  for (std::size_t b = 0; b < x.rows; ++b) {
    float* to = outputs.before_activation(b);
    std::fill(to, to + w.image(), 0.0f);
    for (std::size_t g = 0; g < w.groups; ++g)
      for (std::size_t p = 0; p < w.positions(); ++p)
        for (std::size_t k = 0; k < weights.in; ++k) {
          const std::size_t at = w.element(Window::split(p, w.out), Window::split(k % taps, w.kernel));
          if (at == w.plane()) continue;
          to[(g * w.group_channels() + k / taps) * w.plane() + at] +=
              serial_chunks(group_out, [&](std::size_t j, float sum) {
                const std::size_t o = g * group_out + j;
                return std::fma(weights.data[panel_index(weights.in, o, k)], x.row(b)[o * w.positions() + p], sum);
              });
        }
    for (std::size_t i = 0; i < w.image(); ++i) {
      to[i] += 0.0f;
      if (bias) to[i] += bias[i / w.plane()];
    }
    outputs.finish(b, 0, w.image());
  }
}

#else

using V = FloatVec;
constexpr FloatTag kTag;
using detail::Runs;

// A tile is R weights by some vectors of windows in registers. Wide tiles serve most lanes, single vectors what is
// left.
constexpr std::size_t kWideVectors = kVectorLanes == 8 ? 2 : 4, kWideRows = 6, kSingleRows = 8;
constexpr std::size_t kWideLanes = kWideVectors * kVectorLanes;
static_assert(kConvolveTile % kWideLanes == 0);

/// Consecutive products of one chunk: of j in [first, first + count), from weights `w` and operand `x` further on.
/// Chunks from one that opens to one that closes are a part, which is summed by itself and then added to the total.
struct Segment {
  std::size_t w, x;
  std::uint32_t first, count;
  bool opens, closes;
};
static_assert(sizeof(Segment) <= 8 * sizeof(float));
/// What a tile multiplies: weight (r, j) is w[w_at[j] + r * row_stride], lane l of operand j is x[x_at[j] + l].
struct Products {
  const float* w;
  std::size_t row_stride;
  const std::uint32_t* w_at;
  const float* x;
  const std::uint32_t* x_at;
  const Segment* segments;
  std::size_t count;
};

/// total[r][lane] = +0, then for each part: + (its chunks' sums, each an fma a product from +0). A part may be -0 where
/// rule R1 has +0; only convolve_transposed has parts of several chunks, and it normalises.
template <std::size_t R, std::size_t N, bool Partial>
void sum_tile(const Products& of, std::size_t lanes, float* total) noexcept {
  const std::size_t stride = of.row_stride;
  bool has_total = false;
  alignas(64) float part[R * N * kVectorLanes];
  for (std::size_t s = 0; s < of.count; ++s) {
    const Segment& segment = of.segments[s];
    V sum[R][N];
    WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
      WEFT_UNROLL for (std::size_t v = 0; v < N; ++v) sum[r][v] = hn::Zero(kTag);
    }
    const float *const w = of.w + segment.w, *const x = of.x + segment.x;
    const std::uint32_t *const w_at = of.w_at + segment.first, *const x_at = of.x_at + segment.first;
    for (std::size_t j = 0; j < segment.count; ++j) {
      const float* xs = x + x_at[j];
      // Three rows from one pointer: distances of one and two strides are addresses, three are not.
      const float* ws[3] = {w + w_at[j], nullptr, nullptr};
      if constexpr (R > 3) ws[1] = ws[0] + 3 * stride;
      if constexpr (R > 6) ws[2] = ws[1] + 3 * stride;
      V in[N];
      WEFT_UNROLL for (std::size_t v = 0; v < N; ++v) in[v] =
          Partial ? LoadPartial(kTag, xs, lanes) : hn::LoadU(kTag, xs + v * kVectorLanes);
      WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
        const V weight = hn::Set(kTag, ws[r / 3][r % 3 * stride]);
        WEFT_UNROLL for (std::size_t v = 0; v < N; ++v) sum[r][v] = hn::MulAdd(weight, in[v], sum[r][v]);
      }
    }
    WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
      WEFT_UNROLL for (std::size_t v = 0; v < N; ++v) {
        float* const open = part + (r * N + v) * kVectorLanes;
        float* const at = total + r * kConvolveTile + v * kVectorLanes;
        if (!segment.opens) sum[r][v] = hn::Add(hn::Load(kTag, open), sum[r][v]);
        if (segment.closes)
          hn::Store(hn::Add(has_total ? hn::Load(kTag, at) : hn::Zero(kTag), sum[r][v]), kTag, at);
        else
          hn::Store(sum[r][v], kTag, open);
      }
    }
    has_total = has_total || segment.closes;
  }
}

using SumTile = void (*)(const Products&, std::size_t, float*) noexcept;
template <std::size_t N, bool Partial, std::size_t... I>
constexpr std::array<SumTile, sizeof...(I)> make_tiles(std::index_sequence<I...>) {
  return {&sum_tile<I + 1, N, Partial>...};
}
constexpr auto kWide = make_tiles<kWideVectors, false>(std::make_index_sequence<kWideRows>());
constexpr auto kSingle = make_tiles<1, false>(std::make_index_sequence<kSingleRows>());
constexpr auto kPartial = make_tiles<1, true>(std::make_index_sequence<kSingleRows>());

/// Rows [0, rows) of weights against a tile of `lanes` windows. With slack, a tile's lanes may all be read.
void sum_rows(const Products& of, std::size_t rows, std::size_t lanes, bool has_slack, float* total) noexcept {
  const auto run = [&](const auto& tiles, std::size_t v, std::size_t left) {
    const detail::EvenParts parts(rows, tiles.size());
    for (std::size_t i = 0; i < parts.parts; ++i) {
      Products part = of;
      part.w += parts.begin(i) * of.row_stride;
      part.x += v;
      tiles[parts.begin(i + 1) - parts.begin(i) - 1](part, left, total + parts.begin(i) * kConvolveTile + v);
    }
  };
  for (std::size_t v = 0; v < lanes;) {
    const std::size_t left = lanes - v;
    if (left >= kWideLanes || (has_slack && 2 * left > kWideLanes)) {
      run(kWide, v, left);
      v += kWideLanes;
    } else {
      if (left >= kVectorLanes || has_slack)
        run(kSingle, v, left);
      else
        run(kPartial, v, left);
      v += kVectorLanes;
    }
  }
}

/// The chunks of `count` products, each a part: rule R1.
std::size_t chunk_segments(std::size_t count, Segment* to) noexcept {
  std::size_t n = 0;
  for (std::size_t first = 0; first < count; first += kChunk)
    to[n++] = {
        0,    0,   static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(std::min(kChunk, count - first)),
        true, true};
  return n;
}

/// The taps from the last to the first, each a part of the chunks of `count` outputs.
std::size_t tap_segments(const detail::Margins& margins, const Window& w, std::size_t count, Segment* to) noexcept {
  std::size_t n = 0;
  for (std::size_t t = w.taps(); t-- > 0;) {
    const std::size_t distance = margins.distance(detail::tap_steps(w, w.taps() - 1 - t));
    const std::size_t end = n + chunk_segments(count, to + n);
    for (std::size_t i = n; i < end; ++i) {
      to[i].w = t * kPanelWidth, to[i].x = distance;
      to[i].opens = i == n, to[i].closes = i + 1 == end;
    }
    n = end;
  }
  return n;
}

/// Where a tile's lanes go, a vector at a time.
class Moves {
 public:
  explicit Moves(const Runs& runs) noexcept {
    for (std::size_t i = 0; i < runs.count; ++i)
      for (std::size_t done = 0; done < runs.run[i].count; done += kVectorLanes)
        moves_[count_++] = {runs.run[i].lane + done, std::min(kVectorLanes, runs.run[i].count - done),
                            runs.run[i].to + done};
  }
  /// A row of sums to its places, the bias added.
  template <bool Normalises>
  HWY_INLINE void store(const float* total, const float* bias, float* to) const {
    const V b = hn::Set(kTag, bias ? *bias : 0.0f);
    for (std::size_t i = 0; i < count_; ++i) {
      V sum = hn::LoadU(kTag, total + moves_[i].lane);
      if (Normalises) sum = hn::Add(sum, hn::Zero(kTag));
      if (bias) sum = hn::Add(sum, b);
      if (moves_[i].count == kVectorLanes)
        hn::StoreU(sum, kTag, to + moves_[i].to);
      else
        StorePartial(sum, kTag, to + moves_[i].to, moves_[i].count);
    }
  }

 private:
  struct Move {
    std::size_t lane, count, to;
  };
  std::array<Move, kConvolveTile> moves_;
  std::size_t count_ = 0;
};

// A tile's sums, with a vector more: moves read whole ones.
constexpr std::size_t kTotals = kPanelWidth * kConvolveTile + kVectorLanes;

void convolve(const Window& w, const ConstPanels& weights, const float* bias, const ConstRows& x, Activation activation,
              const Rows& z, const Rows& y, float* workspace) noexcept {
  WEFT_ISA_RAN();
  const Outputs outputs{bias, activation, z, y};
  const bool dense = w.is_dense();
  const detail::Margins margins = detail::image_margins(w);
  const bool copies = !dense || !margins.are_none();
  const std::size_t columns = w.columns(), taps = w.taps(), group_out = weights.out / w.groups;
  auto* const w_at = reinterpret_cast<std::uint32_t*>(workspace);
  auto* const x_at = w_at + detail::whole_lines(columns);
  auto* const segments = reinterpret_cast<Segment*>(x_at + detail::whole_lines(columns));
  float* const buffer = workspace + 2 * detail::whole_lines(columns) + detail::segment_floats(columns / kChunk + 1);
  const std::size_t chunks = chunk_segments(columns, segments);
  for (std::size_t k = 0; k < columns; ++k) {
    w_at[k] = static_cast<std::uint32_t>(k * kPanelWidth);
    const std::size_t at =
        dense ? k / taps * margins.plane() + margins.distance(detail::tap_steps(w, k % taps)) : k * kConvolveTile;
    x_at[k] = static_cast<std::uint32_t>(at);
  }
  if (dense && copies) zero_floats(buffer, margins.size(w.channels));
  const Window::Extents& grid = dense ? margins.extent : w.out;
  const std::size_t end = detail::grid_lanes(grid, w.out);
  alignas(64) float total[kTotals];
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float* image = x.row(b);
    if (dense && copies) {
      place_planes(margins, image, w.channels, buffer);
      image = buffer;
    }
    float* const to = outputs.before_activation(b);
    for (std::size_t q = 0; q < end; q += kConvolveTile) {
      const std::size_t lanes = std::min(kConvolveTile, end - q);
      const Moves moves(Runs(grid, w.out, q, lanes));
      for (std::size_t g = 0; g < w.groups; ++g) {
        const float* from = image + g * w.group_channels() * margins.plane() + q;
        if (!dense) {
          gather_tile(w, g, image, q, lanes, buffer, kConvolveTile);
          from = buffer;
        }
        for (std::size_t o = g * group_out; o < (g + 1) * group_out;) {
          const std::size_t rows = std::min((g + 1) * group_out, (o / kPanelWidth + 1) * kPanelWidth) - o;
          sum_rows({weights.data + panel_index(weights.in, o, 0), 1, w_at, from, x_at, segments, chunks}, rows, lanes,
                   copies, total);
          for (std::size_t r = 0; r < rows; ++r, ++o)
            moves.store<false>(total + r * kConvolveTile, bias ? bias + o : nullptr, to + o * w.positions());
        }
      }
    }
    if (outputs.has_finish()) outputs.finish(b, 0, weights.out * w.positions());
  }
}

/// Windows of stride 1: every element gathers from the windows over it, tap by tap from the last, so that windows come
/// in ascending order.
void gather_transposed(const Window& w, const ConstPanels& weights, const ConstRows& x, const Outputs& outputs,
                       const std::uint32_t* w_at, std::uint32_t* x_at, Segment* segments, float* buffer) noexcept {
  const detail::Margins margins = detail::position_margins(w);
  const bool copies = !margins.are_none();
  const std::size_t group_out = weights.out / w.groups, row_stride = w.taps() * kPanelWidth;
  const std::size_t count = tap_segments(margins, w, group_out, segments);
  for (std::size_t o = 0; o < weights.out; ++o) x_at[o] = static_cast<std::uint32_t>(o * margins.plane());
  if (copies) zero_floats(buffer, margins.size(weights.out));
  const std::size_t end = detail::grid_lanes(margins.extent, w.in);
  alignas(64) float total[kTotals];
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float* from = x.row(b);
    if (copies) {
      place_planes(margins, from, weights.out, buffer);
      from = buffer;
    }
    for (std::size_t q = 0; q < end; q += kConvolveTile) {
      const std::size_t lanes = std::min(kConvolveTile, end - q);
      const Moves moves(Runs(margins.extent, w.in, q, lanes));
      for (std::size_t c = 0; c < w.channels;) {
        const std::size_t first = c / w.group_channels() * group_out, in_group = c % w.group_channels();
        const std::size_t rows = std::min(kPanelWidth, w.group_channels() - in_group);
        sum_rows(
            {weights.data + in_group * row_stride, row_stride, w_at + first, from + q, x_at + first, segments, count},
            rows, lanes, copies, total);
        for (std::size_t r = 0; r < rows; ++r, ++c)
          moves.store<true>(total + r * kConvolveTile, outputs.bias ? outputs.bias + c : nullptr,
                            outputs.before_activation(b) + c * w.plane());
      }
    }
    if (outputs.has_finish()) outputs.finish(b, 0, w.image());
  }
}

/// Any windows: the columns of a tile, scattered.
void scatter_transposed(const Window& w, const ConstPanels& weights, const ConstRows& x, const Outputs& outputs,
                        const std::uint32_t* w_at, std::uint32_t* x_at, Segment* segments) noexcept {
  const std::size_t group_out = weights.out / w.groups, chunks = chunk_segments(group_out, segments);
  for (std::size_t o = 0; o < weights.out; ++o) x_at[o] = static_cast<std::uint32_t>(o * w.positions());
  alignas(64) float part[kPanelWidth * kConvolveTile];
  for (std::size_t b = 0; b < x.rows; ++b) {
    float* const to = outputs.before_activation(b);
    zero_floats(to, w.image());
    for (std::size_t p = 0; p < w.positions(); p += kConvolveTile) {
      const std::size_t lanes = std::min(kConvolveTile, w.positions() - p);
      const Runs runs(w.out, w.out, p, lanes);
      for (std::size_t g = 0; g < w.groups; ++g)
        for (std::size_t left = weights.in; left > 0;) {
          const std::size_t rows = std::min(kPanelWidth, left);
          left -= rows;
          sum_rows({weights.data + left * kPanelWidth, kPanelWidth, w_at + g * group_out, x.row(b) + p,
                    x_at + g * group_out, segments, chunks},
                   rows, lanes, false, part);
          scatter_tile(w, runs, part, left, rows, to + g * w.group_channels() * w.plane());
        }
    }
    for (std::size_t c = 0; c < w.channels; ++c) {
      float* row = to + c * w.plane();
      const V add = hn::Set(kTag, outputs.bias ? outputs.bias[c] : 0.0f);
      ForEachVector(w.plane(), [&](auto load, auto store) HWY_ATTR {
        const V sum = hn::Add(load(row), hn::Zero(kTag));
        store(outputs.bias ? hn::Add(sum, add) : sum, row);
      });
    }
    if (outputs.has_finish()) outputs.finish(b, 0, w.image());
  }
}

void convolve_transposed(const Window& w, const ConstPanels& weights, const float* bias, const ConstRows& x,
                         Activation activation, const Rows& z, const Rows& y, float* workspace) noexcept {
  WEFT_ISA_RAN();
  const Outputs outputs{bias, activation, z, y};
  auto* const w_at = reinterpret_cast<std::uint32_t*>(workspace);
  auto* const x_at = w_at + detail::whole_lines(weights.out);
  for (std::size_t o = 0; o < weights.out; ++o) w_at[o] = static_cast<std::uint32_t>(panel_index(weights.in, o, 0));
  auto* const segments = reinterpret_cast<Segment*>(x_at + detail::whole_lines(weights.out));
  float* const buffer =
      workspace + 2 * detail::whole_lines(weights.out) + detail::segment_floats(w.taps() * (weights.out / kChunk + 1));
  if (w.is_dense())
    gather_transposed(w, weights, x, outputs, w_at, x_at, segments, buffer);
  else
    scatter_transposed(w, weights, x, outputs, w_at, x_at, segments);
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kConvolve = WEFT_DISPATCH(convolve);
constexpr auto kConvolveTransposed = WEFT_DISPATCH(convolve_transposed);
}  // namespace

void convolve(const Window& window, const ConstPanels& w, const float* bias, const ConstRows& x, Activation activation,
              const Rows& z, const Rows& y, float* workspace) noexcept {
  kConvolve.get()(window, w, bias, x, activation, z, y, workspace);
}
void convolve_transposed(const Window& window, const ConstPanels& w, const float* bias, const ConstRows& x,
                         Activation activation, const Rows& z, const Rows& y, float* workspace) noexcept {
  kConvolveTransposed.get()(window, w, bias, x, activation, z, y, workspace);
}

}  // namespace weft::kernels
#endif
