// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), never by the scalar pass.
// linear_integer for many rows: a few panels' codes are unpacked for a stretch of inputs, then meet all rows.

#if defined(WEFT_KERNELS_LINEAR_INTEGER_TILES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_LINEAR_INTEGER_TILES_INL
#undef WEFT_KERNELS_LINEAR_INTEGER_TILES_INL
#else
#define WEFT_KERNELS_LINEAR_INTEGER_TILES_INL
#endif

#include "kernels/linear_integer_parts-inl.hpp"

#include <array>
#include <utility>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

// A tile is R rows by P panels of sums in registers: 24 (VNNI), 16 (AVX-512), 8 (AVX2), 16 (NEON, two a vector).
#if WEFT_ISA_IS_VNNI
inline constexpr std::size_t kTileRows = 6, kTilePanels = 4;
#else
inline constexpr std::size_t kTileRows = kPanelVectors == 1 ? 8 : kPanelVectors == 2 ? 4 : 2;
inline constexpr std::size_t kTilePanels = kPanelVectors == 1 ? 2 : 1;
#endif
// Blocks unpacked at once: their codes stay in a first-level cache while all rows pass.
inline constexpr std::size_t kTileBlocks = 8;
// Packed codes of the rows that pass: they stay in a second-level cache.
inline constexpr std::size_t kHeldBytes = std::size_t{1} << 20;

/// Unpacked weights of P panels: codes [block][word][kWords][P][16 words], scales (null: none) and zeros
/// [block][P][16].
struct TileWeights {
  std::uint32_t* codes;
  float* scales;
  std::int32_t* zeros;
};

template <int kBits, int j>
HWY_INLINE void unpack_word(Words w, std::size_t P, std::uint32_t* to) {
  using D = DotOf<kBits>;
  store_codes<D>(D::split(four_codes<kBits, j>(w)), to, P * kPanelWidth);
  if constexpr (j + 1 < static_cast<int>(kSubWords<kBits>))
    unpack_word<kBits, j + 1>(w, P, to + D::kWords * P * kPanelWidth);
}

/// Blocks t .. t + count - 1 of panels first .. first + P - 1.
template <int kBits, bool kBlockScale, bool kLaneZero>
HWY_NOINLINE void unpack(const ConstWeight& w, const CodeForm& form, std::size_t first, std::size_t P, std::size_t t,
                         std::size_t count, const TileWeights& to) noexcept {
  const WordTag d;
  constexpr std::size_t kWordStep = kSubWords<kBits> * DotOf<kBits>::kWords;
  const std::size_t words = panel_words(kBits, w.in), blocks = (w.in + kScaleBlock - 1) / kScaleBlock;
  const Words flip = hn::Set(d, form.flip);
  for (std::size_t p = 0; p < P; ++p) {
    const std::uint32_t* const from = static_cast<const std::uint32_t*>(w.codes) + (first + p) * words * kPanelWidth;
    std::uint32_t* const codes = to.codes + p * kPanelWidth;
    for (std::size_t i = 0; i < count * kBits; ++i) {
      const std::size_t word = t * kBits + i;
      for (std::size_t v = 0; v < kPanelVectors; ++v) {
        // Words past the last meet activations of 0; they only must not be read.
        const Words u =
            word < words ? hn::Xor(hn::Load(d, from + word * kPanelWidth + v * kPanelLanes), flip) : hn::Zero(d);
        unpack_word<kBits, 0>(u, P, codes + i * kWordStep * P * kPanelWidth + v * kPanelLanes);
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t group = kBlockScale ? (first + p) * blocks + t + i : first + p, at = (i * P + p) * kPanelWidth;
      for (std::size_t v = 0; v < kPanelWidth; v += kPanelLanes) {
        if constexpr (kBlockScale)
          hn::Store(hn::Load(PanelTag(), static_cast<const float*>(w.scales) + group * kPanelWidth + v), PanelTag(),
                    to.scales + at + v);
        if constexpr (kLaneZero)
          hn::Store(load_zeros<kBits>(static_cast<const std::uint8_t*>(w.zeros) + group * kPanelWidth + v), IntTag(),
                    to.zeros + at + v);
      }
    }
  }
}

/// One block of R packed rows against P unpacked panels: exact sums to `to` [R][P][16]. They go by way of memory
/// because compilers that must keep them in registers for what follows move and spill them inside the loop.
template <bool kBytes, bool kLaneZero, std::size_t R, std::size_t P>
HWY_INLINE void tile_block(const std::uint32_t* codes, const std::int32_t* zeros, const std::int8_t* q,
                           const std::int32_t* zero_terms, std::int32_t* to) {
  using D = Dot<kBytes>;
  const auto init = [&](std::size_t r, std::size_t p, std::size_t v) HWY_ATTR {
    const Ints term = hn::Set(IntTag(), zero_terms[r]);
    if constexpr (kLaneZero)
      return zero_product(hn::Load(IntTag(), zeros + p * kPanelWidth + v * kPanelLanes), term);
    else
      return term;
  };
  typename D::Sum sum[R][P][kPanelVectors];
  WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
    WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[r][p][v] = D::start(init(r, p, v));
    }
  }
  for (std::size_t word = 0; word < kBlockWords; ++word) {
    typename D::Codes w[P][kPanelVectors];
    WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) w[p][v] =
          load_codes<D>(codes + (word * D::kWords * P + p) * kPanelWidth + v * kPanelLanes, P * kPanelWidth);
    }
    WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
      const auto xs = broadcast_activations<D>(q + (r * kBlockWords + word) * 4 * D::kWords);
      WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
        WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[r][p][v] = D::add(sum[r][p][v], w[p][v], xs);
      }
    }
  }
  WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
    WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v)
          hn::Store(D::finish(sum[r][p][v], init(r, p, v)), IntTag(), to + (r * P + p) * kPanelWidth + v * kPanelLanes);
    }
  }
}

