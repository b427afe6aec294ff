// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/trace.cpp"
#include "kernels/trace.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/lanes-inl.hpp"

#include <cmath>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

float trace_update(float* z, const float* g, float decay, std::size_t n) noexcept {
  WEFT_ISA_RAN();
  const MatrixView traces{z, 1, n, n};
  const ConstMatrixView gradients{g, 1, n, n};
#if WEFT_ISA_IS_SCALAR
  map(traces, gradients, traces, [decay](float trace, float gradient) { return std::fma(decay, trace, gradient); });
  return lane_sum(n, [&](float sum, std::size_t j) { return sum + std::fabs(z[j]); });
#else
  const FloatVec kept = hn::Set(FloatTag(), decay);
  map(traces, gradients, traces,
      [kept](FloatTag, FloatVec trace, FloatVec gradient) HWY_ATTR { return hn::MulAdd(kept, trace, gradient); });
  return LaneSum(n, [&](FloatVec sum, auto load) HWY_ATTR { return hn::Add(sum, hn::Abs(load(z))); });
#endif
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kTraceUpdate = WEFT_DISPATCH(trace_update);
}  // namespace

float trace_update(float* z, const float* g, float decay, std::size_t n) noexcept {
  return kTraceUpdate.get()(z, g, decay, n);
}

}  // namespace weft::kernels
#endif
