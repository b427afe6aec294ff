// SPDX-License-Identifier: Apache-2.0
// Products of codes and int8 activations, four to a 32-bit lane, summed exactly over a block of 32. Text that is
// re-included once per ISA, see kernels/foreach_isa.hpp.
#if !WEFT_ISA_IS_SCALAR
#if defined(WEFT_KERNELS_SIMD_DOT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_SIMD_DOT_INL
#undef WEFT_KERNELS_SIMD_DOT_INL
#else
#define WEFT_KERNELS_SIMD_DOT_INL
#endif

#include "kernels/simd/panel-inl.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

using WordTag = hn::RebindToUnsigned<PanelTag>;
using IntTag = hn::RebindToSigned<PanelTag>;
using Words = hn::Vec<WordTag>;
using Ints = hn::Vec<IntTag>;

// Dot<kBytes> multiplies codes of 8 bits (kBytes) or of fewer (below 16, no sign):
//   kWords                  words that four codes, and four activations, take
//   split(u)                a word of four codes as it wants them
//   start, add, finish      sum = start(init); sum = add(sum, w, q) for up to eight words of codes; finish(sum, init)
// kByteFlip, kByteOffset: what codes of 8 bits are to be flipped by, and their zero points lowered by, to be signed
// bytes.

#if defined(__x86_64__)

inline constexpr std::uint32_t kByteFlip = 0;
inline constexpr std::int32_t kByteOffset = 0;

// Sums are vectors of their own lanes' type, not __m512i: g++ would keep both forms alive through a loop.
#if HWY_TARGET == HWY_AVX2
using Raw = __m256i;
typedef std::int32_t Sums32 __attribute__((vector_size(32)));
typedef std::int16_t Sums16 __attribute__((vector_size(32)));
HWY_INLINE Sums32 madd_pairs(Raw a, Raw b) { return (Sums32)_mm256_madd_epi16(a, b); }
HWY_INLINE Sums16 madd_bytes(Raw codes, Raw q) { return (Sums16)_mm256_maddubs_epi16(codes, q); }
HWY_INLINE Raw ones() { return _mm256_set1_epi16(1); }
#else
using Raw = __m512i;
typedef std::int32_t Sums32 __attribute__((vector_size(64)));
typedef std::int16_t Sums16 __attribute__((vector_size(64)));
HWY_INLINE Sums32 madd_pairs(Raw a, Raw b) { return (Sums32)_mm512_madd_epi16(a, b); }
HWY_INLINE Sums16 madd_bytes(Raw codes, Raw q) { return (Sums16)_mm512_maddubs_epi16(codes, q); }
HWY_INLINE Raw ones() { return _mm512_set1_epi16(1); }
#endif

/// A zero (0 to 255) times a sum of activations (-4064 to 4064): both fit 16 bits and the zero's upper half is 0, so
/// one instruction does where a 32-bit product takes two.
HWY_INLINE Ints zero_product(Ints zero, Ints sum) { return Ints{(Raw)madd_pairs(zero.raw, sum.raw)}; }

#if WEFT_ISA_IS_VNNI

template <bool kBytes>
struct Dot {
  static constexpr std::size_t kWords = 1;
  using Codes = Words;
  using Sum = Sums32;
  static HWY_INLINE Codes split(Words u) { return u; }
  static HWY_INLINE Sum start(Ints init) { return (Sum)init.raw; }
  static HWY_INLINE Sum add(Sum sum, Codes w, Codes q) { return (Sum)_mm512_dpbusd_epi32((Raw)sum, w.raw, q.raw); }
  static HWY_INLINE Ints finish(Sum sum, Ints) { return Ints{(Raw)sum}; }
};

#else

template <bool kBytes>
struct Dot;

// Even and odd bytes apart, as 16 bits: a product of two bytes may take 17 with the next one's added.
template <>
struct Dot<true> {
  static constexpr std::size_t kWords = 2;
  struct Codes {
    Words even, odd;
  };
  using Sum = Sums32;
  static HWY_INLINE Codes split(Words u) {
    const hn::Repartition<std::uint16_t, WordTag> pairs;
    return {hn::And(u, hn::Set(WordTag(), 0x00ff00ffu)),
            hn::BitCast(WordTag(), hn::ShiftRight<8>(hn::BitCast(pairs, u)))};
  }
  static HWY_INLINE Sum start(Ints init) { return (Sum)init.raw; }
  static HWY_INLINE Sum add(Sum sum, Codes w, Codes q) {
    return sum + (madd_pairs(w.even.raw, q.even.raw) + madd_pairs(w.odd.raw, q.odd.raw));
  }
  static HWY_INLINE Ints finish(Sum sum, Ints) { return Ints{(Raw)sum}; }
};

// Sixteen products of 15 * 127 fit 16 bits, so a block's sum stays there until its end.
template <>
struct Dot<false> {
  static constexpr std::size_t kWords = 1;
  using Codes = Words;
  using Sum = Sums16;
  static HWY_INLINE Codes split(Words u) { return u; }
  static HWY_INLINE Sum start(Ints) { return Sum{}; }
  static HWY_INLINE Sum add(Sum sum, Codes w, Codes q) { return sum + madd_bytes(w.raw, q.raw); }
  static HWY_INLINE Ints finish(Sum sum, Ints init) {
    return Ints{(Raw)(madd_pairs((Raw)sum, ones()) + (Sums32)init.raw)};
  }
};

