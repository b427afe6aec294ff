// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/squared_distance.cpp"
#include "kernels/squared_distance.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/internal/dequantized.hpp"
#include "kernels/lanes-inl.hpp"
#include "kernels/simd/panel-inl.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

// Panels whose index is the same modulo this feed the same lanes of rule R2.
constexpr std::size_t kClasses = kLanes / kPanelWidth;
static_assert(kClasses == 4);

#if WEFT_ISA_IS_SCALAR

void distances(const ConstPanels& c, const ConstMatrixView& x, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < x.rows; ++b)
    for (std::size_t k = 0; k < c.out; ++k) {
      float total = 0.0f;
      for (std::size_t first = 0; first < c.in; first += kChunk) {
        float sum = 0.0f;
        for (std::size_t j = first; j < std::min(first + kChunk, c.in); ++j) {
          const float apart = x.row(b)[j] - c.data[panel_index(c.in, k, j)];
          sum = std::fma(apart, apart, sum);
        }
        total += sum;
      }
      y.row(b)[k] = total;
    }
}

void distance_inputs(const ConstPanels& c, const ConstMatrixView& x, const ConstMatrixView& dy,
                     const MatrixView& dx) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < x.rows; ++b)
    for (std::size_t j = 0; j < c.in; ++j)
      dx.row(b)[j] = 2.0f * lane_sum(c.out, [&](float sum, std::size_t k) {
                       return std::fma(dy.row(b)[k], x.row(b)[j] - c.data[panel_index(c.in, k, j)], sum);
                     });
}

void distance_points(const ConstPanels& c, const ConstMatrixView& x, const ConstMatrixView& dy,
                     const Panels& dc) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < x.rows; ++b)
    for (std::size_t k = 0; k < c.out; ++k)
      for (std::size_t j = 0; j < c.in; ++j) {
        const std::size_t at = panel_index(c.in, k, j);
        dc.data[at] = std::fma(2.0f * dy.row(b)[k], c.data[at] - x.row(b)[j], dc.data[at]);
      }
}

#else

using V = PanelVector;
constexpr PanelTag kTag;
// Rows that share each load of the points: their sums and the chunk's stay in registers.
constexpr std::size_t kTileRows = kPanelVectors == 1 ? 8 : kPanelVectors == 2 ? 4 : 2;

template <std::size_t R>
HWY_INLINE void DistanceTile(const float* panel, std::size_t in, const ConstMatrixView& x, std::size_t b,
                             std::size_t width, const MatrixView& y, std::size_t first) {
  V total[R][kPanelVectors];
  WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
    WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) total[r][v] = hn::Zero(kTag);
  }
  for (std::size_t chunk = 0; chunk < in; chunk += kChunk) {
    V sum[R][kPanelVectors];
    WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[r][v] = hn::Zero(kTag);
    }
    for (std::size_t j = chunk; j < std::min(chunk + kChunk, in); ++j) {
      V points[kPanelVectors];
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) points[v] =
          hn::Load(kTag, panel + j * kPanelWidth + v * kPanelLanes);
      WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
        const V value = hn::Set(kTag, x.row(b + r)[j]);
        WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) {
          const V apart = hn::Sub(value, points[v]);
          sum[r][v] = hn::MulAdd(apart, apart, sum[r][v]);
        }
      }
    }
    WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) total[r][v] = hn::Add(total[r][v], sum[r][v]);
    }
  }
  for (std::size_t r = 0; r < R; ++r) {
    alignas(64) float lanes[kPanelWidth];
    for (std::size_t v = 0; v < kPanelVectors; ++v) hn::Store(total[r][v], kTag, lanes + v * kPanelLanes);
    std::memcpy(y.row(b + r) + first, lanes, width * sizeof(float));
  }
}

void distances(const ConstPanels& c, const ConstMatrixView& x, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t p = 0; p < panel_count(c.out); ++p) {
    const float* panel = c.data + p * c.in * kPanelWidth;
    const std::size_t first = p * kPanelWidth, width = std::min(kPanelWidth, c.out - first);
    std::size_t b = 0;
    for (; b + kTileRows <= x.rows; b += kTileRows) DistanceTile<kTileRows>(panel, c.in, x, b, width, y, first);
    for (; b < x.rows; ++b) DistanceTile<1>(panel, c.in, x, b, width, y, first);
  }
}

// The lanes of rule R2 for one column of one row, folded to one vector's lanes. Points past the end take no step.
HWY_INLINE V ColumnLanes(const ConstPanels& c, const float* dy, V value, std::size_t j) {
  V lane[kClasses][kPanelVectors];
  WEFT_UNROLL for (std::size_t i = 0; i < kClasses; ++i) {
    WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) lane[i][v] = hn::Zero(kTag);
  }
  const std::size_t stride = c.in * kPanelWidth, panels = panel_count(c.out);
  for (std::size_t base = 0; base < panels; base += kClasses) {
    WEFT_UNROLL for (std::size_t i = 0; i < kClasses; ++i) {
      const std::size_t p = base + i;
      if (p >= panels) continue;
      const float* points = c.data + p * stride + j * kPanelWidth;
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) {
        const std::size_t first = p * kPanelWidth + v * kPanelLanes;
        if (first >= c.out) continue;
        const V apart = hn::Sub(value, hn::Load(kTag, points + v * kPanelLanes));
        if (first + kPanelLanes <= c.out) {
          lane[i][v] = hn::MulAdd(hn::LoadU(kTag, dy + first), apart, lane[i][v]);
        } else {
          alignas(64) float rest[kPanelLanes] = {};
          std::memcpy(rest, dy + first, (c.out - first) * sizeof(float));
          const V next = hn::MulAdd(hn::Load(kTag, rest), apart, lane[i][v]);
          lane[i][v] = hn::IfThenElse(hn::FirstN(kTag, c.out - first), next, lane[i][v]);
        }
      }
    }
  }
  V sum[kPanelVectors];
  WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[v] =
      hn::Add(hn::Add(lane[0][v], lane[2][v]), hn::Add(lane[1][v], lane[3][v]));
  return fold_panel(sum);
}

