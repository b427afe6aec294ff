// SPDX-License-Identifier: Apache-2.0
#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/linear_integer_tiles.cpp"
#define WEFT_WITHOUT_WASM

#define WEFT_WITH_DOTS
#include "kernels/foreach_isa.hpp"
#include "kernels/internal/integer_linear.hpp"
#if !WEFT_ISA_IS_SCALAR
#include "kernels/linear_integer_parts-inl.hpp"
#endif

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

using detail::IntegerTile;
using detail::StoredTile;
using detail::StoredWeights;
using detail::TileWeights;

#if !WEFT_ISA_IS_VNNI
const StoredTile* stored_tiles(int, std::size_t) noexcept { return nullptr; }
#endif

#if WEFT_ISA_IS_SCALAR

const IntegerTile* integer_tiles(bool, bool, std::size_t) noexcept { return nullptr; }  // it has none

#else

#if WEFT_ISA_IS_VNNI

/// Blocks from t on of P unpacked panels.
template <std::size_t P, bool kLaneZero>
class UnpackedBlocks {
 public:
  static constexpr bool kHasLaneZeros = kLaneZero;
  HWY_INLINE UnpackedBlocks(const TileWeights& w, std::size_t t)
      : codes_(w.codes + t * kBlockWords * kLanes),
        scales_(w.scales ? w.scales + t * kLanes : nullptr),
        zero_points_(w.zero_points + t * kLanes) {}
  HWY_INLINE Words word(std::size_t block, std::size_t i, std::size_t p) const {
    return hn::Load(WordTag(), codes_ + (block * kBlockWords + i) * kLanes + p * kPanelWidth);
  }
  HWY_INLINE V scale(std::size_t block, std::size_t p) const {
    return hn::Load(PanelTag(), scales_ + block * kLanes + p * kPanelWidth);
  }
  static HWY_INLINE void ask_ahead(const TileWeights&, std::size_t) {}
  HWY_INLINE Ints zero_points(std::size_t block, std::size_t p) const {
    return hn::Load(IntTag(), zero_points_ + block * kLanes + p * kPanelWidth);
  }

 private:
  static constexpr std::size_t kLanes = P * kPanelWidth;
  const std::uint32_t* const codes_;
  const float* const scales_;
  const std::int32_t* const zero_points_;
};

/// Blocks from t on of P panels as they are stored.
template <int kBits, std::size_t P>
class StoredBlocks {
 public:
  static constexpr bool kHasLaneZeros = false;
  HWY_INLINE StoredBlocks(const StoredWeights& w, std::size_t t)
      : codes_(w.codes + t * kBits * kPanelWidth),
        scales_(w.scales ? w.scales + t * kPanelWidth : nullptr),
        blocks_(w.panel_blocks),
        scale_blocks_(w.scale_blocks),
        flip_(hn::Set(WordTag(), w.flip)) {}
  HWY_INLINE Words word(std::size_t block, std::size_t i, std::size_t p) const {
    constexpr std::size_t kSub = kSubWords<kBits>;
    const std::uint32_t* const panel = codes_ + p * blocks_ * kBits * kPanelWidth;
    const Words word = hn::Xor(hn::Load(WordTag(), panel + (block * kBits + i / kSub) * kPanelWidth), flip_);
    // Unrolled loops know i.
    if constexpr (kBits == 4) return i % kSub == 0 ? four_codes<kBits, 0>(word) : four_codes<kBits, 1>(word);
    return word;
  }
  HWY_INLINE V scale(std::size_t block, std::size_t p) const {
    return hn::Load(PanelTag(), scales_ + (p * scale_blocks_ + block) * kPanelWidth);
  }
  /// Share of the chunk of block t.
  static HWY_INLINE void ask_ahead(const StoredWeights& w, std::size_t t) {
    const StoredWeights::Ahead& ahead = w.ahead;
    const std::size_t first = ahead.first + t / 2 * ahead.step, last = std::min(first + ahead.step, ahead.last);
    std::size_t line = first;
    for (const std::size_t end = std::min(last, ahead.panel_lines); line < end; ++line)
      __builtin_prefetch(ahead.words + line * kPanelWidth);
    for (; line < last; ++line) __builtin_prefetch(ahead.words + ahead.jump + line * kPanelWidth);
  }

