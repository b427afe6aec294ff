// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/loss.cpp"
#include "kernels/loss.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/softmax-inl.hpp"

#include <cmath>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

void cross_entropy(const ConstMatrixView& logits, const std::uint32_t* labels, float* loss,
                   const MatrixView& dx) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < logits.rows; ++b) {
    const float* in = logits.row(b);
    float* out = dx.row(b);
    const float labelled = in[labels[b]];
#if WEFT_ISA_IS_SCALAR
    const float largest = row_maximum(in, logits.cols);
    const float sum = exponentials(in, logits.cols, largest, 1.0f, out);
    for (std::size_t j = 0; j < logits.cols; ++j) out[j] /= sum;
#else
    const float largest = RowMaximum(in, logits.cols);
    const float sum = Exponentials(in, logits.cols, largest, 1.0f, out);
    const FloatVec divisor = hn::Set(FloatTag(), sum);
    ForEachVector(logits.cols, [&](auto load, auto store) HWY_ATTR { store(hn::Div(load(out), divisor), out); });
#endif
    out[labels[b]] -= 1.0f;
    if (loss) loss[b] = math::log(sum) - (labelled - largest);
  }
}

void mean_squared_error(const ConstMatrixView& x, const ConstMatrixView& target, float* loss,
                        const MatrixView& dx) noexcept {
  WEFT_ISA_RAN();
  const auto n = static_cast<float>(x.cols);
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float *in = x.row(b), *want = target.row(b);
#if WEFT_ISA_IS_SCALAR
    const float squares = lane_sum(x.cols, [&](float sum, std::size_t j) {
      const float d = in[j] - want[j];
      return std::fma(d, d, sum);
    });
#else
    const float squares = LaneSum(x.cols, [&](FloatVec sum, auto load) HWY_ATTR {
      const FloatVec d = hn::Sub(load(in), load(want));
      return hn::MulAdd(d, d, sum);
    });
#endif
    if (loss) loss[b] = squares / n;
  }
#if WEFT_ISA_IS_SCALAR
  map(x, target, dx, [=](float u, float v) { return 2.0f * (u - v) / n; });
#else
  map(x, target, dx, [=](FloatTag d, FloatVec u, FloatVec v) HWY_ATTR {
    return hn::Div(hn::Mul(hn::Set(d, 2.0f), hn::Sub(u, v)), hn::Set(d, n));
  });
#endif
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kCrossEntropy = WEFT_DISPATCH(cross_entropy);
constexpr auto kMeanSquaredError = WEFT_DISPATCH(mean_squared_error);
}  // namespace

void cross_entropy(const ConstMatrixView& logits, const std::uint32_t* labels, float* loss,
                   const MatrixView& dx) noexcept {
  kCrossEntropy.get()(logits, labels, loss, dx);
}
void mean_squared_error(const ConstMatrixView& x, const ConstMatrixView& target, float* loss,
                        const MatrixView& dx) noexcept {
  kMeanSquaredError.get()(x, target, loss, dx);
}

}  // namespace weft::kernels
#endif
