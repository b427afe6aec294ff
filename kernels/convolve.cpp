// SPDX-License-Identifier: Apache-2.0
#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/convolve.cpp"
#include "kernels/convolve.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/internal/convolve_plan.hpp"
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

void convolve(const Window& w, const ConstPanels& weights, const float* bias, const ConstMatrixView& x,
              Activation activation, const MatrixView& z, const MatrixView& y, float*) noexcept {
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

void convolve_transposed(const Window& w, const ConstPanels& weights, const float* bias, const ConstMatrixView& x,
                         Activation activation, const MatrixView& z, const MatrixView& y, float*) noexcept {
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
/// Operands of a tile: weight (r, j) is w[w_at[j] + r * row_stride], lane l of operand j is x[x_at[j] + l].
struct Products {
  const float* w;
  std::size_t row_stride;
  const std::uint32_t* w_at;
  const float* x;
  const std::uint32_t* x_at;
  const Segment* segments;
  std::size_t count;
  float* part;  // a tile of one that is open; null where each part is one chunk
};

/// total[r][lane] = +0, then for each part: + (its chunks' sums, each an fma a product from +0). A part may be -0 where
/// rule R1 has +0; only convolve_transposed has parts of several chunks, and it normalises.
template <std::size_t R, std::size_t N, bool Partial>
void sum_tile(const Products& of, std::size_t lanes, float* total) noexcept {
  const std::size_t stride = of.row_stride;
  bool has_total = false;
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
        const std::size_t open = (r * N + v) * kVectorLanes;  // in `part`, which is null where every segment closes
        float* const at = total + r * kConvolveTile + v * kVectorLanes;
        if (!segment.opens) sum[r][v] = hn::Add(hn::Load(kTag, of.part + open), sum[r][v]);
        if (segment.closes)
          hn::Store(hn::Add(has_total ? hn::Load(kTag, at) : hn::Zero(kTag), sum[r][v]), kTag, at);
        else
          hn::Store(sum[r][v], kTag, of.part + open);
      }
    }
    has_total = has_total || segment.closes;
  }
  if (has_total) return;
  for (std::size_t r = 0; r < R; ++r)
    for (std::size_t v = 0; v < N; ++v) hn::Store(hn::Zero(kTag), kTag, total + r * kConvolveTile + v * kVectorLanes);
}

using SumTile = void (*)(const Products&, std::size_t, float*) noexcept;
template <std::size_t N, bool Partial, std::size_t... I>
constexpr std::array<SumTile, sizeof...(I)> make_tiles(std::index_sequence<I...>) {
  return {&sum_tile<I + 1, N, Partial>...};
}
constexpr auto kWide = make_tiles<kWideVectors, false>(std::make_index_sequence<kWideRows>());
constexpr auto kSingle = make_tiles<1, false>(std::make_index_sequence<kSingleRows>());
constexpr auto kPartial = make_tiles<1, true>(std::make_index_sequence<kSingleRows>());

/// The first of even parts of `left` rows, each of at most `most`; a table, since tiles are too short for divisions.
template <std::size_t most>
constexpr std::array<std::uint8_t, kPanelWidth + 1> make_parts() {
  std::array<std::uint8_t, kPanelWidth + 1> first{};
  for (std::size_t left = 1; left <= kPanelWidth; ++left) {
    const std::size_t parts = (left + most - 1) / most;
    first[left] = static_cast<std::uint8_t>((left + parts - 1) / parts);
  }
  return first;
}
constexpr auto kWideParts = make_parts<kWideRows>(), kSingleParts = make_parts<kSingleRows>();

