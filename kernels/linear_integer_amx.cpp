// SPDX-License-Identifier: Apache-2.0
#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/linear_integer_amx.cpp"
#define WEFT_WITHOUT_WASM

#define WEFT_WITH_DOTS
#include "kernels/foreach_isa.hpp"
#include "kernels/internal/matrix_tiles.hpp"
#if WEFT_ISA_IS_VNNI
#include "kernels/simd/dot-inl.hpp"
// Not part of avx512_vnni: code that has it runs where the active instruction set is amx.
#undef HWY_TARGET_STR
#define HWY_TARGET_STR HWY_TARGET_STR_AVX3 ",avx512vnni,amx-tile,amx-int8"
#endif

#include <algorithm>
#include <cstring>
#include <utility>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

using detail::kMatrixRows;
using detail::MatrixUnit;
using detail::MatrixWeights;

#if !WEFT_ISA_IS_VNNI

MatrixUnit matrix_unit() noexcept { return {}; }
bool is_matrix_unit_exact() noexcept { return false; }

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
  static HWY_NOINLINE void begin(std::size_t rows) noexcept {
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
  static void end() noexcept { _tile_release(); }
  /// Products of `count` blocks, one or two.
  static HWY_INLINE void multiply(const std::int8_t* x, const std::uint32_t* w, std::size_t rows, std::size_t count,
                                  std::int32_t* to) {
    _tile_zero(0);
    _tile_loadd(4, x, kScaleBlock);
    _tile_loadd(6, w, kPanelWidth * 4);
    _tile_dpbssd(0, 4, 6);
    if (count == 2) {
      _tile_zero(1);
      _tile_loadd(5, x + rows * kScaleBlock, kScaleBlock);
      _tile_loadd(7, w + kBlockCodes, kPanelWidth * 4);
      _tile_dpbssd(1, 5, 7);
      _tile_stored(1, to + kBlockProducts, kPanelWidth * 4);
    }
    _tile_stored(0, to, kPanelWidth * 4);
  }
};

/// The same in plain C++, for CPUs without AMX.
struct Emulated {
  static void begin(std::size_t) noexcept {}
  static void end() noexcept {}
  static HWY_NOINLINE void multiply(const std::int8_t* x, const std::uint32_t* w, std::size_t rows, std::size_t count,
                                    std::int32_t* to) {
    const auto* const bytes = reinterpret_cast<const std::int8_t*>(w);
    for (std::size_t c = 0; c < count; ++c)
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t lane = 0; lane < kPanelWidth; ++lane) {
          std::int32_t sum = 0;
          for (std::size_t k = 0; k < kScaleBlock; ++k) {
            const std::size_t word = (c * kScaleBlock + k) / 4;
            sum += bytes[(word * kPanelWidth + lane) * 4 + k % 4] * x[(c * rows + r) * kScaleBlock + k];
          }
          to[c * kBlockProducts + r * kPanelWidth + lane] = sum;
        }
  }
};

/// Sums over a chunk's blocks, two or (is_short) one. The first product takes no sum: see row_panels.
template <class Chunk, bool is_short>
struct ChunkSums {
  const Chunk& chunk;
  std::size_t t;
  const std::int32_t* exact;
  HWY_INLINE PanelVector sum(std::size_t r) const {
    const PanelVector first = hn::Mul(chunk.product(r, exact), chunk.scale(t, r));
    if constexpr (is_short)
      return first;
    else
      return hn::MulAdd(chunk.product(r, exact + kBlockProducts), chunk.scale(t + 1, r), first);
  }
};

/// Scales of a chunk's blocks, of its weights and its rows, and its products.
template <bool kBlockScale>
struct Chunk {
  const MatrixWeights& w;
  const float* xs;
  std::size_t rows;

  /// Products of row r in a block as a float.
  HWY_INLINE PanelVector product(std::size_t r, const std::int32_t* exact) const {
    return hn::ConvertTo(PanelTag(), hn::Load(IntTag(), exact + r * kPanelWidth));
  }
  HWY_INLINE PanelVector scale(std::size_t t, std::size_t r) const {
    const PanelVector x_scale = hn::Set(PanelTag(), xs[t * rows + r]);
    return kBlockScale ? hn::Mul(x_scale, hn::Load(PanelTag(), w.scales + t * kPanelWidth)) : x_scale;
  }
  /// Its sums from block t on.
  template <bool is_short>
  HWY_INLINE auto sums(std::size_t t, const std::int32_t* exact) const {
    return ChunkSums<Chunk, is_short>{*this, t, exact};
  }
};

/// Sums of a part's rows in registers, or, of fewer than 16, in memory. Rows are numbered by a pack, not by a loop: a
/// loop is unrolled too late for g++ 12 to keep them out of memory, which costs a load and a store for each sum.
struct AllRows {
  template <std::size_t... r>
  using Rows = std::index_sequence<r...>;
  static constexpr std::make_index_sequence<kMatrixRows> kRows{};

  PanelVector total[kMatrixRows];
  HWY_INLINE AllRows(const float* from, std::size_t) { load(from, kRows); }
  template <class Of>
  HWY_INLINE void add(const Of& of) {
    add(of, kRows);
  }
  HWY_INLINE void store(float* to) const { store(to, kRows); }

