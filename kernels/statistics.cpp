// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/statistics.cpp"
#include "kernels/statistics.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/lanes-inl.hpp"

#include <cmath>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

void row_statistics(const ConstMatrixView& x, float threshold, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  const auto n = static_cast<float>(x.cols);
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float* in = x.row(b);
#if WEFT_ISA_IS_SCALAR
    const float mean = lane_sum(x.cols, [&](float sum, std::size_t j) { return sum + in[j]; }) / n;
    const float apart = lane_sum(x.cols, [&](float sum, std::size_t j) {
      const float off = in[j] - mean;
      return std::fma(off, off, sum);
    });
    const float active =
        lane_sum(x.cols, [&](float sum, std::size_t j) { return sum + (std::fabs(in[j]) > threshold ? 1.0f : 0.0f); });
    const float squares = lane_sum(x.cols, [&](float sum, std::size_t j) { return std::fma(in[j], in[j], sum); });
#else
    const FloatTag d;
    const float mean = LaneSum(x.cols, [&](FloatVec sum, auto load) HWY_ATTR { return hn::Add(sum, load(in)); }) / n;
    const FloatVec middle = hn::Set(d, mean), least = hn::Set(d, threshold), one = hn::Set(d, 1.0f);
    const float apart = LaneSum(x.cols, [&](FloatVec sum, auto load) HWY_ATTR {
      const FloatVec off = hn::Sub(load(in), middle);
      return hn::MulAdd(off, off, sum);
    });
    const float active = LaneSum(x.cols, [&](FloatVec sum, auto load) HWY_ATTR {
      return hn::Add(sum, hn::IfThenElseZero(hn::Gt(hn::Abs(load(in)), least), one));
    });
    const float squares = LaneSum(x.cols, [&](FloatVec sum, auto load) HWY_ATTR {
      const FloatVec v = load(in);
      return hn::MulAdd(v, v, sum);
    });
#endif
    float* out = y.row(b);
    out[static_cast<int>(Statistic::mean)] = mean;
    out[static_cast<int>(Statistic::deviation)] = std::sqrt(apart / n);
    out[static_cast<int>(Statistic::active)] = active / n;
    out[static_cast<int>(Statistic::rms)] = std::sqrt(squares / n);
  }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kRowStatistics = WEFT_DISPATCH(row_statistics);
}  // namespace

void row_statistics(const ConstMatrixView& x, float threshold, const MatrixView& y) noexcept {
  kRowStatistics.get()(x, threshold, y);
}

}  // namespace weft::kernels
#endif
