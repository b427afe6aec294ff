// SPDX-License-Identifier: Apache-2.0
// One row against coded weights, and decoding into float32 panels, for any decoder of simd/dequantize-inl.hpp. Text
// that is re-included once per ISA, see kernels/foreach_isa.hpp.
#if !WEFT_ISA_IS_SCALAR
#if defined(WEFT_KERNELS_SIMD_DEQUANTIZED_ROW_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_SIMD_DEQUANTIZED_ROW_INL
#undef WEFT_KERNELS_SIMD_DEQUANTIZED_ROW_INL
#else
#define WEFT_KERNELS_SIMD_DEQUANTIZED_ROW_INL
#endif

#include "kernels/simd/dequantize-inl.hpp"
#include "kernels/simd/panel-inl.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace weft::kernels::WEFT_ISA {
namespace {

/// Pointers to one panel's codes, scales and zero points from an input on that is a multiple of 32. Of a weight with
/// binary16 scales, `scales` are those that CodedWeight::widen() makes of `half_scales`.
template <class Decoder>
struct PanelCodes {
  const char* codes;
  const typename Decoder::Scale* scales;
  const std::uint16_t* half_scales;
  const typename Decoder::Zero* zero_points;
};

inline constexpr std::size_t kLineBytes = 64;
/// Prefetch distance of codes: hardware prefetches too late for streams this slow. Measured 1.2 times the speed.
inline constexpr std::size_t kAhead = 1536;

/// A weight as `Decoder` reads it: in blocks of 32 inputs, whose scales repeat where they hold for more.
template <class Decoder>
class CodedWeight {
 public:
  using Scale = typename Decoder::Scale;
  using Zero = typename Decoder::Zero;
  static constexpr std::size_t kBlockBytes = kScaleBlock / Decoder::kCodes * Decoder::kUnitBytes;
  static_assert(kScaleBlock % Decoder::kCodes == 0);

  explicit CodedWeight(const ConstWeight& w)
      : decoder(w),
        codes_(static_cast<const char*>(w.codes)),
        panel_bytes_(weight_bytes(w.encoding(), kPanelWidth, w.in).codes) {
    if (!w.scales) return;
    if (w.granularity == Granularity::tensor) {
      std::fill(std::begin(one_scale_), std::end(one_scale_), *static_cast<const Scale*>(w.scales));
      if (w.zero_points)
        std::fill(std::begin(one_zero_), std::end(one_zero_), *static_cast<const Zero*>(w.zero_points));
      return;
    }
    panel_groups_ = scale_count(w.encoding(), kPanelWidth, w.in);
    if (is_block(w.granularity)) block_groups_ = kPanelWidth;
    if (w.has_half_scales()) {
      half_scales_ = static_cast<const std::uint16_t*>(w.scales);
    } else {
      scales_ = static_cast<const Scale*>(w.scales);
      scale_step_ = 1;
    }
    if (!w.zero_points) return;
    zero_points_ = static_cast<const Zero*>(w.zero_points);
    zero_step_ = 1;
  }
  CodedWeight(const CodedWeight&) = delete;
  CodedWeight& operator=(const CodedWeight&) = delete;

  PanelCodes<Decoder> at(std::size_t panel, std::size_t block) const {
    const std::size_t group = panel * panel_groups_ + block * block_groups_;
    return {codes_ + panel * panel_bytes_ + block * kBlockBytes, scales_ + group * scale_step_,
            half_scales_ ? half_scales_ + group : nullptr, zero_points_ + group * zero_step_};
  }
  /// Points at scales that can be read: those of binary16 are widened into `room`.
  HWY_INLINE void widen(PanelCodes<Decoder>& panel, [[maybe_unused]] float (&room)[kPanelWidth]) const {
    if constexpr (std::is_same_v<Scale, float> && !std::is_same_v<typename Decoder::Group, NoGroup>) {
      if (!half_scales_) return;
      widen_scales(panel.half_scales, kPanelWidth, room);
      panel.scales = room;
    }
  }
  /// Prefetch distance of a block's codes when P panels run side by side: into the next P near the end.
  HWY_INLINE std::size_t distance(std::size_t k, std::size_t P) const {
    const std::size_t left = panel_bytes_ - k / kScaleBlock * kBlockBytes;
    return kAhead + (left > kAhead ? 0 : (P - 1) * panel_bytes_);
  }
  /// From a block to the panel's next one.
  HWY_INLINE void step(PanelCodes<Decoder>& panel) const {
    panel.codes += kBlockBytes;
    panel.scales += block_groups_ * scale_step_;
    if (half_scales_) panel.half_scales += kPanelWidth;
    panel.zero_points += block_groups_ * zero_step_;
  }

