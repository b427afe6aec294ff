// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), never by the scalar pass.
// linear_integer for many rows: a few panels' codes are unpacked for a block of inputs, or of few rows stand as they
// are stored, then meet all rows.

#if defined(WEFT_KERNELS_LINEAR_INTEGER_TILES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_LINEAR_INTEGER_TILES_INL
#undef WEFT_KERNELS_LINEAR_INTEGER_TILES_INL
#else
#define WEFT_KERNELS_LINEAR_INTEGER_TILES_INL
#endif

#include "kernels/isa.hpp"
#include "kernels/linear_integer_parts-inl.hpp"

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

using detail::TileWeights;

// Blocks of kTilePanels panels unpacked at once, at most: their codes stay in a first-level cache while all rows pass.
// Of fewer panels there are more.
inline constexpr std::size_t kTileBlocks = WEFT_ISA_IS_VNNI ? 24 : 8;
// Parts of rows up to which a tile flips stored codes itself: unpacking them for all parts takes as long as three or
// four of these, since it goes through memory.
inline constexpr std::size_t kStoredParts = 8;
// Packed codes of the rows that pass: they stay in a second-level cache.
inline constexpr std::size_t kHeldBytes = std::size_t{1} << 20;

template <int kBits, int j>
HWY_INLINE void unpack_word(Words w, [[maybe_unused]] Words lowered, std::size_t P, std::uint32_t* to) {
  using D = DotOf<kBits>;
#if WEFT_ISA_IS_VNNI
  const hn::Repartition<std::uint8_t, WordTag> bytes;
  const Words four = four_codes<kBits, j>(w);
  hn::Store(hn::BitCast(WordTag(), hn::Sub(hn::BitCast(bytes, four), hn::BitCast(bytes, lowered))), WordTag(), to);
#else
  store_codes<D>(D::split(four_codes<kBits, j>(w)), to, P * kPanelWidth);
#endif
  if constexpr (j + 1 < static_cast<int>(kSubWords<kBits>))
    unpack_word<kBits, j + 1>(w, lowered, P, to + D::kWords * P * kPanelWidth);
}