/// Exact sums of a chunk's blocks, [kCount][rows][P][16], scaled and added to totals [rows][P][16].
template <bool kBlockScale, std::size_t P, std::size_t kCount>
HWY_INLINE void add_blocks(const std::int32_t* exact, const float* scales, const float* xs, std::size_t rows,
                           float* totals) {
  const PanelTag d;
  constexpr std::size_t kLanes16 = P * kPanelWidth;
  for (std::size_t r = 0; r < rows; ++r) {
    V x_scale[kCount];
    WEFT_UNROLL for (std::size_t c = 0; c < kCount; ++c) x_scale[c] = hn::Set(d, xs[c * rows + r]);
    WEFT_UNROLL for (std::size_t i = 0; i < kLanes16; i += kPanelLanes) {
      // A chunk's first product takes no sum: see row_panels.
      V sum = hn::Zero(d);
      WEFT_UNROLL for (std::size_t c = 0; c < kCount; ++c) {
        const V scale = kBlockScale ? hn::Mul(x_scale[c], hn::Load(d, scales + c * kLanes16 + i)) : x_scale[c];
        const V block = hn::ConvertTo(d, hn::Load(IntTag(), exact + (c * rows + r) * kLanes16 + i));
        sum = c == 0 ? hn::Mul(block, scale) : hn::MulAdd(block, scale, sum);
      }
      float* const total = totals + r * kLanes16 + i;
      hn::Store(hn::Add(hn::Load(d, total), sum), d, total);
    }
  }
}

/// The same for one block or two, with scales of their own or (null) without.
template <std::size_t P>
HWY_NOINLINE void add_chunk(const std::int32_t* exact, std::size_t count, const float* scales, const float* xs,
                            std::size_t rows, float* totals) noexcept {
  if (count == 2)
    scales ? add_blocks<true, P, 2>(exact, scales, xs, rows, totals)
           : add_blocks<false, P, 2>(exact, scales, xs, rows, totals);
  else
    scales ? add_blocks<true, P, 1>(exact, scales, xs, rows, totals)
           : add_blocks<false, P, 1>(exact, scales, xs, rows, totals);
}

/// `count` blocks from an even one on, added to totals [R][P][16].
template <bool kBytes, bool kLaneZero, std::size_t P, std::size_t R>
void tile(const TileWeights& w, std::size_t count, const std::int8_t* q, const float* xs,
          const std::int32_t* zero_terms, float* totals) noexcept {
  constexpr std::size_t kLanes16 = P * kPanelWidth, kWords = kBlockWords * Dot<kBytes>::kWords;
  alignas(64) std::int32_t exact[2 * R * kLanes16];
  for (std::size_t t = 0; t < count; ++t) {
    const std::size_t in_chunk = t % 2, first = t - in_chunk;
    tile_block<kBytes, kLaneZero, R, P>(w.codes + t * kWords * kLanes16, w.zeros + t * kLanes16, q + t * R * kWords * 4,
                                        zero_terms + t * R, exact + in_chunk * R * kLanes16);
    if (in_chunk == 1 || t + 1 == count)
      add_chunk<P>(exact, in_chunk + 1, w.scales ? w.scales + first * kLanes16 : nullptr, xs + first * R, R, totals);
  }
}

