// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), the scalar pass too.
// Code shared by forward and backward of attention.

#if defined(WEFT_KERNELS_SIMD_ATTENTION_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_SIMD_ATTENTION_INL
#undef WEFT_KERNELS_SIMD_ATTENTION_INL
#else
#define WEFT_KERNELS_SIMD_ATTENTION_INL
#endif

#include "kernels/attention.hpp"
#include "kernels/internal/attention_keys.hpp"
#include "kernels/internal/attention_workspace.hpp"
#include "kernels/internal/linear_scratch.hpp"
#include "kernels/lanes-inl.hpp"
#include "kernels/math.hpp"
#include "kernels/simd/panel-inl.hpp"
#if !WEFT_ISA_IS_SCALAR
#include "kernels/formulas/vector-inl.hpp"
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

using detail::AttentionWorkspace;
using detail::Keys;
using detail::Range;
using detail::Ring;
using detail::round_up;
using detail::Strided;

/// Start of a mask's numbers of one query, which stand shape.mask.key apart.
inline const float* mask_of(const AttentionShape& shape, const float* mask, std::size_t head,
                            std::size_t token) noexcept {
  return mask + head * shape.mask.head + token * shape.mask.token;
}
/// Of a row with a mask: the largest score that exponentials are taken from, and the sum that divides. No key is seen:
/// the weights are 0.
inline float largest_seen(float largest) noexcept {
  return largest == -std::numeric_limits<float>::infinity() ? 0.0f : largest;
}
inline float sum_of_seen(float sum) noexcept { return sum == 0.0f ? 1.0f : sum; }

/// Keys and values of one kv head of a session, wherever they stand.
struct HeadKeys {
  HeadKeys(const AttentionShape& shape, const Keys& all, const float* k, const float* v, const float* state,
           std::size_t head) noexcept
      : keys(all),
        ring(shape),
        state_row(state),
        k_row(k + head * shape.head_dim),
        v_row(v + head * shape.head_dim),
        stride(shape.kv_heads * shape.head_dim),
        kv(head) {}
  Strided key(std::size_t j) const noexcept {
    if (j >= keys.fresh()) return {k_row + (j - keys.fresh()) * stride, 1};
    return {state_row + ring.key(kv, ring.slot(keys.base() + j)), kPanelWidth};
  }
  const float* value(std::size_t j) const noexcept {
    if (j >= keys.fresh()) return v_row + (j - keys.fresh()) * stride;
    return state_row + ring.value(kv, ring.slot(keys.base() + j));
  }

  const Keys& keys;
  Ring ring;
  const float *state_row, *k_row, *v_row;
  std::size_t stride, kv;
};

#if WEFT_ISA_IS_SCALAR

inline float masked(float score, float mask) noexcept {
  return mask <= kHiddenScore ? -std::numeric_limits<float>::infinity() : score + mask;
}

// Rule R1 over the elements of a head.
inline float score(const float* q, Strided k, std::size_t n) noexcept {
  float total = 0.0f;
  for (std::size_t first = 0; first < n; first += kChunk) {
    float sum = 0.0f;
    for (std::size_t i = first; i < std::min(n, first + kChunk); ++i) sum = std::fma(k.at[i * k.step], q[i], sum);
    total += sum;
  }
  return total;
}

// The sum of weight(j) number(j) over keys [seen.lo, seen.hi): chunks of 64 positions, and never -0.
template <class Weight, class Number>
float sum_over_keys(Range seen, const Weight& weight, const Number& number) noexcept {
  float total = 0.0f;
  for (std::size_t chunk = seen.lo / kChunk * kChunk; chunk < seen.hi; chunk += kChunk) {
    float sum = 0.0f;
    for (std::size_t j = std::max(seen.lo, chunk); j < std::min(seen.hi, chunk + kChunk); ++j)
      sum = std::fma(weight(j), number(j), sum);
    total += sum;
  }
  return total + 0.0f;
}

#else

using PV = PanelVector;
constexpr PanelTag kTag;