void distance_inputs(const ConstPanels& c, const ConstMatrixView& x, const ConstMatrixView& dy,
                     const MatrixView& dx) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < x.rows; ++b)
    for (std::size_t first = 0; first < c.in; first += kPanelLanes) {
      const std::size_t count = std::min(kPanelLanes, c.in - first);
      V folded[kPanelLanes];
      for (std::size_t i = 0; i < kPanelLanes; ++i)
        folded[i] =
            i < count ? ColumnLanes(c, dy.row(b), hn::Set(kTag, x.row(b)[first + i]), first + i) : hn::Zero(kTag);
      const V sums = fold_each(folded);
      alignas(64) float lanes[kPanelLanes];
      hn::Store(hn::Mul(hn::Set(kTag, 2.0f), sums), kTag, lanes);
      std::memcpy(dx.row(b) + first, lanes, count * sizeof(float));
    }
}

void distance_points(const ConstPanels& c, const ConstMatrixView& x, const ConstMatrixView& dy,
                     const Panels& dc) noexcept {
  WEFT_ISA_RAN();
  const V two = hn::Set(kTag, 2.0f);
  for (std::size_t p = 0; p < panel_count(c.out); ++p) {
    const std::size_t first = p * kPanelWidth, width = std::min(kPanelWidth, c.out - first);
    const std::size_t start = p * c.in * kPanelWidth;
    for (std::size_t b = 0; b < x.rows; ++b) {
      alignas(64) float up[kPanelWidth] = {};
      std::memcpy(up, dy.row(b) + first, width * sizeof(float));
      V weight[kPanelVectors];
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) weight[v] =
          hn::Mul(two, hn::Load(kTag, up + v * kPanelLanes));
      const float* from = x.row(b);
      for (std::size_t j = 0; j < c.in; ++j) {
        const V value = hn::Set(kTag, from[j]);
        WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) {
          const std::size_t at = start + j * kPanelWidth + v * kPanelLanes;
          const V old = hn::Load(kTag, dc.data + at);
          const V next = hn::MulAdd(weight[v], hn::Sub(hn::Load(kTag, c.data + at), value), old);
          // Padding lanes of dc keep what they hold.
          const std::size_t left = width > v * kPanelLanes ? width - v * kPanelLanes : 0;
          hn::Store(left >= kPanelLanes ? next : hn::IfThenElse(hn::FirstN(kTag, left), next, old), kTag, dc.data + at);
        }
      }
    }
  }
}

#endif

void square_root(const ConstMatrixView& x, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
#if WEFT_ISA_IS_SCALAR
  map(x, y, [](float v) { return std::sqrt(v); });
#else
  map(x, y, [](FloatTag, FloatVec v) HWY_ATTR { return hn::Sqrt(v); });
#endif
}

void square_root_backward(const ConstMatrixView& y, const ConstMatrixView& dy, const MatrixView& dx) noexcept {
  WEFT_ISA_RAN();
#if WEFT_ISA_IS_SCALAR
  map(y, dy, dx, [](float v, float up) { return v == 0.0f ? 0.0f : up / (2.0f * v); });
#else
  map(y, dy, dx, [](FloatTag d, FloatVec v, FloatVec up) HWY_ATTR {
    return hn::IfThenZeroElse(hn::Eq(v, hn::Zero(d)), hn::Div(up, hn::Mul(hn::Set(d, 2.0f), v)));
  });
#endif
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kDistances = WEFT_DISPATCH(distances);
constexpr auto kDistanceInputs = WEFT_DISPATCH(distance_inputs);
constexpr auto kDistancePoints = WEFT_DISPATCH(distance_points);
constexpr auto kSquareRoot = WEFT_DISPATCH(square_root);
constexpr auto kSquareRootBackward = WEFT_DISPATCH(square_root_backward);

// Points as float32 panels, in a scratch of the thread when they are stored as something else.
ConstPanels dequantized(const ConstWeight& c) noexcept {
  if (c.dtype == Dtype::float32) return c.panels();
  const Panels to{detail::dequantize_scratch(panels_size(c.out, c.in)), c.out, c.in};
  dequantize(c, to);
  return to;
}
}  // namespace

void squared_distances(const ConstWeight& c, const ConstMatrixView& x, const MatrixView& y) noexcept {
  kDistances.get()(dequantized(c), x, y);
}

void squared_distances_backward(const ConstWeight& c, const ConstMatrixView& x, const ConstMatrixView& dy,
                                const MatrixView& dx, const Panels& dc) noexcept {
  const ConstPanels points = dequantized(c);
  if (dx.data) kDistanceInputs.get()(points, x, dy, dx);
  if (dc.data) kDistancePoints.get()(points, x, dy, dc);
}

void square_root(const ConstMatrixView& x, const MatrixView& y) noexcept { kSquareRoot.get()(x, y); }
void square_root_backward(const ConstMatrixView& y, const ConstMatrixView& dy, const MatrixView& dx) noexcept {
  kSquareRootBackward.get()(y, dy, dx);
}

}  // namespace weft::kernels
#endif
