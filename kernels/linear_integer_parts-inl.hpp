// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), never by the scalar pass.
// linear_integer, what one row and tiles have in common: packed activations before the sums, scales and bias after.

#if defined(WEFT_KERNELS_LINEAR_INTEGER_PARTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_LINEAR_INTEGER_PARTS_INL
#undef WEFT_KERNELS_LINEAR_INTEGER_PARTS_INL
#else
#define WEFT_KERNELS_LINEAR_INTEGER_PARTS_INL
#endif

#include "kernels/internal/integer_linear.hpp"
#include "kernels/linear_outputs-inl.hpp"
#include "kernels/quantize-inl.hpp"
#include "kernels/simd/dot-inl.hpp"
#include "kernels/simd/scales-inl.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

using detail::CodeForm;
using detail::PackedRows;
using V = PanelVector;

/// A block has eight words of four codes whatever the type; a panel's block has kBits words of 32 / kBits codes.
inline constexpr std::size_t kBlockWords = kScaleBlock / 4;
template <int kBits>
inline constexpr std::size_t kSubWords = 8 / static_cast<std::size_t>(kBits);
template <int kBits>
using DotOf = Dot<kBits == 8>;
/// True where one Dot serves all widths.
inline constexpr bool kHasOneDot = WEFT_ISA_IS_VNNI || WEFT_ISA_IS_DOTPROD;

// A tile is R rows by P panels of sums in registers: 12 for each of two blocks (VNNI), 16 (AVX-512), 8 (AVX2), 16
// (NEON, two a vector, and its dot products).
#if WEFT_ISA_IS_VNNI
inline constexpr std::size_t kTileRows = 6, kTilePanels = 2;
#elif WEFT_ISA_IS_DOTPROD
inline constexpr std::size_t kTileRows = 4, kTilePanels = 1;
#else
inline constexpr std::size_t kTileRows = kPanelVectors == 1 ? 8 : kPanelVectors == 2 ? 4 : 2;
inline constexpr std::size_t kTilePanels = kPanelVectors == 1 ? 2 : 1;
#endif

/// The form as this instruction set's bytes want it.
inline CodeForm own_form(CodeForm form) noexcept {
  if (form.bits == 8) {
    form.flip ^= kByteFlip;
    if (!form.lane_zero) form.zero -= kByteOffset;
  }
  return form;
}

inline std::size_t panel_words(int bits, std::size_t in) noexcept {
  const std::size_t n = codes_per_word(bits);
  return (in + n - 1) / n;
}

/// Zeros of kPanelLanes outputs, lowered like the codes of their width.
template <int kBits>
HWY_INLINE Ints load_zero_points(const std::uint8_t* from) {
  const hn::Rebind<std::uint8_t, IntTag> d;
  const Ints zero_points = hn::PromoteTo(IntTag(), hn::LoadU(d, from));
  return kBits == 8 && kByteOffset != 0 ? hn::Sub(zero_points, hn::Set(IntTag(), kByteOffset)) : zero_points;
}

// --- activations -----------------------------------------------------------------------------------------------------

/// The 32 codes of a block in the order in which four_codes takes the weights'.
template <int kBits>
HWY_INLINE void order_block(const std::int8_t* codes, std::int8_t* to) {
  const hn::Full128<std::int8_t> d;
  const auto a = hn::Load(d, codes), b = hn::Load(d, codes + 16);
  if constexpr (kBits == 8) {
    if constexpr (DotOf<kBits>::kWords == 1) {
      hn::StoreU(a, d, to);
      hn::StoreU(b, d, to + 16);
    } else {  // words of 16 bits: even codes, odd codes
      const hn::Full128<std::int16_t> pairs;
      const hn::Full128<std::int32_t> words;
      const auto widen = [&](auto v, std::int8_t* out) HWY_ATTR {
        const auto even = hn::ShiftRight<8>(hn::ShiftLeft<8>(hn::BitCast(pairs, v)));
        const auto odd = hn::ShiftRight<8>(hn::BitCast(pairs, v));
        const auto e = hn::BitCast(words, even), o = hn::BitCast(words, odd);
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(words, e, o)), d, out);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(words, e, o)), d, out + 16);
      };
      widen(a, to);
      widen(b, to + 32);
    }
  } else if constexpr (kBits == 1) {
    alignas(16) static constexpr std::int8_t kOrder[16] = {0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15};
    const hn::Full128<std::int16_t> pairs;
    const auto order = hn::Load(d, kOrder);
    const auto low = hn::BitCast(pairs, hn::TableLookupBytes(a, order));
    const auto high = hn::BitCast(pairs, hn::TableLookupBytes(b, order));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low, high)), d, to);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low, high)), d, to + 16);
  } else {
    alignas(16) static constexpr std::int8_t kOrder4[16] = {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15};
    alignas(16) static constexpr std::int8_t kOrder2[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    const auto order = hn::Load(d, kBits == 4 ? kOrder4 : kOrder2);
    hn::StoreU(hn::TableLookupBytes(a, order), d, to);
    hn::StoreU(hn::TableLookupBytes(b, order), d, to + 16);
  }
}

template <int kBits>
void pack_parts(const ConstMatrixView& x, const CodeForm& form, const PackedRows& to, std::size_t first,
                std::size_t last) noexcept {
  const std::int32_t factor = form.lane_zero ? -1 : -own_form(form).zero;
  for (std::size_t part = first; part < last; ++part) {
    const std::size_t R = to.rows_of(part);
    std::int8_t* const codes = to.codes_of(part);
    float* const scales = to.scales_of(part);
    std::int32_t* const zero_terms = to.zero_terms_of(part);
    for (std::size_t r = 0; r < R; ++r) {
      const float* const row = x.row(to.first_row(part) + r);
      const std::uint32_t of_row = form.row_scale ? largest_of_row(row, x.cols) : 0;
      for (std::size_t t = 0; t < to.blocks; ++t) {
        alignas(64) std::int8_t block[kScaleBlock];
        const std::size_t k = t * kScaleBlock, at = t * R + r;
        const BlockScale quantized = quantize_block(row + k, std::min(kScaleBlock, x.cols - k), block, of_row);
        order_block<kBits>(block, codes + at * to.block_bytes);
        scales[at] = quantized.scale;
        zero_terms[at] = factor * quantized.sum;
      }
    }
  }
}

// --- outputs ---------------------------------------------------------------------------------------------------------

/// Finishes the sums of row b, outputs o .. o + lanes - 1 (or to w.out), up to the activation. Uses up `totals`.
HWY_INLINE void scale_outputs(const ConstWeight& w, const Outputs& outputs, std::size_t b, std::size_t o,
                              std::size_t lanes, float* totals) {
  const PanelTag d;
  const float* const scales = static_cast<const float*>(w.scales);
  const bool whole = o + lanes <= w.out;
  const float* const bias = outputs.bias ? outputs.bias + o : nullptr;
  float* const to = outputs.before_activation(b) + o;
  for (std::size_t i = 0; i < lanes; i += kPanelLanes) {
    V total = hn::Load(d, totals + i);
    if (w.granularity == Granularity::tensor) total = hn::Mul(total, hn::Set(d, *scales));
    if (w.granularity == Granularity::channel) total = hn::Mul(total, hn::Load(d, scales + o + i));
    if (whole)
      hn::StoreU(bias ? hn::Add(total, hn::LoadU(d, bias + i)) : total, d, to + i);
    else
      hn::Store(total, d, totals + i);
  }
  if (!whole)
    for (std::size_t i = 0; o + i < w.out; ++i) to[i] = bias ? totals[i] + bias[i] : totals[i];
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