 private:
  template <std::size_t... r>
  HWY_INLINE void load(const float* from, Rows<r...>) {
    ((total[r] = hn::Load(PanelTag(), from + r * kPanelWidth)), ...);
  }
  template <class Of, std::size_t... r>
  HWY_INLINE void add(const Of& of, Rows<r...>) {
    ((total[r] = hn::Add(total[r], of.sum(r))), ...);
  }
  template <std::size_t... r>
  HWY_INLINE void store(float* to, Rows<r...>) const {
    (hn::Store(total[r], PanelTag(), to + r * kPanelWidth), ...);
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
      hn::Store(hn::Add(hn::Load(PanelTag(), total), of.sum(r)), PanelTag(), total);
    }
  }
  HWY_INLINE void store(float*) const {}
};

template <class Unit, class Totals, bool kBlockScale>
HWY_NOINLINE void add_blocks(const MatrixWeights& w, std::size_t rows, std::size_t count, const std::int8_t* codes,
                             const float* xs, float* to) noexcept {
  alignas(64) std::int32_t exact[2][kChunkProducts];
  const Chunk<kBlockScale> chunk{w, xs, rows};
  Totals totals(to, rows);
  const auto multiply = [&](std::size_t t) HWY_ATTR {
    Unit::multiply(codes + t * rows * kScaleBlock, w.codes + t * kBlockCodes, rows, std::min<std::size_t>(2, count - t),
                   exact[t / 2 % 2]);
  };
  // A chunk's tiles are under way while the sums of the one before become floats.
  multiply(0);
  for (std::size_t t = 2; t < count; t += 2) {
    multiply(t);
    totals.add(chunk.template sums<false>(t - 2, exact[t / 2 % 2 ^ 1]));
  }
  if (count % 2 == 0)
    totals.add(chunk.template sums<false>(count - 2, exact[(count - 2) / 2 % 2]));
  else
    totals.add(chunk.template sums<true>(count - 1, exact[(count - 1) / 2 % 2]));
  totals.store(to);
}

template <class Unit>
void tile(const MatrixWeights& w, std::size_t rows, std::size_t count, const std::int8_t* codes, const float* xs,
          float* totals) noexcept {
  const bool is_full = rows == kMatrixRows;
  const auto run = [&](auto kernel) { kernel(w, rows, count, codes, xs, totals); };
  if (w.scales)
    run(is_full ? &add_blocks<Unit, AllRows, true> : &add_blocks<Unit, SomeRows, true>);
  else
    run(is_full ? &add_blocks<Unit, AllRows, false> : &add_blocks<Unit, SomeRows, false>);
}

template <class Unit>
constexpr MatrixUnit kUnit{&Unit::begin, &tile<Unit>, &Unit::end};

/// Three blocks of a panel and of 16 rows, all kinds of codes and scales.
struct Trial {
  static constexpr std::size_t kBlocks = 3;
  alignas(64) std::uint32_t codes[kBlocks * kBlockCodes];
  alignas(64) std::int8_t x[kBlocks * kMatrixRows * kScaleBlock];
  alignas(64) float scales[kBlocks * kPanelWidth], xs[kBlocks * kMatrixRows];

  Trial() noexcept {
    std::uint32_t state = 1;
    const auto next = [&] { return state = state * 1664525u + 1013904223u; };  // Numerical Recipes' generator
    for (std::uint32_t& word : codes) word = next();
    for (std::int8_t& code : x) code = static_cast<std::int8_t>(static_cast<int>(next() >> 24) % 255 - 127);
    for (float& scale : scales) scale = static_cast<float>(next() >> 8) * 0x1p-24f;
    for (float& scale : xs) scale = static_cast<float>(next() >> 8) * 0x1p-20f;
  }
  template <class Unit>
  void run(std::size_t rows, std::size_t count, bool is_scaled, float* totals) const noexcept {
    for (std::size_t i = 0; i < kBlockProducts; ++i) totals[i] = static_cast<float>(i) * 0.37f;
    Unit::begin(rows);
    tile<Unit>({codes, is_scaled ? scales : nullptr}, rows, count, x, xs, totals);
    Unit::end();
  }
};

bool gives_bits_of_emulation() noexcept {
  const Trial trial;
  alignas(64) float wanted[kBlockProducts], got[kBlockProducts];
  for (const std::size_t rows : {kMatrixRows, std::size_t{5}})
    for (std::size_t count = 1; count <= Trial::kBlocks; ++count)
      for (const bool is_scaled : {false, true}) {
        trial.run<Emulated>(rows, count, is_scaled, wanted);
        trial.run<Amx>(rows, count, is_scaled, got);
        if (std::memcmp(wanted, got, sizeof wanted) != 0) return false;
      }
  return true;
}

bool is_matrix_unit_exact() noexcept {
  if (active_isa() != Isa::amx) return false;
  static const bool is_exact = gives_bits_of_emulation();
  return is_exact;
}

MatrixUnit matrix_unit() noexcept { return active_isa() == Isa::amx ? kUnit<Amx> : kUnit<Emulated>; }

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels::detail {
namespace {
constexpr auto kMatrixUnit = WEFT_DISPATCH(matrix_unit);
constexpr auto kIsExact = WEFT_DISPATCH(is_matrix_unit_exact);
}  // namespace

MatrixUnit matrix_unit() noexcept { return kMatrixUnit.get()(); }
bool is_matrix_unit_exact() noexcept { return kIsExact.get()(); }

}  // namespace weft::kernels::detail
#endif