  const Decoder decoder;

 private:
  const char* codes_;
  std::size_t panel_bytes_, panel_groups_ = 0, block_groups_ = 0, scale_step_ = 0, zero_step_ = 0;
  // Types without scales or zero points point here too: their decoders read neither.
  alignas(64) Scale one_scale_[kPanelWidth] = {};
  alignas(64) Zero one_zero_[kPanelWidth] = {};
  const Scale* scales_ = one_scale_;
  const std::uint16_t* half_scales_ = nullptr;
  const Zero* zero_points_ = one_zero_;
};

template <class Decoder>
HWY_INLINE void store_unit(const Decoder& decoder, const char* codes, const typename Decoder::Group& group,
                           std::size_t v, float* to) {
  constexpr std::size_t kStep = Decoder::kStep;
  auto raw = decoder.load(codes, v);
  for (std::size_t i = 0; i < Decoder::kCodes; i += kStep) {
    PanelVector values[kStep];
    decoder.values(raw, group, values);
    WEFT_UNROLL for (std::size_t j = 0; j < kStep; ++j)
        hn::Store(values[j], kDequantizedTag, to + (i + j) * kPanelWidth + v * kPanelLanes);
    raw = Decoder::next(raw);
  }
}

/// The first `count` <= 32 inputs of a block as floats, [count][16].
template <class Decoder>
HWY_NOINLINE void dequantize_block(const Decoder& decoder, const PanelCodes<Decoder>& panel, std::size_t count,
                                   float* to) noexcept {
  constexpr std::size_t kCodes = Decoder::kCodes, kBytes = Decoder::kUnitBytes;
  const std::size_t whole = count / kCodes, rest = count % kCodes;
  for (std::size_t v = 0; v < kPanelVectors; ++v) {
    const auto group = decoder.group(panel.scales + v * kPanelLanes, panel.zero_points + v * kPanelLanes);
    for (std::size_t u = 0; u < whole; ++u)
      store_unit(decoder, panel.codes + u * kBytes, group, v, to + u * kCodes * kPanelWidth);
    if (rest == 0) continue;
    const char* from = panel.codes + whole * kBytes;
    alignas(64) char padded[kBytes];
    if constexpr (Decoder::kReadsPast) {
      std::memset(padded, 0, kBytes);
      std::memcpy(padded, from, rest * (kBytes / kCodes));
      from = padded;
    }
    alignas(64) float unit[kCodes * kPanelWidth];
    store_unit(decoder, from, group, v, unit);
    for (std::size_t k = 0; k < rest; ++k)
      std::memcpy(to + (whole * kCodes + k) * kPanelWidth + v * kPanelLanes, unit + k * kPanelWidth + v * kPanelLanes,
                  kPanelLanes * sizeof(float));
  }
}

template <class Decoder>
void dequantize_part(const ConstWeight& w, const detail::DequantizedPart& part, float* to) noexcept {
  const CodedWeight<Decoder> coded(w);
  for (std::size_t p = part.first_panel; p < part.first_panel + part.panels; ++p, to += part.count * kPanelWidth) {
    for (std::size_t k = 0; k < part.count; k += kScaleBlock) {
      alignas(64) float scales[kPanelWidth];
      PanelCodes<Decoder> panel = coded.at(p, (part.first_k + k) / kScaleBlock);
      coded.widen(panel, scales);
      dequantize_block(coded.decoder, panel, std::min(kScaleBlock, part.count - k), to + k * kPanelWidth);
    }
    const std::size_t used = w.out - p * kPanelWidth;
    if (used < kPanelWidth)
      for (std::size_t k = 0; k < part.count; ++k)
        std::fill(to + k * kPanelWidth + used, to + (k + 1) * kPanelWidth, 0.0f);
  }
}

// --- one row ------------------------------------------------------------------------------------------------------

/// Panels at once: as many sums in flight as an fma takes cycles, at least.
inline constexpr std::size_t kDequantizedPanels = kPanelVectors == 1 ? 4 : 2;

/// Fewer than 32 inputs at a row's end, or 32 that need care, by way of memory.
template <class Decoder, std::size_t P>
HWY_INLINE void add_dequantized(const Decoder& decoder, const PanelCodes<Decoder> (&panel)[P], const float* x,
                                std::size_t count, PanelVector (&sum)[P][kPanelVectors]) {
  alignas(64) float values[kScaleBlock * kPanelWidth];
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
    dequantize_block(decoder, panel[p], count, values);
    for (std::size_t k = 0; k < count; ++k) {
      const PanelVector xs = hn::Set(kDequantizedTag, x[k]);
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[p][v] =
          hn::MulAdd(hn::Load(kDequantizedTag, values + k * kPanelWidth + v * kPanelLanes), xs, sum[p][v]);
    }
  }
}

