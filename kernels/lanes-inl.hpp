// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), the scalar pass too.
// Rule R2 (docs/numerics.md): a row's elements go to 64 strided lanes, which are then folded by halves.

#if defined(WEFT_KERNELS_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_LANES_INL
#undef WEFT_KERNELS_LANES_INL
#else
#define WEFT_KERNELS_LANES_INL
#endif

#include "kernels/rows-inl.hpp"
#include "kernels/views.hpp"

#include <cstddef>
#include <limits>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

#if WEFT_ISA_IS_SCALAR

// The sum over j of a row of n: lane[j % 64] = step(lane[j % 64], j), from +0.
template <class Step>
float lane_sum(std::size_t n, const Step& step) noexcept {
  float lane[kLanes] = {};
  for (std::size_t j = 0; j < n; ++j) lane[j % kLanes] = step(lane[j % kLanes], j);
  for (std::size_t half = kLanes / 2; half != 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

// The largest number of a row; -inf when there is none. A NaN never wins. Which zero wins is left open.
inline float row_maximum(const float* x, std::size_t n) noexcept {
  float largest = -std::numeric_limits<float>::infinity();
  for (std::size_t j = 0; j < n; ++j) largest = x[j] > largest ? x[j] : largest;
  return largest;
}

#else

inline constexpr std::size_t kLaneVectors = kLanes / kVectorLanes;

// Adds the upper half of the lanes to the lower until one is left.
template <class D>
HWY_INLINE float FoldVector(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> dh;
    return FoldVector(dh, hn::Add(hn::LowerHalf(dh, v), hn::UpperHalf(dh, v)));
  } else {
    v = hn::Add(v, hn::Shuffle1032(v));
    return hn::GetLane(hn::Add(v, hn::Shuffle2301(v)));
  }
}

// The sum of all lanes, by halves.
HWY_INLINE float FoldLanes(FloatVec (&lane)[kLaneVectors]) {
  for (std::size_t half = kLaneVectors / 2; half != 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lane[i] = hn::Add(lane[i], lane[i + half]);
  return FoldVector(FloatTag(), lane[0]);
}

// Runs over a row of n in blocks of 64: lane[i] = step(lane[i], load), where load(p) reads lane i's elements of p's
// row. Lanes past the row's end are left alone.
template <class Step>
HWY_INLINE void ForEachLane(std::size_t n, FloatVec (&lane)[kLaneVectors], const Step& step) {
  const FloatTag d;
  std::size_t j = 0;
  for (; j + kLanes <= n; j += kLanes)
    for (std::size_t i = 0; i < kLaneVectors; ++i)
      lane[i] = step(lane[i], [&](const float* p) HWY_ATTR { return hn::LoadU(d, p + j + i * kVectorLanes); });
  for (std::size_t i = 0; i < kLaneVectors; ++i) {
    if (j >= n) break;
    const std::size_t rest = n - j;
    if (rest >= kVectorLanes) {
      lane[i] = step(lane[i], [&](const float* p) HWY_ATTR { return hn::LoadU(d, p + j); });
    } else {
      const FloatVec next = step(lane[i], [&](const float* p) HWY_ATTR { return LoadPartial(d, p + j, rest); });
      lane[i] = hn::IfThenElse(hn::FirstN(d, rest), next, lane[i]);
    }
    j += kVectorLanes;
  }
}

// The sum over a row of n, from +0: lane = step(lane, load).
template <class Step>
HWY_INLINE float LaneSum(std::size_t n, const Step& step) {
  const FloatTag d;
  FloatVec lane[kLaneVectors];
  for (std::size_t i = 0; i < kLaneVectors; ++i) lane[i] = hn::Zero(d);
  ForEachLane(n, lane, step);
  return FoldLanes(lane);
}

// x > largest ? x : largest, so a NaN x never wins.
HWY_INLINE FloatVec Larger(FloatVec x, FloatVec largest) {
#if HWY_ARCH_X86
  return hn::Max(x, largest);
#else
  return hn::IfThenElse(hn::Gt(x, largest), x, largest);
#endif
}

// The largest number of a row; -inf when there is none. A NaN never wins. Which zero wins is left open.
HWY_INLINE float RowMaximum(const float* x, std::size_t n) {
  const FloatTag d;
  const FloatVec lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  FloatVec lane[kLaneVectors];
  for (std::size_t i = 0; i < kLaneVectors; ++i) lane[i] = lowest;
  ForEachLane(n, lane, [&](FloatVec largest, auto load) HWY_ATTR { return Larger(load(x), largest); });
  for (std::size_t i = 1; i < kLaneVectors; ++i) lane[0] = Larger(lane[i], lane[0]);
  return hn::GetLane(hn::MaxOfLanes(d, lane[0]));
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
