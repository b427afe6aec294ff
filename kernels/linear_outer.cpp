// SPDX-License-Identifier: Apache-2.0
#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/linear_outer.cpp"
#include "kernels/foreach_isa.hpp"
#include "kernels/internal/linear_scratch.hpp"
#include "kernels/linear.hpp"
#include "kernels/simd/panel-inl.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

#if WEFT_ISA_IS_SCALAR

// The definition: samples ascending, one fma each.
void outer_range(const ConstMatrixView& dy, const ConstMatrixView& x, const Panels& dw, std::size_t first,
                 std::size_t panels) noexcept {
  WEFT_ISA_RAN();
  const std::size_t end = std::min(dw.out, (first + panels) * kPanelWidth);
  for (std::size_t b = 0; b < dy.rows; ++b)
    for (std::size_t o = first * kPanelWidth; o < end; ++o)
      for (std::size_t k = 0; k < dw.in; ++k) {
        float& at = dw.data[panel_index(dw.in, o, k)];
        at = std::fma(dy.row(b)[o], x.row(b)[k], at);
      }
}

#else

using V = PanelVector;
constexpr PanelTag kTag;

// A tile is K inputs by P panels of dw in registers while samples stream by.
constexpr std::size_t kTileInputs = kFusesSlowly ? 1 : kPanelVectors == 1 ? 14 : 6;
constexpr std::size_t kTilePanels = kPanelVectors == 1 ? 2 : 1;
// Samples packed at once; a sum cut between blocks goes on where it stood, so the cut changes nothing.
constexpr std::size_t kBlockRows = 96;

/// Stores the first `width` lanes of a panel; padding lanes of dw keep what they hold.
HWY_INLINE void store_panel(const V (&sum)[kPanelVectors], float* to, std::size_t width) {
  WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) {
    float* at = to + v * kPanelLanes;
    if (width >= (v + 1) * kPanelLanes)
      hn::Store(sum[v], kTag, at);
    else if (width > v * kPanelLanes)
      hn::Store(hn::IfThenElse(hn::FirstN(kTag, width - v * kPanelLanes), sum[v], hn::Load(kTag, at)), kTag, at);
  }
}

/// One sample against one panel: a stream of one load, one fma and one store per input.
HWY_INLINE void add_sample(const float* dy, const float* x, float* panel, std::size_t in, std::size_t width) {
  V ds[kPanelVectors];
  WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) ds[v] = hn::Load(kTag, dy + v * kPanelLanes);
  const auto step = [&](std::size_t k) HWY_ATTR {
    const V xs = hn::Set(kTag, x[k]);
    V sum[kPanelVectors];
    WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[v] =
        hn::MulAdd(ds[v], xs, hn::Load(kTag, panel + k * kPanelWidth + v * kPanelLanes));
    store_panel(sum, panel + k * kPanelWidth, width);
  };
  std::size_t k = 0;
  if (width == kPanelWidth) {
    for (; k + 4 <= in; k += 4) {
      WEFT_UNROLL for (std::size_t j = 0; j < 4; ++j) step(k + j);
    }
  }
  for (; k < in; ++k) step(k);
}

void outer_one(const float* dy, const float* x, const Panels& dw, std::size_t first, std::size_t panels) noexcept {
  for (std::size_t p = first; p < first + panels; ++p) {
    const std::size_t width = std::min(kPanelWidth, dw.out - p * kPanelWidth);
    alignas(64) float lanes[kPanelWidth] = {};
    std::memcpy(lanes, dy + p * kPanelWidth, width * sizeof(float));
    add_sample(lanes, x, dw.data + p * dw.in * kPanelWidth, dw.in, width);
  }
}

