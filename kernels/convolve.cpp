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

/// What a tile multiplies: weight (r, j) is w[w_at[j] + r * row_stride], lane l of operand j is x[x_at[j] + l].
struct Products {
  const float* w;
  std::size_t row_stride;
  const std::uint32_t* w_at;
  const float* x;
  const std::uint32_t* x_at;
  std::size_t count;
};

/// total[r][lane] = sum over j, an fma each from +0, added to what total holds when `adds`, else to +0.
template <std::size_t R, std::size_t N, bool Partial>
void sum_tile(const Products& of, std::size_t lanes, bool adds, float* total) noexcept {
  V sum[R][N];
  WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
    WEFT_UNROLL for (std::size_t v = 0; v < N; ++v) sum[r][v] = hn::Zero(kTag);
  }
  const std::size_t stride = of.row_stride;
  const float *const w = of.w, *const x = of.x;
  const std::uint32_t *const w_at = of.w_at, *const x_at = of.x_at;
  for (std::size_t j = 0; j < of.count; ++j) {
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
      float* at = total + r * kConvolveTile + v * kVectorLanes;
      hn::Store(hn::Add(adds ? hn::Load(kTag, at) : hn::Zero(kTag), sum[r][v]), kTag, at);
    }
  }
}

using SumTile = void (*)(const Products&, std::size_t, bool, float*) noexcept;
template <std::size_t N, bool Partial, std::size_t... I>
constexpr std::array<SumTile, sizeof...(I)> make_tiles(std::index_sequence<I...>) {
  return {&sum_tile<I + 1, N, Partial>...};
}
constexpr auto kWide = make_tiles<kWideVectors, false>(std::make_index_sequence<kWideRows>());
constexpr auto kSingle = make_tiles<1, false>(std::make_index_sequence<kSingleRows>());
constexpr auto kPartial = make_tiles<1, true>(std::make_index_sequence<kSingleRows>());

