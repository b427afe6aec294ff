// SPDX-License-Identifier: Apache-2.0
#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/linear_integer_amx.cpp"

#define WEFT_WITH_VNNI
#include "kernels/foreach_isa.hpp"
#include "kernels/internal/matrix_tiles.hpp"
#if WEFT_ISA_IS_VNNI
#include "kernels/simd/dot-inl.hpp"
// Not part of avx512_vnni: code that has it runs where the active instruction set is amx.
#undef HWY_TARGET_STR
#define HWY_TARGET_STR HWY_TARGET_STR_AVX3 ",avx512vnni,amx-tile,amx-int8"
#endif

#include <algorithm>
#include <array>
#include <type_traits>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

using detail::kMatrixRows;
using detail::MatrixTile;
using detail::TileWeights;
using detail::TileZeros;

#if !WEFT_ISA_IS_VNNI

MatrixTile matrix_tile(TileZeros) noexcept { return nullptr; }

#else

// Products of a chunk: [2 blocks][16 rows][16 lanes].
constexpr std::size_t kBlockProducts = kMatrixRows * kPanelWidth, kChunkProducts = 2 * kBlockProducts;
constexpr std::size_t kBlockCodes = kScaleBlock / 4 * kPanelWidth;  // words of a panel's block

/// AMX: a tile of `rows` by 32 codes times one of 32 by 16, the layout of both as packed. Tiles: 0 and 1 products, 4
/// and 5 rows, 6 and 7 weights.
struct Amx {
  struct alignas(64) Shape {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  };
  static HWY_INLINE void begin(std::size_t rows) {
    Shape shape;
    const auto set = [&](int tile, std::size_t of_rows, std::size_t bytes) {
      shape.rows[tile] = static_cast<std::uint8_t>(of_rows);
      shape.row_bytes[tile] = static_cast<std::uint16_t>(bytes);
    };
    for (const int tile : {0, 1}) set(tile, rows, kPanelWidth * 4);
    for (const int tile : {4, 5}) set(tile, rows, kScaleBlock);
    for (const int tile : {6, 7}) set(tile, kScaleBlock / 4, kPanelWidth * 4);
    // Not _tile_loadconfig: g++ 12 lets it read 8 bytes of the shape and drops stores to the rest.
    asm volatile("ldtilecfg %0" : : "m"(shape));
  }
  static HWY_INLINE void end() { _tile_release(); }
  /// Products of `count` blocks, one or two.
  template <bool kSigned>
  static HWY_INLINE void multiply(const std::int8_t* x, const std::uint32_t* w, std::size_t rows, std::size_t count,
                                  std::int32_t* to) {
    _tile_zero(0);
    _tile_loadd(4, x, kScaleBlock);
    _tile_loadd(6, w, kPanelWidth * 4);
    if constexpr (kSigned)
      _tile_dpbssd(0, 4, 6);
    else
      _tile_dpbsud(0, 4, 6);
    if (count == 2) {
      _tile_zero(1);
      _tile_loadd(5, x + rows * kScaleBlock, kScaleBlock);
      _tile_loadd(7, w + kBlockCodes, kPanelWidth * 4);
      if constexpr (kSigned)
        _tile_dpbssd(1, 5, 7);
      else
        _tile_dpbsud(1, 5, 7);
      _tile_stored(1, to + kBlockProducts, kPanelWidth * 4);
    }
    _tile_stored(0, to, kPanelWidth * 4);
  }
};

/// The same in plain C++, for CPUs without AMX.
struct Emulated {
  static HWY_INLINE void begin(std::size_t) {}
  static HWY_INLINE void end() {}
  template <bool kSigned>
  static HWY_NOINLINE void multiply(const std::int8_t* x, const std::uint32_t* w, std::size_t rows, std::size_t count,
                                    std::int32_t* to) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(w);
    for (std::size_t c = 0; c < count; ++c)
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t lane = 0; lane < kPanelWidth; ++lane) {
          std::int32_t sum = 0;
          for (std::size_t k = 0; k < kScaleBlock; ++k) {
            const std::uint8_t byte = bytes[((c * kScaleBlock + k) / 4 * kPanelWidth + lane) * 4 + k % 4];
            const std::int32_t code = kSigned ? static_cast<std::int8_t>(byte) : static_cast<std::int32_t>(byte);
            sum += code * x[(c * rows + r) * kScaleBlock + k];
          }
          to[c * kBlockProducts + r * kPanelWidth + lane] = sum;
        }
  }
};

/// Scales of a chunk's blocks, of its weights and its rows, and its products.
template <TileZeros kZeros, bool kBlockScale>
struct Chunk {
  const TileWeights& w;
  const float* xs;
  const std::int32_t* zero_terms;
  std::size_t rows;

