// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), never by the scalar pass.
// linear_integer for one row: weights are read once, straight from their packed words.

#if defined(WEFT_KERNELS_LINEAR_INTEGER_ROW_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_LINEAR_INTEGER_ROW_INL
#undef WEFT_KERNELS_LINEAR_INTEGER_ROW_INL
#else
#define WEFT_KERNELS_LINEAR_INTEGER_ROW_INL
#endif

#include "kernels/internal/binary_tables.hpp"
#include "kernels/isa.hpp"
#include "kernels/linear_integer_parts-inl.hpp"

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

// Panels side by side: their sums' latencies overlap, and more streams come from memory at once.
inline constexpr std::size_t kRowPanels = kPanelVectors == 1 ? 4 : kPanelVectors == 2 ? 2 : 1;

// Prefetch distance in words, for codes so small that a stream's lines come seldom: measured 4 to 6 % of the time from
// memory on Intel's CPUs and 2 to 25 % on Zen 5; on Zen 4 it costs 20 to 45 % (is_prefetch_costly). Codes of 8 bits
// gain less than they lose where they come from a cache.
inline constexpr std::size_t kAhead = 512;

template <int kBits, std::size_t P>
struct RowSums {
  using D = DotOf<kBits>;
  typename D::Sum sum[P][kPanelVectors];

  HWY_INLINE void start(std::size_t p, std::size_t v, Ints init) { sum[p][v] = D::start(init); }
  template <int j>
  HWY_INLINE void add(const Words (&w)[P][kPanelVectors], const std::int8_t* q) {
    const auto xs = broadcast_activations<D>(q + 4 * D::kWords * j);
    WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[p][v] =
          D::add(sum[p][v], D::split(four_codes<kBits, j>(w[p][v])), xs);
    }
    if constexpr (j + 1 < static_cast<int>(kSubWords<kBits>)) add<j + 1>(w, q);
  }
  HWY_INLINE Ints finish(std::size_t p, std::size_t v, Ints init) const { return D::finish(sum[p][v], init); }
};

#if WEFT_ISA_IS_VNNI
/// Codes of 4 and 2 bits: odd ones are multiplied where they stand, kBits bits up, and summed apart, which saves a
/// shift a product. Sums of 32 bits have room for them (docs/numerics.md, section 10).
template <int kBits, std::size_t P>
requires(kBits == 4 || kBits == 2) struct RowSums<kBits, P> {
  using D = DotOf<kBits>;
  typename D::Sum even[P][kPanelVectors], odd[P][kPanelVectors];

  HWY_INLINE void start(std::size_t p, std::size_t v, Ints init) {
    even[p][v] = D::start(init);
    odd[p][v] = D::start(hn::Zero(IntTag()));
  }
  template <int j>
  HWY_INLINE void add(const Words (&w)[P][kPanelVectors], const std::int8_t* q) {
    constexpr int kShift = kBits * (j - j % 2);
    const Words mask = hn::Set(WordTag(), 0x01010101u * (((1u << kBits) - 1) << (j % 2 ? kBits : 0)));
    const auto xs = broadcast_activations<D>(q + 4 * j);
    WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) {
        auto& sum = j % 2 ? odd[p][v] : even[p][v];
        sum = D::add(sum, hn::And(kShift ? hn::ShiftRight<kShift>(w[p][v]) : w[p][v], mask), xs);
      }
    }
    if constexpr (j + 1 < static_cast<int>(kSubWords<kBits>)) add<j + 1>(w, q);
  }
  HWY_INLINE Ints finish(std::size_t p, std::size_t v, Ints) const {
    return Ints{(Raw)(even[p][v] + (odd[p][v] >> kBits))};  // multiples of 2^kBits: nothing is lost
  }
};
#endif

/// Block t of P panels: `take(p, v, sum)` gets each exact sum. kWhole: the block has all its words, else `words`.
/// kFlips: codes are signed, thus flipped by `flip`.
template <int kBits, std::size_t P, bool kWhole, bool kFlips, class Init, class Take>
HWY_INLINE void row_block(const std::uint32_t* const (&code)[P], std::size_t t, std::size_t words, Words flip,
                          const std::int8_t* q, const Init& init, const Take& take) {
  using D = DotOf<kBits>;
  const WordTag d;
  RowSums<kBits, P> sums;
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
    WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sums.start(p, v, init(p, v));
  }
  const auto add_word = [&](std::size_t i) HWY_ATTR {
    Words w[P][kPanelVectors];
    WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) {
        w[p][v] = hn::Load(d, code[p] + (t * kBits + i) * kPanelWidth + v * kPanelLanes);
        if constexpr (kFlips) w[p][v] = hn::Xor(w[p][v], flip);
      }
    }
    sums.template add<0>(w, q + i * kSubWords<kBits> * 4 * D::kWords);
  };
  if constexpr (kWhole) {
    WEFT_UNROLL for (std::size_t i = 0; i < kBits; ++i) add_word(i);
  } else {
    for (std::size_t i = 0; i < words; ++i) add_word(i);
  }
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
    WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) take(p, v, sums.finish(p, v, init(p, v)));
  }
}

