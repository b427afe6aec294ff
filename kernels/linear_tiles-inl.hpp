// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), never by the scalar pass.
// Tiles of a linear layer's many rows: some rows against some panels, all sums in registers.

#if !WEFT_ISA_IS_SCALAR
#if defined(WEFT_KERNELS_LINEAR_TILES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_LINEAR_TILES_INL
#undef WEFT_KERNELS_LINEAR_TILES_INL
#else
#define WEFT_KERNELS_LINEAR_TILES_INL
#endif

#include "kernels/linear_outputs-inl.hpp"
#include "kernels/simd/panel-inl.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

// A tile is R rows by P panels of sums in registers: 28 (AVX-512) or 12 (AVX2) or 24 (NEON) of them. Few rows take
// more panels, to have sums enough in flight. A narrow tile is of one panel. Wide must leave registers for P weights
// and a broadcast.
constexpr std::size_t kTileRows = kFusesSlowly ? 2 : kPanelVectors == 1 ? 14 : 6;
constexpr std::size_t kTilePanels = kPanelVectors == 1 ? 2 : 1;
constexpr std::size_t kWideRows = kFusesSlowly ? 1 : kPanelVectors == 1 ? 6 : 2;
constexpr std::size_t kWidePanels = kFusesSlowly ? 1 : kPanelVectors == 1 ? 4 : 2;
// Tall tiles prefetch the weights a few k ahead, and, line by line, for the rows of the next chunk or, in the last
// chunk, for their place among the outputs. Low ones wait for weights anyway, and prefetching costs AMD's processors
// more than it brings where weights are near. Measured at 512 and 1024 with weights in the third-level cache: 32 steps
// ahead are 1 to 3 % better than 8 for one panel, whose steps are short.
constexpr std::size_t kPrefetchRows = kTileRows / 2, kLineFloats = 16;
template <std::size_t P>
constexpr std::size_t kPrefetchSteps = P == 1 ? 32 : 8;

/// The rows of a tile: element k of row r is `data[k / 64 * chunk_step + r * row_step + k % 64]`.
struct TileRows {
  const float* data;
  std::size_t row_step, chunk_step;
};

/// Reaches up to 14 rows with five registers: an address is one of two bases and a multiple, which is free, of one of
/// three distances. The compiler would keep an address a row, and run out of registers.
class RowPointers {
 public:
  explicit HWY_INLINE RowPointers(const TileRows& rows)
      : low_(reinterpret_cast<std::uintptr_t>(rows.data)), step_(rows.row_step * sizeof(float)) {
    high_ = low_ + 7 * step_;
    step3_ = 3 * step_, step5_ = 5 * step_;
    __asm__("" : "+r"(step_), "+r"(step3_), "+r"(step5_));
  }
  /// Hides from the compiler that the bases move evenly.
  HWY_INLINE void pin() { __asm__("" : "+r"(low_), "+r"(high_)); }
  HWY_INLINE float value(std::size_t r) const { return *reinterpret_cast<const float*>(address(r)); }
  HWY_INLINE void advance(std::size_t floats) { low_ += floats * sizeof(float), high_ += floats * sizeof(float); }
  HWY_INLINE std::uintptr_t first() const { return low_; }
  HWY_INLINE std::uintptr_t step() const { return step_; }

 private:
  HWY_INLINE std::uintptr_t address(std::size_t r) const {
    const std::uintptr_t base = r < 7 ? low_ : high_;
    switch (r % 7) {
      case 0:
        return base;
      case 1:
        return base + step_;
      case 2:
        return base + 2 * step_;
      case 3:
        return base + step3_;
      case 4:
        return base + 4 * step_;
      case 5:
        return base + step5_;
      default:
        return base + 2 * step3_;
    }
  }
  std::uintptr_t low_, high_;  // not pointers: rows that are not there are never reached
  std::uintptr_t step_, step3_, step5_;
};
static_assert(kTileRows <= 14 && kWideRows <= 14);

/// Prefetch of a tall tile while it adds: the first four lines of rows `step` bytes apart.
struct Wish {
  std::uintptr_t at;
  std::uintptr_t step;
};