 private:
  const std::uint32_t* const codes_;
  const float* const scales_;
  const std::size_t blocks_, scale_blocks_;
  const Words flip_;
};

/// A chunk of kCount blocks, added to totals [R][P][16]: the sums of both blocks stay in registers until they are
/// floats, 24 of them at R = 6 and P = 2. On the way through memory their stores would take as long as 6 x 24 products
/// on Zen 4, and fill its queues meanwhile.
template <bool kBlockScale, std::size_t P, std::size_t R, std::size_t kCount, class Blocks>
HWY_INLINE void tile_chunk(const Blocks& w, const std::int8_t* q, const float* xs, const std::int32_t* zero_terms,
                           float* totals) {
  using D = Dot<false>;
  static_assert(kPanelVectors == 1);
  const PanelTag d;
  typename D::Sum sum[kCount][R][P];
  WEFT_UNROLL for (std::size_t c = 0; c < kCount; ++c) {
    WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
      const Ints term = hn::Set(IntTag(), zero_terms[c * R + r]);
      WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
        if constexpr (Blocks::kHasLaneZeros)
          sum[c][r][p] = D::start(zero_product(w.zero_points(c, p), term));
        else
          sum[c][r][p] = D::start(term);
      }
    }
  }
  WEFT_UNROLL for (std::size_t c = 0; c < kCount; ++c) {
    WEFT_UNROLL for (std::size_t word = 0; word < kBlockWords; ++word) {
      Words codes[P];
      WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) codes[p] = w.word(c, word, p);
      WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
        const Words x = broadcast_word(q + ((c * R + r) * kBlockWords + word) * 4);
        WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) sum[c][r][p] = D::add(sum[c][r][p], codes[p], x);
      }
    }
  }
  WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
    WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
      V added = hn::Zero(d);
      WEFT_UNROLL for (std::size_t c = 0; c < kCount; ++c) {
        V scale = hn::Set(d, xs[c * R + r]);
        if constexpr (kBlockScale) scale = hn::Mul(scale, w.scale(c, p));
        const V block = hn::ConvertTo(d, Ints{(Raw)sum[c][r][p]});
        // A chunk's first product takes no sum: see row_panels.
        added = c == 0 ? hn::Mul(block, scale) : hn::MulAdd(block, scale, added);
      }
      float* const total = totals + (r * P + p) * kPanelWidth;
      hn::Store(hn::Add(hn::Load(d, total), added), d, total);
    }
  }
}

template <class Blocks, bool kBlockScale, std::size_t P, std::size_t R>
HWY_INLINE void tile_chunks(const auto& w, std::size_t count, const std::int8_t* q, const float* xs,
                            const std::int32_t* zero_terms, float* totals) {
  const auto chunk = [&](auto blocks, std::size_t t) HWY_ATTR {
    Blocks::ask_ahead(w, t);
    tile_chunk<kBlockScale, P, R, decltype(blocks)::value>(Blocks(w, t), q + t * R * kScaleBlock, xs + t * R,
                                                           zero_terms + t * R, totals);
  };
  std::size_t t = 0;
  for (; t + 2 <= count; t += 2) chunk(std::integral_constant<std::size_t, 2>(), t);
  if (t < count) chunk(std::integral_constant<std::size_t, 1>(), t);
}

/// `count` blocks from an even one on, added to totals [R][P][16].
template <bool kBytes, bool kLaneZero, std::size_t P, std::size_t R>
void tile(const TileWeights& w, std::size_t count, const std::int8_t* q, const float* xs,
          const std::int32_t* zero_terms, float* totals) noexcept {
  using Blocks = UnpackedBlocks<P, kLaneZero>;
  if (w.scales)
    tile_chunks<Blocks, true, P, R>(w, count, q, xs, zero_terms, totals);
  else
    tile_chunks<Blocks, false, P, R>(w, count, q, xs, zero_terms, totals);
}

