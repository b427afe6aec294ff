// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), the scalar pass too.
// The part that softmax and cross-entropy share.

#if defined(WEFT_KERNELS_SOFTMAX_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_SOFTMAX_INL
#undef WEFT_KERNELS_SOFTMAX_INL
#else
#define WEFT_KERNELS_SOFTMAX_INL
#endif

#include "kernels/lanes-inl.hpp"
#include "kernels/math.hpp"
#if !WEFT_ISA_IS_SCALAR
#include "kernels/formulas/vector-inl.hpp"
#endif

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

// y = exp((x - largest) / temperature) for a row of n; gives their sum by rule R2.
#if WEFT_ISA_IS_SCALAR
inline float exponentials(const float* x, std::size_t n, float largest, float temperature, float* y) noexcept {
  return lane_sum(n, [&](float sum, std::size_t j) {
    y[j] = math::exp((x[j] - largest) / temperature);
    return sum + y[j];
  });
}
#else
HWY_INLINE float Exponentials(const float* x, std::size_t n, float largest, float temperature, float* y) {
  const FloatTag d;
  const FloatVec top = hn::Set(d, largest), t = hn::Set(d, temperature);
  const bool divides = temperature != 1.0f;  // v / 1 is v
  ForEachVector(n, [&](auto load, auto store) HWY_ATTR {
    const FloatVec v = hn::Sub(load(x), top);
    store(formulas::exact_exp(divides ? hn::Div(v, t) : v), y);
  });
  return LaneSum(n, [&](FloatVec sum, auto load) HWY_ATTR { return hn::Add(sum, load(y)); });
}
#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
