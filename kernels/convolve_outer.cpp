// SPDX-License-Identifier: Apache-2.0
#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/convolve_outer.cpp"
#include "kernels/convolve.hpp"
#include "kernels/foreach_isa.hpp"
#include "kernels/internal/convolve_plan.hpp"
#include "kernels/internal/linear_scratch.hpp"
#include "kernels/simd/panel-inl.hpp"
#include "kernels/simd/transpose-inl.hpp"
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

void convolve_outer(const Window& w, const ConstMatrixView& dy, const ConstMatrixView& x, const Panels& dw,
                    std::size_t first, std::size_t count, float*) noexcept {
  WEFT_ISA_RAN();
  const std::size_t group_out = dw.out / w.groups, taps = w.taps();
  for (std::size_t b = 0; b < dy.rows; ++b)
    for (std::size_t o = 0; o < dw.out; ++o)
      for (std::size_t k = first; k < first + count; ++k)
        for (std::size_t p = 0; p < w.positions(); ++p) {
          const std::size_t at = w.element(Window::split(p, w.out), Window::split(k % taps, w.kernel));
          const std::size_t channel = o / group_out * w.group_channels() + k / taps;
          const float value = at == w.plane() ? 0.0f : x.row(b)[channel * w.plane() + at];
          float& sum = dw.data[panel_index(dw.in, o, k)];
          sum = std::fma(dy.row(b)[o * w.positions() + p], value, sum);
        }
}

void gather_windows(const Window& w, std::size_t group, const float* image, std::size_t first, std::size_t count,
                    const MatrixView& to) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t k = 0; k < w.columns(); ++k)
    for (std::size_t j = 0; j < count; ++j) {
      const std::size_t at = w.element(Window::split(first + j, w.out), Window::split(k % w.taps(), w.kernel));
      const std::size_t channel = group * w.group_channels() + k / w.taps();
      to.row(k)[j] = at == w.plane() ? 0.0f : image[channel * w.plane() + at];
    }
}

void transpose(const ConstMatrixView& x, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t i = 0; i < x.rows; ++i)
    for (std::size_t j = 0; j < x.cols; ++j) y.row(j)[i] = x.row(i)[j];
}

#else

using V = PanelVector;
constexpr PanelTag kPanelTag;
using detail::Run;
using detail::Runs;

// A tile is K columns by P panels of dw in registers while windows stream by. Each column's address is a register too.
constexpr std::size_t kTileColumns = kPanelVectors == 1 ? 12 : 6, kTilePanels = kPanelVectors == 1 ? 2 : 1;

/// Windows [0, lanes) of one tile: dy [lanes][dy_stride], operand k of lane l at x[x_at[k] + l]. Of each panel, lanes
/// [low, high) of dw are outputs of this group.
struct Samples {
  const float* dy;
  std::size_t dy_stride;
  const float* x;
  const std::uint32_t* x_at;
  const Runs& runs;
};

/// Stores lanes [low, high) of a panel, counted from its first; the others keep what they hold.
HWY_INLINE void store_lanes(const V (&sum)[kPanelVectors], float* to, std::size_t low, std::size_t high) {
  WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) {
    const std::size_t base = v * kPanelLanes;
    float* at = to + base;
    if (low <= base && high >= base + kPanelLanes) {
      hn::Store(sum[v], kPanelTag, at);
    } else if (low < base + kPanelLanes && high > base) {
      const auto below = hn::FirstN(kPanelTag, std::min(kPanelLanes, high - base));
      const auto before = hn::FirstN(kPanelTag, low > base ? low - base : 0);
      hn::Store(hn::IfThenElse(hn::AndNot(before, below), sum[v], hn::Load(kPanelTag, at)), kPanelTag, at);
    }
  }
}