/// Asks for the words of P panels kAhead words behind block t, and for that block's scales if there are any: past the
/// panels' ends for those of the P panels that come next, which short panels would else wait for at each beginning.
template <int kBits, std::size_t P>
HWY_INLINE void prefetch_block(const std::uint32_t* const (&code)[P], const detail::ScaleArray& scales, std::size_t t,
                               std::size_t words, std::size_t blocks) {
  const std::size_t at = t * kBits * kPanelWidth + kAhead, panel = words * kPanelWidth;
  const std::size_t ahead = at < panel ? at : at + (P - 1) * panel;
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
    WEFT_UNROLL for (std::size_t i = 0; i < kBits; ++i) __builtin_prefetch(code[p] + ahead + i * kPanelWidth);
  }
  if (!scales.data) return;
  const std::size_t block = t + kAhead / (kBits * kPanelWidth);
  const std::size_t group = block < blocks ? block : block + (P - 1) * blocks;
  const auto* const from = static_cast<const char*>(scales.data);
  const std::size_t bytes = kPanelWidth * scales.bytes();
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) __builtin_prefetch(from + (p * blocks + group) * bytes);
}

template <std::size_t P>
using PanelSums = V[P][kPanelVectors];

/// Words and zero points of P panels of a weight, from `first` on. `groups`: scales of an output.
template <bool kLaneZero, std::size_t P>
HWY_INLINE void point_at_panels(const ConstWeight& w, std::size_t first, std::size_t words, std::size_t groups,
                                const std::uint32_t* (&code)[P], const std::uint8_t* (&zero)[P]) {
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
    code[p] = static_cast<const std::uint32_t*>(w.codes) + (first + p) * words * kPanelWidth;
    zero[p] = static_cast<const std::uint8_t*>(w.zero_points) + (kLaneZero ? (first + p) * groups * kPanelWidth : 0);
  }
}

/// Zero points of group t.
template <int kBits, std::size_t P>
HWY_INLINE void load_group(const std::uint8_t* const (&zero)[P], std::size_t t, Ints (&zero_points)[P][kPanelVectors]) {
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
    WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) zero_points[p][v] =
        load_zero_points<kBits>(zero[p] + t * kPanelWidth + v * kPanelLanes);
  }
}

template <std::size_t P>
HWY_INLINE void set_zero(PanelSums<P>& sum) {
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
    WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[p][v] = hn::Zero(PanelTag());
  }
}

template <std::size_t P>
HWY_INLINE void add_to(PanelSums<P>& total, const PanelSums<P>& sum) {
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
    WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) total[p][v] = hn::Add(total[p][v], sum[p][v]);
  }
}

/// Panels first .. first + P - 1 of one row.
template <int kBits, bool kBlockScale, bool kLaneZero, std::size_t P>
void row_panels(const ConstWeight& w, const CodeForm& form, const PackedRows& x, std::size_t part,
                const Outputs& outputs, std::size_t first) noexcept {
  const PanelTag d;
  // Unsigned codes with zeros of their own are as they are stored; other unsigned ones are flipped by 0.
  constexpr bool kFlips = kBits > 1 && (!kLaneZero || (kBits == 8 && kByteFlip != 0));
  const bool prefetches = kBits < 8 && !is_prefetch_costly();
  const std::size_t words = panel_words(kBits, w.in), blocks = x.blocks;
  const std::int8_t* const q = x.codes_of(part);
  const float* const xs = x.scales_of(part);
  const std::int32_t* const zero_terms = x.zero_terms_of(part);
  const Words flip = hn::Set(WordTag(), form.flip);
  const std::uint32_t* code[P];
  const std::uint8_t* zero[P];
  const std::size_t groups = kBlockScale ? blocks : 1;
  // Of blocks alone: other scales meet the totals.
  const detail::ScaleArray scales =
      kBlockScale ? detail::scale_array(w).from(first * blocks * kPanelWidth) : detail::ScaleArray();
  PanelSums<P> total, sum;
  Ints zero_points[P][kPanelVectors];
  point_at_panels<kLaneZero>(w, first, words, groups, code, zero);
  set_zero<P>(total);
  if constexpr (kLaneZero && !kBlockScale) load_group<kBits>(zero, 0, zero_points);
  const auto block = [&](auto whole, std::size_t t, const auto& take) HWY_ATTR {
    const Ints zero_term = hn::Set(IntTag(), zero_terms[t]);
    const V x_scale = hn::Set(d, xs[t]);
    if constexpr (kLaneZero && kBlockScale) load_group<kBits>(zero, t, zero_points);
    if (decltype(whole)::value && prefetches) prefetch_block<kBits>(code, scales, t, words, blocks);
    row_block<kBits, P, decltype(whole)::value, kFlips>(
        code, t, std::min<std::size_t>(kBits, words - t * kBits), flip, q + t * x.block_bytes,
        [&](std::size_t p, std::size_t v)
            HWY_ATTR { return kLaneZero ? zero_product(zero_points[p][v], zero_term) : zero_term; },
        [&](std::size_t p, std::size_t v, Ints exact) HWY_ATTR {
          const std::size_t at = (p * blocks + t) * kPanelWidth + v * kPanelLanes;
          take(p, v, hn::ConvertTo(d, exact), kBlockScale ? hn::Mul(x_scale, load_scales(scales, at)) : x_scale);
        });
  };
  std::size_t t = 0;
  for (; (t + 2) * kScaleBlock <= w.in; t += 2) {
    // A chunk's first product takes no sum: that differs from fma(..., +0) in a zero's sign, which the total forgets.
    block(std::true_type(), t, [&](std::size_t p, std::size_t v, V a, V b) HWY_ATTR { sum[p][v] = hn::Mul(a, b); });
    block(std::true_type(), t + 1, [&](std::size_t p, std::size_t v, V a, V b) HWY_ATTR {
      total[p][v] = hn::Add(total[p][v], hn::MulAdd(a, b, sum[p][v]));
    });
  }
  if (t < blocks) {
    set_zero<P>(sum);
    for (; t < blocks; ++t)
      block(std::false_type(), t,
            [&](std::size_t p, std::size_t v, V a, V b) HWY_ATTR { sum[p][v] = hn::MulAdd(a, b, sum[p][v]); });
    add_to<P>(total, sum);
  }
  alignas(64) float totals[P * kPanelWidth];
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
    WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v)
        hn::Store(total[p][v], d, totals + p * kPanelWidth + v * kPanelLanes);
  }
  scale_outputs(w, outputs, x.first_row(part), first * kPanelWidth, P * kPanelWidth, totals);
}