using Tile = void (*)(const TileWeights&, std::size_t, const std::int8_t*, const float*, const std::int32_t*,
                      float*) noexcept;

template <bool kBytes, bool kLaneZero, std::size_t P, std::size_t... I>
constexpr std::array<Tile, sizeof...(I)> make_tiles(std::index_sequence<I...>) {
  return {&tile<kBytes, kLaneZero, P, I + 1>...};
}
// If one Dot serves all widths, one width's tiles do too.
template <int kBits>
inline constexpr bool kTileBytes = kBits == 8 && !WEFT_ISA_IS_VNNI;
template <bool kBytes, bool kLaneZero, std::size_t P>
inline constexpr auto kTiles = make_tiles<kBytes, kLaneZero, P>(std::make_index_sequence<kTileRows>());

/// Parts [begin, end) against panels first .. first + P - 1.
template <int kBits, bool kBlockScale, bool kLaneZero, std::size_t P>
void run_panels(const ConstWeight& w, const CodeForm& form, const PackedRows& x, std::size_t begin, std::size_t end,
                const Outputs& outputs, std::size_t first, const TileWeights& unpacked, float* totals) noexcept {
  const auto& tiles = kTiles<kTileBytes<kBits>, kLaneZero, P>;
  constexpr std::size_t kLanes16 = P * kPanelWidth;
  const std::size_t first_row = x.first_row(begin);
  const auto totals_of = [&](std::size_t row) { return totals + (row - first_row) * kLanes16; };
  std::memset(totals, 0, (x.first_row(end) - first_row) * kLanes16 * sizeof(float));
  for (std::size_t t = 0; t < x.blocks; t += kTileBlocks) {
    const std::size_t count = std::min(kTileBlocks, x.blocks - t);
    unpack<kBits, kBlockScale, kLaneZero>(w, form, first, P, t, count, unpacked);
    for (std::size_t part = begin; part < end; ++part) {
      const std::size_t R = x.rows_of(part), at = t * R;
      tiles[R - 1](unpacked, count, x.codes_of(part) + at * x.block_bytes, x.scales_of(part) + at,
                   x.zero_terms_of(part) + at, totals_of(x.first_row(part)));
    }
  }
  const std::size_t o = first * kPanelWidth;
  for (std::size_t row = first_row; row < x.first_row(end); ++row) {
    scale_outputs(w, outputs, row, o, kLanes16, totals_of(row));
    if (outputs.has_finish()) outputs.finish(row, o, std::min(kLanes16, w.out - o));
  }
}

template <int kBits, bool kBlockScale, bool kLaneZero>
void run_tiles(const ConstWeight& w, const CodeForm& form, const PackedRows& x, std::size_t first, std::size_t last,
               const Outputs& outputs) noexcept {
  const std::size_t panels = panel_count(w.out);
  const std::size_t part_bytes = std::max<std::size_t>(1, kTileRows * x.blocks * x.block_bytes);
  const std::size_t held = std::max<std::size_t>(1, kHeldBytes / part_bytes);
  constexpr std::size_t kCodes = kTileBlocks * kBlockWords * DotOf<kBits>::kWords * kTilePanels * kPanelWidth;
  constexpr std::size_t kLanes16 = kTileBlocks * kTilePanels * kPanelWidth;
  const std::size_t totals_size = std::min(held, last - first) * kTileRows * kTilePanels * kPanelWidth;
  float* const scratch = detail::linear_scratch(kCodes + 2 * kLanes16 + totals_size);
  const TileWeights unpacked{reinterpret_cast<std::uint32_t*>(scratch), kBlockScale ? scratch + kCodes : nullptr,
                             reinterpret_cast<std::int32_t*>(scratch + kCodes + kLanes16)};
  float* const totals = scratch + kCodes + 2 * kLanes16;
  for (std::size_t begin = first; begin < last; begin += held) {
    const std::size_t end = std::min(last, begin + held);
    const auto run = [&](auto P, std::size_t p) {
      run_panels<kBits, kBlockScale, kLaneZero, decltype(P)::value>(w, form, x, begin, end, outputs, p, unpacked,
                                                                    totals);
    };
    std::size_t p = 0;
    for (; p + kTilePanels <= panels; p += kTilePanels) run(std::integral_constant<std::size_t, kTilePanels>(), p);
    if constexpr (kTilePanels > 2)
      for (; p + 2 <= panels; p += 2) run(std::integral_constant<std::size_t, 2>(), p);
    if constexpr (kTilePanels > 1)
      for (; p < panels; ++p) run(std::integral_constant<std::size_t, 1>(), p);
  }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