template <int kBits, std::size_t P, std::size_t R>
void stored_tile(const StoredWeights& w, std::size_t count, const std::int8_t* q, const float* xs,
                 const std::int32_t* zero_terms, float* totals) noexcept {
  using Blocks = StoredBlocks<kBits, P>;
  if (w.scales)
    tile_chunks<Blocks, true, P, R>(w, count, q, xs, zero_terms, totals);
  else
    tile_chunks<Blocks, false, P, R>(w, count, q, xs, zero_terms, totals);
}

#else

/// One block of R packed rows against P unpacked panels: exact sums to `to` [R][P][16]. They go by way of memory
/// because compilers that must keep them in registers for what follows move and spill them inside the loop.
template <bool kBytes, bool kLaneZero, std::size_t R, std::size_t P>
HWY_INLINE void tile_block(const std::uint32_t* codes, const std::int32_t* zero_points, const std::int8_t* q,
                           const std::int32_t* zero_terms, std::int32_t* to) {
  using D = Dot<kBytes>;
  const auto init = [&](std::size_t r, std::size_t p, std::size_t v) HWY_ATTR {
    const Ints term = hn::Set(IntTag(), zero_terms[r]);
    if constexpr (kLaneZero)
      return zero_product(hn::Load(IntTag(), zero_points + p * kPanelWidth + v * kPanelLanes), term);
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
    tile_block<kBytes, kLaneZero, R, P>(w.codes + t * kWords * kLanes16, w.zero_points + t * kLanes16,
                                        q + t * R * kWords * 4, zero_terms + t * R, exact + in_chunk * R * kLanes16);
    if (in_chunk == 1 || t + 1 == count)
      add_chunk<P>(exact, in_chunk + 1, w.scales ? w.scales + first * kLanes16 : nullptr, xs + first * R, R, totals);
  }
}

#endif

template <bool kBytes, bool kLaneZero, std::size_t P, std::size_t... I>
constexpr std::array<IntegerTile, sizeof...(I)> make_tiles(std::index_sequence<I...>) {
  return {&tile<kBytes, kLaneZero, P, I + 1>...};
}
template <bool kBytes, bool kLaneZero, std::size_t P>
inline constexpr auto kTiles = make_tiles<kBytes, kLaneZero, P>(std::make_index_sequence<kTileRows>());

template <bool kBytes, bool kLaneZero>
const IntegerTile* tiles_of(std::size_t panels) noexcept {
  if constexpr (kTilePanels > 1)
    if (panels == kTilePanels) return kTiles<kBytes, kLaneZero, kTilePanels>.data();
  return kTiles<kBytes, kLaneZero, 1>.data();
}

#if WEFT_ISA_IS_VNNI
template <int kBits, std::size_t... I>
constexpr std::array<StoredTile, sizeof...(I)> make_stored_tiles(std::index_sequence<I...>) {
  return {&stored_tile<kBits, kTilePanels, I + 1>...};
}
inline constexpr auto kStoredBytes = make_stored_tiles<8>(std::make_index_sequence<kTileRows>()),
                      kStoredNibbles = make_stored_tiles<4>(std::make_index_sequence<kTileRows>());

const StoredTile* stored_tiles(int bits, std::size_t panels) noexcept {
  return panels != kTilePanels ? nullptr : bits == 8 ? kStoredBytes.data() : kStoredNibbles.data();
}
#endif

const IntegerTile* integer_tiles(bool bytes, bool lane_zero, std::size_t panels) noexcept {
  // If one Dot serves all widths, one width's tiles do too.
  if (bytes && !kHasOneDot) {
    constexpr bool kBytes = !kHasOneDot;
    return lane_zero ? tiles_of<kBytes, true>(panels) : tiles_of<kBytes, false>(panels);
  }
  return lane_zero ? tiles_of<false, true>(panels) : tiles_of<false, false>(panels);
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels::detail {
namespace {
constexpr auto kIntegerTiles = WEFT_DISPATCH(integer_tiles);
constexpr auto kStoredTiles = WEFT_DISPATCH(stored_tiles);
}  // namespace

const IntegerTile* integer_tiles(bool bytes, bool lane_zero, std::size_t panels) noexcept {
  return kIntegerTiles.get()(bytes, lane_zero, panels);
}
const StoredTile* stored_tiles(int bits, std::size_t panels) noexcept { return kStoredTiles.get()(bits, panels); }

}  // namespace weft::kernels::detail
#endif