template <std::size_t K, std::size_t P>
void outer_tile(const Samples& of, float* dw, std::size_t panel_stride, std::size_t low, std::size_t high) noexcept {
  V sum[P][K][kPanelVectors];
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
    WEFT_UNROLL for (std::size_t k = 0; k < K; ++k) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[p][k][v] =
          hn::Load(kPanelTag, dw + p * panel_stride + k * kPanelWidth + v * kPanelLanes);
    }
  }
  const float* xs[K];
  WEFT_UNROLL for (std::size_t k = 0; k < K; ++k) xs[k] = of.x + of.x_at[k];
  const float* dy = of.dy;
  for (std::size_t i = 0; i < of.runs.count; ++i) {
    const std::size_t end = of.runs.run[i].lane + of.runs.run[i].count;
    for (std::size_t lane = of.runs.run[i].lane; lane < end; ++lane, dy += of.dy_stride) {
      V ds[P][kPanelVectors];
      WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
        WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) ds[p][v] =
            hn::Load(kPanelTag, dy + p * kPanelWidth + v * kPanelLanes);
      }
      WEFT_UNROLL for (std::size_t k = 0; k < K; ++k) {
        const V value = hn::Set(kPanelTag, xs[k][lane]);
        WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
          WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[p][k][v] =
              hn::MulAdd(ds[p][v], value, sum[p][k][v]);
        }
      }
    }
  }
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
    const std::size_t from = low > p * kPanelWidth ? low - p * kPanelWidth : 0;
    const std::size_t to = high > p * kPanelWidth ? high - p * kPanelWidth : 0;
    WEFT_UNROLL for (std::size_t k = 0; k < K; ++k)
        store_lanes(sum[p][k], dw + p * panel_stride + k * kPanelWidth, from, to);
  }
}

using OuterTile = void (*)(const Samples&, float*, std::size_t, std::size_t, std::size_t) noexcept;
template <std::size_t P, std::size_t... I>
constexpr std::array<OuterTile, sizeof...(I)> make_tiles(std::index_sequence<I...>) {
  return {&outer_tile<I + 1, P>...};
}
constexpr auto kTiles = make_tiles<kTilePanels>(std::make_index_sequence<kTileColumns>());
constexpr auto kSingleTiles = make_tiles<1>(std::make_index_sequence<kTileColumns>());

void convolve_outer(const Window& w, const ConstMatrixView& dy, const ConstMatrixView& x, const Panels& dw,
                    std::size_t first, std::size_t count, float* workspace) noexcept {
  WEFT_ISA_RAN();
  const detail::Margins margins = detail::image_margins(w);
  const bool copies = !margins.are_none();
  const std::size_t group_out = dw.out / w.groups, taps = w.taps(), stride = dw.in * kPanelWidth;
  const std::size_t panels = panel_count(dw.out), padded = panels * kPanelWidth;
  auto* const x_at = reinterpret_cast<std::uint32_t*>(workspace);
  float* const packed = workspace + detail::whole_lines(dw.in);
  float* const buffer = packed + kConvolveTile * padded;
  for (std::size_t k = first; k < first + count; ++k)
    x_at[k] = static_cast<std::uint32_t>(k / taps * margins.plane() + detail::tap_distance(w, margins, k % taps));
  if (copies) zero_floats(buffer, margins.size(w.channels));
  // Lanes past `out` are multiplied too, never stored.
  zero_floats(packed, kConvolveTile * padded);
  const Window::Extents& grid = margins.extent;
  const std::size_t end = detail::grid_lanes(grid, w.out);
  const detail::EvenParts parts(count, kTileColumns);
  // Without groups a range of columns reads only its own channels.
  const bool is_one_group = w.groups == 1;
  const std::size_t first_channel = is_one_group ? first / taps : 0;
  const std::size_t channels = is_one_group ? (first + count - 1) / taps + 1 - first_channel : w.channels;
  for (std::size_t b = 0; b < dy.rows; ++b) {
    const float* image = x.row(b);
    if (copies) {
      place_planes(margins, w.stride, image + first_channel * w.plane(), channels,
                   buffer + first_channel * margins.plane());
      image = buffer;
    }
    for (std::size_t q = 0; q < end; q += kConvolveTile) {
      const std::size_t lanes = std::min(kConvolveTile, end - q);
      const Runs runs(grid, w.out, q, lanes);
      if (runs.count == 0) continue;
      transpose_rows(dy.row(b) + runs.first(), w.positions(), dw.out, runs.size(), packed, padded);
      for (std::size_t g = 0; g < w.groups; ++g) {
        const float* from = image + g * w.group_channels() * margins.plane() + q;
        const std::size_t low = g * group_out, high = low + group_out, last = (high - 1) / kPanelWidth + 1;
        for (std::size_t i = 0; i < parts.parts; ++i) {
          const std::size_t k = first + parts.begin(i), K = parts.begin(i + 1) - parts.begin(i);
          for (std::size_t p = low / kPanelWidth; p < last; p += kTilePanels) {
            const bool whole = p + kTilePanels <= last;
            const std::size_t o = p * kPanelWidth;
            (whole ? kTiles : kSingleTiles)[K - 1]({packed + o, padded, from, x_at + k, runs},
                                                   dw.data + p * stride + k * kPanelWidth, stride,
                                                   low > o ? low - o : 0, high - o);
          }
        }
      }
    }
  }
}

