// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/reduce.cpp"
#include "kernels/reduce.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/lanes-inl.hpp"

#include <cmath>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

void row_sums(const ConstMatrixView& a, float* s) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t i = 0; i < a.rows; ++i) {
    const float* x = a.row(i);
#if WEFT_ISA_IS_SCALAR
    s[i] = lane_sum(a.cols, [&](float sum, std::size_t j) { return sum + x[j]; });
#else
    s[i] = LaneSum(a.cols, [&](FloatVec sum, auto load) HWY_ATTR { return hn::Add(sum, load(x)); });
#endif
  }
}

void row_dots(const ConstMatrixView& a, const ConstMatrixView& b, float* s) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t i = 0; i < a.rows; ++i) {
    const float *x = a.row(i), *y = b.row(i);
#if WEFT_ISA_IS_SCALAR
    s[i] = lane_sum(a.cols, [&](float sum, std::size_t j) { return std::fma(x[j], y[j], sum); });
#else
    s[i] = LaneSum(a.cols, [&](FloatVec sum, auto load) HWY_ATTR { return hn::MulAdd(load(x), load(y), sum); });
#endif
  }
}

void column_accumulate(const ConstMatrixView& a, float* s) noexcept {
  WEFT_ISA_RAN();
  const MatrixView sums{s, 1, a.cols, a.cols};
  for (std::size_t i = 0; i < a.rows; ++i) {
    const ConstMatrixView row{a.row(i), 1, a.cols, a.cols};
#if WEFT_ISA_IS_SCALAR
    map(sums, row, sums, [](float sum, float x) { return sum + x; });
#else
    map(sums, row, sums, [](FloatTag, FloatVec sum, FloatVec x) HWY_ATTR { return hn::Add(sum, x); });
#endif
  }
}

#if WEFT_ISA_IS_SCALAR
std::size_t first_equal(const float* x, std::size_t n, float value) noexcept {
  for (std::size_t j = 0; j < n; ++j)
    if (x[j] == value) return j;
  return 0;
}
#else
HWY_INLINE std::size_t FirstEqual(const float* x, std::size_t n, float value) {
  const FloatTag d;
  const FloatVec wanted = hn::Set(d, value);
  std::size_t j = 0;
  for (; j + kVectorLanes <= n; j += kVectorLanes)
    if (const auto at = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, x + j), wanted)); at >= 0)
      return j + static_cast<std::size_t>(at);
  if (const std::size_t rest = n - j; rest != 0) {
    const auto found = hn::And(hn::FirstN(d, rest), hn::Eq(LoadPartial(d, x + j, rest), wanted));
    if (const auto at = hn::FindFirstTrue(d, found); at >= 0) return j + static_cast<std::size_t>(at);
  }
  return 0;
}
#endif

void row_argmax(const ConstMatrixView& a, std::uint32_t* index) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t i = 0; i < a.rows; ++i) {
    const float* x = a.row(i);
#if WEFT_ISA_IS_SCALAR
    index[i] = static_cast<std::uint32_t>(first_equal(x, a.cols, row_maximum(x, a.cols)));
#else
    index[i] = static_cast<std::uint32_t>(FirstEqual(x, a.cols, RowMaximum(x, a.cols)));
#endif
  }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kRowSums = WEFT_DISPATCH(row_sums);
constexpr auto kRowDots = WEFT_DISPATCH(row_dots);
constexpr auto kColumnAccumulate = WEFT_DISPATCH(column_accumulate);
constexpr auto kRowArgmax = WEFT_DISPATCH(row_argmax);
}  // namespace

void row_sums(const ConstMatrixView& a, float* s) noexcept { kRowSums.get()(a, s); }
void row_dots(const ConstMatrixView& a, const ConstMatrixView& b, float* s) noexcept { kRowDots.get()(a, b, s); }
void column_accumulate(const ConstMatrixView& a, float* s) noexcept { kColumnAccumulate.get()(a, s); }
void row_argmax(const ConstMatrixView& a, std::uint32_t* index) noexcept { kRowArgmax.get()(a, index); }

}  // namespace weft::kernels
#endif
