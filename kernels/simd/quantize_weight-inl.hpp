// SPDX-License-Identifier: Apache-2.0
// Codes of one panel's 16 outputs. Text that is re-included once per ISA, see kernels/foreach_isa.hpp.
#if !WEFT_ISA_IS_SCALAR
#if defined(WEFT_KERNELS_SIMD_QUANTIZE_WEIGHT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_SIMD_QUANTIZE_WEIGHT_INL
#undef WEFT_KERNELS_SIMD_QUANTIZE_WEIGHT_INL
#else
#define WEFT_KERNELS_SIMD_QUANTIZE_WEIGHT_INL
#endif

#include "kernels/simd/panel-inl.hpp"

#include "core/numeric.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace weft::kernels::WEFT_ISA {
namespace {

using QuantizeIntTag = hn::RebindToSigned<PanelTag>;
using QuantizeWordTag = hn::RebindToUnsigned<PanelTag>;
using IntVector = hn::Vec<QuantizeIntTag>;
using WordVector = hn::Vec<QuantizeWordTag>;

inline constexpr std::int32_t kMagnitudeBits = 0x7fffffff, kInfinityBits = 0x7f800000;

/// Bits of |x|: as signed integers they compare as the magnitudes do, NaNs above infinity.
HWY_INLINE IntVector magnitude_bits(PanelVector x) {
  const QuantizeIntTag di;
  return hn::And(hn::BitCast(di, x), hn::Set(di, kMagnitudeBits));
}

/// numeric::SmallFloat::encode for every lane.
template <class T>
HWY_INLINE WordVector small_float_code(PanelVector x) {
  const PanelTag d;
  const QuantizeIntTag di;
  const QuantizeWordTag du;
  constexpr int kShift = 23 - T::mantissa_bits, kRebias = 127 - T::bias;
  // In lanes of infinity and NaN this is the largest number, until they are told apart below.
  const IntVector bits = magnitude_bits(x);
  const IntVector finite = hn::Min(bits, hn::Set(di, std::bit_cast<std::int32_t>(T::largest_number())));
  const IntVector odd = hn::And(hn::ShiftRight<kShift>(finite), hn::Set(di, 1));
  IntVector code = hn::ShiftRight<kShift>(hn::Add(hn::Add(finite, hn::Set(di, (1 << (kShift - 1)) - 1)), odd));
  if constexpr (kRebias != 0) {
    code = hn::Sub(code, hn::Set(di, kRebias << T::mantissa_bits));
    // Below the normal numbers: a float whose last place is the smallest subnormal makes the addition round.
    const IntVector magic = hn::Set(di, (127 + 24 - T::bias - T::mantissa_bits) << 23);
    const IntVector small = hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, finite), hn::BitCast(d, magic))), magic);
    code = hn::IfThenElse(hn::Lt(finite, hn::Set(di, (kRebias + 1) << 23)), small, code);
  }
  const IntVector infinity = hn::Set(di, kInfinityBits);
  if constexpr (T::has_infinity) code = hn::IfThenElse(hn::Eq(bits, infinity), hn::Set(di, T::kInfinity), code);
  const WordVector sign =
      hn::And(hn::ShiftRight<32 - T::bits>(hn::BitCast(du, x)), hn::Set(du, std::uint32_t{T::kSign}));
  code = hn::Or(code, hn::BitCast(di, sign));
  return hn::BitCast(du, hn::IfThenElse(hn::Gt(bits, infinity), hn::Set(di, T::has_nan ? T::kNan : 0), code));
}

/// Parameters that the lanes' groups share.
struct LaneGroups {
  // Constructors are spelled out here, as those that the compiler adds lack the target region's instructions.
  HWY_INLINE LaneGroups() {}
  PanelVector scale;            // of ternary and int2: half of it
  IntVector zero, least, most;  // of unsigned types
  IntVector offset;             // zero, less the bits of kRounder
};

/// Added to a number of at most 2^22, it leaves the nearest integer, ties to even, in the low bits.
inline constexpr float kRounder = 0x1.8p23f;

/// x / scale to the nearest integer, within -limit and limit, added to the bits of kRounder; NaN gives 0.
HWY_INLINE IntVector nearest_multiple(PanelVector x, PanelVector scale, float limit) {
  const PanelTag d;
  const PanelVector quotient = hn::Div(x, scale);
  const PanelVector number = hn::IfThenElseZero(hn::Eq(quotient, quotient), quotient);
  const PanelVector limited = hn::Max(hn::Set(d, -limit), hn::Min(number, hn::Set(d, limit)));
  return hn::BitCast(QuantizeIntTag(), hn::Add(limited, hn::Set(d, kRounder)));
}

template <class T>
inline constexpr bool kIsSmallFloat = requires {
  T::mantissa_bits;
};
/// Codes -1 0 1.
template <class T>
inline constexpr bool kIsSignOrZero = T::bits == 2 && T::scale_rule != numeric::ScaleRule::range;