// A tile is R rows by P panels of sums in registers, as in linear.cpp.
constexpr std::size_t kTileRows = kPanelVectors == 1 ? 14 : 6, kTilePanels = kPanelVectors == 1 ? 2 : 1;
constexpr std::size_t kWideRows = kPanelVectors == 1 ? 6 : 2, kWidePanels = kPanelVectors == 1 ? 4 : 2;
static_assert(kTileRows <= detail::kMostTileRows);

/// Start of a tile's sums: they are kept in `c`, or added to `total` (or to +0, the first time).
enum class Start { zero, kept };
enum class Finish { keep, first, add };

/// c[r][lane] (+)= sum over steps k of a[r][k] b[k][lane], ascending. Elements of a stand at r * kChunk + k, or, for
/// `across`, at k * kChunk + r; b stands for step b_first. `seen`, when it is there, has each row's steps; others are
/// left out.
struct Product {
  const float* a;
  const float* b;
  std::size_t b_first;
  std::size_t b_step, b_panel;
  float* c;
  float* total;
  std::size_t c_row;
  std::size_t first, last;  // steps
  const Range* seen;
  Start start;
  Finish finish;
  std::size_t ahead = 0;  // floats from an element of b to one to ask memory for; 0: none
};

template <std::size_t R, std::size_t P, bool across, bool partial>
void product_tile(const Product& job) noexcept {
  PV sum[R][P][kPanelVectors];
  const auto each = [&](const auto& visit) HWY_ATTR {
    WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
      WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
        WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v)
            visit(sum[r][p][v], r * job.c_row + p * kPanelWidth + v * kPanelLanes);
      }
    }
  };
  if (job.start == Start::zero)
    each([&](PV& s, std::size_t) HWY_ATTR { s = hn::Zero(kTag); });
  else
    each([&](PV& s, std::size_t at) HWY_ATTR { s = hn::LoadU(kTag, job.c + at); });
  const float* b = job.b + (job.first - job.b_first) * job.b_step;
  const float* a = job.a + job.first * (across ? kChunk : 1);
  for (std::size_t k = job.first; k < job.last; ++k, b += job.b_step, a += across ? kChunk : 1) {
    PV bs[P][kPanelVectors];
    WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) bs[p][v] =
          hn::LoadU(kTag, b + p * job.b_panel + v * kPanelLanes);
    }
    if (!partial && job.ahead != 0) {
      WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) __builtin_prefetch(b + p * job.b_panel + job.ahead);
    }
    WEFT_UNROLL for (std::size_t r = 0; r < R; ++r) {
      if (partial && (k < job.seen[r].lo || k >= job.seen[r].hi)) continue;
      const PV as = hn::Set(kTag, a[across ? r : r * kChunk]);
      WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
        WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[r][p][v] =
            hn::MulAdd(bs[p][v], as, sum[r][p][v]);
      }
    }
  }
  if (job.finish == Finish::keep)
    each([&](PV& s, std::size_t at) HWY_ATTR { hn::StoreU(s, kTag, job.c + at); });
  else if (job.finish == Finish::first)
    each([&](PV& s, std::size_t at) HWY_ATTR { hn::StoreU(hn::Add(hn::Zero(kTag), s), kTag, job.total + at); });
  else
    each([&](PV& s, std::size_t at)
             HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(kTag, job.total + at), s), kTag, job.total + at); });
}

using ProductTile = void (*)(const Product&) noexcept;
template <std::size_t P, bool across, bool partial, std::size_t... I>
constexpr std::array<ProductTile, sizeof...(I)> make_products(std::index_sequence<I...>) {
  return {&product_tile<I + 1, P, across, partial>...};
}
template <bool across>
struct Products {
  static constexpr auto kRows = std::make_index_sequence<kTileRows>();
  static constexpr auto kWide = make_products<kWidePanels, across, false>(std::make_index_sequence<kWideRows>());
  static constexpr auto kTall = make_products<kTilePanels, across, false>(kRows);
  static constexpr auto kSingle = make_products<1, across, false>(kRows);
  static constexpr auto kPartial = make_products<1, across, true>(kRows);
};

