// SPDX-License-Identifier: Apache-2.0
#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/linear_dequantized_doubles.cpp"
#define WEFT_WITHOUT_WASM
#include "kernels/foreach_isa.hpp"
#include "kernels/internal/dequantized.hpp"
#include "kernels/simd/panel-inl.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

/// The codes: binary64, as panels.
const double* doubles(const ConstWeight& w) noexcept { return static_cast<const double*>(w.codes); }

/// Rule R2's folding, in binary64.
double fold(double (&lane)[kLanes]) noexcept {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

#if WEFT_ISA_IS_SCALAR

void dequantize_values(const ConstWeight& w, const detail::DequantizedPart& part, float* to) noexcept {
  WEFT_ISA_RAN();
  detail::dequantize_codes(w, part, to);
}

void rows(const ConstWeight& w, const float* bias, const ConstMatrixView& x, const MatrixView& to) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < x.rows; ++b)
    for (std::size_t o = 0; o < w.out; ++o) {
      double total = 0.0;
      for (std::size_t first = 0; first < w.in; first += kChunk) {
        double sum = 0.0;
        for (std::size_t k = first; k < std::min(w.in, first + kChunk); ++k)
          sum = std::fma(doubles(w)[panel_index(w.in, o, k)], static_cast<double>(x.row(b)[k]), sum);
        total += sum;
      }
      if (bias) total += static_cast<double>(bias[o]);
      to.row(b)[o] = static_cast<float>(total);
    }
}

void transposed_range(const ConstWeight& w, const ConstMatrixView& dy, const MatrixView& dx, std::size_t first,
                      std::size_t count) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < dy.rows; ++b)
    for (std::size_t k = first; k < first + count; ++k) {
      double lane[kLanes] = {};
      for (std::size_t o = 0; o < w.out; ++o)
        lane[o % kLanes] =
            std::fma(doubles(w)[panel_index(w.in, o, k)], static_cast<double>(dy.row(b)[o]), lane[o % kLanes]);
      dx.row(b)[k] = static_cast<float>(fold(lane));
    }
}

void column_sums(const ConstWeight& w, float* s) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t k = 0; k < w.in; ++k) {
    double lane[kLanes] = {};
    for (std::size_t o = 0; o < w.out; ++o) lane[o % kLanes] += std::fabs(doubles(w)[panel_index(w.in, o, k)]);
    s[k] = static_cast<float>(fold(lane));
  }
}

#else

using DoubleTag = hn::Repartition<double, PanelTag>;
using V = hn::Vec<DoubleTag>;
constexpr DoubleTag kTag;
constexpr hn::Half<PanelTag> kFloatTag;
constexpr std::size_t kDoubleLanes = kPanelLanes / 2, kVectors = kPanelWidth / kDoubleLanes;

void dequantize_values(const ConstWeight& w, const detail::DequantizedPart& part, float* to) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t p = part.first_panel; p < part.first_panel + part.panels; ++p) {
    const double* from = doubles(w) + (p * w.in + part.first_k) * kPanelWidth;
    const std::size_t used = std::min(kPanelWidth, w.out - p * kPanelWidth);
    for (std::size_t k = 0; k < part.count; ++k, from += kPanelWidth, to += kPanelWidth) {
      WEFT_UNROLL for (std::size_t i = 0; i < kPanelWidth; i += kDoubleLanes)
          hn::Store(hn::DemoteTo(kFloatTag, hn::Load(kTag, from + i)), kFloatTag, to + i);
      std::fill(to + used, to + kPanelWidth, 0.0f);
    }
  }
}

// Rows of a tile: as many sums as leave registers for totals and weights.
constexpr std::size_t kTileRows = kPanelVectors == 1 ? 6 : 2;

/// R rows from row b against one panel, rule R1 in binary64.
template <std::size_t R>
void tile(const ConstWeight& w, const float* bias, const ConstMatrixView& x, const MatrixView& to, std::size_t b,
          std::size_t p) noexcept {
  const double* panel = doubles(w) + p * w.in * kPanelWidth;
  V total[R][kVectors];
  WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
    WEFT_UNROLL for (std::size_t v = 0; v < kVectors; ++v) total[r][v] = hn::Zero(kTag);
  }
  for (std::size_t first = 0; first < w.in; first += kChunk) {
    V sum[R][kVectors];
    WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
      WEFT_UNROLL for (std::size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(kTag);
    }
    const std::size_t end = std::min(w.in, first + kChunk);
    for (std::size_t k = first; k < end; ++k) {
      V xs[R];
      WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) xs[r] = hn::Set(kTag, static_cast<double>(x.row(b + r)[k]));
      WEFT_UNROLL for (std::size_t v = 0; v < kVectors; ++v) {
        const V ws = hn::Load(kTag, panel + k * kPanelWidth + v * kDoubleLanes);
        WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) sum[r][v] = hn::MulAdd(ws, xs[r], sum[r][v]);
      }
    }
    WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
      WEFT_UNROLL for (std::size_t v = 0; v < kVectors; ++v) total[r][v] = hn::Add(total[r][v], sum[r][v]);
    }
  }
  const std::size_t o = p * kPanelWidth, used = std::min(kPanelWidth, w.out - o);
  alignas(64) double biases[kPanelWidth] = {};
  if (bias) std::copy_n(bias + o, used, biases);
  for (std::size_t r = 0; r < R; ++r) {
    alignas(64) float sums[kPanelWidth];
    WEFT_UNROLL for (std::size_t v = 0; v < kVectors; ++v) {
      const V whole = bias ? hn::Add(total[r][v], hn::Load(kTag, biases + v * kDoubleLanes)) : total[r][v];
      hn::Store(hn::DemoteTo(kFloatTag, whole), kFloatTag, sums + v * kDoubleLanes);
    }
    std::memcpy(to.row(b + r) + o, sums, used * sizeof(float));
  }
}