#endif  // VNNI

#else  // AArch64

inline constexpr std::uint32_t kByteFlip = 0x80808080u;
inline constexpr std::int32_t kByteOffset = 128;

HWY_INLINE Ints zero_product(Ints zero, Ints sum) { return hn::Mul(zero, sum); }
HWY_INLINE int8x16_t signed_bytes(Words w) { return vreinterpretq_s8_u32(w.raw); }

#if WEFT_ISA_IS_DOTPROD

template <bool kBytes>
struct Dot {
  static constexpr std::size_t kWords = 1;
  using Codes = Words;
  using Sum = int32x4_t;
  static HWY_INLINE Codes split(Words u) { return u; }
  static HWY_INLINE Sum start(Ints init) { return init.raw; }
  static HWY_INLINE Sum add(Sum sum, Codes w, Codes q) { return vdotq_s32(sum, signed_bytes(w), signed_bytes(q)); }
  static HWY_INLINE Ints finish(Sum sum, Ints) { return Ints(sum); }
};

#else

template <bool kBytes>
struct Dot;

template <>
struct Dot<true> {
  static constexpr std::size_t kWords = 1;
  using Codes = Words;
  struct Sum {
    int32x4_t lower, upper;
  };
  static HWY_INLINE Codes split(Words u) { return u; }
  static HWY_INLINE Sum start(Ints) { return {vdupq_n_s32(0), vdupq_n_s32(0)}; }
  static HWY_INLINE Sum add(Sum sum, Codes w, Codes q) {
    const int8x16_t codes = signed_bytes(w), xs = signed_bytes(q);
    return {vpadalq_s16(sum.lower, vmull_s8(vget_low_s8(codes), vget_low_s8(xs))),
            vpadalq_s16(sum.upper, vmull_high_s8(codes, xs))};
  }
  static HWY_INLINE Ints finish(Sum sum, Ints init) { return hn::Add(Ints(vpaddq_s32(sum.lower, sum.upper)), init); }
};

// Eight products of 15 * 127 fit 16 bits, so a block's sum stays there until its end.
template <>
struct Dot<false> {
  static constexpr std::size_t kWords = 1;
  using Codes = Words;
  struct Sum {
    int16x8_t lower, upper;
  };
  static HWY_INLINE Codes split(Words u) { return u; }
  static HWY_INLINE Sum start(Ints) { return {vdupq_n_s16(0), vdupq_n_s16(0)}; }
  static HWY_INLINE Sum add(Sum sum, Codes w, Codes q) {
    const int8x16_t codes = signed_bytes(w), xs = signed_bytes(q);
    return {vmlal_s8(sum.lower, vget_low_s8(codes), vget_low_s8(xs)), vmlal_high_s8(sum.upper, codes, xs)};
  }
  static HWY_INLINE Ints finish(Sum sum, Ints init) {
    return hn::Add(Ints(vpaddq_s32(vpaddlq_s16(sum.lower), vpaddlq_s16(sum.upper))), init);
  }
};

#endif  // dotprod

#endif

HWY_INLINE Words broadcast_word(const std::int8_t* from) {
  std::uint32_t word;
  std::memcpy(&word, from, sizeof word);
  return hn::Set(WordTag(), word);
}

/// Packed activations that meet four codes, the same in each lane.
template <class D>
HWY_INLINE typename D::Codes broadcast_activations(const std::int8_t* from) {
  if constexpr (D::kWords == 1)
    return broadcast_word(from);
  else
    return {broadcast_word(from), broadcast_word(from + 4)};
}

/// Split codes, their words `stride` apart.
template <class D>
HWY_INLINE typename D::Codes load_codes(const std::uint32_t* from, std::size_t stride) {
  if constexpr (D::kWords == 1)
    return hn::Load(WordTag(), from);
  else
    return {hn::Load(WordTag(), from), hn::Load(WordTag(), from + stride)};
}
template <class D>
HWY_INLINE void store_codes(typename D::Codes codes, std::uint32_t* to, std::size_t stride) {
  if constexpr (D::kWords == 1) {
    hn::Store(codes, WordTag(), to);
  } else {
    hn::Store(codes.even, WordTag(), to);
    hn::Store(codes.odd, WordTag(), to + stride);
  }
}

/// Four of a word's codes, at bits 8m + kBits * j for m = 0 .. 3: of codes that stand in order, number 8/kBits * m + j.
template <int kBits, int j>
HWY_INLINE Words four_codes(Words w) {
  const WordTag d;
  if constexpr (kBits == 8) {
    return w;
  } else if constexpr (kBits == 1) {  // doubled
    const Words mask = hn::Set(d, 0x02020202u);
    if constexpr (j == 0)
      return hn::And(hn::ShiftLeft<1>(w), mask);
    else
      return hn::And(hn::ShiftRight<j - 1>(w), mask);
  } else {
    const Words mask = hn::Set(d, kBits == 4 ? 0x0f0f0f0fu : 0x03030303u);
    return hn::And(hn::ShiftRight<kBits * j>(w), mask);
  }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard
#endif  // !WEFT_ISA_IS_SCALAR