/// The codes of 16 weights, or of as many as a vector holds, in the low bits of lanes.
template <class T>
HWY_INLINE WordVector code_of(PanelVector x, [[maybe_unused]] const LaneGroups& groups) {
  [[maybe_unused]] const PanelTag d;
  [[maybe_unused]] const QuantizeWordTag du;
  if constexpr (kIsSmallFloat<T>) {
    if constexpr (T::scale_rule == numeric::ScaleRule::none) return small_float_code<T>(x);
    return small_float_code<T>(hn::Div(x, groups.scale));
  } else if constexpr (T::bits == 1) {
    return hn::IfThenElseZero(hn::RebindMask(du, hn::Ge(x, hn::Zero(d))), hn::Set(du, 1u));
  } else if constexpr (kIsSignOrZero<T>) {
    // x / scale rounds to 0 up to a half, and as a float it is above a half exactly when x is above half the scale.
    const WordVector sign_or_one =
        hn::Or(hn::And(hn::ShiftRight<30>(hn::BitCast(du, x)), hn::Set(du, 2u)), hn::Set(du, 1u));
    return hn::IfThenElseZero(hn::RebindMask(du, hn::Gt(hn::Abs(x), groups.scale)), sign_or_one);
  } else if constexpr (T::scale_rule == numeric::ScaleRule::range) {
    const IntVector steps = nearest_multiple(x, groups.scale, 65536.0f);
    return hn::BitCast(du, hn::Min(hn::Max(hn::Add(steps, groups.offset), groups.least), groups.most));
  } else {
    const IntVector steps = nearest_multiple(x, groups.scale, T::largest_number());
    return hn::And(hn::BitCast(du, steps), hn::Set(du, std::uint32_t{T::kMask}));
  }
}

/// A statistic held by lanes: mean or largest magnitude in `high`, or the ends of the range.
struct LaneStatistic {
  HWY_INLINE LaneStatistic() : low(hn::Zero(PanelTag())), high(hn::Zero(PanelTag())) {}
  HWY_INLINE LaneStatistic(PanelVector least, PanelVector most) : low(least), high(most) {}
  PanelVector low, high;
};

/// detail::half_scale for every lane: the number.
HWY_INLINE PanelVector at_least_in_half(PanelVector scale) {
  const PanelTag d;
  const QuantizeIntTag di;
  const IntVector step = hn::Set(di, 0x1fff);
  const PanelVector normal = hn::BitCast(d, hn::AndNot(step, hn::Add(hn::BitCast(di, scale), step)));
  const PanelVector small = hn::Mul(hn::Ceil(hn::Mul(scale, hn::Set(d, 0x1p24f))), hn::Set(d, 0x1p-24f));
  return hn::Min(hn::IfThenElse(hn::Lt(scale, hn::Set(d, 0x1p-14f)), small, normal), hn::Set(d, 65504.0f));
}

/// binary16's codes of numbers that it has, above 0.
HWY_INLINE IntVector half_code(PanelVector scale) {
  const PanelTag d;
  const QuantizeIntTag di;
  const IntVector normal = hn::Sub(hn::ShiftRight<13>(hn::BitCast(di, scale)), hn::Set(di, (127 - 15) << 10));
  const IntVector small = hn::NearestInt(hn::Mul(scale, hn::Set(d, 0x1p24f)));
  return hn::IfThenElse(hn::RebindMask(di, hn::Lt(scale, hn::Set(d, 0x1p-14f))), small, normal);
}

/// Scales (and zero points) by the type's rule, of binary16 if `in_half`; `scale` as stored. Means are divided by their
/// count already.
template <class T>
HWY_INLINE LaneGroups lane_groups(const LaneStatistic& of, bool in_half, PanelVector& scale) {
  const PanelTag d;
  const QuantizeIntTag di;
  const PanelVector smallest = hn::Set(d, 0x1p-126f), infinity = hn::BitCast(d, hn::Set(di, kInfinityBits));
  LaneGroups groups;
  scale = smallest;
  if constexpr (T::scale_rule == numeric::ScaleRule::mean) {
    scale = hn::Max(of.high, smallest);
  } else if constexpr (T::scale_rule != numeric::ScaleRule::none) {
    const PanelVector steps = hn::Set(d, T::largest_number());
    PanelVector range = of.high, cut = steps;
    auto is_halved = hn::MaskFromVec(hn::Zero(d));
    if constexpr (T::scale_rule == numeric::ScaleRule::range) {
      const PanelVector half = hn::Set(d, 0.5f);
      range = hn::Sub(of.high, of.low);
      is_halved = hn::Eq(range, infinity);
      range = hn::IfThenElse(is_halved, hn::Sub(hn::Mul(of.high, half), hn::Mul(of.low, half)), range);
      cut = hn::IfThenElse(is_halved, hn::Mul(steps, half), steps);
    }
    scale = hn::Max(hn::Div(range, cut), smallest);
    // The next scale down where the largest code would stand for more than the largest float.
    const auto is_past = hn::AndNot(is_halved, hn::Eq(hn::Mul(scale, steps), infinity));
    scale = hn::BitCast(d, hn::Add(hn::BitCast(di, scale), hn::VecFromMask(di, hn::RebindMask(di, is_past))));
  }
  if (in_half) scale = at_least_in_half(scale);
  groups.scale = scale;
  if constexpr (kIsSignOrZero<T>) groups.scale = hn::Mul(scale, hn::Set(d, 0.5f));
  if constexpr (T::scale_rule == numeric::ScaleRule::range) {
    constexpr auto kMost = static_cast<std::int32_t>(T::kLargest);
    const PanelVector most = hn::Set(d, T::largest_number());
    groups.zero = hn::NearestInt(hn::Min(hn::Div(hn::Neg(of.low), scale), most));
    groups.offset = hn::Sub(groups.zero, hn::Set(di, std::bit_cast<std::int32_t>(kRounder)));
    const PanelVector zero = hn::ConvertTo(d, groups.zero);
    // The end codes stand for up to half a step more than the weights: not for what is past the largest float.
    const auto past = [&](PanelVector codes)
                          HWY_ATTR { return hn::RebindMask(di, hn::Eq(hn::Mul(codes, scale), infinity)); };
    groups.least = hn::IfThenElseZero(past(zero), hn::Set(di, 1));
    groups.most = hn::IfThenElse(past(hn::Sub(most, zero)), hn::Set(di, kMost - 1), hn::Set(di, kMost));
  }
  return groups;
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
HWY_AFTER_NAMESPACE();

#endif  // guard
#endif  // !WEFT_ISA_IS_SCALAR