/// Rows [0, rows) of weights against a tile of `lanes` windows. With slack, a tile's lanes may all be read.
HWY_INLINE void sum_rows(const Products& of, std::size_t rows, std::size_t lanes, bool has_slack, float* total) {
  const auto run = [&](const auto& tiles, const auto& parts, std::size_t v, std::size_t left) HWY_ATTR {
    Products part = of;
    part.x += v;
    for (std::size_t r = 0; r < rows;) {
      const std::size_t count = parts[rows - r];
      tiles[count - 1](part, left, total + r * kConvolveTile + v);
      part.w += count * of.row_stride;
      r += count;
    }
  };
  for (std::size_t v = 0; v < lanes;) {
    const std::size_t left = lanes - v;
    if (left >= kWideLanes || (has_slack && 2 * left > kWideLanes)) {
      run(kWide, kWideParts, v, left);
      v += kWideLanes;
    } else {
      if (left >= kVectorLanes || has_slack)
        run(kSingle, kSingleParts, v, left);
      else
        run(kPartial, kSingleParts, v, left);
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

/// The taps of a phase from the last to the first, each a part of the chunks of `count` outputs.
std::size_t tap_segments(const detail::Margins& margins, const Window& w, const detail::Phase& of, std::size_t count,
                         Segment* to) noexcept {
  std::size_t n = 0;
  for (std::size_t t = w.taps(); t-- > 0;) {
    Window::Extents back = detail::tap_steps(w, t);
    bool meets = true;
    for (std::size_t a = 0; a < Window::kAxes; ++a) {
      meets = meets && back[a] % w.stride[a] == of.phase[a];
      back[a] = (w.kernel[a] - 1) * w.dilation[a] / w.stride[a] - back[a] / w.stride[a];
    }
    if (!meets) continue;
    const std::size_t end = n + chunk_segments(count, to + n);
    for (std::size_t i = n; i < end; ++i) {
      to[i].w = t * kPanelWidth, to[i].x = margins.distance(back);
      to[i].opens = i == n, to[i].closes = i + 1 == end;
    }
    n = end;
  }
  return n;
}

/// Destinations of a tile's lanes, a vector at a time.
class Moves {
 public:
  explicit Moves(const Runs& runs) noexcept {
    for (std::size_t i = 0; i < runs.count; ++i)
      for (std::size_t done = 0; done < runs.run[i].count; done += kVectorLanes)
        moves_[count_++] = {runs.run[i].lane + done, std::min(kVectorLanes, runs.run[i].count - done),
                            runs.run[i].to + done};
  }
  /// To the elements of a phase.
  Moves(const Runs& runs, const Window& w, const detail::Phase& phase) noexcept : stride_(w.stride[2]) {
    for (std::size_t i = 0; i < runs.count; ++i)
      for (std::size_t done = 0; done < runs.run[i].count;) {
        Window::Extents at = Window::split(runs.run[i].to + done, phase.count);
        const std::size_t count = std::min({kVectorLanes, runs.run[i].count - done, phase.count[2] - at[2]});
        for (std::size_t a = 0; a < Window::kAxes; ++a) at[a] = phase.element[a] + at[a] * w.stride[a];
        moves_[count_++] = {runs.run[i].lane + done, count, (at[0] * w.in[1] + at[1]) * w.in[2] + at[2]};
        done += count;
      }
  }
  /// A row of sums to its places, the bias added.
  template <bool Normalises, bool Strided>
  HWY_INLINE void store(const float* total, const float* bias, float* to) const {
    const V b = hn::Set(kTag, bias ? *bias : 0.0f);
    for (std::size_t i = 0; i < count_; ++i) {
      V sum = hn::LoadU(kTag, total + moves_[i].lane);
      if (Normalises) sum = hn::Add(sum, hn::Zero(kTag));
      if (bias) sum = hn::Add(sum, b);
      float* const at = to + moves_[i].to;
      if constexpr (Strided) {
        alignas(64) float lanes[kVectorLanes];
        hn::Store(sum, kTag, lanes);
        for (std::size_t j = 0; j < moves_[i].count; ++j) at[j * stride_] = lanes[j];
      } else if (moves_[i].count == kVectorLanes) {
        hn::StoreU(sum, kTag, at);
      } else {
        StorePartial(sum, kTag, at, moves_[i].count);
      }
    }
  }

 private:
  struct Move {
    std::size_t lane, count, to;
  };
  std::array<Move, kConvolveTile> moves_;
  std::size_t count_ = 0, stride_ = 1;
};

// A tile's sums, with a vector more: moves read whole ones.
constexpr std::size_t kTotals = kPanelWidth * kConvolveTile + kVectorLanes;

void convolve(const Window& w, const ConstPanels& weights, const float* bias, const ConstMatrixView& x,
              Activation activation, const MatrixView& z, const MatrixView& y, float* workspace) noexcept {
  WEFT_ISA_RAN();
  const Outputs outputs{bias, activation, z, y};
  const detail::Margins margins = detail::image_margins(w);
  const bool copies = !margins.are_none();
  const std::size_t columns = w.columns(), taps = w.taps(), group_out = weights.out / w.groups;
  auto* const w_at = reinterpret_cast<std::uint32_t*>(workspace);
  auto* const x_at = w_at + detail::whole_lines(columns);
  auto* const segments = reinterpret_cast<Segment*>(x_at + detail::whole_lines(columns));
  float* const buffer = workspace + 2 * detail::whole_lines(columns) + detail::segment_floats(columns / kChunk + 1);
  const std::size_t chunks = chunk_segments(columns, segments);
  for (std::size_t k = 0; k < columns; ++k) {
    w_at[k] = static_cast<std::uint32_t>(k * kPanelWidth);
    const std::size_t at = k / taps * margins.plane() + detail::tap_distance(w, margins, k % taps);
    x_at[k] = static_cast<std::uint32_t>(at);
  }
  if (copies) zero_floats(buffer, margins.size(w.channels));
  const Window::Extents& grid = margins.extent;
  const std::size_t end = detail::grid_lanes(grid, w.out);
  alignas(64) float total[kTotals];
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float* image = x.row(b);
    if (copies) {
      place_planes(margins, w.stride, image, w.channels, buffer);
      image = buffer;
    }
    float* const to = outputs.before_activation(b);
    for (std::size_t q = 0; q < end; q += kConvolveTile) {
      const std::size_t lanes = std::min(kConvolveTile, end - q);
      const Moves moves(Runs(grid, w.out, q, lanes));
      for (std::size_t g = 0; g < w.groups; ++g) {
        const float* from = image + g * w.group_channels() * margins.plane() + q;
        for (std::size_t o = g * group_out; o < (g + 1) * group_out;) {
          const std::size_t rows = std::min((g + 1) * group_out, (o / kPanelWidth + 1) * kPanelWidth) - o;
          sum_rows({weights.data + panel_index(weights.in, o, 0), 1, w_at, from, x_at, segments, chunks, nullptr}, rows,
                   lanes, copies, total);
          for (std::size_t r = 0; r < rows; ++r, ++o)
            moves.store<false, false>(total + r * kConvolveTile, bias ? bias + o : nullptr, to + o * w.positions());
        }
      }
    }
    if (outputs.has_finish()) outputs.finish(b, 0, weights.out * w.positions());
  }
}

/// Every element gathers from the windows over it, tap by tap from the last, so that windows come in ascending order.
void convolve_transposed(const Window& w, const ConstPanels& weights, const float* bias, const ConstMatrixView& x,
                         Activation activation, const MatrixView& z, const MatrixView& y, float* workspace) noexcept {
  WEFT_ISA_RAN();
  const Outputs outputs{bias, activation, z, y};
  const detail::Margins margins = detail::position_margins(w);
  const bool copies = !margins.are_none();
  const std::size_t group_out = weights.out / w.groups, row_stride = w.taps() * kPanelWidth;
  auto* const w_at = reinterpret_cast<std::uint32_t*>(workspace);
  auto* const x_at = w_at + detail::whole_lines(weights.out);
  auto* const segments = reinterpret_cast<Segment*>(x_at + detail::whole_lines(weights.out));
  float* const buffer =
      workspace + 2 * detail::whole_lines(weights.out) + detail::segment_floats(w.taps() * (weights.out / kChunk + 1));
  for (std::size_t o = 0; o < weights.out; ++o) {
    w_at[o] = static_cast<std::uint32_t>(panel_index(weights.in, o, 0));
    x_at[o] = static_cast<std::uint32_t>(o * margins.plane());
  }
  if (copies) zero_floats(buffer, margins.size(weights.out));
  alignas(64) float total[kTotals], part[kPanelWidth * kConvolveTile];
  const Window::Extents phases{std::min(w.stride[0], w.in[0] + w.padding[0]),
                               std::min(w.stride[1], w.in[1] + w.padding[1]),
                               std::min(w.stride[2], w.in[2] + w.padding[2])};
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float* from = x.row(b);
    if (copies) {
      place_planes(margins, {1, 1, 1}, from, weights.out, buffer);
      from = buffer;
    }
    for (std::size_t i = 0; i < Window::product(phases); ++i) {
      const detail::Phase phase(w, Window::split(i, phases));
      if (phase.is_empty()) continue;
      const std::size_t count = tap_segments(margins, w, phase, group_out, segments);
      const std::size_t end = detail::grid_lanes(margins.extent, phase.count);
      const float* const first_place = from + margins.distance(phase.place);
      for (std::size_t q = 0; q < end; q += kConvolveTile) {
        const std::size_t lanes = std::min(kConvolveTile, end - q);
        const Runs runs(margins.extent, phase.count, q, lanes);
        const Moves moves = w.is_dense() ? Moves(runs) : Moves(runs, w, phase);
        for (std::size_t c = 0; c < w.channels;) {
          const std::size_t first = c / w.group_channels() * group_out, in_group = c % w.group_channels();
          const std::size_t rows = std::min(kPanelWidth, w.group_channels() - in_group);
          sum_rows({weights.data + in_group * row_stride, row_stride, w_at + first, first_place + q, x_at + first,
                    segments, count, part},
                   rows, lanes, copies, total);
          for (std::size_t r = 0; r < rows; ++r, ++c) {
            float* const plane = outputs.before_activation(b) + c * w.plane();
            if (w.stride[2] == 1)
              moves.store<true, false>(total + r * kConvolveTile, bias ? bias + c : nullptr, plane);
            else
              moves.store<true, true>(total + r * kConvolveTile, bias ? bias + c : nullptr, plane);
          }
        }
      }
    }
    if (outputs.has_finish()) outputs.finish(b, 0, w.image());
  }
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

void convolve(const Window& window, const ConstPanels& w, const float* bias, const ConstMatrixView& x,
              Activation activation, const MatrixView& z, const MatrixView& y, float* workspace) noexcept {
  kConvolve.get()(window, w, bias, x, activation, z, y, workspace);
}
void convolve_transposed(const Window& window, const ConstPanels& w, const float* bias, const ConstMatrixView& x,
                         Activation activation, const MatrixView& z, const MatrixView& y, float* workspace) noexcept {
  kConvolveTransposed.get()(window, w, bias, x, activation, z, y, workspace);
}

}  // namespace weft::kernels
#endif
