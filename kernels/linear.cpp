// SPDX-License-Identifier: Apache-2.0
#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/linear.cpp"
#include "kernels/linear.hpp"

#include "kernels/foreach_isa.hpp"

#include <algorithm>
#include <cmath>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

#if WEFT_ISA_IS_SCALAR
float dot(ConstPanels w, std::size_t o, const float* x) noexcept {
  float total = 0.0f;
  for (std::size_t first = 0; first < w.in; first += kChunk) {
    float sum = 0.0f;
    for (std::size_t k = first; k < std::min(w.in, first + kChunk); ++k)
      sum = std::fma(w.data[panel_index(w.in, o, k)], x[k], sum);
    total += sum;
  }
  return total;
}
void linear(ConstPanels w, const float* bias, ConstRows x, Rows y) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t b = 0; b < x.rows; ++b)
    for (std::size_t o = 0; o < w.out; ++o) y.row(b)[o] = bias ? dot(w, o, x.row(b)) + bias[o] : dot(w, o, x.row(b));
}
#else
namespace hn = hwy::HWY_NAMESPACE;
void linear(ConstPanels w, const float* bias, ConstRows x, Rows y) noexcept {
  WEFT_ISA_RAN();
  const hn::CappedTag<float, 16> d;
  constexpr std::size_t kN = hn::MaxLanes(d);
  for (std::size_t b = 0; b < x.rows; ++b)
    for (std::size_t o = 0; o < w.out; o += kN) {
      const float* panel = w.data + panel_index(w.in, o, 0);
      auto total = hn::Zero(d);
      for (std::size_t first = 0; first < w.in; first += kChunk) {
        auto sum = hn::Zero(d);
        for (std::size_t k = first; k < std::min(w.in, first + kChunk); ++k)
          sum = hn::MulAdd(hn::Load(d, panel + k * kPanelWidth), hn::Set(d, x.row(b)[k]), sum);
        total = hn::Add(total, sum);
      }
      alignas(64) float out[16];
      hn::Store(total, d, out);
      for (std::size_t i = 0; i < std::min(kN, w.out - o); ++i) y.row(b)[o + i] = bias ? out[i] + bias[o + i] : out[i];
    }
}
#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kLinear = WEFT_DISPATCH(linear);
}

void linear(ConstPanels w, const float* bias, ConstRows x, Activation activation, Rows, Rows y) noexcept {
  WEFT_ASSERT(activation == Activation::linear, "the fused activations land with unary-inl.hpp");
  kLinear.get()(w, bias, x, y);
}

}  // namespace weft::kernels
#endif