void rows(const ConstWeight& w, const float* bias, const ConstMatrixView& x, const MatrixView& to) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t p = 0; p < panel_count(w.out); ++p) {
    std::size_t b = 0;
    for (; b + kTileRows <= x.rows; b += kTileRows) tile<kTileRows>(w, bias, x, to, b, p);
    for (; b < x.rows; ++b) tile<1>(w, bias, x, to, b, p);
  }
}

/// The step from weights and one dy vector to a lane's next value.
struct FusedProduct {
  static HWY_INLINE V next(V w, V dy, V lane) { return hn::MulAdd(w, dy, lane); }
};
struct AbsoluteSum {
  static HWY_INLINE V next(V w, V, V lane) { return hn::Add(lane, hn::Abs(w)); }
};

// Panels whose index is the same modulo this feed the same lanes of rule R2.
constexpr std::size_t kClasses = kLanes / kPanelWidth;

/// Columns k .. k + K - 1 of one row, rule R2 in binary64; dy is padded to whole panels.
template <class Step, std::size_t K>
void columns(const ConstWeight& w, const double* dy, std::size_t k, float* to) noexcept {
  const double* from = doubles(w) + k * kPanelWidth;
  const std::size_t stride = w.in * kPanelWidth, panels = panel_count(w.out);
  alignas(64) double lane[K][kLanes];
  for (std::size_t c = 0; c < kClasses; ++c) {
    V sum[K][kVectors];
    WEFT_UNROLL for (std::size_t i = 0; i < K; ++i) {
      WEFT_UNROLL for (std::size_t v = 0; v < kVectors; ++v) sum[i][v] = hn::Zero(kTag);
    }
    for (std::size_t p = c; p < panels; p += kClasses) {
      WEFT_UNROLL for (std::size_t v = 0; v < kVectors; ++v) {
        const V ds = hn::Load(kTag, dy + p * kPanelWidth + v * kDoubleLanes);
        WEFT_UNROLL for (std::size_t i = 0; i < K; ++i) sum[i][v] =
            Step::next(hn::Load(kTag, from + p * stride + i * kPanelWidth + v * kDoubleLanes), ds, sum[i][v]);
      }
    }
    WEFT_UNROLL for (std::size_t i = 0; i < K; ++i) {
      WEFT_UNROLL for (std::size_t v = 0; v < kVectors; ++v)
          hn::Store(sum[i][v], kTag, lane[i] + c * kPanelWidth + v * kDoubleLanes);
    }
  }
  for (std::size_t i = 0; i < K; ++i) to[i] = static_cast<float>(fold(lane[i]));
}

constexpr std::size_t kColumns = kPanelVectors == 1 ? 8 : 2;

template <class Step>
void all_columns(const ConstWeight& w, const double* dy, float* to, std::size_t first, std::size_t count) noexcept {
  std::size_t k = first;
  for (; k + kColumns <= first + count; k += kColumns) columns<Step, kColumns>(w, dy, k, to + k);
  for (; k < first + count; ++k) columns<Step, 1>(w, dy, k, to + k);
}

void transposed_range(const ConstWeight& w, const ConstMatrixView& dy, const MatrixView& dx, std::size_t first,
                      std::size_t count) noexcept {
  WEFT_ISA_RAN();
  const std::size_t padded = panel_count(w.out) * kPanelWidth;
  auto* wide = reinterpret_cast<double*>(detail::dequantize_scratch(2 * padded));
  for (std::size_t b = 0; b < dy.rows; ++b) {
    // The padding is -0: with the weights' padding of +0 it adds -0, which changes no lane.
    std::copy_n(dy.row(b), w.out, wide);
    std::fill(wide + w.out, wide + padded, -0.0);
    all_columns<FusedProduct>(w, wide, dx.row(b), first, count);
  }
}

void column_sums(const ConstWeight& w, float* s) noexcept {
  WEFT_ISA_RAN();
  // The step reads no dy, but its address must be one: the weights' own do.
  all_columns<AbsoluteSum>(w, doubles(w), s, 0, w.in);
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels::detail {
namespace {
constexpr auto kDequantize = WEFT_DISPATCH(dequantize_values);
constexpr auto kRows = WEFT_DISPATCH(rows);
constexpr auto kTransposed = WEFT_DISPATCH(transposed_range);
constexpr auto kColumnSums = WEFT_DISPATCH(column_sums);
}  // namespace

void dequantize_doubles(const ConstWeight& w, const DequantizedPart& part, float* to) noexcept {
  kDequantize.get()(w, part, to);
}
void rows_of_doubles(const ConstWeight& w, const float* bias, const ConstMatrixView& x, const MatrixView& to) noexcept {
  kRows.get()(w, bias, x, to);
}
void transposed_doubles(const ConstWeight& w, const ConstMatrixView& dy, const MatrixView& dx, std::size_t first,
                        std::size_t count) noexcept {
  kTransposed.get()(w, dy, dx, first, count);
}
void column_sums_of_doubles(const ConstWeight& w, float* s) noexcept { kColumnSums.get()(w, s); }

}  // namespace weft::kernels::detail
#endif