/// All panels of a product of `rows` rows.
template <bool across>
void multiply(Product job, std::size_t rows, std::size_t panels) noexcept {
  using All = Products<across>;
  const auto run = [&](std::size_t P, ProductTile tile) {
    for (; panels >= P; panels -= P) {
      tile(job);
      job.b += P * job.b_panel;
      job.c += P * kPanelWidth;
      job.total += P * kPanelWidth;
    }
  };
  if (job.seen) return run(1, All::kPartial[rows - 1]);
  if (rows <= kWideRows) run(kWidePanels, All::kWide[rows - 1]);
  run(kTilePanels, All::kTall[rows - 1]);
  run(1, All::kSingle[rows - 1]);
}

/// The steps of [first, last) that rows see, `seen` rising from row to row. Where rows differ each is looked at, unless
/// a is 0 wherever a row does not see and b is finite (`is_tame`): such a step is none, but for the sign of a zero,
/// which everyone who reads the sums forgets. The sums start from what `start` says and finish once.
template <bool across>
void multiply_seen(Product job, std::size_t rows, std::size_t panels, const Range* seen, bool is_tame) noexcept {
  const std::size_t first = std::max(job.first, seen[0].lo), last = std::min(job.last, seen[rows - 1].hi);
  const std::size_t all_first = is_tame ? first : std::min(std::max(first, seen[rows - 1].lo), last);
  const std::size_t all_last = is_tame ? last : std::max(std::min(last, seen[0].hi), all_first);
  const Finish finish = job.finish;
  const auto part = [&](std::size_t from, std::size_t to, const Range* ranges) {
    if (from >= to) return;
    job.first = from, job.last = to, job.seen = ranges;
    job.finish = to == last ? finish : Finish::keep;
    multiply<across>(job, rows, panels);
    job.start = Start::kept;
  };
  part(first, all_first, seen);
  part(all_first, all_last, nullptr);
  part(all_last, last, seen);
}

/// A copy of n elements.
HWY_INLINE void copy_row(const float* from, std::size_t n, float* to) {
  ForEachVector(n, [&](auto load, auto store) HWY_ATTR { store(load(from), to); });
}

/// True when n elements are all finite.
HWY_INLINE bool all_finite(const float* x, std::size_t n) {
  const FloatTag d;
  auto finite = hn::MaskFromVec(hn::BitCast(d, hn::Set(hn::RebindToUnsigned<FloatTag>(), ~0u)));
  const FloatVec infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  ForEachVector(n, [&](auto load, auto) HWY_ATTR { finite = hn::And(finite, hn::Lt(hn::Abs(load(x)), infinity)); });
  return hn::AllTrue(d, finite);
}

/// n elements at `from` as chunks of 64 of row r of a tile of `rows` rows.
HWY_INLINE void pack_tile_row(const float* from, std::size_t n, std::size_t rows, std::size_t r, float* to) {
  for (std::size_t i = 0; i < n; i += kChunk) copy_row(from + i, std::min(kChunk, n - i), to + i * rows + r * kChunk);
}

/// to[i][lane] = from[lane][i] of four lanes, four i at a time; gives the i it stopped at.
HWY_INLINE std::size_t transpose_four(const Strided* from, std::size_t n, float* to) {
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> pairs;
  const auto wide = [&](auto v) HWY_ATTR { return hn::BitCast(pairs, v); };
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const auto a = hn::LoadU(d, from[0].at + i), b = hn::LoadU(d, from[1].at + i), c = hn::LoadU(d, from[2].at + i),
               e = hn::LoadU(d, from[3].at + i);
    const auto ab_low = hn::InterleaveLower(d, a, b), ab_high = hn::InterleaveUpper(d, a, b);
    const auto ce_low = hn::InterleaveLower(d, c, e), ce_high = hn::InterleaveUpper(d, c, e);
    const auto store = [&](auto v, std::size_t k)
                           HWY_ATTR { hn::StoreU(hn::BitCast(d, v), d, to + (i + k) * kPanelWidth); };
    store(hn::InterleaveLower(pairs, wide(ab_low), wide(ce_low)), 0);
    store(hn::InterleaveUpper(pairs, wide(ab_low), wide(ce_low)), 1);
    store(hn::InterleaveLower(pairs, wide(ab_high), wide(ce_high)), 2);
    store(hn::InterleaveUpper(pairs, wide(ab_high), wide(ce_high)), 3);
  }
  return i;
}