// Fewer panels do not pay for the tables.
inline constexpr std::size_t kLeastTablePanels = 8;
// Blocks whose tables are made at once, 16 KiB: they stay in the first-level cache while all panels pass. Measured from
// memory on Zen 5: 256 blocks 48 GB/s, 64 of them 57; on an Intel Xeon there is no difference.
inline constexpr std::size_t kTableBlocks = 64;

/// Whole groups of panels of one row with binary weights, by tables if there are any. Returns the first panel left.
inline std::size_t run_row_by_tables(const ConstWeight& w, const PackedRows& x, std::size_t part,
                                     const Outputs& outputs) noexcept {
  constexpr std::size_t kPanels = detail::BinaryTables::kPanels, kGroup = kPanels * kPanelWidth;
  const detail::BinaryTables* const tables = detail::binary_tables();
  const std::size_t panels = panel_count(w.out) / kPanels * kPanels;
  if (!tables || panels < kLeastTablePanels) return 0;
  constexpr std::size_t kTableFloats = kTableBlocks * detail::BinaryTables::kBlockBytes / sizeof(float);
  float* const scratch = detail::linear_scratch(kTableFloats + panels * kPanelWidth);
  auto* const sums = reinterpret_cast<std::uint8_t*>(scratch);
  float* const totals = scratch + kTableFloats;
  std::memset(totals, 0, panels * kPanelWidth * sizeof(float));
  const std::size_t stride = x.blocks * kPanelWidth;
  const auto* const codes = static_cast<const std::uint32_t*>(w.codes);
  const detail::ScaleArray scales = is_block(w.granularity) ? detail::scale_array(w) : detail::ScaleArray();
  // Panels are short streams, too short for CPUs to run ahead of: each group asks for the next one's words.
  for (std::size_t t = 0; t < x.blocks; t += kTableBlocks) {
    const std::size_t count = std::min(kTableBlocks, x.blocks - t);
    tables->build(x.codes_of(part) + t * x.block_bytes, count, sums);
    for (std::size_t p = 0; p < panels; p += kPanels) {
      const std::size_t at = p * stride + t * kPanelWidth;
      tables->add(codes + at, scales.data ? scales.from(at) : scales, stride, sums, x.scales_of(part) + t,
                  x.zero_terms_of(part) + t, count, p + kPanels < panels ? kPanels * stride : 0,
                  totals + p * kPanelWidth);
    }
  }
  for (std::size_t o = 0; o < panels * kPanelWidth; o += kGroup)
    scale_outputs(w, outputs, x.first_row(part), o, kGroup, totals + o);
  return panels;
}

template <int kBits, bool kBlockScale, bool kLaneZero>
void run_row(const ConstWeight& w, const CodeForm& form, const PackedRows& x, std::size_t part,
             const Outputs& outputs) noexcept {
  const std::size_t panels = panel_count(w.out);
  std::size_t p = kBits == 1 ? run_row_by_tables(w, x, part, outputs) : 0;
  for (; p + kRowPanels <= panels; p += kRowPanels)
    row_panels<kBits, kBlockScale, kLaneZero, kRowPanels>(w, form, x, part, outputs, p);
  if constexpr (kRowPanels > 2)
    for (; p + 2 <= panels; p += 2) row_panels<kBits, kBlockScale, kLaneZero, 2>(w, form, x, part, outputs, p);
  if constexpr (kRowPanels > 1)
    for (; p < panels; ++p) row_panels<kBits, kBlockScale, kLaneZero, 1>(w, form, x, part, outputs, p);
  if (outputs.has_finish()) outputs.finish(x.first_row(part), 0, w.out);
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