  /// Products of row r in block t as a float.
  HWY_INLINE PanelVector product(std::size_t t, std::size_t r, const std::int32_t* exact) const {
    Ints sum = hn::Load(IntTag(), exact + r * kPanelWidth);
    if constexpr (kZeros != TileZeros::none) {
      const Ints term = hn::Set(IntTag(), zero_terms[t * rows + r]);
      if constexpr (kZeros == TileZeros::one)
        sum = hn::Add(sum, term);
      else
        sum = hn::Add(sum, zero_product(hn::Load(IntTag(), w.zero_points + t * kPanelWidth), term));
    }
    return hn::ConvertTo(PanelTag(), sum);
  }
  HWY_INLINE PanelVector scale(std::size_t t, std::size_t r) const {
    const PanelVector x_scale = hn::Set(PanelTag(), xs[t * rows + r]);
    return kBlockScale ? hn::Mul(x_scale, hn::Load(PanelTag(), w.scales + t * kPanelWidth)) : x_scale;
  }
  /// Row r's sum over the chunk's blocks, two or (is_short) one. The first product takes no sum: see row_panels.
  template <bool is_short>
  HWY_INLINE PanelVector sum(std::size_t t, std::size_t r, const std::int32_t* exact) const {
    const PanelVector first = hn::Mul(product(t, r, exact), scale(t, r));
    if constexpr (is_short)
      return first;
    else
      return hn::MulAdd(product(t + 1, r, exact + kBlockProducts), scale(t + 1, r), first);
  }
};

/// Sums of a part's rows in registers, or, of fewer than 16, in memory.
struct AllRows {
  PanelVector total[kMatrixRows];
  HWY_INLINE explicit AllRows(const float* totals, std::size_t) {
    WEFT_UNROLL for (std::size_t r = 0; r < kMatrixRows; ++r) total[r] = hn::Load(PanelTag(), totals + r * kPanelWidth);
  }
  template <class Of>
  HWY_INLINE void add(const Of& of) {
    WEFT_UNROLL for (std::size_t r = 0; r < kMatrixRows; ++r) total[r] = hn::Add(total[r], of(r));
  }
  HWY_INLINE void store(float* totals) const {
    WEFT_UNROLL for (std::size_t r = 0; r < kMatrixRows; ++r) hn::Store(total[r], PanelTag(), totals + r * kPanelWidth);
  }
};
struct SomeRows {
  float* totals;
  std::size_t rows;
  HWY_INLINE explicit SomeRows(float* to, std::size_t count) : totals(to), rows(count) {}
  template <class Of>
  HWY_INLINE void add(const Of& of) {
    for (std::size_t r = 0; r < rows; ++r) {
      float* const total = totals + r * kPanelWidth;
      hn::Store(hn::Add(hn::Load(PanelTag(), total), of(r)), PanelTag(), total);
    }
  }
  HWY_INLINE void store(float*) const {}
};

template <class Unit, class Totals, TileZeros kZeros, bool kBlockScale>
HWY_NOINLINE void add_blocks(const TileWeights& w, std::size_t rows, std::size_t count, const std::int8_t* codes,
                             const float* xs, const std::int32_t* zero_terms, float* to) noexcept {
  constexpr bool kSigned = kZeros == TileZeros::none;
  alignas(64) std::int32_t exact[2][kChunkProducts];
  const Chunk<kZeros, kBlockScale> chunk{w, xs, zero_terms, rows};
  Totals totals(to, rows);
  Unit::begin(rows);
  const auto multiply = [&](std::size_t t) HWY_ATTR {
    Unit::template multiply<kSigned>(codes + t * rows * kScaleBlock, w.codes + t * kBlockCodes, rows,
                                     std::min<std::size_t>(2, count - t), exact[t / 2 % 2]);
  };
  const auto add = [&](auto is_short, std::size_t t) HWY_ATTR {
    totals.add([&](std::size_t r)
                   HWY_ATTR { return chunk.template sum<decltype(is_short)::value>(t, r, exact[t / 2 % 2]); });
  };
  // A chunk's tiles are under way while the sums of the one before become floats.
  multiply(0);
  for (std::size_t t = 2; t < count; t += 2) {
    multiply(t);
    add(std::false_type(), t - 2);
  }
  if (count % 2 == 0)
    add(std::false_type(), count - 2);
  else
    add(std::true_type(), count - 1);
  Unit::end();
  totals.store(to);
}

template <class Unit, TileZeros kZeros>
void tile(const TileWeights& w, std::size_t rows, std::size_t count, const std::int8_t* codes, const float* xs,
          const std::int32_t* zero_terms, float* totals) noexcept {
  const bool is_full = rows == kMatrixRows;
  const auto run = [&](auto kernel) { kernel(w, rows, count, codes, xs, zero_terms, totals); };
  if (w.scales)
    run(is_full ? &add_blocks<Unit, AllRows, kZeros, true> : &add_blocks<Unit, SomeRows, kZeros, true>);
  else
    run(is_full ? &add_blocks<Unit, AllRows, kZeros, false> : &add_blocks<Unit, SomeRows, kZeros, false>);
}

template <class Unit>
constexpr std::array<MatrixTile, 3> kMatrixTiles = {&tile<Unit, TileZeros::none>, &tile<Unit, TileZeros::one>,
                                                    &tile<Unit, TileZeros::lanes>};

MatrixTile matrix_tile(TileZeros zeros) noexcept {
  const auto i = static_cast<std::size_t>(zeros);
  return active_isa() == Isa::amx ? kMatrixTiles<Amx>[i] : kMatrixTiles<Emulated>[i];
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels::detail {
namespace {
constexpr auto kMatrixTile = WEFT_DISPATCH(matrix_tile);
}  // namespace

MatrixTile matrix_tile(TileZeros zeros) noexcept { return kMatrixTile.get()(zeros); }

}  // namespace weft::kernels::detail
#endif