/// Keys or values [first, end) as panels of 16 of them; `at(j)` says where each stands.
template <class At>
void pack_key_panels(std::size_t first, std::size_t end, std::size_t n, const At& at, float* panels) noexcept {
  for (std::size_t j = first / kPanelWidth * kPanelWidth; j < end; j += kPanelWidth) {
    float* const to = panels + j * n;
    if (j < first || j + kPanelWidth > end) std::fill_n(to, n * kPanelWidth, 0.0f);
    Strided from[kPanelWidth];
    std::size_t lane = std::max(j, first) - j;
    const std::size_t hi = std::min(j + kPanelWidth, end) - j;
    for (std::size_t l = lane; l < hi; ++l) from[l] = at(j + l);
    while (lane < hi) {
      const bool four = lane + 4 <= hi && from[lane].step == 1 && from[lane + 3].step == 1;
      const std::size_t done = four ? transpose_four(from + lane, n, to + lane) : 0;
      for (const std::size_t last = lane + (four ? 4 : 1); lane < last; ++lane)
        for (std::size_t i = done; i < n; ++i) to[i * kPanelWidth + lane] = from[lane].at[i * from[lane].step];
    }
  }
}

/// n elements and zeros up to `width`.
HWY_INLINE void pack_row(Strided from, std::size_t n, std::size_t width, float* to) {
  if (from.step == 1)
    copy_row(from.at, n, to);
  else
    for (std::size_t i = 0; i < n; ++i) to[i] = from.at[i * from.step];
  for (std::size_t i = n; i < width; ++i) to[i] = 0.0f;
}

/// Scores of a tile: rows of `a` against panels of 16 keys, of which panel i stands at panels + (i mod count) * n * 16.
/// Chunk c of the keys has its scores at scores + c * rows * 64, row after row. `streams`: keys come from memory, once.
void tile_scores(const float* a, std::size_t rows, std::size_t n, const float* panels, std::size_t first_panel,
                 std::size_t count, Range seen, float* scores, bool streams = false) noexcept {
  constexpr std::size_t kChunkPanels = kChunk / kPanelWidth;
  const std::size_t end = (seen.hi + kPanelWidth - 1) / kPanelWidth;
  for (std::size_t i = seen.lo / kPanelWidth; i < end;) {
    // Panels that follow each other in memory and within a chunk.
    const std::size_t at = (first_panel + i) % count;
    const std::size_t run = std::min({end - i, kChunkPanels - i % kChunkPanels, count - at});
    float* const to = scores + i / kChunkPanels * rows * kChunk + i % kChunkPanels * kPanelWidth;
    for (std::size_t k = 0; k < n; k += kChunk)
      multiply<false>({a + k * rows, panels + (at * n + k) * kPanelWidth, 0, kPanelWidth, n * kPanelWidth, to, to,
                       kChunk, 0, std::min(kChunk, n - k), nullptr, Start::zero, k == 0 ? Finish::first : Finish::add,
                       streams ? run * n * kPanelWidth : 0},
                      rows, run);
    i += run;
  }
}

/// The sums over keys of a[r][j] b[j], b rows of `width` in a ring of `count` panels of 16, into total [rows][width].
/// `streams`: as of tile_scores.
void tile_sums(const float* a, std::size_t rows, const float* b, std::size_t first_panel, std::size_t count,
               std::size_t width, const Range* seen, bool is_tame, float* carry, float* total,
               bool streams = false) noexcept {
  const std::size_t lo = seen[0].lo, hi = seen[rows - 1].hi;
  for (std::size_t chunk = lo / kChunk; chunk * kChunk < hi; ++chunk) {
    const std::size_t begin = std::max(lo, chunk * kChunk), end = std::min(hi, (chunk + 1) * kChunk);
    // Steps are the keys of this chunk.
    Range within[kTileRows];
    for (std::size_t r = 0; r < rows; ++r) {
      within[r].lo = std::clamp(seen[r].lo, chunk * kChunk, (chunk + 1) * kChunk) - chunk * kChunk;
      within[r].hi = std::clamp(seen[r].hi, chunk * kChunk, (chunk + 1) * kChunk) - chunk * kChunk;
    }
    for (std::size_t j = begin; j < end;) {
      const std::size_t at = (first_panel + j / kPanelWidth) % count;
      const std::size_t stop = std::min(end, (j / kPanelWidth + count - at) * kPanelWidth);
      const std::size_t step = at * kPanelWidth + j % kPanelWidth, from = j - chunk * kChunk;
      const Finish finish = stop < end ? Finish::keep : chunk == lo / kChunk ? Finish::first : Finish::add;
      multiply_seen<false>({a + chunk * rows * kChunk, b + step * width, from, width, kPanelWidth, carry, total, width,
                            from, stop - chunk * kChunk, nullptr, j == begin ? Start::zero : Start::kept, finish,
                            streams ? kPanelWidth * width : 0},
                           rows, width / kPanelWidth, within, is_tame);
      j = stop;
    }
  }
}

