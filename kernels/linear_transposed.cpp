// SPDX-License-Identifier: Apache-2.0
#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/linear_transposed.cpp"
#include "kernels/foreach_isa.hpp"
#include "kernels/internal/held_bytes.hpp"
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

// Panels whose index is the same modulo this feed the same lanes of rule R2.
constexpr std::size_t kClasses = kLanes / kPanelWidth;
static_assert(kClasses == 4);

#if WEFT_ISA_IS_SCALAR

// Rule R2 as docs/numerics.md states it: the reference for all other code here.
template <class Step>
float fold_lanes(std::size_t out, const Step& step) noexcept {
  float lanes[kLanes] = {};
  for (std::size_t o = 0; o < out; ++o) lanes[o % kLanes] = step(o, lanes[o % kLanes]);
  for (std::size_t half = kLanes / 2; half > 0; half /= 2)
    for (std::size_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  return lanes[0];
}

void transposed_range(const ConstPanels& w, const ConstMatrixView& dy, const MatrixView& dx, std::size_t first,
                      std::size_t count) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < dy.rows; ++b)
    for (std::size_t k = first; k < first + count; ++k)
      dx.row(b)[k] = fold_lanes(w.out, [&](std::size_t o, float lane) {
        return std::fma(w.data[panel_index(w.in, o, k)], dy.row(b)[o], lane);
      });
}

void column_sums(const ConstPanels& w, float* s) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t k = 0; k < w.in; ++k)
    s[k] =
        fold_lanes(w.out, [&](std::size_t o, float lane) { return lane + std::fabs(w.data[panel_index(w.in, o, k)]); });
}

#else

using V = PanelVector;
constexpr PanelTag kTag;

// A tile is R rows by K columns of one class's sums; one row alone takes several classes to have sums enough in flight.
constexpr std::size_t kTileRows = kFusesSlowly ? 1 : kPanelVectors == 1 ? 4 : 2, kTileColumns = kTileRows;
template <std::size_t R>
constexpr std::size_t kClassesAtOnce = R > 1 || kFusesSlowly ? 1
                                       : kPanelVectors == 1  ? 4
                                                             : 2;

/// The step from weights and one dy vector to a lane's next value.
struct FusedProduct {
  static HWY_INLINE V next(V w, V dy, V lane) { return hn::MulAdd(w, dy, lane); }
};
struct AbsoluteSum {
  static HWY_INLINE V next(V w, V, V lane) { return hn::Add(lane, hn::Abs(w)); }
};

/// Lanes of C classes from class `first_class` on; dy rows are padded to whole panels and `dy_stride` apart.
template <class Step, std::size_t R, std::size_t K, std::size_t C>
HWY_INLINE void sum_classes(const float* w, std::size_t panel_stride, std::size_t panels, const float* dy,
                            std::size_t dy_stride, std::size_t first_class, V (&lanes)[C][R][K][kPanelVectors]) {
  WEFT_UNROLL for (std::size_t c = 0; c < C; ++c) {
    WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
      WEFT_UNROLL for (std::size_t k = 0; k < K; ++k) {
        WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) lanes[c][r][k][v] = hn::Zero(kTag);
      }
    }
  }
  const auto add = [&](std::size_t c, std::size_t p) HWY_ATTR {
    const float* panel = w + p * panel_stride;
    const float* d = dy + p * kPanelWidth;
    WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) {
      V ds[R];
      WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) ds[r] = hn::LoadU(kTag, d + r * dy_stride + v * kPanelLanes);
      WEFT_UNROLL for (std::size_t k = 0; k < K; ++k) {
        const V ws = hn::Load(kTag, panel + k * kPanelWidth + v * kPanelLanes);
        WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) lanes[c][r][k][v] = Step::next(ws, ds[r], lanes[c][r][k][v]);
      }
    }
  };
  std::size_t p = first_class;
  for (; p + C <= panels; p += kClasses) {
    WEFT_UNROLL for (std::size_t c = 0; c < C; ++c) add(c, p + c);
  }
  if constexpr (C > 1) {
    WEFT_UNROLL for (std::size_t c = 0; c + 1 < C; ++c) {
      if (p + c < panels) add(c, p + c);
    }
  }
}

/// Columns k .. k + K - 1 of R rows, folded to kPanelLanes lanes each: into folded[r][k][lanes].
template <class Step, std::size_t R, std::size_t K>
HWY_INLINE void fold_columns(const float* w, std::size_t panel_stride, std::size_t panels, const float* dy,
                             std::size_t dy_stride, float* HWY_RESTRICT folded) {
  constexpr std::size_t C = kClassesAtOnce<R>;
  V all[kClasses / C][C][R][K][kPanelVectors];
  WEFT_UNROLL for (std::size_t c = 0; c < kClasses; c += C)
      sum_classes<Step, R, K, C>(w, panel_stride, panels, dy, dy_stride, c, all[c / C]);
  WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
    WEFT_UNROLL for (std::size_t k = 0; k < K; ++k) {
      V sum[kPanelVectors];
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[v] =
          hn::Add(hn::Add(all[0][0][r][k][v], all[2 / C][2 % C][r][k][v]),
                  hn::Add(all[1 / C][1 % C][r][k][v], all[3 / C][3 % C][r][k][v]));
      hn::Store(fold_panel(sum), kTag, folded + (r * kPanelLanes + k) * kPanelLanes);
    }
  }
}

