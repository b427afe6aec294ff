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

HWY_BEFORE_NAMESPACE();
namespace weft::kernels::WEFT_ISA {
namespace {

using WordTag = hn::RebindToUnsigned<PanelTag>;
using IntTag = hn::RebindToSigned<PanelTag>;
using Words = hn::Vec<WordTag>;
using Ints = hn::Vec<IntTag>;

// Dot<kBytes> multiplies codes of 8 bits (kBytes) or of fewer (below 16, no sign):
//   kWords                  words that four codes, and four activations, take
//   split(u, w)             a word of four codes as it wants them
//   start, add, finish      sum = start(init); add(sum, w, q) for up to eight words of codes; finish(sum, init)
// kByteFlip, kByteOffset: what codes of 8 bits are to be flipped by, and their zeros lowered by, to be signed bytes.

#if defined(__x86_64__)

inline constexpr std::uint32_t kByteFlip = 0;
inline constexpr std::int32_t kByteOffset = 0;

#if HWY_TARGET == HWY_AVX2
HWY_INLINE Ints madd_pairs(__m256i a, __m256i b) { return Ints{_mm256_madd_epi16(a, b)}; }
HWY_INLINE __m256i madd_bytes(__m256i codes, __m256i q) { return _mm256_maddubs_epi16(codes, q); }
HWY_INLINE __m256i add_pairs(__m256i a, __m256i b) { return _mm256_add_epi16(a, b); }
HWY_INLINE __m256i ones() { return _mm256_set1_epi16(1); }
#else
HWY_INLINE Ints madd_pairs(__m512i a, __m512i b) { return Ints{_mm512_madd_epi16(a, b)}; }
HWY_INLINE __m512i madd_bytes(__m512i codes, __m512i q) { return _mm512_maddubs_epi16(codes, q); }
HWY_INLINE __m512i add_pairs(__m512i a, __m512i b) { return _mm512_add_epi16(a, b); }
HWY_INLINE __m512i ones() { return _mm512_set1_epi16(1); }
#endif

/// A zero (0 to 255) times a sum of activations (-4064 to 4064): both fit 16 bits and the zero's upper half is 0, so
/// one instruction does where a 32-bit product takes two.
HWY_INLINE Ints zero_product(Ints zero, Ints sum) { return madd_pairs(zero.raw, sum.raw); }

#if WEFT_ISA_IS_VNNI

template <bool kBytes>
struct Dot {
  static constexpr std::size_t kWords = 1;
  using Sum = Ints;
  static HWY_INLINE void split(Words u, Words (&w)[1]) { w[0] = u; }
  static HWY_INLINE Sum start(Ints init) { return init; }
  static HWY_INLINE void add(Sum& sum, const Words (&w)[1], const Words (&q)[1]) {
    sum.raw = _mm512_dpbusd_epi32(sum.raw, w[0].raw, q[0].raw);
  }
  static HWY_INLINE Ints finish(const Sum& sum, Ints) { return sum; }
};

#else

template <bool kBytes>
struct Dot;

// Even and odd bytes apart, as 16 bits: a product of two bytes may take 17 with the next one's added.
template <>
struct Dot<true> {
  static constexpr std::size_t kWords = 2;
  using Sum = Ints;
  static HWY_INLINE void split(Words u, Words (&w)[2]) {
    const hn::Repartition<std::uint16_t, WordTag> pairs;
    w[0] = hn::And(u, hn::Set(WordTag(), 0x00ff00ffu));
    w[1] = hn::BitCast(WordTag(), hn::ShiftRight<8>(hn::BitCast(pairs, u)));
  }
  static HWY_INLINE Sum start(Ints init) { return init; }
  static HWY_INLINE void add(Sum& sum, const Words (&w)[2], const Words (&q)[2]) {
    sum = hn::Add(sum, hn::Add(madd_pairs(w[0].raw, q[0].raw), madd_pairs(w[1].raw, q[1].raw)));
  }
  static HWY_INLINE Ints finish(const Sum& sum, Ints) { return sum; }
};

// Sixteen products of 15 * 127 fit 16 bits, so a block's sum stays there until its end.
template <>
struct Dot<false> {
  static constexpr std::size_t kWords = 1;
  using Sum = Ints;
  static HWY_INLINE void split(Words u, Words (&w)[1]) { w[0] = u; }
  static HWY_INLINE Sum start(Ints) { return hn::Zero(IntTag()); }
  static HWY_INLINE void add(Sum& sum, const Words (&w)[1], const Words (&q)[1]) {
    sum.raw = add_pairs(sum.raw, madd_bytes(w[0].raw, q[0].raw));
  }
  static HWY_INLINE Ints finish(const Sum& sum, Ints init) { return hn::Add(madd_pairs(sum.raw, ones()), init); }
};

#endif  // VNNI

#else  // AArch64

inline constexpr std::uint32_t kByteFlip = 0x80808080u;
inline constexpr std::int32_t kByteOffset = 128;

HWY_INLINE Ints zero_product(Ints zero, Ints sum) { return hn::Mul(zero, sum); }
HWY_INLINE int8x16_t signed_bytes(Words w) { return vreinterpretq_s8_u32(w.raw); }

template <bool kBytes>
struct Dot;

template <>
struct Dot<true> {
  static constexpr std::size_t kWords = 1;
  struct Sum {
    int32x4_t lower, upper;
  };
  static HWY_INLINE void split(Words u, Words (&w)[1]) { w[0] = u; }
  static HWY_INLINE Sum start(Ints) { return {vdupq_n_s32(0), vdupq_n_s32(0)}; }
  static HWY_INLINE void add(Sum& sum, const Words (&w)[1], const Words (&q)[1]) {
    const int8x16_t codes = signed_bytes(w[0]), xs = signed_bytes(q[0]);
    sum.lower = vpadalq_s16(sum.lower, vmull_s8(vget_low_s8(codes), vget_low_s8(xs)));
    sum.upper = vpadalq_s16(sum.upper, vmull_high_s8(codes, xs));
  }
  static HWY_INLINE Ints finish(const Sum& sum, Ints init) {
    return hn::Add(Ints(vpaddq_s32(sum.lower, sum.upper)), init);
  }
};

// Eight products of 15 * 127 fit 16 bits, so a block's sum stays there until its end.
template <>
struct Dot<false> {
  static constexpr std::size_t kWords = 1;
  struct Sum {
    int16x8_t lower, upper;
  };
  static HWY_INLINE void split(Words u, Words (&w)[1]) { w[0] = u; }
  static HWY_INLINE Sum start(Ints) { return {vdupq_n_s16(0), vdupq_n_s16(0)}; }
  static HWY_INLINE void add(Sum& sum, const Words (&w)[1], const Words (&q)[1]) {
    const int8x16_t codes = signed_bytes(w[0]), xs = signed_bytes(q[0]);
    sum.lower = vmlal_s8(sum.lower, vget_low_s8(codes), vget_low_s8(xs));
    sum.upper = vmlal_high_s8(sum.upper, codes, xs);
  }
  static HWY_INLINE Ints finish(const Sum& sum, Ints init) {
    return hn::Add(Ints(vpaddq_s32(vpaddlq_s16(sum.lower), vpaddlq_s16(sum.upper))), init);
  }
};

#endif

/// Activation words `at`, the same in each lane.
template <std::size_t kWords>
HWY_INLINE void broadcast_words(const std::int8_t* from, Words (&q)[kWords]) {
  WEFT_UNROLL for (std::size_t h = 0; h < kWords; ++h) {
    std::uint32_t word;
    std::memcpy(&word, from + 4 * h, sizeof word);
    q[h] = hn::Set(WordTag(), word);
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
HWY_AFTER_NAMESPACE();

#endif  // guard
#endif  // !WEFT_ISA_IS_SCALAR