/// Row r's scores of the panels that a tile of `rows` rows looks at, where keys [tile.lo, tile.hi) are seen by any.
struct RowScores {
  RowScores(float* scores, std::size_t rows, std::size_t r, Range tile) noexcept
      : first(scores + (tile.lo / kChunk * rows + r) * kChunk),
        step(rows * kChunk),
        lo(tile.lo / kPanelWidth * kPanelWidth),
        hi(round_up(tile.hi, kPanelWidth)) {}
  /// Calls visit(place, i, key) for each vector of the panels that anyone sees: vector i of its chunk, from `key` on.
  template <class Visit>
  HWY_INLINE void each(const Visit& visit) const {
    float* at = first;
    for (std::size_t j = lo / kChunk * kChunk; j < hi; j += kChunk, at += step) {
      const std::size_t begin = lo > j ? lo - j : 0, end = std::min(hi - j, kChunk);
      WEFT_UNROLL for (std::size_t i = 0; i < kLaneVectors; ++i) {
        if (i * kVectorLanes >= begin && i * kVectorLanes < end) visit(at + i * kVectorLanes, i, j + i * kVectorLanes);
      }
    }
  }
  /// Writes `value` to the keys of those panels that the row does not see.
  HWY_INLINE void hide(Range seen, float value) const {
    if (seen.lo == lo && seen.hi == hi) return;
    const FloatTag d;
    const hn::RebindToSigned<FloatTag> di;
    const FloatVec hidden = hn::Set(d, value);
    float* at = first;
    for (std::size_t j = lo / kChunk * kChunk; j < hi; j += kChunk, at += step) {
      if (j >= seen.lo && j + kChunk <= seen.hi) continue;
      const auto from = static_cast<std::int32_t>(seen.lo > j ? std::min(seen.lo - j, kChunk) : 0);
      const auto to = static_cast<std::int32_t>(seen.hi > j ? std::min(seen.hi - j, kChunk) : 0);
      for (std::size_t i = lo > j ? lo - j : 0; i < std::min(hi - j, kChunk); i += kVectorLanes) {
        const auto lane = hn::Iota(di, static_cast<std::int32_t>(i));
        const auto is_hidden = hn::Or(hn::Lt(lane, hn::Set(di, from)), hn::Gt(lane, hn::Set(di, to - 1)));
        hn::StoreU(hn::IfThenElse(hn::RebindMask(d, is_hidden), hidden, hn::LoadU(d, at + i)), d, at + i);
      }
    }
  }

  float* first;
  std::size_t step, lo, hi;
};

/// tanh of raw scores, scaled, in parts of the cap.
HWY_INLINE FloatVec capped_shares(FloatVec scores, float scale, float inverse_cap) {
  const FloatTag d;
  return formulas::exact_tanh(hn::Mul(hn::Mul(scores, hn::Set(d, scale)), hn::Set(d, inverse_cap)));
}
/// Raw scores become scaled and capped ones.
HWY_INLINE void cap_scores(const RowScores& row, const AttentionShape& shape) {
  const FloatTag d;
  const FloatVec cap = hn::Set(d, shape.score_cap);
  const float inverse = 1.0f / shape.score_cap;
  row.each([&](float* at, std::size_t, std::size_t)
               HWY_ATTR { hn::StoreU(hn::Mul(cap, capped_shares(hn::LoadU(d, at), shape.scale, inverse)), d, at); });
}