/// 32 inputs of P panels, codes straight to sums. Each unit prefetches `prefetched` bytes a panel, in turn from
/// `later`.
template <std::size_t prefetched, class Decoder, std::size_t P>
HWY_INLINE void add_block(const Decoder& decoder, const PanelCodes<Decoder> (&panel)[P], const float* x,
                          const char* (&later)[P], PanelVector (&sum)[P][kPanelVectors]) {
  constexpr std::size_t kStep = Decoder::kStep, kLoad = Decoder::kLoad;
  typename Decoder::Group group[P][kPanelVectors];
  const char* codes[P];
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
    codes[p] = panel[p].codes;
    WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) group[p][v] =
        decoder.group(panel[p].scales + v * kPanelLanes, panel[p].zero_points + v * kPanelLanes);
  }
  for (std::size_t k = 0; k < kScaleBlock; k += Decoder::kCodes) {
    WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
      WEFT_UNROLL for (std::size_t line = 0; line < prefetched; line += kLineBytes) __builtin_prefetch(later[p] + line);
      later[p] += prefetched;
    }
    for (std::size_t load = 0; load < Decoder::kCodes; load += kLoad) {
      typename Decoder::Raw raw[P][kPanelVectors];
      WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
        WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) raw[p][v] =
            decoder.load(codes[p] + load / kLoad * Decoder::kLoadBytes, v);
      }
      for (std::size_t i = 0; i < kLoad; i += kStep) {
        PanelVector xs[kStep];
        WEFT_UNROLL for (std::size_t j = 0; j < kStep; ++j) xs[j] = hn::Set(kDequantizedTag, x[k + load + i + j]);
        WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
          WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) {
            PanelVector ws[kStep];
            decoder.values(raw[p][v], group[p][v], ws);
            WEFT_UNROLL for (std::size_t j = 0; j < kStep; ++j) sum[p][v] = hn::MulAdd(ws[j], xs[j], sum[p][v]);
            raw[p][v] = Decoder::next(raw[p][v]);
          }
        }
      }
    }
    WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) codes[p] += Decoder::kUnitBytes;
  }
}

/// The same by way of binary16 codes, for decoders that prefer it.
template <class Decoder, std::size_t P>
HWY_INLINE void add_halves(const Decoder& decoder, const PanelCodes<Decoder> (&panel)[P], const float* x,
                           const char* (&later)[P], PanelVector (&sum)[P][kPanelVectors]) {
  using Halves = typename Decoder::Halves;
  constexpr std::size_t kCount = kScaleBlock * kPanelWidth;
  alignas(64) std::uint16_t half[P][kCount];
  PanelCodes<Halves> by_half[P];
  bool is_plain = true;
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
    const auto* codes = reinterpret_cast<const std::uint8_t*>(panel[p].codes);
    is_plain &= Decoder::to_halves(codes, panel[p].scales, kCount, half[p]);
    by_half[p] = {reinterpret_cast<const char*>(half[p]), panel[p].scales, nullptr, panel[p].zero_points};
  }
  if (HWY_LIKELY(is_plain))
    add_block<Halves::kCodes * kPanelWidth>(Halves(), by_half, x, later, sum);
  else
    add_dequantized(decoder, panel, x, kScaleBlock, sum);
}