/// Blocks t .. t + count - 1 of panels first .. first + P - 1. With VNNI bytes are lowered by those of `lowered`.
template <int kBits, bool kBlockScale, bool kLaneZero>
HWY_NOINLINE void unpack(const ConstWeight& w, const CodeForm& form, std::size_t first, std::size_t P, std::size_t t,
                         std::size_t count, const TileWeights& to, Words lowered) noexcept {
  const WordTag d;
  constexpr std::size_t kWordStep = kSubWords<kBits> * DotOf<kBits>::kWords;
  const std::size_t words = panel_words(kBits, w.in), blocks = (w.in + kScaleBlock - 1) / kScaleBlock;
  const Words flip = hn::Set(d, form.flip);
  [[maybe_unused]] const detail::ScaleArray scales = detail::scale_array(w);
  for (std::size_t p = 0; p < P; ++p) {
    const std::uint32_t* const from = static_cast<const std::uint32_t*>(w.codes) + (first + p) * words * kPanelWidth;
    std::uint32_t* const codes = to.codes + p * kPanelWidth;
    for (std::size_t i = 0; i < count * kBits; ++i) {
      const std::size_t word = t * kBits + i;
      for (std::size_t v = 0; v < kPanelVectors; ++v) {
        // Words past the last meet activations of 0; they only must not be read.
        const Words u =
            word < words ? hn::Xor(hn::Load(d, from + word * kPanelWidth + v * kPanelLanes), flip) : hn::Zero(d);
        unpack_word<kBits, 0>(u, lowered, P, codes + i * kWordStep * P * kPanelWidth + v * kPanelLanes);
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t group = kBlockScale ? (first + p) * blocks + t + i : first + p, at = (i * P + p) * kPanelWidth;
      for (std::size_t v = 0; v < kPanelWidth; v += kPanelLanes) {
        if constexpr (kBlockScale)
          hn::Store(load_scales(scales, group * kPanelWidth + v), PanelTag(), to.scales + at + v);
        if constexpr (kLaneZero)
          hn::Store(load_zero_points<kBits>(static_cast<const std::uint8_t*>(w.zero_points) + group * kPanelWidth + v),
                    IntTag(), to.zero_points + at + v);
      }
    }
  }
}

/// True when tiles can read the codes where they are, and do better so.
template <int kBits, bool kLaneZero>
bool reads_stored(const ConstWeight& w, std::size_t parts) noexcept {
  return (kBits == 8 || kBits == 4) && !kLaneZero && parts <= kStoredParts && w.in % kScaleBlock == 0;
}

/// Scales of blocks [at, at + count) of `w`, counted over its panels, as floats: where they are, or widened into
/// `room`.
inline const float* float_scales(const ConstWeight& w, std::size_t at, std::size_t count, float* room) noexcept {
  const detail::ScaleArray scales = detail::scale_array(w).from(at * kPanelWidth);
  if (!scales.is_half) return static_cast<const float*>(scales.data);
  widen_scales(static_cast<const std::uint16_t*>(scales.data), count * kPanelWidth, room);
  return room;
}

/// Panels first .. first + P - 1, their blocks t .. t + count - 1. Scales of binary16 go to `room`.
template <int kBits, bool kBlockScale>
detail::StoredWeights stored_weights(const ConstWeight& w, const CodeForm& form, std::size_t first, std::size_t P,
                                     std::size_t t, std::size_t count, float* room) noexcept {
  const std::size_t blocks = w.in / kScaleBlock, at = first * blocks + t;
  detail::StoredWeights stored{static_cast<const std::uint32_t*>(w.codes) + at * kBits * kPanelWidth, nullptr, blocks,
                               blocks, form.flip};
  if constexpr (kBlockScale) {
    stored.scales = float_scales(w, at, count, room);
    for (std::size_t p = 1; stored.scales == room && p < P; ++p)
      float_scales(w, at + p * blocks, count, room + p * count * kPanelWidth);
    if (stored.scales == room) stored.scale_blocks = count;
  }
  return stored;
}

/// Memory's lines of the blocks that will be read next, of P panels side by side: asked for while rows meet those
/// before.
template <int kBits>
class LinesAhead {
 public:
  /// Lines that follow blocks t .. t + count - 1 of panels first .. first + P - 1.
  LinesAhead(const ConstWeight& w, std::size_t first, std::size_t P, std::size_t t, std::size_t count,
             std::size_t blocks) noexcept {
    const bool ends = t + count >= blocks;
    const std::size_t words = panel_words(kBits, w.in), panel = ends ? first + P : first, block = ends ? 0 : t + count;
    if (is_prefetch_costly() || panel + P > panel_count(w.out)) return;
    panels_ = P;
    panel_lines_ = std::min(count, blocks - block) * kBits;
    stride_ = words * kPanelWidth;
    from_ = static_cast<const std::uint32_t*>(w.codes) + (panel * words + block * kBits) * kPanelWidth;
    if (!is_block(w.granularity)) return;
    const detail::ScaleArray scales = detail::scale_array(w);
    scale_stride_ = blocks * kPanelWidth * scales.bytes();
    scale_bytes_ = std::min(count, blocks - block) * kPanelWidth * scales.bytes();
    scales_ = static_cast<const char*>(scales.from((panel * blocks + block) * kPanelWidth).data);
  }
  void ask_scales() const noexcept {
    for (std::size_t p = 0; p < panels_; ++p)
      for (std::size_t at = 0; at < scale_bytes_; at += 64) __builtin_prefetch(scales_ + p * scale_stride_ + at);
  }
  /// Share `i` of `shares`, spread over the chunks of `count` blocks.
  detail::StoredWeights::Ahead spread(std::size_t i, std::size_t shares, std::size_t count) const noexcept {
    const std::size_t chunks = (count + 1) / 2, lines = panels_ * panel_lines_;
    const std::size_t first = lines * i / shares, last = lines * (i + 1) / shares;
    return {from_, panel_lines_, stride_ - panel_lines_ * kPanelWidth,
            first, last,         (last - first + chunks - 1) / chunks};
  }
  /// Share `i` of `shares`.
  void ask(std::size_t i, std::size_t shares) const noexcept {
    const std::size_t begin = panel_lines_ * i / shares, end = panel_lines_ * (i + 1) / shares;
    for (std::size_t p = 0; p < panels_; ++p)
      for (std::size_t line = begin; line < end; ++line) __builtin_prefetch(from_ + p * stride_ + line * kPanelWidth);
  }

 private:
  const std::uint32_t* from_ = nullptr;
  const char* scales_ = nullptr;
  std::size_t panels_ = 0, panel_lines_ = 0, stride_ = 0, scale_stride_ = 0, scale_bytes_ = 0;
};

/// Parts [begin, end) against panels first .. first + P - 1.
template <int kBits, bool kBlockScale, bool kLaneZero>
void run_panels(const ConstWeight& w, const CodeForm& form, const PackedRows& x, std::size_t begin, std::size_t end,
                const Outputs& outputs, std::size_t first, std::size_t P, const TileWeights& unpacked,
                float* totals) noexcept {
  const std::size_t lanes = P * kPanelWidth, o = first * kPanelWidth;
  const std::size_t first_row = x.first_row(begin);
  const auto totals_of = [&](std::size_t row) { return totals + (row - first_row) * lanes; };
  const detail::StoredTile* const stored =
      reads_stored<kBits, kLaneZero>(w, end - begin) ? detail::stored_tiles(kBits, P) : nullptr;
  const std::size_t most = kTileBlocks * kTilePanels / P, times = (x.blocks + most - 1) / most;
  // About as many each time, whole chunks of two.
  const std::size_t blocks = times == 0 ? most : (x.blocks + 2 * times - 1) / (2 * times) * 2;
  std::memset(totals, 0, (x.first_row(end) - first_row) * lanes * sizeof(float));
  const auto pass = [&](const auto* tiles, auto weights, std::size_t t, std::size_t count) {
    const LinesAhead<kBits> ahead(w, first, P, t, count, x.blocks);
    ahead.ask_scales();
    for (std::size_t part = begin; part < end; ++part) {
      const std::size_t R = x.rows_of(part), at = t * R;
      if constexpr (requires { weights.ahead; })
        weights.ahead = ahead.spread(part - begin, end - begin, count);
      else
        ahead.ask(part - begin, end - begin);
      tiles[R - 1](weights, count, x.codes_of(part) + at * x.block_bytes, x.scales_of(part) + at,
                   x.zero_terms_of(part) + at, totals_of(x.first_row(part)));
    }
  };
  for (std::size_t t = 0; t < x.blocks; t += blocks) {
    const std::size_t count = std::min(blocks, x.blocks - t);
    if (stored) {
      pass(stored, stored_weights<kBits, kBlockScale>(w, form, first, P, t, count, unpacked.scales), t, count);
    } else {
      unpack<kBits, kBlockScale, kLaneZero>(w, form, first, P, t, count, unpacked, hn::Zero(WordTag()));
      pass(detail::integer_tiles(kBits == 8, kLaneZero, P), unpacked, t, count);
    }
  }
  for (std::size_t row = first_row; row < x.first_row(end); ++row) {
    scale_outputs(w, outputs, row, o, lanes, totals_of(row));
    if (outputs.has_finish()) outputs.finish(row, o, std::min(lanes, w.out - o));
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
    std::size_t p = 0;
    for (std::size_t P = kTilePanels; P > 0; P /= 2)
      for (; p + P <= panels; p += P)
        run_panels<kBits, kBlockScale, kLaneZero>(w, form, x, begin, end, outputs, p, P, unpacked, totals);
  }
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
