// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/log_softmax.cpp"
#include "kernels/log_softmax.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/lanes-inl.hpp"
#include "kernels/math.hpp"
#if !WEFT_ISA_IS_SCALAR
#include "kernels/formulas/vector-inl.hpp"
#endif

#include <cmath>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

// The smallest normal number: what is smaller counts as zero everywhere.
constexpr float kSmallest = 0x1p-126f;

void log_softmax(const ConstMatrixView& x, const ConstMatrixView& base, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < x.rows; ++b) {
    const float* in = x.row(b);
    float* out = y.row(b);
#if WEFT_ISA_IS_SCALAR
    const float largest = row_maximum(in, x.cols);
    const float log_sum =
        math::log(lane_sum(x.cols, [&](float sum, std::size_t j) { return sum + math::exp(in[j] - largest); }));
    for (std::size_t j = 0; j < x.cols; ++j) {
      const float v = (in[j] - largest) - log_sum;
      out[j] = base.data ? v + base.row(b)[0] : v;
    }
#else
    const FloatTag d;
    const float largest = RowMaximum(in, x.cols);
    const FloatVec top = hn::Set(d, largest);
    const FloatVec log_sum =
        formulas::exact_log(hn::Set(d, LaneSum(x.cols, [&](FloatVec sum, auto load) HWY_ATTR {
                                      return hn::Add(sum, formulas::exact_exp(hn::Sub(load(in), top)));
                                    })));
    // Adding -0 changes no value.
    const FloatVec shift = hn::Set(d, base.data ? base.row(b)[0] : -0.0f);
    ForEachVector(x.cols, [&](auto load, auto store)
                              HWY_ATTR { store(hn::Add(hn::Sub(hn::Sub(load(in), top), log_sum), shift), out); });
#endif
  }
}

void log_softmax_backward(const ConstMatrixView& y, const ConstMatrixView& base, const ConstMatrixView& dy,
                          const MatrixView& dx, const MatrixView& dbase) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < y.rows; ++b) {
    const float *value = y.row(b), *up = dy.row(b), shift = base.data ? base.row(b)[0] : 0.0f;
    float* down = dx.row(b);
#if WEFT_ISA_IS_SCALAR
    const float total = lane_sum(y.cols, [&](float sum, std::size_t j) { return sum + up[j]; });
    for (std::size_t j = 0; j < y.cols; ++j) down[j] = std::fma(-math::exp(value[j] - shift), total, up[j]);
#else
    const FloatTag d;
    const float total = LaneSum(y.cols, [&](FloatVec sum, auto load) HWY_ATTR { return hn::Add(sum, load(up)); });
    const FloatVec whole = hn::Set(d, total), moved = hn::Set(d, shift);
    ForEachVector(y.cols, [&](auto load, auto store) HWY_ATTR {
      store(hn::NegMulAdd(formulas::exact_exp(hn::Sub(load(value), moved)), whole, load(up)), down);
    });
#endif
    if (dbase.data) dbase.row(b)[0] += total;
  }
}

void clamped_log(const ConstMatrixView& x, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
#if WEFT_ISA_IS_SCALAR
  map(x, y, [](float v) { return math::log(v < kSmallest ? kSmallest : v); });
#else
  map(x, y, [](FloatTag d, FloatVec v) HWY_ATTR {
    const FloatVec least = hn::Set(d, kSmallest);
    return formulas::exact_log(hn::IfThenElse(hn::Lt(v, least), least, v));
  });
#endif
}

void clamped_log_backward(const ConstMatrixView& x, const ConstMatrixView& dy, const MatrixView& dx) noexcept {
  WEFT_ISA_RAN();
#if WEFT_ISA_IS_SCALAR
  map(x, dy, dx, [](float v, float up) { return up / (v < kSmallest ? kSmallest : v); });
#else
  map(x, dy, dx, [](FloatTag d, FloatVec v, FloatVec up) HWY_ATTR {
    const FloatVec least = hn::Set(d, kSmallest);
    return hn::Div(up, hn::IfThenElse(hn::Lt(v, least), least, v));
  });
#endif
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kLogSoftmax = WEFT_DISPATCH(log_softmax);
constexpr auto kLogSoftmaxBackward = WEFT_DISPATCH(log_softmax_backward);
constexpr auto kClampedLog = WEFT_DISPATCH(clamped_log);
constexpr auto kClampedLogBackward = WEFT_DISPATCH(clamped_log_backward);
}  // namespace

void log_softmax(const ConstMatrixView& x, const ConstMatrixView& base, const MatrixView& y) noexcept {
  kLogSoftmax.get()(x, base, y);
}
void log_softmax_backward(const ConstMatrixView& y, const ConstMatrixView& base, const ConstMatrixView& dy,
                          const MatrixView& dx, const MatrixView& dbase) noexcept {
  kLogSoftmaxBackward.get()(y, base, dy, dx, dbase);
}
void clamped_log(const ConstMatrixView& x, const MatrixView& y) noexcept { kClampedLog.get()(x, y); }
void clamped_log_backward(const ConstMatrixView& x, const ConstMatrixView& dy, const MatrixView& dx) noexcept {
  kClampedLogBackward.get()(x, dy, dx);
}

}  // namespace weft::kernels
#endif