/// Panels first .. first + P - 1 of one row by rule R1, and the bias.
template <class Decoder, std::size_t P>
HWY_NOINLINE void row_panels(const CodedWeight<Decoder>& w, std::size_t out, std::size_t in, const float* bias,
                             const float* x, float* to, std::size_t first) noexcept {
  // A copy: its tables stay in registers.
  const Decoder decoder = w.decoder;
  constexpr std::size_t kBlockBytes = CodedWeight<Decoder>::kBlockBytes;
  alignas(64) char last[kBlockBytes + kLineBytes];
  alignas(64) float scales[P][kPanelWidth];
  PanelCodes<Decoder> panel[P];
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) panel[p] = w.at(first + p, 0);
  PanelVector total[P][kPanelVectors];
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
    WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) total[p][v] = hn::Zero(kDequantizedTag);
  }
  for (std::size_t chunk = 0; chunk < in; chunk += kChunk) {
    PanelVector sum[P][kPanelVectors];
    WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[p][v] = hn::Zero(kDequantizedTag);
    }
    const std::size_t end = std::min(in, chunk + kChunk);
    std::size_t k = chunk;
    for (; k + kScaleBlock <= end; k += kScaleBlock) {
      if (Decoder::kLoadsPast && k + kScaleBlock == in && (first + P) * kPanelWidth >= out) {
        // Nothing may lie behind the last codes of all.
        std::memcpy(last, panel[P - 1].codes, kBlockBytes);
        panel[P - 1].codes = last;
      }
      const char* later[P];
      WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
        later[p] = panel[p].codes + w.distance(k, P);
        w.widen(panel[p], scales[p]);
      }
      if constexpr (std::is_void_v<typename Decoder::Halves>)
        add_block<Decoder::kUnitBytes>(decoder, panel, x + k, later, sum);
      else
        add_halves(decoder, panel, x + k, later, sum);
      WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) w.step(panel[p]);
    }
    if (k < end) {
      WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) w.widen(panel[p], scales[p]);
      add_dequantized(decoder, panel, x + k, end - k, sum);
    }
    WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) total[p][v] = hn::Add(total[p][v], sum[p][v]);
    }
  }
  WEFT_UNROLL for (std::size_t p = 0; p < P; ++p) {
    const std::size_t o = (first + p) * kPanelWidth;
    if (o + kPanelWidth <= out) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) {
        const std::size_t at = o + v * kPanelLanes;
        if (bias) total[p][v] = hn::Add(total[p][v], hn::LoadU(kDequantizedTag, bias + at));
        hn::StoreU(total[p][v], kDequantizedTag, to + at);
      }
    } else {
      alignas(64) float rest[kPanelWidth];
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v)
          hn::Store(total[p][v], kDequantizedTag, rest + v * kPanelLanes);
      for (std::size_t i = 0; o + i < out; ++i) to[o + i] = bias ? rest[i] + bias[o + i] : rest[i];
    }
  }
}

template <class Decoder>
void dequantized_row(const ConstWeight& w, const float* bias, const float* x, float* to) noexcept {
  const CodedWeight<Decoder> coded(w);
  const std::size_t panels = panel_count(w.out);
  std::size_t p = 0;
  for (; p + kDequantizedPanels <= panels; p += kDequantizedPanels)
    row_panels<Decoder, kDequantizedPanels>(coded, w.out, w.in, bias, x, to, p);
  for (; p < panels; ++p) row_panels<Decoder, 1>(coded, w.out, w.in, bias, x, to, p);
}

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
HWY_AFTER_NAMESPACE();

#endif  // guard
#endif  // !WEFT_ISA_IS_SCALAR