/// Rows [0, rows) of weights against a tile of `lanes` windows. With slack, a tile's lanes may all be read.
void sum_rows(Products of, std::size_t rows, std::size_t lanes, bool has_slack, bool adds, float* total) noexcept {
  const auto run = [&](const auto& tiles, std::size_t v, std::size_t left) {
    const detail::EvenParts parts(rows, tiles.size());
    for (std::size_t i = 0; i < parts.parts; ++i) {
      Products part = of;
      part.w += parts.begin(i) * of.row_stride;
      part.x += v;
      tiles[parts.begin(i + 1) - parts.begin(i) - 1](part, left, adds, total + parts.begin(i) * kConvolveTile + v);
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

/// The same over more than a chunk of products: rule R1.
void sum_chunks(Products of, std::size_t rows, std::size_t lanes, bool has_slack, float* total) noexcept {
  const std::size_t count = of.count;
  for (std::size_t first = 0; first < count; first += kChunk, of.w_at += kChunk, of.x_at += kChunk) {
    of.count = std::min(kChunk, count - first);
    sum_rows(of, rows, lanes, has_slack, first > 0, total);
  }
}

/// A tile's sums to their places, the bias added.
template <bool Normalises>
HWY_INLINE void store_sums(const float* total, const Runs& runs, const float* bias, float* to) {
  const V b = hn::Set(kTag, bias ? *bias : 0.0f);
  for (std::size_t i = 0; i < runs.count; ++i)
    ForEachVector(runs.run[i].count, [&](auto load, auto store) HWY_ATTR {
      V sum = load(total + runs.run[i].lane);
      if (Normalises) sum = hn::Add(sum, hn::Zero(kTag));
      store(bias ? hn::Add(sum, b) : sum, to + runs.run[i].to);
    });
}

/// Where outputs of one sample go: channel rows of `plane` elements.
HWY_INLINE void finish_tile(const Outputs& outputs, std::size_t b, std::size_t row, std::size_t plane,
                            const Runs& runs) {
  if (outputs.has_finish() && runs.count > 0) outputs.finish(b, row * plane + runs.first(), runs.size());
}

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
  float* const buffer = workspace + 2 * detail::whole_lines(columns);
  for (std::size_t k = 0; k < columns; ++k) {
    w_at[k] = static_cast<std::uint32_t>(k * kPanelWidth);
    const std::size_t at =
        dense ? k / taps * margins.plane() + margins.distance(detail::tap_steps(w, k % taps)) : k * kConvolveTile;
    x_at[k] = static_cast<std::uint32_t>(at);
  }
  if (dense && copies) zero_floats(buffer, w.channels * margins.plane() + kConvolveTile);
  const Window::Extents& grid = dense ? margins.extent : w.out;
  const std::size_t end = detail::grid_lanes(grid, w.out);
  alignas(64) float total[kPanelWidth * kConvolveTile];
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float* image = x.row(b);
    if (dense && copies) {
      place_planes(margins, image, w.channels, buffer);
      image = buffer;
    }
    float* const to = outputs.before_activation(b);
    for (std::size_t q = 0; q < end; q += kConvolveTile) {
      const std::size_t lanes = std::min(kConvolveTile, end - q);
      const Runs runs(grid, w.out, q, lanes);
      for (std::size_t g = 0; g < w.groups; ++g) {
        const float* from = image + g * w.group_channels() * margins.plane() + q;
        if (!dense) {
          gather_tile(w, g, image, q, lanes, buffer, kConvolveTile);
          from = buffer;
        }
        for (std::size_t o = g * group_out; o < (g + 1) * group_out;) {
          const std::size_t rows = std::min((g + 1) * group_out, (o / kPanelWidth + 1) * kPanelWidth) - o;
          sum_chunks({weights.data + panel_index(weights.in, o, 0), 1, w_at, from, x_at, columns}, rows, lanes, copies,
                     total);
          for (std::size_t r = 0; r < rows; ++r, ++o) {
            store_sums<false>(total + r * kConvolveTile, runs, bias ? bias + o : nullptr, to + o * w.positions());
            finish_tile(outputs, b, o, w.positions(), runs);
          }
        }
      }
    }
  }
}

/// Windows of stride 1: every element gathers from the windows over it, tap by tap from the last, so that windows come
/// in ascending order.
void gather_transposed(const Window& w, const ConstPanels& weights, const ConstRows& x, const Outputs& outputs,
                       const std::uint32_t* w_at, std::uint32_t* x_at, float* buffer) noexcept {
  const detail::Margins margins = detail::position_margins(w);
  const bool copies = !margins.are_none();
  const std::size_t group_out = weights.out / w.groups, taps = w.taps(), row_stride = taps * kPanelWidth;
  for (std::size_t o = 0; o < weights.out; ++o) x_at[o] = static_cast<std::uint32_t>(o * margins.plane());
  if (copies) zero_floats(buffer, weights.out * margins.plane() + kConvolveTile);
  const std::size_t end = detail::grid_lanes(margins.extent, w.in);
  alignas(64) float total[kPanelWidth * kConvolveTile], part[kPanelWidth * kConvolveTile];
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float* from = x.row(b);
    if (copies) {
      place_planes(margins, from, weights.out, buffer);
      from = buffer;
    }
    for (std::size_t q = 0; q < end; q += kConvolveTile) {
      const std::size_t lanes = std::min(kConvolveTile, end - q);
      const Runs runs(margins.extent, w.in, q, lanes);
      for (std::size_t c = 0; c < w.channels;) {
        const std::size_t g = c / w.group_channels(), in_group = c % w.group_channels();
        const std::size_t rows = std::min(kPanelWidth, w.group_channels() - in_group), first = g * group_out;
        for (std::size_t t = taps; t-- > 0;) {
          const float* tile = from + q + margins.distance(detail::tap_steps(w, taps - 1 - t));
          const Products products{weights.data + (in_group * taps + t) * kPanelWidth,
                                  row_stride,
                                  w_at + first,
                                  tile,
                                  x_at + first,
                                  group_out};
          if (group_out <= kChunk) {
            sum_rows(products, rows, lanes, copies, t + 1 < taps, total);
            continue;
          }
          sum_chunks(products, rows, lanes, copies, part);
          if (t + 1 == taps)
            copy_floats(part, total, rows * kConvolveTile);
          else
            ForEachVector(rows * kConvolveTile,
                          [&](auto load, auto store) HWY_ATTR { store(hn::Add(load(total), load(part)), total); });
        }
        for (std::size_t r = 0; r < rows; ++r, ++c) {
          store_sums<true>(total + r * kConvolveTile, runs, outputs.bias ? outputs.bias + c : nullptr,
                           outputs.before_activation(b) + c * w.plane());
          finish_tile(outputs, b, c, w.plane(), runs);
        }
      }
    }
  }
}

/// Any windows: the columns of a tile, scattered.
void scatter_transposed(const Window& w, const ConstPanels& weights, const ConstRows& x, const Outputs& outputs,
                        const std::uint32_t* w_at, std::uint32_t* x_at) noexcept {
  const std::size_t group_out = weights.out / w.groups;
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
          sum_chunks({weights.data + left * kPanelWidth, kPanelWidth, w_at + g * group_out, x.row(b) + p,
                      x_at + g * group_out, group_out},
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
  if (w.is_dense())
    gather_transposed(w, weights, x, outputs, w_at, x_at, workspace + 2 * detail::whole_lines(weights.out));
  else
    scatter_transposed(w, weights, x, outputs, w_at, x_at);
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
