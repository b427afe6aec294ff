// SPDX-License-Identifier: Apache-2.0
// Decoders: how the codes of each type become vectors of values. Text that is re-included once per ISA, see
// kernels/foreach_isa.hpp. The scalar reference is kernels/internal/dequantize_reference.cpp.
//
// A decoder has
//   kCodes       inputs of one unit, kUnitBytes of each panel
//   kLoad        inputs that one load() serves, kLoadBytes on from the one before it within the unit
//   kStep        inputs that one values() gives, a divisor of kLoad; next() goes on to the following ones
//   kReadsPast   values() reads the codes of a whole unit, also where fewer are left
//   kLoadsPast   a load() may read up to three bytes past its unit
//   Scale, Zero  element types of a weight's scales and zeros
//   Group        a scale group's scales and zeros in registers
//   Halves       a decoder of binary16 codes to go by (to_halves() writes them), or void
// and is made from the weight, for its tables. `v` is the vector within the panel.
#if !WEFT_ISA_IS_SCALAR
#if defined(WEFT_KERNELS_SIMD_DEQUANTIZE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_SIMD_DEQUANTIZE_INL
#undef WEFT_KERNELS_SIMD_DEQUANTIZE_INL
#else
#define WEFT_KERNELS_SIMD_DEQUANTIZE_INL
#endif