/// A session's mask, a query at a time.
class MaskRows {
 public:
  /// `memory` [keys up to whole chunks]
  MaskRows(const AttentionShape& shape, const float* mask, float* memory) noexcept
      : shape_(shape), mask_(mask), memory_(memory) {
    if (!mask) return;
    std::fill(memory + shape.tokens, memory + detail::most_keys(shape), 0.0f);
    if (is_shared()) pack(mask);
  }
  bool are_there() const noexcept { return mask_ != nullptr; }
  /// Numbers of all keys side by side, until the next call.
  const float* of(std::size_t head, std::size_t token) const noexcept {
    if (!is_shared()) pack(mask_of(shape_, mask_, head, token));
    return memory_;
  }

 private:
  bool is_shared() const noexcept { return shape_.mask.head == 0 && shape_.mask.token == 0; }
  void pack(const float* from) const noexcept {
    if (shape_.mask.key == 1)
      copy_row(from, shape_.tokens, memory_);
    else
      for (std::size_t j = 0; j < shape_.tokens; ++j) memory_[j] = from[j * shape_.mask.key];
  }
  const AttentionShape& shape_;
  const float* mask_;
  float* memory_;
};

HWY_INLINE FloatVec Masked(FloatVec score, FloatVec mask) {
  const FloatTag d;
  return hn::IfThenElse(hn::Le(mask, hn::Set(d, kHiddenScore)), hn::Set(d, -std::numeric_limits<float>::infinity()),
                        hn::Add(score, mask));
}
/// Raw scores times `scale` get their mask.
HWY_INLINE void mask_scores(const RowScores& row, float scale, const float* mask) {
  const FloatTag d;
  const FloatVec by = hn::Set(d, scale);
  row.each([&](float* at, std::size_t, std::size_t key)
               HWY_ATTR { hn::StoreU(Masked(hn::Mul(hn::LoadU(d, at), by), hn::LoadU(d, mask + key)), d, at); });
}

/// The largest scaled score; -inf takes the place of those that the row does not see. Scaling keeps order, so the
/// largest is scaled alone.
HWY_INLINE float largest_of(const RowScores& row, Range seen, float scale) {
  const FloatTag d;
  row.hide(seen, -std::numeric_limits<float>::infinity());
  FloatVec lane[kLaneVectors];
  WEFT_UNROLL for (std::size_t i = 0; i < kLaneVectors; ++i) lane[i] =
      hn::Set(d, -std::numeric_limits<float>::infinity());
  row.each([&](const float* at, std::size_t i, std::size_t) HWY_ATTR { lane[i] = Larger(hn::LoadU(d, at), lane[i]); });
  for (std::size_t half = kLaneVectors / 2; half != 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lane[i] = Larger(lane[i + half], lane[i]);
  return hn::GetLane(hn::Add(hn::Mul(hn::MaxOfLanes(d, lane[0]), hn::Set(d, scale)), hn::Zero(d)));
}

/// Scores become exponentials; gives their sum by lanes of position % 64. Those of hidden keys are +0, which no lane of
/// exponentials notices.
HWY_INLINE float exponentials_of(const RowScores& row, float scale, float largest) {
  const FloatTag d;
  const FloatVec by = hn::Set(d, scale), top = hn::Set(d, largest);
  FloatVec lane[kLaneVectors];
  WEFT_UNROLL for (std::size_t i = 0; i < kLaneVectors; ++i) lane[i] = hn::Zero(d);
  row.each([&](float* at, std::size_t i, std::size_t) HWY_ATTR {
    const FloatVec e = formulas::exact_exp(hn::Sub(hn::Mul(hn::LoadU(d, at), by), top));
    hn::StoreU(e, d, at);
    lane[i] = hn::Add(lane[i], e);
  });
  for (std::size_t half = kLaneVectors / 2; half != 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lane[i] = hn::Add(lane[i], lane[i + half]);
  return FoldVector(d, lane[0]);
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