void gather_windows(const Window& w, std::size_t group, const float* image, std::size_t first, std::size_t count,
                    const MatrixView& to) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t j = 0; j < count; j += kConvolveTile)
    gather_tile(w, group, image, first + j, std::min(kConvolveTile, count - j), to.data + j, to.stride);
}

void transpose(const ConstMatrixView& x, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  transpose_rows(x.data, x.stride, x.rows, x.cols, y.data, y.stride);
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kConvolveOuter = WEFT_DISPATCH(convolve_outer);
constexpr auto kGatherWindows = WEFT_DISPATCH(gather_windows);
constexpr auto kTranspose = WEFT_DISPATCH(transpose);
}  // namespace

void convolve_outer(const Window& window, const ConstMatrixView& dy, const ConstMatrixView& x, const Panels& dw,
                    float* workspace) noexcept {
  kConvolveOuter.get()(window, dy, x, dw, 0, dw.in, workspace);
}
void convolve_outer(const Window& window, const ConstMatrixView& dy, const ConstMatrixView& x, const Panels& dw,
                    std::size_t first, std::size_t count, float* workspace) noexcept {
  kConvolveOuter.get()(window, dy, x, dw, first, count, workspace);
}
void gather_windows(const Window& window, std::size_t group, const float* image, std::size_t first, std::size_t count,
                    const MatrixView& to) noexcept {
  kGatherWindows.get()(window, group, image, first, count, to);
}
void transpose(const ConstMatrixView& x, const MatrixView& y) noexcept { kTranspose.get()(x, y); }

bool convolve_fits(const Window& w, std::size_t out) noexcept {
  // As doubles: the products themselves may overflow.
  const auto planes = [](std::size_t count, const Window::Extents& e) {
    return static_cast<double>(count) * static_cast<double>(e[0]) * static_cast<double>(e[1]) *
           static_cast<double>(e[2]);
  };
  const double weights = planes(panel_count(out) * kPanelWidth, {w.group_channels(), w.taps(), 1});
  return std::max({planes(w.channels, detail::image_margins(w).extent) * planes(1, detail::image_margins(w).phases),
                   planes(w.channels, w.in), weights, planes(out, detail::position_margins(w).extent),
                   planes(out, w.out)}) < 0x1p31;
}

std::size_t convolve_workspace(const Window& w, std::size_t out) noexcept {
  using namespace detail;
  const std::size_t columns = w.columns(), covering = whole_lines(out);
  const std::size_t image = image_margins(w).size(w.channels), windows = position_margins(w).size(out);
  const std::size_t forward = 2 * whole_lines(columns) + segment_floats(columns / kChunk + 1) + image,
                    backward = 2 * covering + segment_floats(w.taps() * (out / kChunk + 1)) + windows,
                    outer = whole_lines(columns) + kConvolveTile * covering + image,
                    rows = 2 * kConvolveTile * (columns + covering);
  // Dequantized weights come first (convolve_coded.cpp).
  return panels_size(out, columns) + whole_lines(std::max({forward, backward, outer, rows}) + kConvolveTile);
}

}  // namespace weft::kernels
#endif
