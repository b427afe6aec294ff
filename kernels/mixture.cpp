// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/mixture.cpp"
#include "kernels/mixture.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/rows-inl.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

void weighted_sum(const ConstMatrixView& p, const ConstMatrixView& x, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < y.rows; ++b) {
    const MatrixView sum{y.row(b), 1, y.cols, y.cols};
    std::fill_n(sum.data, y.cols, 0.0f);
    for (std::size_t e = 0; e < p.cols; ++e) {
      const ConstMatrixView part{x.row(b) + e * y.cols, 1, y.cols, y.cols};
      const float weight = p.row(b)[e];
      if (weight == 0.0f) continue;
#if WEFT_ISA_IS_SCALAR
      map(part, sum, sum, [weight](float v, float s) { return std::fma(weight, v, s); });
#else
      map(part, sum, sum,
          [weight](FloatTag d, FloatVec v, FloatVec s) HWY_ATTR { return hn::MulAdd(hn::Set(d, weight), v, s); });
#endif
    }
  }
}

void spread(const ConstMatrixView& p, const ConstMatrixView& dy, const MatrixView& dx) noexcept {
  for (std::size_t b = 0; b < dy.rows; ++b)
    for (std::size_t e = 0; e < p.cols; ++e) {
      const MatrixView part{dx.row(b) + e * dy.cols, 1, dy.cols, dy.cols};
      const float weight = p.row(b)[e];
      if (weight == 0.0f) {
        std::fill_n(part.data, part.cols, 0.0f);
        continue;
      }
#if WEFT_ISA_IS_SCALAR
      map({dy.row(b), 1, dy.cols, dy.cols}, part, [weight](float v) { return weight * v; });
#else
      map({dy.row(b), 1, dy.cols, dy.cols}, part,
          [weight](FloatTag d, FloatVec v) HWY_ATTR { return hn::Mul(hn::Set(d, weight), v); });
#endif
    }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
#include "kernels/reduce.hpp"

namespace weft::kernels {
namespace {

constexpr auto kWeightedSum = WEFT_DISPATCH(weighted_sum);
constexpr auto kSpread = WEFT_DISPATCH(spread);

struct Threshold {
  float value;        // the smallest that is kept
  std::size_t equal;  // how many of that value are kept
};

// Walks down the distinct values until enough stand at or above one.
Threshold threshold_of(const float* x, std::size_t n, std::size_t count) noexcept {
  float above = std::numeric_limits<float>::infinity();
  std::size_t kept = 0;
  for (bool is_first = true;; is_first = false) {
    float next = -std::numeric_limits<float>::infinity();
    for (std::size_t j = 0; j < n; ++j)
      if (x[j] > next && (is_first || x[j] < above)) next = x[j];
    const auto equal = static_cast<std::size_t>(std::count(x, x + n, next));
    if (kept + equal >= count || next == -std::numeric_limits<float>::infinity()) return {next, count - kept};
    kept += equal;
    above = next;
  }
}

}  // namespace

void weighted_sum(const ConstMatrixView& p, const ConstMatrixView& x, const MatrixView& y) noexcept {
  kWeightedSum.get()(p, x, y);
}

void weighted_sum_backward(const ConstMatrixView& p, const ConstMatrixView& x, const ConstMatrixView& dy,
                           const MatrixView& dp, const MatrixView& dx) noexcept {
  for (std::size_t b = 0; b < dy.rows; ++b)
    for (std::size_t e = 0; e < p.cols; ++e)
      if (p.row(b)[e] == 0.0f)
        dp.row(b)[e] = 0.0f;
      else
        row_dots({dy.row(b), 1, dy.cols, dy.cols}, {x.row(b) + e * dy.cols, 1, dy.cols, dy.cols}, dp.row(b) + e);
  kSpread.get()(p, dy, dx);
}

void top_k_mask(const ConstMatrixView& x, std::size_t count, const MatrixView& y) noexcept {
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float* from = x.row(b);
    float* to = y.row(b);
    if (std::any_of(from, from + x.cols, [](float v) { return std::isnan(v); })) {
      std::fill_n(to, x.cols, std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    Threshold threshold = threshold_of(from, x.cols, std::min(count, x.cols));
    for (std::size_t j = 0; j < x.cols; ++j) {
      const bool is_kept = from[j] > threshold.value || (from[j] == threshold.value && threshold.equal != 0);
      if (from[j] == threshold.value && is_kept) --threshold.equal;
      to[j] = is_kept ? from[j] : -std::numeric_limits<float>::infinity();
    }
  }
}

}  // namespace weft::kernels
#endif