#include "kernels/internal/dequantize_reference.hpp"
#include "kernels/simd/panel-inl.hpp"
#include "kernels/simd/scales-inl.hpp"
#include "kernels/weight.hpp"

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace weft::kernels::WEFT_ISA {
namespace {

using DequantizedSigned = hn::RebindToSigned<PanelTag>;
using DequantizedUnsigned = hn::RebindToUnsigned<PanelTag>;
using WordVector = hn::Vec<DequantizedUnsigned>;
constexpr PanelTag kDequantizedTag;
constexpr DequantizedSigned kSignedTag;
constexpr DequantizedUnsigned kUnsignedTag;

// Constructors that the compiler declares are of no target, and NEON's vectors have one that must be inlined.
struct NoGroup {};
struct ScaleGroup {
  HWY_INLINE ScaleGroup() {}
  PanelVector scale;
};
struct AffineGroup {
  HWY_INLINE AffineGroup() {}
  PanelVector scale, zero;
};

template <class Group, class Zero>
HWY_INLINE Group load_group([[maybe_unused]] const float* scales, [[maybe_unused]] const Zero* zero_points) {
  Group group;
  if constexpr (!std::is_same_v<Group, NoGroup>) group.scale = hn::Load(kDequantizedTag, scales);
  if constexpr (std::is_same_v<Group, AffineGroup>)
    group.zero =
        hn::ConvertTo(kDequantizedTag, hn::PromoteTo(kSignedTag, hn::LoadU(hn::Rebind<Zero, PanelTag>(), zero_points)));
  return group;
}

/// The code's number less its zero point, times its scale: each step exact but the last.
HWY_INLINE PanelVector scaled(PanelVector number, const NoGroup&) { return number; }
HWY_INLINE PanelVector scaled(PanelVector number, const ScaleGroup& group) { return hn::Mul(group.scale, number); }
HWY_INLINE PanelVector scaled(PanelVector number, const AffineGroup& group) {
  return hn::Mul(group.scale, hn::Sub(number, group.zero));
}

// --- one code an element ------------------------------------------------------------------------------------------

/// Base of the decoders of separate codes: a unit is four inputs, read when they are dequantized.
template <class CodeType, class GroupType, class ZeroType = std::uint8_t, class ScaleType = float>
struct ElementDecoder {
  using Code = CodeType;
  using Group = GroupType;
  using Zero = ZeroType;
  using Scale = ScaleType;
  using Raw = const Code*;
  using Halves = void;
  static constexpr std::size_t kCodes = 4, kLoad = 4, kLoadBytes = 0, kStep = 4;
  static constexpr std::size_t kUnitBytes = kCodes * kPanelWidth * sizeof(Code);
  static constexpr bool kReadsPast = true, kLoadsPast = false;
  ElementDecoder() = default;
  explicit ElementDecoder(const ConstWeight&) {}
  HWY_INLINE Raw load(const void* codes, std::size_t v) const { return static_cast<Raw>(codes) + v * kPanelLanes; }
  static HWY_INLINE Raw next(Raw raw) { return raw; }
  HWY_INLINE Group group(const float* scales, const Zero* zero_points) const {
    return load_group<Group>(scales, zero_points);
  }
};

struct HalfDecoder : ElementDecoder<std::uint16_t, NoGroup> {
  using ElementDecoder::ElementDecoder;
  HWY_INLINE void values(Raw raw, const Group&, PanelVector (&to)[kStep]) const {
    WEFT_UNROLL for (std::size_t j = 0; j < kStep; ++j) to[j] =
        from_half(hn::LoadU(hn::Rebind<std::uint16_t, PanelTag>(), raw + j * kPanelWidth));
  }
};

struct Bfloat16Decoder : ElementDecoder<std::uint16_t, NoGroup> {
  using ElementDecoder::ElementDecoder;
  HWY_INLINE void values(Raw raw, const Group&, PanelVector (&to)[kStep]) const {
    WEFT_UNROLL for (std::size_t j = 0; j < kStep; ++j) {
      const auto half = hn::LoadU(hn::Rebind<std::uint16_t, PanelTag>(), raw + j * kPanelWidth);
      to[j] = hn::BitCast(kDequantizedTag, hn::ShiftLeft<16>(hn::PromoteTo(kUnsignedTag, half)));
    }
  }
};

/// binary16 codes times 2^exponent times a scale.
template <int exponent>
struct ScaledHalfDecoder : ElementDecoder<std::uint16_t, ScaleGroup> {
  HWY_INLINE Group group(const float* scales, const Zero* zero_points) const {
    Group group = load_group<Group>(scales, zero_points);
    if constexpr (exponent != 0) group.scale = hn::Mul(group.scale, hn::Set(kDequantizedTag, float{1u << exponent}));
    return group;
  }
  HWY_INLINE void values(Raw raw, const Group& group, PanelVector (&to)[kStep]) const {
    WEFT_UNROLL for (std::size_t j = 0; j < kStep; ++j) to[j] =
        scaled(from_half(hn::LoadU(hn::Rebind<std::uint16_t, PanelTag>(), raw + j * kPanelWidth)), group);
  }
};

// fp8 goes to binary16 many codes at a time and by way of memory, where conversions read either half of a vector
// without a shuffle.
using ManyHalves = hn::Repartition<std::int16_t, PanelTag>;
inline constexpr std::size_t kManyHalves = hn::MaxLanes(ManyHalves());

/// e5m2 is the upper byte of binary16.
struct E5m2Decoder : ElementDecoder<std::uint8_t, ScaleGroup> {
  using ElementDecoder::ElementDecoder;
  using Halves = ScaledHalfDecoder<0>;
  HWY_INLINE void values(Raw raw, const Group& group, PanelVector (&to)[kStep]) const {
    WEFT_UNROLL for (std::size_t j = 0; j < kStep; ++j) {
      const auto code = hn::LoadU(hn::Rebind<std::uint8_t, PanelTag>(), raw + j * kPanelWidth);
      to[j] = scaled(from_half(hn::ShiftLeft<8>(hn::PromoteTo(hn::Rebind<std::uint16_t, PanelTag>(), code))), group);
    }
  }
  static HWY_INLINE bool to_halves(Raw codes, const float*, std::size_t count, std::uint16_t* to) {
    const hn::RebindToUnsigned<ManyHalves> d;
    for (std::size_t i = 0; i < count; i += kManyHalves)
      hn::Store(hn::ShiftLeft<8>(hn::PromoteTo(d, hn::LoadU(hn::Rebind<std::uint8_t, ManyHalves>(), codes + i))), d,
                to + i);
    return true;
  }
};

/// Words times 2^7, of words within -128 and 127. AVX-512 shifts words on one port, multiplies bytes on two.
template <class V>
HWY_INLINE V times_128(V word) {
#if HWY_TARGET <= HWY_AVX3
  // The lower byte alone, as a signed one: 128 times it fits.
  if constexpr (sizeof(word.raw) == 64) return V{_mm512_maddubs_epi16(_mm512_set1_epi16(128), word.raw)};
#endif
  return hn::ShiftLeft<7>(word);
}

/// e4m3 moved to binary16's places is 2^-8 of its number, subnormals too; its NaN, where codes `may_be_nan`, needs a
/// binary16 NaN's bits.
template <bool may_be_nan>
struct E4m3Decoder : ElementDecoder<std::uint8_t, ScaleGroup> {
  using ElementDecoder::ElementDecoder;
  using Halves = ScaledHalfDecoder<8>;
  /// The sign fills bits 15 and 14 of the shifted code; bit 14 must go.
  template <class D16>
  static HWY_INLINE auto moved(D16 d16, const std::uint8_t* codes) {
    const auto code =
        hn::PromoteTo(d16, hn::LoadU(hn::Rebind<std::int8_t, D16>(), reinterpret_cast<const std::int8_t*>(codes)));
    return hn::And(times_128(code), hn::Set(d16, static_cast<std::int16_t>(0xbf80)));
  }
  HWY_INLINE void values(Raw raw, const Group& group, PanelVector (&to)[kStep]) const {
    const hn::Rebind<std::int16_t, PanelTag> d16;
    [[maybe_unused]] const auto last = hn::Set(d16, static_cast<std::int16_t>(0x3f80));
    [[maybe_unused]] const auto nan = hn::Set(d16, static_cast<std::int16_t>(0x7f80));
    WEFT_UNROLL for (std::size_t j = 0; j < kStep; ++j) {
      auto half = moved(d16, raw + j * kPanelWidth);
      if constexpr (may_be_nan) half = hn::IfThenElse(hn::Eq(hn::And(half, last), last), nan, half);
      const PanelVector number = from_half(half);
      to[j] = scaled(hn::Mul(number, hn::Set(kDequantizedTag, 256.0f)), group);
    }
  }
  /// False where a code is NaN, or where 256 times a scale may overflow and a value not: those go by values().
  static HWY_INLINE bool to_halves(Raw codes, const float* scales, std::size_t count, std::uint16_t* to) {
    const ManyHalves d16;
    const hn::Repartition<std::uint8_t, PanelTag> d8;
    auto largest = hn::Zero(d8);
    for (std::size_t i = 0; i < count; i += hn::MaxLanes(d8)) {
      if constexpr (may_be_nan) {
        const auto code = hn::LoadU(d8, codes + i);
        // Twice a code is its magnitude alone.
        largest = hn::Max(largest, hn::Add(code, code));
      }
      for (std::size_t j = i; j < i + hn::MaxLanes(d8); j += kManyHalves)
        hn::Store(moved(d16, codes + j), d16, reinterpret_cast<std::int16_t*>(to + j));
    }
    auto limit = hn::Load(kDequantizedTag, scales);
    for (std::size_t v = 1; v < kPanelVectors; ++v)
      limit = hn::Max(limit, hn::Load(kDequantizedTag, scales + v * kPanelLanes));
    const bool fits = hn::AllTrue(kDequantizedTag, hn::Lt(limit, hn::Set(kDequantizedTag, 0x1p119f)));
    if constexpr (!may_be_nan) return fits;
    return fits && hn::AllFalse(d8, hn::Eq(largest, hn::Set(d8, std::uint8_t{0xfe})));
  }
};

template <class Code>
struct ShortDecoder
    : ElementDecoder<Code, std::conditional_t<std::is_signed_v<Code>, ScaleGroup, AffineGroup>, std::uint16_t> {
  using Base = ElementDecoder<Code, std::conditional_t<std::is_signed_v<Code>, ScaleGroup, AffineGroup>, std::uint16_t>;
  using Base::Base;
  HWY_INLINE void values(const Code* raw, const typename Base::Group& group, PanelVector (&to)[Base::kStep]) const {
    WEFT_UNROLL for (std::size_t j = 0; j < Base::kStep; ++j) {
      const auto code = hn::LoadU(hn::Rebind<Code, PanelTag>(), raw + j * kPanelWidth);
      to[j] = scaled(hn::ConvertTo(kDequantizedTag, hn::PromoteTo(kSignedTag, code)), group);
    }
  }
};

// --- integers of 32 and 64 bits, by way of binary64 ---------------------------------------------------------------

using DoubleTag = hn::Repartition<double, PanelTag>;
using DoubleVector = hn::Vec<DoubleTag>;
inline constexpr std::size_t kDoubleLanes = kPanelLanes / 2;
constexpr DoubleTag kDoubleTag;

/// The two halves of one panel vector's scales and zeros.
template <class ZeroVector>
struct WideGroup {
  HWY_INLINE WideGroup() {}
  DoubleVector scale[2];
  ZeroVector zero[2];
};

HWY_INLINE PanelVector to_float(DoubleVector lower, DoubleVector upper) {
  const hn::Half<PanelTag> half;
  return hn::Combine(kDequantizedTag, hn::DemoteTo(half, upper), hn::DemoteTo(half, lower));
}

/// u to the nearest double: exact halves, one rounded addition, where the CPU has no instruction for it.
HWY_INLINE DoubleVector from_u64(hn::Vec<hn::RebindToUnsigned<DoubleTag>> u) {
#if HWY_TARGET <= HWY_AVX3
  return DoubleVector{_mm512_cvtepu64_pd(u.raw)};
#else
  const hn::RebindToUnsigned<DoubleTag> du;
  const auto high = hn::Or(hn::ShiftRight<32>(u), hn::Set(du, 0x4530000000000000u));
  const auto low = hn::Or(hn::And(u, hn::Set(du, 0xffffffffu)), hn::Set(du, 0x4330000000000000u));
  const auto base = hn::Set(kDoubleTag, 0x1p84 + 0x1p52);
  return hn::Add(hn::Sub(hn::BitCast(kDoubleTag, high), base), hn::BitCast(kDoubleTag, low));
#endif
}

template <class Code>
struct LongDecoder : ElementDecoder<Code, WideGroup<DoubleVector>, Code, double> {
  using Base = ElementDecoder<Code, WideGroup<DoubleVector>, Code, double>;
  using Base::Base;
  using Base::kStep;
  using Group = typename Base::Group;
  static HWY_INLINE DoubleVector number(const Code* from) {
    if constexpr (std::is_signed_v<Code>) {
      return hn::PromoteTo(kDoubleTag, hn::LoadU(hn::Rebind<std::int32_t, DoubleTag>(), from));
    } else {
      const hn::RebindToUnsigned<DoubleTag> du;
      const auto u = hn::PromoteTo(du, hn::LoadU(hn::Rebind<std::uint32_t, DoubleTag>(), from));
      const auto biased = hn::BitCast(kDoubleTag, hn::Or(u, hn::Set(du, 0x4330000000000000u)));
      return hn::Sub(biased, hn::Set(kDoubleTag, 0x1p52));
    }
  }
  HWY_INLINE Group group(const double* scales, const Code* zero_points) const {
    Group group;
    WEFT_UNROLL for (std::size_t h = 0; h < 2; ++h) {
      group.scale[h] = hn::Load(kDoubleTag, scales + h * kDoubleLanes);
      if constexpr (!std::is_signed_v<Code>) group.zero[h] = number(zero_points + h * kDoubleLanes);
    }
    return group;
  }
  HWY_INLINE void values(const Code* raw, const Group& group, PanelVector (&to)[kStep]) const {
    WEFT_UNROLL for (std::size_t j = 0; j < kStep; ++j) {
      DoubleVector half[2];
      WEFT_UNROLL for (std::size_t h = 0; h < 2; ++h) {
        half[h] = number(raw + j * kPanelWidth + h * kDoubleLanes);
        // Two integers below 2^32: exact.
        if constexpr (!std::is_signed_v<Code>) half[h] = hn::Sub(half[h], group.zero[h]);
        half[h] = hn::Mul(group.scale[h], half[h]);
      }
      to[j] = to_float(half[0], half[1]);
    }
  }
};

template <class Code>
struct LongLongDecoder : ElementDecoder<Code, WideGroup<hn::Vec<hn::RebindToUnsigned<DoubleTag>>>, Code, double> {
  using Base = ElementDecoder<Code, WideGroup<hn::Vec<hn::RebindToUnsigned<DoubleTag>>>, Code, double>;
  using Base::Base;
  using Base::kStep;
  using Group = typename Base::Group;
  HWY_INLINE Group group(const double* scales, const Code* zero_points) const {
    Group group;
    WEFT_UNROLL for (std::size_t h = 0; h < 2; ++h) {
      group.scale[h] = hn::Load(kDoubleTag, scales + h * kDoubleLanes);
      if constexpr (!std::is_signed_v<Code>)
        group.zero[h] = hn::LoadU(hn::RebindToUnsigned<DoubleTag>(), zero_points + h * kDoubleLanes);
    }
    return group;
  }
  // q - zero takes 65 bits: sign and magnitude apart.
  HWY_INLINE void values(const Code* raw, const Group& group, PanelVector (&to)[kStep]) const {
    const hn::RebindToUnsigned<DoubleTag> du;
    const hn::RebindToSigned<DoubleTag> ds;
    const auto top = hn::Set(du, std::uint64_t{1} << 63);
    WEFT_UNROLL for (std::size_t j = 0; j < kStep; ++j) {
      DoubleVector half[2];
      WEFT_UNROLL for (std::size_t h = 0; h < 2; ++h) {
        const Code* from = raw + j * kPanelWidth + h * kDoubleLanes;
        auto q = hn::LoadU(du, reinterpret_cast<const std::uint64_t*>(from));
        hn::Vec<hn::RebindToUnsigned<DoubleTag>> is_negative;
        if constexpr (std::is_signed_v<Code>) {
          is_negative = hn::BitCast(du, hn::VecFromMask(ds, hn::Lt(hn::BitCast(ds, q), hn::Zero(ds))));
        } else {
          const auto zero = group.zero[h];
          is_negative = hn::BitCast(
              du, hn::VecFromMask(ds, hn::Lt(hn::BitCast(ds, hn::Xor(q, top)), hn::BitCast(ds, hn::Xor(zero, top)))));
          q = hn::Sub(q, zero);
        }
        const auto magnitude = hn::Sub(hn::Xor(q, is_negative), is_negative);
        const auto number = hn::Xor(hn::BitCast(du, from_u64(magnitude)), hn::And(is_negative, top));
        half[h] = hn::Mul(group.scale[h], hn::BitCast(kDoubleTag, number));
      }
      to[j] = to_float(half[0], half[1]);
    }
  }
};

// --- several codes a word -----------------------------------------------------------------------------------------

/// Base of the decoders of codes packed in words.
template <class GroupType>
struct WordDecoder {
  using Group = GroupType;
  using Zero = std::uint8_t;
  using Scale = float;
  using Raw = WordVector;
  using Halves = void;
  static constexpr std::size_t kUnitBytes = kPanelWidth * sizeof(std::uint32_t);
  static constexpr bool kReadsPast = false;
  HWY_INLINE Raw load(const void* codes, std::size_t v) const {
    return hn::LoadU(kUnsignedTag, static_cast<const std::uint32_t*>(codes) + v * kPanelLanes);
  }
  HWY_INLINE Group group(const float* scales, const Zero* zero_points) const {
    return load_group<Group>(scales, zero_points);
  }
};

/// int8 and uint8: four codes a word.
template <bool is_signed>
struct ByteDecoder : WordDecoder<std::conditional_t<is_signed, ScaleGroup, AffineGroup>> {
  using Base = WordDecoder<std::conditional_t<is_signed, ScaleGroup, AffineGroup>>;
  using Group = typename Base::Group;
  static constexpr std::size_t kCodes = 4, kLoad = 4, kLoadBytes = 0, kStep = 4;
  static constexpr bool kLoadsPast = false;
  explicit ByteDecoder(const ConstWeight&) {}
  HWY_INLINE Group group(const float* scales, const std::uint8_t* zero_points) const {
    Group group = Base::group(scales, zero_points);
    if constexpr (!is_signed) group.zero = hn::Add(group.zero, hn::Set(kDequantizedTag, 0x1p23f));
    return group;
  }
  static HWY_INLINE WordVector next(WordVector raw) { return raw; }
  template <std::size_t j>
  static HWY_INLINE PanelVector number(WordVector raw) {
    if constexpr (is_signed) {
      const auto top = hn::BitCast(kSignedTag, hn::ShiftLeft<24 - 8 * static_cast<int>(j)>(raw));
      return hn::ConvertTo(kDequantizedTag, hn::ShiftRight<24>(top));
    } else {
      // In the low digits of 2^23, a code is a float already; the zero point takes the 2^23 off again.
      const auto code = hn::ShiftRight<8 * static_cast<int>(j)>(raw);
      return hn::BitCast(kDequantizedTag,
                         hn::OrAnd(hn::Set(kUnsignedTag, 0x4b000000u), code, hn::Set(kUnsignedTag, 255u)));
    }
  }
  HWY_INLINE void values(WordVector raw, const Group& group, PanelVector (&to)[kStep]) const {
    to[0] = scaled(number<0>(raw), group);
    to[1] = scaled(number<1>(raw), group);
    to[2] = scaled(number<2>(raw), group);
    to[3] = scaled(number<3>(raw), group);
  }
};

#if HWY_TARGET <= HWY_AVX3
/// Sixteen floats, picked by the low four bits of each lane.
struct NibbleTable {
  explicit NibbleTable(const float (&entries)[16]) : all(hn::LoadU(kDequantizedTag, entries)) {}
  HWY_INLINE PanelVector pick(WordVector raw) const { return PanelVector{_mm512_permutexvar_ps(raw.raw, all.raw)}; }
  PanelVector all;
};
// A nibble may hold several codes: one table for each of its places saves shifts. So does a load for each byte, whose
// upper bits are then another lane's: the permutation reads four bits alone.
inline constexpr bool kHasTablePerPlace = true;
#elif HWY_TARGET == HWY_AVX2
struct NibbleTable {
  explicit NibbleTable(const float (&entries)[16])
      : low(hn::LoadU(kDequantizedTag, entries)), high(hn::LoadU(kDequantizedTag, entries + 8)) {}
  HWY_INLINE PanelVector pick(WordVector raw) const {
    // The permutation reads three bits; the fourth, moved to the sign, says which half.
    const __m256 lower = _mm256_permutevar8x32_ps(low.raw, raw.raw),
                 upper = _mm256_permutevar8x32_ps(high.raw, raw.raw);
    return PanelVector{_mm256_blendv_ps(lower, upper, _mm256_castsi256_ps(hn::ShiftLeft<28>(raw).raw))};
  }
  PanelVector low, high;
};
inline constexpr bool kHasTablePerPlace = false;
#else
struct NibbleTable {
  explicit NibbleTable(const float (&entries)[16]) : all(vld1q_u8_x4(reinterpret_cast<const std::uint8_t*>(entries))) {}
  HWY_INLINE PanelVector pick(WordVector raw) const {
    const uint32x4_t first = vmulq_n_u32(vandq_u32(raw.raw, vdupq_n_u32(15)), 0x04040404u);
    const uint8x16_t bytes = vreinterpretq_u8_u32(vaddq_u32(first, vdupq_n_u32(0x03020100u)));
    return PanelVector{vreinterpretq_f32_u8(vqtbl4q_u8(all, bytes))};
  }
  uint8x16x4_t all;
};
inline constexpr bool kHasTablePerPlace = false;
#endif

/// Codes of 4, 2 and 1 bits by table. Where one scale holds for the whole weight, the table has the values themselves
/// (Group is NoGroup); otherwise the numbers, which the group then scales.
template <int bits, class GroupType>
struct NibbleDecoder : WordDecoder<GroupType> {
  static constexpr std::size_t kCodes = codes_per_word(bits), kStep = kHasTablePerPlace ? 4 / bits : 1;
  static constexpr std::size_t kLoad = kHasTablePerPlace ? 8 / bits : kCodes, kLoadBytes = 1;
  static constexpr bool kLoadsPast = kHasTablePerPlace;
  explicit NibbleDecoder(const ConstWeight& w) : NibbleDecoder(Entries(w), std::make_index_sequence<kStep>()) {}
  static HWY_INLINE WordVector next(WordVector raw) { return hn::ShiftRight<bits* static_cast<int>(kStep)>(raw); }
  HWY_INLINE void values(WordVector raw, const GroupType& group, PanelVector (&to)[kStep]) const {
    WEFT_UNROLL for (std::size_t j = 0; j < kStep; ++j) to[j] = scaled(tables[j].pick(raw), group);
  }

 private:
  /// Kind of a code's table entries.
  struct Entries {
    explicit Entries(const ConstWeight& w) {
      for (std::uint32_t code = 0; code < 1u << bits; ++code) {
        of[code] = detail::code_number(w.dtype, code);
        if constexpr (std::is_same_v<GroupType, NoGroup>) {
          if (w.zero_points) of[code] -= static_cast<float>(*static_cast<const std::uint8_t*>(w.zero_points));
          of[code] *= *static_cast<const float*>(w.scales);
        }
      }
    }
    float of[1 << bits];
  };
  template <std::size_t... j>
  NibbleDecoder(const Entries& entries, std::index_sequence<j...>) : tables{make_table(entries, j * bits)...} {}
  static NibbleTable make_table(const Entries& entries, std::size_t shift) {
    float all[16];
    for (std::size_t i = 0; i < 16; ++i) all[i] = entries.of[i >> shift & ((1u << bits) - 1)];
    return NibbleTable(all);
  }
  NibbleTable tables[kStep];
};

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
HWY_AFTER_NAMESPACE();

#endif  // guard
#endif  // !WEFT_ISA_IS_SCALAR
