// SPDX-License-Identifier: Apache-2.0
// Transposes small blocks in registers. Text that is re-included once per ISA, see kernels/foreach_isa.hpp.
#if !WEFT_ISA_IS_SCALAR
#if defined(WEFT_KERNELS_SIMD_TRANSPOSE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_SIMD_TRANSPOSE_INL
#undef WEFT_KERNELS_SIMD_TRANSPOSE_INL
#else
#define WEFT_KERNELS_SIMD_TRANSPOSE_INL
#endif

#include "kernels/rows-inl.hpp"
#include "kernels/simd/panel-inl.hpp"

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace weft::kernels::WEFT_ISA {
namespace {

/// Swaps the lanes of `a` whose index has bit `half` set with those of `b` where it is clear.
template <std::size_t half>
HWY_INLINE void swap_halves(FloatVec& a, FloatVec& b) {
  const FloatTag d;
  const FloatVec low = a, high = b;
  if constexpr (half == 8) {
    a = hn::ConcatLowerLower(d, high, low);
    b = hn::ConcatUpperUpper(d, high, low);
  } else if constexpr (half == 4) {
    a = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(high), low);
    b = hn::OddEvenBlocks(high, hn::SwapAdjacentBlocks(low));
  } else if constexpr (half == 2) {
    const hn::Repartition<double, FloatTag> pairs;
    const auto low2 = hn::BitCast(pairs, low), high2 = hn::BitCast(pairs, high);
    a = hn::BitCast(d, hn::InterleaveLower(pairs, low2, high2));
    b = hn::BitCast(d, hn::InterleaveUpper(pairs, low2, high2));
  } else {
    static_assert(half == 1);
    a = hn::OddEven(hn::DupEven(high), low);
    b = hn::OddEven(high, hn::DupOdd(low));
  }
}

template <std::size_t half>
HWY_INLINE void transpose_step(FloatVec (&v)[kVectorLanes]) {
  WEFT_UNROLL for (std::size_t i = 0; i < kVectorLanes; ++i) {
    if ((i & half) == 0) swap_halves<half>(v[i], v[i + half]);
  }
  if constexpr (half > 1) transpose_step<half / 2>(v);
}

/// A block of kVectorLanes rows and columns: lane j of v[i] becomes lane i of v[j].
HWY_INLINE void transpose_block(FloatVec (&v)[kVectorLanes]) { transpose_step<kVectorLanes / 2>(v); }

/// to[j * to_stride + i] = from[i * from_stride + j] for i < m, j < n.
HWY_INLINE void transpose_rows(const float* from, std::size_t from_stride, std::size_t m, std::size_t n, float* to,
                               std::size_t to_stride) {
  const FloatTag d;
  for (std::size_t i = 0; i < m; i += kVectorLanes) {
    const std::size_t rows = m - i < kVectorLanes ? m - i : kVectorLanes;
    for (std::size_t j = 0; j < n; j += kVectorLanes) {
      const std::size_t cols = n - j < kVectorLanes ? n - j : kVectorLanes;
      const float* source = from + i * from_stride + j;
      float* target = to + j * to_stride + i;
      FloatVec v[kVectorLanes];
      if (rows == kVectorLanes && cols == kVectorLanes) {
        WEFT_UNROLL for (std::size_t r = 0; r < kVectorLanes; ++r) v[r] = hn::LoadU(d, source + r * from_stride);
        transpose_block(v);
        WEFT_UNROLL for (std::size_t r = 0; r < kVectorLanes; ++r) hn::StoreU(v[r], d, target + r * to_stride);
      } else {
        for (std::size_t r = 0; r < kVectorLanes; ++r)
          v[r] = r < rows ? LoadPartial(d, source + r * from_stride, cols) : hn::Zero(d);
        transpose_block(v);
        for (std::size_t r = 0; r < cols; ++r) StorePartial(v[r], d, target + r * to_stride, rows);
      }
    }
  }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
HWY_AFTER_NAMESPACE();

#endif  // guard
#endif  // !WEFT_ISA_IS_SCALAR