/// K inputs by P panels; dy packed [rows][P * 16], x packed [rows][16].
template <std::size_t K, std::size_t P>
void outer_tile(const float* dy, const float* x, std::size_t rows, float* dw, std::size_t panel_stride,
                std::size_t width) noexcept {
  V sum[P][K][kPanelVectors];
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
    WEFT_UNROLL for (std::size_t k = 0; k < K; ++k) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[p][k][v] =
          hn::Load(kTag, dw + p * panel_stride + k * kPanelWidth + v * kPanelLanes);
    }
  }
  for (std::size_t b = 0; b < rows; ++b, dy += P * kPanelWidth, x += kPanelWidth) {
    V ds[P][kPanelVectors];
    WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) ds[p][v] =
          hn::Load(kTag, dy + p * kPanelWidth + v * kPanelLanes);
    }
    WEFT_UNROLL for (std::size_t k = 0; k < K; ++k) {
      const V xs = hn::Set(kTag, x[k]);
      WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
        WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[p][k][v] =
            hn::MulAdd(ds[p][v], xs, sum[p][k][v]);
      }
    }
  }
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
    const std::size_t lanes = width > p * kPanelWidth ? width - p * kPanelWidth : 0;
    WEFT_UNROLL for (std::size_t k = 0; k < K; ++k)
        store_panel(sum[p][k], dw + p * panel_stride + k * kPanelWidth, lanes);
  }
}

using OuterTile = void (*)(const float*, const float*, std::size_t, float*, std::size_t, std::size_t) noexcept;
template <std::size_t P, std::size_t... I>
constexpr std::array<OuterTile, sizeof...(I)> make_tiles(std::index_sequence<I...>) {
  return {&outer_tile<I + 1, P>...};
}
constexpr auto kTiles = make_tiles<kTilePanels>(std::make_index_sequence<kTileInputs>());
constexpr auto kSingleTiles = make_tiles<1>(std::make_index_sequence<kTileInputs>());

/// dy of one block of samples as [group of kTilePanels][row][lanes], padded with +0 (its products are not stored).
void pack_gradients(const ConstMatrixView& dy, std::size_t b, std::size_t rows, std::size_t first, std::size_t panels,
                    float* to) noexcept {
  for (std::size_t p = 0; p < panels; p += kTilePanels) {
    const std::size_t lanes = std::min(kTilePanels, panels - p) * kPanelWidth, o = (first + p) * kPanelWidth;
    const std::size_t width = std::min(lanes, dy.cols - o);
    for (std::size_t r = 0; r < rows; ++r, to += lanes) {
      std::memcpy(to, dy.row(b + r) + o, width * sizeof(float));
      std::fill(to + width, to + lanes, 0.0f);
    }
  }
}

void outer_block(const ConstMatrixView& dy, const ConstMatrixView& x, std::size_t b, std::size_t rows, const Panels& dw,
                 std::size_t first, std::size_t panels) noexcept {
  float* scratch = detail::linear_scratch(rows * kPanelWidth * (panels + 1));
  float *packed_x = scratch, *packed_dy = scratch + rows * kPanelWidth;
  pack_gradients(dy, b, rows, first, panels, packed_dy);
  const std::size_t stride = dw.in * kPanelWidth;
  const detail::EvenParts parts(dw.in, kTileInputs);
  for (std::size_t i = 0; i < parts.parts; ++i) {
    const std::size_t k = parts.begin(i), K = parts.begin(i + 1) - k;
    for (std::size_t r = 0; r < rows; ++r) std::memcpy(packed_x + r * kPanelWidth, x.row(b + r) + k, K * sizeof(float));
    for (std::size_t p = 0; p < panels; p += kTilePanels) {
      const bool whole = p + kTilePanels <= panels;
      float* at = dw.data + (first + p) * stride + k * kPanelWidth;
      (whole ? kTiles : kSingleTiles)[K - 1](packed_dy + p * rows * kPanelWidth, packed_x, rows, at, stride,
                                             dw.out - (first + p) * kPanelWidth);
    }
  }
}

void outer_range(const ConstMatrixView& dy, const ConstMatrixView& x, const Panels& dw, std::size_t first,
                 std::size_t panels) noexcept {
  WEFT_ISA_RAN();
  if (dy.rows == 1) return outer_one(dy.data, x.data, dw, first, panels);
  for (std::size_t b = 0; b < dy.rows; b += kBlockRows)
    outer_block(dy, x, b, std::min(kBlockRows, dy.rows - b), dw, first, panels);
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kOuter = WEFT_DISPATCH(outer_range);
}  // namespace

void outer_accumulate(const ConstMatrixView& dy, const ConstMatrixView& x, const Panels& dw) noexcept {
  kOuter.get()(dy, x, dw, 0, panel_count(dw.out));
}

}  // namespace weft::kernels
#endif
