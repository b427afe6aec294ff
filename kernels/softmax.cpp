// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/softmax.cpp"
#include "kernels/softmax.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/softmax-inl.hpp"

#include <cmath>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

void softmax(const ConstMatrixView& x, float temperature, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float* in = x.row(b);
    float* out = y.row(b);
#if WEFT_ISA_IS_SCALAR
    const float sum = exponentials(in, x.cols, row_maximum(in, x.cols), temperature, out);
    for (std::size_t j = 0; j < x.cols; ++j) out[j] /= sum;
#else
    const FloatVec sum = hn::Set(FloatTag(), Exponentials(in, x.cols, RowMaximum(in, x.cols), temperature, out));
    ForEachVector(x.cols, [&](auto load, auto store) HWY_ATTR { store(hn::Div(load(out), sum), out); });
#endif
  }
}

void softmax_backward(const ConstMatrixView& y, const ConstMatrixView& dy, float temperature,
                      const MatrixView& dx) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < y.rows; ++b) {
    const float *p = y.row(b), *up = dy.row(b);
    float* down = dx.row(b);
#if WEFT_ISA_IS_SCALAR
    const float mean = lane_sum(y.cols, [&](float sum, std::size_t j) { return std::fma(p[j], up[j], sum); });
    for (std::size_t j = 0; j < y.cols; ++j) down[j] = p[j] * (up[j] - mean) / temperature;
#else
    const FloatTag d;
    const FloatVec t = hn::Set(d, temperature);
    const FloatVec mean = hn::Set(
        d, LaneSum(y.cols, [&](FloatVec sum, auto load) HWY_ATTR { return hn::MulAdd(load(p), load(up), sum); }));
    ForEachVector(y.cols, [&](auto load, auto store)
                              HWY_ATTR { store(hn::Div(hn::Mul(load(p), hn::Sub(load(up), mean)), t), down); });
#endif
  }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kSoftmax = WEFT_DISPATCH(softmax);
constexpr auto kSoftmaxBackward = WEFT_DISPATCH(softmax_backward);
}  // namespace

void softmax(const ConstMatrixView& x, float temperature, const MatrixView& y) noexcept {
  kSoftmax.get()(x, temperature, y);
}
void softmax_backward(const ConstMatrixView& y, const ConstMatrixView& dy, float temperature,
                      const MatrixView& dx) noexcept {
  kSoftmaxBackward.get()(y, dy, temperature, dx);
}

}  // namespace weft::kernels
#endif
