// SPDX-License-Identifier: Apache-2.0
#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/linear_integer_tables.cpp"
#define WEFT_WITHOUT_WASM

#define WEFT_WITH_DOTS
#include "kernels/foreach_isa.hpp"
#include "kernels/internal/binary_tables.hpp"
#if WEFT_ISA_IS_VNNI
#include "kernels/simd/dot-inl.hpp"
#include "kernels/simd/scales-inl.hpp"
// Not part of avx512_vnni: binary_tables() looks whether the CPU has it.
#undef HWY_TARGET_STR
#define HWY_TARGET_STR HWY_TARGET_STR_AVX3 ",avx512vnni,avx512vbmi"
#endif

#include "core/encoding.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

using detail::BinaryTables;

#if !WEFT_ISA_IS_VNNI

const BinaryTables* binary_tables() noexcept { return nullptr; }

#else

constexpr std::size_t kTables = 4, kTableBytes = 64, kPanels = BinaryTables::kPanels;
static_assert(kTables * kTableBytes == BinaryTables::kBlockBytes);
// A sum of four codes is 32 c + r - kBias, 0 <= c, r < 32; a block has eight of them, and counts the codes of set bits
// alone: I = 2 (their sum) - (the sum of all codes), which is the zero term.
constexpr int kBias = 4 * 127, kBlockBias = 2 * 8 * kBias;

/// Lane m of 16 bytes: the sums over codes m, m + 4, m + 8, m + 12 of `codes`, an entry for each subset.
HWY_INLINE void build_sums(const std::int8_t* codes, std::uint8_t* to) {
  constexpr long long kEach = 0x0101010101010101;
  const __m512i lane = _mm512_set_epi64(3 * kEach, 3 * kEach, 2 * kEach, 2 * kEach, kEach, kEach, 0, 0);
  const auto pair = [&](int step) HWY_ATTR {  // codes 4 step + m and 4 step + 4 + m in all 16-bit places of lane m
    return _mm512_add_epi8(lane, _mm512_set1_epi16(static_cast<short>(4 * step | (4 * step + 4) << 8)));
  };
  // Entries e and e + 8 of a lane stand in two vectors: bits 0 to 2 of e choose in both, bit 3 in the second.
  const __m512i low_bits = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 1, 0, 0, 1, 1, 1, 0, 0, 1, 0, 0, 1, 1, 1));
  const __m512i bit2 = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0));
  const __m512i bit3 = _mm512_add_epi8(bit2, _mm512_set1_epi16(0x0100));
  __m128i sixteen;
  std::memcpy(&sixteen, codes, sizeof sixteen);
  const __m512i x = _mm512_broadcast_i32x4(sixteen);
  const __m512i x01 = _mm512_shuffle_epi8(x, pair(0)), x23 = _mm512_shuffle_epi8(x, pair(2));
  const __m512i base = _mm512_add_epi16(_mm512_maddubs_epi16(low_bits, x01), _mm512_set1_epi16(kBias));
  const __m512i a = _mm512_add_epi16(base, _mm512_maddubs_epi16(bit2, x23));
  const __m512i b = _mm512_add_epi16(base, _mm512_maddubs_epi16(bit3, x23));
  const __m512i rest = _mm512_set1_epi16(31);
  _mm512_store_si512(to, _mm512_packus_epi16(_mm512_srli_epi16(a, 5), _mm512_srli_epi16(b, 5)));
  _mm512_store_si512(to + kTableBytes, _mm512_packus_epi16(_mm512_and_si512(a, rest), _mm512_and_si512(b, rest)));
}

void build(const std::int8_t* codes, std::size_t count, std::uint8_t* tables) noexcept {
  for (std::size_t t = 0; t < count; ++t, codes += kScaleBlock, tables += BinaryTables::kBlockBytes) {
    build_sums(codes, tables);                         // bits 0 to 3 of bytes
    build_sums(codes + 16, tables + 2 * kTableBytes);  // bits 4 to 7
  }
}

/// Exact sums of one block of kPanels panels.
struct BlockSums {
  __m512i place, low, quotient, remainder;

  /// Chooses byte m's entry of lane m.
  HWY_INLINE __m512i index(__m512i words) const { return _mm512_ternarylogic_epi32(words, place, low, 0xec); }

