// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/trace.cpp"
#include "kernels/trace.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/lanes-inl.hpp"
#include "kernels/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

#if WEFT_ISA_IS_SCALAR

float sum_of_magnitudes(const float* z, std::size_t n) noexcept {
  return lane_sum(n, [&](float sum, std::size_t j) { return sum + std::fabs(z[j]); });
}

float trace_update(float* z, const float* g, float decay, std::size_t n) noexcept {
  WEFT_ISA_RAN();
  for (std::size_t j = 0; j < n; ++j) z[j] = std::fma(decay, z[j], g[j]);
  return sum_of_magnitudes(z, n);
}

float trace_update_product(float* z, const OuterProduct& product, float decay) noexcept {
  WEFT_ISA_RAN();
  if (!product.x) {
    for (std::size_t o = 0; o < product.out; ++o) z[o] = std::fma(decay, z[o], product.dy[o] + 0.0f);
    return sum_of_magnitudes(z, product.out);
  }
  float* at = z;
  for (std::size_t o = 0; o < product.out; o += kPanelWidth)
    for (std::size_t k = 0; k < product.in; ++k)
      for (std::size_t lane = 0; lane < kPanelWidth; ++lane, ++at) {
        const float dy = o + lane < product.out ? product.dy[o + lane] : 0.0f;
        *at = std::fma(decay, *at, std::fma(dy, product.x[k], 0.0f));
      }
  return sum_of_magnitudes(z, static_cast<std::size_t>(at - z));
}

#else

constexpr FloatTag kTag;

// One pass: a value is added to its lane's sum while it is in a register. `gradient_of` makes a gradient of what is
// in memory.
template <class GradientOf>
HWY_INLINE float Update(float* z, const float* g, float decay, std::size_t n, const GradientOf& gradient_of) {
  const FloatVec kept = hn::Set(kTag, decay);
  FloatVec lane[kLaneVectors];
  for (std::size_t i = 0; i < kLaneVectors; ++i) lane[i] = hn::Zero(kTag);
  std::size_t j = 0;
  for (; j + kLanes <= n; j += kLanes)
    for (std::size_t i = 0; i < kLaneVectors; ++i) {
      float* const at = z + j + i * kVectorLanes;
      const FloatVec gradient = gradient_of(hn::LoadU(kTag, g + j + i * kVectorLanes));
      const FloatVec moved = hn::MulAdd(kept, hn::LoadU(kTag, at), gradient);
      hn::StoreU(moved, kTag, at);
      lane[i] = hn::Add(lane[i], hn::Abs(moved));
    }
  const std::size_t rest = n - j;
  const MatrixView last{z + j, 1, rest, rest};
  map(last, ConstMatrixView{g + j, 1, rest, rest}, last, [&](FloatTag, FloatVec trace, FloatVec gradient) HWY_ATTR {
    return hn::MulAdd(kept, trace, gradient_of(gradient));
  });
  ForEachLane(rest, lane, [&](FloatVec sum, auto load) HWY_ATTR { return hn::Add(sum, hn::Abs(load(z + j))); });
  return FoldLanes(lane);
}

float trace_update(float* z, const float* g, float decay, std::size_t n) noexcept {
  WEFT_ISA_RAN();
  return Update(z, g, decay, n, [](FloatVec gradient) HWY_ATTR { return gradient; });
}

// A block of 64 lanes is four inputs of a panel, so panels of other numbers of inputs are added up in a second pass.
float trace_update_product(float* z, const OuterProduct& product, float decay) noexcept {
  WEFT_ISA_RAN();
  constexpr std::size_t kInputs = kLanes / kPanelWidth, kVectors = kPanelWidth / kVectorLanes;
  static_assert(kLanes % kPanelWidth == 0 && kPanelWidth % kVectorLanes == 0);
  const FloatVec kept = hn::Set(kTag, decay), zero = hn::Zero(kTag);
  if (!product.x)  // a zero without a sign, as a sum from 0 has it
    return Update(z, product.dy, decay, product.out,
                  [zero](FloatVec gradient) HWY_ATTR { return hn::Add(gradient, zero); });
  FloatVec lane[kLaneVectors];
  for (std::size_t i = 0; i < kLaneVectors; ++i) lane[i] = zero;
  const float* const x = product.x;
  const std::size_t in = product.in, whole = in / kInputs * kInputs;
  float* at = z;
  for (std::size_t o = 0; o < product.out; o += kPanelWidth) {
    alignas(64) float errors[kPanelWidth];
    const std::size_t width = std::min(kPanelWidth, product.out - o);
    std::fill(std::copy_n(product.dy + o, width, errors), std::end(errors), 0.0f);
    FloatVec dy[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) dy[v] = hn::LoadU(kTag, errors + v * kVectorLanes);
    const auto move = [&](std::size_t k, std::size_t v) HWY_ATTR {
      const FloatVec gradient = hn::MulAdd(dy[v], hn::Set(kTag, x[k]), zero);
      const FloatVec moved = hn::MulAdd(kept, hn::LoadU(kTag, at), gradient);
      hn::StoreU(moved, kTag, at);
      at += kVectorLanes;
      return moved;
    };
    for (std::size_t k = 0; k < whole; k += kInputs)
      for (std::size_t i = 0; i < kLaneVectors; ++i)
        lane[i] = hn::Add(lane[i], hn::Abs(move(k + i / kVectors, i % kVectors)));
    for (std::size_t k = whole; k < in; ++k)
      for (std::size_t v = 0; v < kVectors; ++v) move(k, v);
  }
  if (whole == in) return FoldLanes(lane);
  return LaneSum(static_cast<std::size_t>(at - z),
                 [&](FloatVec sum, auto load) HWY_ATTR { return hn::Add(sum, hn::Abs(load(z))); });
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kTraceUpdate = WEFT_DISPATCH(trace_update);
constexpr auto kTraceUpdateProduct = WEFT_DISPATCH(trace_update_product);
}  // namespace

float trace_update(float* z, const float* g, float decay, std::size_t n) noexcept {
  return kTraceUpdate.get()(z, g, decay, n);
}
float trace_update(float* z, const OuterProduct& product, float decay) noexcept {
  return kTraceUpdateProduct.get()(z, product, decay);
}

void bounded_rate(const float* signal, const float* sums, const std::uint32_t* counts, std::size_t layers, float lr,
                  float* factors) noexcept {
  double norm = 0.0;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    float own = 0.0f;
    for (std::uint32_t i = 0; i < counts[layer]; ++i) own += *sums++;
    norm += double{own};
  }
  const double step = lr, error = signal[kTraceError];
  const double bounded = step * double{signal[kTraceBound]} * std::max(std::fabs(error), 1.0) * norm;
  factors[0] = static_cast<float>(step / std::max(bounded, 1.0) * error);
  factors[1] = factors[2] = 1.0f;
}

}  // namespace weft::kernels
#endif
