// SPDX-License-Identifier: Apache-2.0
// Codes of 32 and 64 bits. Text that is re-included once per ISA, see kernels/foreach_isa.hpp.
#if !WEFT_ISA_IS_SCALAR
#if defined(WEFT_KERNELS_SIMD_QUANTIZE_WIDE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_SIMD_QUANTIZE_WIDE_INL
#undef WEFT_KERNELS_SIMD_QUANTIZE_WIDE_INL
#else
#define WEFT_KERNELS_SIMD_QUANTIZE_WIDE_INL
#endif

#include "kernels/simd/quantize_weight-inl.hpp"

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace weft::kernels::WEFT_ISA {
namespace {

using DoubleTag = hn::CappedTag<double, kPanelWidth>;
using DoubleVector = hn::Vec<DoubleTag>;
inline constexpr std::size_t kDoubleLanes = hn::MaxLanes(DoubleTag());

/// n weights, a multiple of a vector's, as binary64.
HWY_INLINE void widen(const float* HWY_RESTRICT from, std::size_t n, std::uint64_t* HWY_RESTRICT to) {
  const DoubleTag d;
  const hn::Rebind<float, DoubleTag> narrow;
  const hn::Rebind<std::int32_t, DoubleTag> di;
  const hn::RebindToUnsigned<DoubleTag> du;
  for (std::size_t i = 0; i < n; i += kDoubleLanes) {
    const auto x = hn::Load(narrow, from + i);
    // Arithmetic would take subnormals for zeros: those, which are rare, go one by one.
    const auto bits = hn::And(hn::BitCast(di, x), hn::Set(di, kMagnitudeBits));
    const auto is_subnormal = hn::And(hn::Gt(bits, hn::Zero(di)), hn::Lt(bits, hn::Set(di, 0x00800000)));
    if (HWY_LIKELY(hn::AllFalse(di, is_subnormal))) {
      const DoubleVector wide = hn::PromoteTo(d, x);
      const DoubleVector nan = hn::BitCast(d, hn::Set(du, numeric::Float64::kNan));
      hn::Store(hn::BitCast(du, hn::IfThenElse(hn::Eq(wide, wide), wide, nan)), du, to + i);
    } else {
      for (std::size_t j = i; j < i + kDoubleLanes; ++j) to[j] = numeric::Float64::encode(from[j]);
    }
  }
}

/// Groups of a panel's 16 lanes; padding lanes have scale 1 and zero point 0.
struct WideGroups {
  alignas(64) double scale[kPanelWidth];
  alignas(64) double zero[kPanelWidth];
};

/// Codes of n inputs of a panel, 32 bits each.
template <class T>
HWY_INLINE void quantize_words32(const float* HWY_RESTRICT rows, std::size_t n, const WideGroups& groups,
                                 std::uint32_t* HWY_RESTRICT to) {
  static_assert(T::bits == 32);
  const DoubleTag d;
  const hn::Rebind<float, DoubleTag> narrow;
  const hn::Rebind<std::int32_t, DoubleTag> di;
  const hn::Rebind<std::uint32_t, DoubleTag> du;
  // Added to a number of at most 2^51 and subtracted again, it leaves the nearest integer, ties to even.
  const DoubleVector rounder = hn::Set(d, 0x1.8p52);
  constexpr double kLimit = T::scale_rule == numeric::ScaleRule::range ? 0x1p33 : T::largest_number();
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t lane = 0; lane < kPanelWidth; lane += kDoubleLanes) {
      const DoubleVector x = hn::PromoteTo(d, hn::Load(narrow, rows + k * kPanelWidth + lane));
      const DoubleVector quotient = hn::Div(x, hn::Load(d, groups.scale + lane));
      const DoubleVector number = hn::IfThenElseZero(hn::Eq(quotient, quotient), quotient);
      const DoubleVector limited = hn::Max(hn::Set(d, -kLimit), hn::Min(number, hn::Set(d, kLimit)));
      DoubleVector whole = hn::Sub(hn::Add(limited, rounder), rounder);
      std::uint32_t offset = 0;
      if constexpr (T::scale_rule == numeric::ScaleRule::range) {
        const DoubleVector code = hn::Add(whole, hn::Load(d, groups.zero + lane));
        // Conversion is to signed integers: half of the range is taken off before and put back after.
        whole = hn::Sub(hn::Max(hn::Zero(d), hn::Min(code, hn::Set(d, T::largest_number()))), hn::Set(d, 0x1p31));
        offset = 0x80000000u;
      }
      const auto code = hn::Xor(hn::BitCast(du, hn::DemoteTo(di, whole)), hn::Set(du, offset));
      hn::Store(code, du, to + k * kPanelWidth + lane);
    }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
HWY_AFTER_NAMESPACE();

#endif  // guard
#endif  // !WEFT_ISA_IS_SCALAR
