// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/row_cosine.cpp"
#include "kernels/row_cosine.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/lanes-inl.hpp"

#include <cmath>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

void row_cosine(const ConstMatrixView& a, const ConstMatrixView& b, float* c) noexcept {
  WEFT_ISA_RAN();
  const auto dot = [&](const float* x, const float* y) {
#if WEFT_ISA_IS_SCALAR
    return lane_sum(a.cols, [&](float sum, std::size_t j) { return std::fma(x[j], y[j], sum); });
#else
    return LaneSum(a.cols, [&](FloatVec sum, auto load) HWY_ATTR { return hn::MulAdd(load(x), load(y), sum); });
#endif
  };
  for (std::size_t i = 0; i < a.rows; ++i) {
    const float *x = a.row(i), *y = b.row(i);
    const float norms = std::sqrt(dot(x, x)) * std::sqrt(dot(y, y));
    c[i] = norms == 0.0f ? 0.0f : dot(x, y) / norms;
  }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kRowCosine = WEFT_DISPATCH(row_cosine);
}  // namespace

void row_cosine(const ConstMatrixView& a, const ConstMatrixView& b, float* c) noexcept { kRowCosine.get()(a, b, c); }

}  // namespace weft::kernels
#endif