/// kPanelLanes columns (fewer at the end of the input) of R rows.
template <class Step, std::size_t R>
void columns(const ConstPanels& w, const float* dy, std::size_t dy_stride, float* dx, std::size_t dx_stride,
             std::size_t first, std::size_t count) noexcept {
  const std::size_t stride = w.in * kPanelWidth, panels = panel_count(w.out);
  alignas(64) float folded[R * kPanelLanes * kPanelLanes];
  // Columns that do not exist fold to something that nobody reads.
  if (count < kPanelLanes) std::fill(std::begin(folded), std::end(folded), 0.0f);
  std::size_t k = 0;
  for (; k + kTileColumns <= count; k += kTileColumns)
    fold_columns<Step, R, kTileColumns>(w.data + (first + k) * kPanelWidth, stride, panels, dy, dy_stride,
                                        folded + k * kPanelLanes);
  for (; k < count; ++k)
    fold_columns<Step, R, 1>(w.data + (first + k) * kPanelWidth, stride, panels, dy, dy_stride,
                             folded + k * kPanelLanes);
  for (std::size_t r = 0; r < R; ++r) {
    V v[kPanelLanes];
    WEFT_UNROLL for (std::size_t i = 0; i < kPanelLanes; ++i) v[i] =
        hn::Load(kTag, folded + (r * kPanelLanes + i) * kPanelLanes);
    const V sums = fold_each(v);
    if (count == kPanelLanes) {
      hn::StoreU(sums, kTag, dx + r * dx_stride + first);
    } else {
      alignas(64) float rest[kPanelLanes];
      hn::Store(sums, kTag, rest);
      std::memcpy(dx + r * dx_stride + first, rest, count * sizeof(float));
    }
  }
}

using Columns = void (*)(const ConstPanels&, const float*, std::size_t, float*, std::size_t, std::size_t,
                         std::size_t) noexcept;
template <std::size_t... I>
constexpr std::array<Columns, sizeof...(I)> make_columns(std::index_sequence<I...>) {
  return {&columns<FusedProduct, I + 1>...};
}
constexpr auto kColumns = make_columns(std::make_index_sequence<kTileRows>());

// Rows of dy with whole panels. The padding is -0: with the weights' padding of +0 it adds -0, which changes no lane.
const float* pad_rows(const ConstMatrixView& dy, std::size_t first, std::size_t rows, std::size_t padded) noexcept {
  float* to = detail::linear_scratch(rows * padded);
  for (std::size_t r = 0; r < rows; ++r) {
    std::memcpy(to + r * padded, dy.row(first + r), dy.cols * sizeof(float));
    std::fill(to + r * padded + dy.cols, to + (r + 1) * padded, -0.0f);
  }
  return to;
}

void transposed_range(const ConstPanels& w, const ConstMatrixView& dy, const MatrixView& dx, std::size_t first,
                      std::size_t count) noexcept {
  WEFT_ISA_RAN();
  const std::size_t padded = panel_count(w.out) * kPanelWidth;
  if (dy.rows == 1) {
    // Learning sample by sample: no packing, no division.
    const float* row = w.out == padded ? dy.data : pad_rows(dy, 0, 1, padded);
    for (std::size_t k = first; k < first + count; k += kPanelLanes)
      columns<FusedProduct, 1>(w, row, 0, dx.data, 0, k, std::min(kPanelLanes, first + count - k));
    return;
  }
  // Rows packed at once.
  const std::size_t held_floats = detail::held_bytes() / sizeof(float);
  const std::size_t held = std::max<std::size_t>(held_floats / std::max<std::size_t>(padded, 1), kTileRows);
  for (std::size_t b = 0; b < dy.rows; b += held) {
    const std::size_t rows = std::min(held, dy.rows - b);
    const float* packed = pad_rows(dy, b, rows, padded);
    const detail::EvenParts parts(rows, kTileRows);
    for (std::size_t k = first; k < first + count; k += kPanelLanes)
      for (std::size_t i = 0; i < parts.parts; ++i) {
        const std::size_t r = parts.begin(i);
        kColumns[parts.begin(i + 1) - r - 1](w, packed + r * padded, padded, dx.row(b + r), dx.stride, k,
                                             std::min(kPanelLanes, first + count - k));
      }
  }
}

void column_sums(const ConstPanels& w, float* s) noexcept {
  WEFT_ISA_RAN();
  // The step reads no dy, but its address must be one: the weights' own do.
  for (std::size_t k = 0; k < w.in; k += kPanelLanes)
    columns<AbsoluteSum, 1>(w, w.data, 0, s, 0, k, std::min(kPanelLanes, w.in - k));
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kTransposed = WEFT_DISPATCH(transposed_range);
constexpr auto kColumnSums = WEFT_DISPATCH(column_sums);
}  // namespace

void linear_transposed(const ConstPanels& w, const ConstMatrixView& dy, const MatrixView& dx) noexcept {
  kTransposed.get()(w, dy, dx, 0, w.in);
}

void linear_transposed_range(const ConstPanels& w, const ConstMatrixView& dy, const MatrixView& dx, std::size_t first,
                             std::size_t count) noexcept {
  kTransposed.get()(w, dy, dx, first, count);
}

void column_l1_norms(const ConstPanels& w, float* s) noexcept { kColumnSums.get()(w, s); }

}  // namespace weft::kernels
#endif