  template <class Take>
  HWY_INLINE void operator()(const std::uint32_t* codes, std::size_t stride, const std::uint8_t* tables,
                             std::int32_t zero_term, const Take& take) const {
    const __m512i start = _mm512_set1_epi32(zero_term - kBlockBias);
    __m512i table[kTables];
    WEFT_UNROLL for (std::size_t i = 0; i < kTables; ++i) table[i] = _mm512_load_si512(tables + i * kTableBytes);
    WEFT_UNROLL for (std::size_t p = 0; p < kPanels; ++p) {
      const __m512i words = _mm512_load_si512(codes + p * stride);
      const __m512i a = index(words), b = index(_mm512_srli_epi32(words, 4));
      const __m512i c = _mm512_add_epi8(_mm512_permutexvar_epi8(a, table[0]), _mm512_permutexvar_epi8(b, table[2]));
      const __m512i r = _mm512_add_epi8(_mm512_permutexvar_epi8(a, table[1]), _mm512_permutexvar_epi8(b, table[3]));
      take(p, Ints{_mm512_dpbusd_epi32(_mm512_dpbusd_epi32(start, c, quotient), r, remainder)});
    }
  }
};

template <bool kBlockScale>
HWY_INLINE void add_blocks(const std::uint32_t* codes, const detail::ScaleArray& scales, std::size_t stride,
                           const std::uint8_t* tables, const float* x_scales, const std::int32_t* zero_terms,
                           std::size_t count, std::size_t ahead, float* totals) {
  const PanelTag d;
  const BlockSums sums{_mm512_set1_epi32(0x30201000), _mm512_set1_epi32(0x0f0f0f0f), _mm512_set1_epi8(64),
                       _mm512_set1_epi8(2)};
  PanelVector total[kPanels], sum[kPanels];
  WEFT_UNROLL for (std::size_t p = 0; p < kPanels; ++p) total[p] = hn::Load(d, totals + p * kPanelWidth);
  const auto block = [&](std::size_t t, const auto& take) HWY_ATTR {
    if (ahead != 0) {
      WEFT_UNROLL for (std::size_t p = 0; p < kPanels; ++p)
          __builtin_prefetch(codes + p * stride + t * kPanelWidth + ahead, 0, 2);
    }
    const PanelVector x_scale = hn::Set(d, x_scales[t]);
    sums(codes + t * kPanelWidth, stride, tables + t * BinaryTables::kBlockBytes, zero_terms[t],
         [&](std::size_t p, Ints exact) HWY_ATTR {
           const PanelVector scale =
               kBlockScale ? hn::Mul(x_scale, load_scales(scales, p * stride + t * kPanelWidth)) : x_scale;
           take(p, hn::ConvertTo(d, exact), scale);
         });
  };
  // A chunk's first product takes no sum: see row_panels.
  const auto first = [&](std::size_t p, PanelVector a, PanelVector b) HWY_ATTR { sum[p] = hn::Mul(a, b); };
  std::size_t t = 0;
  for (; t + 2 <= count; t += 2) {
    block(t, first);
    block(t + 1, [&](std::size_t p, PanelVector a, PanelVector b)
                     HWY_ATTR { total[p] = hn::Add(total[p], hn::MulAdd(a, b, sum[p])); });
  }
  if (t < count) {
    block(t, first);
    WEFT_UNROLL for (std::size_t p = 0; p < kPanels; ++p) total[p] = hn::Add(total[p], sum[p]);
  }
  WEFT_UNROLL for (std::size_t p = 0; p < kPanels; ++p) hn::Store(total[p], d, totals + p * kPanelWidth);
}

void add(const std::uint32_t* codes, const detail::ScaleArray& scales, std::size_t stride, const std::uint8_t* tables,
         const float* x_scales, const std::int32_t* zero_terms, std::size_t count, std::size_t ahead,
         float* totals) noexcept {
  if (scales.data)
    add_blocks<true>(codes, scales, stride, tables, x_scales, zero_terms, count, ahead, totals);
  else
    add_blocks<false>(codes, scales, stride, tables, x_scales, zero_terms, count, ahead, totals);
}

const BinaryTables* binary_tables() noexcept {
  static const bool has_byte_permutes = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 1) != 0;
  }();
  static constexpr BinaryTables kTablesOfThisIsa{&build, &add};
  return has_byte_permutes ? &kTablesOfThisIsa : nullptr;
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels::detail {
namespace {
constexpr auto kBinaryTables = WEFT_DISPATCH(binary_tables);
}  // namespace

const BinaryTables* binary_tables() noexcept { return kBinaryTables.get()(); }

}  // namespace weft::kernels::detail
#endif