/// Place of a tile's sums: those of row r, P panels, are `r * step` floats behind `at`.
struct Place {
  float* at;
  std::size_t step;
};

template <std::size_t R, std::size_t P>
using TileSums = PanelVector[R][P][kPanelVectors];

/// The sums of one chunk of R rows against P panels.
template <std::size_t R, std::size_t P, bool kPrefetches>
HWY_INLINE void chunk_sums(const float* w, std::size_t panel_stride, RowPointers x, std::size_t length,
                           const Wish& wish, TileSums<R, P>& sum) {
  constexpr std::size_t kInterval =
      kPrefetches ? kLineFloats : kChunk;  // steps in which one line of each row is prefetched
  WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
    WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[r][p][v] = hn::Zero(PanelTag());
    }
  }
  for (std::size_t k = 0; k < length;) {
    const std::size_t end = std::min(length, k + kInterval);
    [[maybe_unused]] std::uintptr_t wanted = wish.at + k * sizeof(float);
    for (; k < end; ++k, w += kPanelWidth) {
      x.pin();
      __asm__("" : "+r"(w));
      PanelVector ws[P][kPanelVectors];
      WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
        const float* from = w + p * panel_stride;
        WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) ws[p][v] =
            hn::Load(PanelTag(), from + v * kPanelLanes);
        if constexpr (kPrefetches) __builtin_prefetch(from + kPrefetchSteps<P> * kPanelWidth);
      }
      if constexpr (kPrefetches) {
        __builtin_prefetch(reinterpret_cast<const void*>(wanted));
        wanted += wish.step;
      }
      WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
        const PanelVector xs = hn::Set(PanelTag(), x.value(r));
        WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
          WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[r][p][v] =
              hn::MulAdd(ws[p][v], xs, sum[r][p][v]);
        }
      }
      x.advance(1);
    }
  }
}

/// One chunk of R rows against P panels. Its sums are added to those `before`, a tile in a row, if any, and to a bias.
template <std::size_t R, std::size_t P, bool kPrefetches>
HWY_INLINE void tile_chunk(const float* w, std::size_t panel_stride, const RowPointers& x, std::size_t length,
                           const Wish& wish, const float* before, const Place& place, const float* bias) {
  TileSums<R, P> sum;
  chunk_sums<R, P, kPrefetches>(w, panel_stride, x, length, wish, sum);
  // Row after row, and only now: the compiler would otherwise have each address ready before the first step.
  float* row = place.at;
  const auto put = [&](const auto& total_of) HWY_ATTR {
    WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
      __asm__ volatile("" : "+r"(row));
      WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
        WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) {
          const std::size_t lane = p * kPanelWidth + v * kPanelLanes;
          hn::StoreU(total_of(r * P * kPanelWidth + lane, lane, sum[r][p][v]), PanelTag(), row + lane);
        }
      }
      row += place.step;
    }
  };
  // Not by the stack's pointer: AMD's processors then take each sum's way through memory for a register's, which costs
  // 2 % of all time.
  __asm__ volatile("" : "+r"(before));
  if (bias)
    put([&](std::size_t at, std::size_t lane, PanelVector v) HWY_ATTR {
      const PanelVector total = before ? hn::Load(PanelTag(), before + at) : hn::Zero(PanelTag());
      return hn::Add(hn::Add(total, v), hn::LoadU(PanelTag(), bias + lane));
    });
  else if (before)
    put([&](std::size_t at, std::size_t, PanelVector v)
            HWY_ATTR { return hn::Add(hn::Load(PanelTag(), before + at), v); });
  else
    put([&](std::size_t, std::size_t, PanelVector v) HWY_ATTR { return hn::Add(hn::Zero(PanelTag()), v); });
}

/// Inputs [begin, end), whole chunks but for the last ones: what comes before them is in the outputs, as sums.
struct Depth {
  std::size_t begin, end;
};

/// True when R rows of totals fit into registers beside R of sums: AVX-512's 32, against one panel.
template <std::size_t P>
inline constexpr bool kHoldsTotals = kPanelVectors == 1 && P == 1;

/// All chunks of R rows against one panel, totals in registers, up to the bias. They begin with those `before`, if any.
template <std::size_t R, bool kPrefetches>
HWY_INLINE void tile_chunks(const float* w, RowPointers x, std::size_t chunk_step, std::size_t in, const float* before,
                            const Place& place, const float* bias) {
  TileSums<R, 1> sum, total;
  WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) total[r][0][0] =
      before ? hn::Load(PanelTag(), before + r * kPanelWidth) : hn::Zero(PanelTag());
  for (std::size_t k = 0; k < in; k += kChunk, x.advance(chunk_step)) {
    const bool is_last = k + kChunk >= in;
    const Wish wish = is_last ? Wish{reinterpret_cast<std::uintptr_t>(place.at), place.step * sizeof(float)}
                              : Wish{x.first() + chunk_step * sizeof(float), x.step()};
    chunk_sums<R, 1, kPrefetches>(w + k * kPanelWidth, 0, x, std::min(in - k, kChunk), wish, sum);
    WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) total[r][0][0] = hn::Add(total[r][0][0], sum[r][0][0]);
  }
  float* row = place.at;
  WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
    __asm__ volatile("" : "+r"(row));
    const PanelVector all = total[r][0][0];
    hn::StoreU(bias ? hn::Add(all, hn::LoadU(PanelTag(), bias)) : all, PanelTag(), row);
    row += place.step;
  }
}

/// R rows, which begin at depth.begin, against panels first .. first + P - 1. `kIsNear`: the weights lie in a cache,
/// and depth is all there is.
template <std::size_t R, std::size_t P, bool kIsNear>
void tile(const ConstPanels& w, const TileRows& rows, const Outputs& outputs, const Depth& depth, std::size_t b,
          std::size_t first) noexcept {
  const std::size_t stride = w.in * kPanelWidth, o = first * kPanelWidth, in = depth.end - depth.begin;
  const float* panel = w.data + first * stride + depth.begin * kPanelWidth;
  constexpr bool kPrefetches = !kIsNear && R >= kPrefetchRows;
  const bool is_last = kIsNear || depth.end == w.in, goes_on = !kIsNear && depth.begin > 0;
  const std::size_t width = w.out - o;
  const bool whole = width >= P * kPanelWidth;
  alignas(64) float total[R * P * kPanelWidth];
  const Place here{total, P * kPanelWidth};
  if (goes_on)
    for (std::size_t r = 0; r < R; ++r)
      std::memcpy(total + r * P * kPanelWidth, outputs.before_activation(b + r) + o,
                  std::min(P * kPanelWidth, width) * sizeof(float));
  // The last chunk goes straight to the outputs, or, where a panel is partial, by way of `total`.
  const Place to = whole ? Place{outputs.before_activation(b) + o, outputs.stride_before_activation()} : here;
  const float* const bias = whole && is_last && outputs.bias ? outputs.bias + o : nullptr;
  RowPointers x(rows);
  if constexpr (kHoldsTotals<P>) {
    tile_chunks<R, kPrefetches>(panel, x, rows.chunk_step, in, goes_on ? total : nullptr, to, bias);
  } else {
    std::size_t k = 0;
    do {
      const bool ends = k + kChunk >= in;
      const Wish wish = ends ? Wish{reinterpret_cast<std::uintptr_t>(to.at), to.step * sizeof(float)}
                             : Wish{x.first() + rows.chunk_step * sizeof(float), x.step()};
      tile_chunk<R, P, kPrefetches>(panel + k * kPanelWidth, stride, x, std::min(in - k, kChunk), wish,
                                    k > 0 || goes_on ? total : nullptr, ends ? to : here, ends ? bias : nullptr);
      k += kChunk;
      x.advance(rows.chunk_step);
    } while (k < in);
  }
  if (!whole)
    for (std::size_t r = 0; r < R; ++r)
      for (std::size_t i = 0; i < width; ++i) {
        const float sum = total[r * P * kPanelWidth + i];
        outputs.before_activation(b + r)[o + i] = is_last && outputs.bias ? sum + outputs.bias[o + i] : sum;
      }
  if (is_last && outputs.has_finish())
    for (std::size_t r = 0; r < R; ++r) outputs.finish(b + r, o, std::min(P * kPanelWidth, width));
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
#endif
