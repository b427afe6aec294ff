// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/quantize.cpp"
#define WEFT_WITHOUT_WASM
#include "kernels/quantize.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/internal/quantize_reference.hpp"
#include "kernels/simd/quantize_weight-inl.hpp"
#include "kernels/simd/quantize_wide-inl.hpp"

#include "core/numeric.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

#if WEFT_ISA_IS_SCALAR

void quantize_weight(const ConstPanels& master, const Weight& to) noexcept {
  WEFT_ISA_RAN();
  detail::quantize_reference(master, to);
}

bool has_magnitude_within(const float* w, std::size_t n, std::int32_t least, std::int32_t most) noexcept {
  WEFT_ISA_RAN();
  return std::any_of(w, w + n, [=](float x) {
    const auto magnitude = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(x) & 0x7fffffffu);
    return magnitude >= least && magnitude <= most;
  });
}

#else

constexpr PanelTag kTag;
constexpr QuantizeIntTag kIntTag;
constexpr QuantizeWordTag kWordTag;
using V = PanelVector;

/// A panel's 16 lanes; zeros at first.
struct Statistics {
  HWY_INLINE Statistics() {}
  LaneStatistic of[kPanelVectors];
};

HWY_INLINE V load(const float* rows, std::size_t k, std::size_t v) {
  return hn::Load(kTag, rows + k * kPanelWidth + v * kPanelLanes);
}

/// Widens statistics by n inputs; of means it sums magnitudes by rule R1, whose chunks start at `rows`.
template <class T>
HWY_INLINE void gather(const float* HWY_RESTRICT rows, std::size_t n, Statistics& all) {
  const auto finite = [](V x) HWY_ATTR {
    const auto is_finite = hn::Lt(magnitude_bits(x), hn::Set(kIntTag, kInfinityBits));
    return hn::IfThenElseZero(hn::RebindMask(kTag, is_finite), x);
  };
  Statistics now = all;
  if constexpr (T::scale_rule == numeric::ScaleRule::mean) {
    for (std::size_t k = 0; k < n;) {
      V sum[kPanelVectors];
      for (V& lanes : sum) lanes = hn::Zero(kTag);
      for (const std::size_t end = std::min(k + kChunk, n); k < end; ++k) {
        WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[v] =
            hn::Add(sum[v], hn::Abs(finite(load(rows, k, v))));
      }
      for (std::size_t v = 0; v < kPanelVectors; ++v) now.of[v].high = hn::Add(now.of[v].high, sum[v]);
    }
  } else {
    for (std::size_t k = 0; k < n; ++k) {
      WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) {
        const V x = finite(load(rows, k, v));
        LaneStatistic& lanes = now.of[v];
        if constexpr (T::scale_rule == numeric::ScaleRule::range) {
          lanes.low = hn::Min(lanes.low, x);
          lanes.high = hn::Max(lanes.high, x);
        } else {
          lanes.high = hn::Max(lanes.high, hn::Abs(x));
        }
      }
    }
  }
  all = now;
}

/// The panel's outputs [first, out) in vector v: a mask of float lanes.
HWY_INLINE auto lanes_below(std::size_t out, std::size_t first, std::size_t v) {
  const std::size_t rest = out - first, skipped = v * kPanelLanes;
  return hn::FirstN(kTag, rest > skipped ? std::min(rest - skipped, kPanelLanes) : 0);
}

/// A panel on its way into a weight.
template <class T>
struct PanelEncoder {
  using Code = typename T::Code;
  static constexpr bool kInWords = T::bits < 8 || T::dtype == Dtype::int8 || T::dtype == Dtype::uint8;

  const ConstPanels& master;
  const Weight& to;
  std::size_t first;  // its first output
  const float* rows;
  LaneGroups groups[kPanelVectors];

  HWY_INLINE PanelEncoder(const ConstPanels& from, const Weight& into, std::size_t o)
      : master(from), to(into), first(o), rows(from.data + o * from.in) {}

  /// The mean of lanes whose sum overflowed, by plain code.
  HWY_NOINLINE static V mend(V mean, const ConstPanels& master, std::size_t o, std::size_t k, std::size_t n) {
    alignas(64) float lanes[kPanelLanes];
    hn::Store(mean, kTag, lanes);
    for (std::size_t i = 0; i < kPanelLanes; ++i)
      if (lanes[i] > hwy::HighestValue<float>()) lanes[i] = detail::mean_of_huge(master, {o + i, 1, k, n});
    return hn::Load(kTag, lanes);
  }

  /// Groups of one output's inputs [k, k + n): their scales go to place `at` of the arrays.
  HWY_INLINE void make_groups(Statistics& statistics, std::size_t k, std::size_t n, std::size_t at) {
    for (std::size_t v = 0; v < kPanelVectors; ++v) {
      if constexpr (T::scale_rule == numeric::ScaleRule::mean) {
        V& mean = statistics.of[v].high;
        mean = hn::Div(mean, hn::Set(kTag, static_cast<float>(std::max<std::size_t>(n, 1))));
        const auto is_huge = hn::Gt(mean, hn::Set(kTag, hwy::HighestValue<float>()));
        if (HWY_UNLIKELY(!hn::AllFalse(kTag, is_huge))) mean = mend(mean, master, first + v * kPanelLanes, k, n);
      }
      V scale = hn::Zero(kTag);
      const bool in_half = to.granularity == Granularity::block32_f16;
      groups[v] = lane_groups<T>(statistics.of[v], in_half, scale);
      const auto here = lanes_below(master.out, first, v);
      store_scales(hn::IfThenElseZero(here, scale), in_half, at + v * kPanelLanes);
      if constexpr (T::scale_rule == numeric::ScaleRule::range) {
        const hn::Rebind<Code, PanelTag> narrow;
        const IntVector zero = hn::IfThenElseZero(hn::RebindMask(kIntTag, here), groups[v].zero);
        hn::StoreU(hn::DemoteTo(narrow, zero), narrow, static_cast<Code*>(to.zero_points) + at + v * kPanelLanes);
      }
    }
  }

  HWY_INLINE void store_scales(V scale, bool in_half, std::size_t at) {
    const hn::Rebind<std::uint16_t, PanelTag> narrow;
    if (in_half)
      hn::StoreU(hn::DemoteTo(narrow, half_code(scale)), narrow, static_cast<std::uint16_t*>(to.scales) + at);
    else
      hn::StoreU(scale, kTag, static_cast<float*>(to.scales) + at);
  }

  /// Codes of inputs [k, end); k at the start of a word.
  HWY_INLINE void write(std::size_t k, std::size_t end) {
    WordVector here[kPanelVectors];
    for (std::size_t v = 0; v < kPanelVectors; ++v)
      here[v] = hn::VecFromMask(kWordTag, hn::RebindMask(kWordTag, lanes_below(master.out, first, v)));
    LaneGroups by[kPanelVectors];
    for (std::size_t v = 0; v < kPanelVectors; ++v) by[v] = groups[v];
    if constexpr (kInWords) {
      constexpr std::size_t n = codes_per_word(T::bits);
      const std::size_t words = (master.in + n - 1) / n;
      auto* HWY_RESTRICT word = static_cast<std::uint32_t*>(to.codes) + panel_index(words, first, k / n);
      for (; k < end; k += n, word += kPanelWidth) {
        WordVector sum[kPanelVectors];
        for (WordVector& lanes : sum) lanes = hn::Zero(kWordTag);
        // From the last code down, so that each step shifts by the same count.
        for (std::size_t i = std::min(end, k + n); i-- > k;) {
          WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) sum[v] =
              hn::Or(hn::ShiftLeft<T::bits>(sum[v]), code_of<T>(load(rows, i, v), by[v]));
        }
        for (std::size_t v = 0; v < kPanelVectors; ++v)
          hn::Store(hn::And(sum[v], here[v]), kWordTag, word + v * kPanelLanes);
      }
    } else {
      const hn::Rebind<Code, PanelTag> narrow;
      auto* HWY_RESTRICT code = static_cast<Code*>(to.codes) + panel_index(master.in, first, k);
      for (; k < end; ++k, code += kPanelWidth) {
        WEFT_UNROLL for (std::size_t v = 0; v < kPanelVectors; ++v) {
          const WordVector lanes = hn::And(code_of<T>(load(rows, k, v), by[v]), here[v]);
          hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(kIntTag, lanes)), narrow, code + v * kPanelLanes);
        }
      }
    }
  }
};

/// The statistic of a whole matrix, in every lane of the first vector.
template <class T>
HWY_INLINE void gather_tensor(const ConstPanels& master, Statistics& all) {
  if constexpr (T::scale_rule != numeric::ScaleRule::mean) {
    for (std::size_t o = 0; o < master.out; o += kPanelWidth) gather<T>(master.data + o * master.in, master.in, all);
    for (std::size_t v = 1; v < kPanelVectors; ++v) {
      all.of[0].low = hn::Min(all.of[0].low, all.of[v].low);
      all.of[0].high = hn::Max(all.of[0].high, all.of[v].high);
    }
    all.of[0] = LaneStatistic(hn::MinOfLanes(kTag, all.of[0].low), hn::MaxOfLanes(kTag, all.of[0].high));
  } else {
    // Rule R2 over outputs: lane o % 64 is a lane of panels whose index is the same modulo 4.
    alignas(64) float lanes[kLanes] = {};
    for (std::size_t o = 0; o < master.out; o += kPanelWidth) {
      Statistics panel;
      gather<T>(master.data + o * master.in, master.in, panel);
      for (std::size_t v = 0; v < kPanelVectors; ++v) {
        float* at = lanes + o % kLanes + v * kPanelLanes;
        const V sums = hn::IfThenElseZero(lanes_below(master.out, o, v), panel.of[v].high);
        hn::Store(hn::Add(hn::Load(kTag, at), sums), kTag, at);
      }
    }
    for (std::size_t half = kLanes / 2; half > 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    const std::size_t count = std::max<std::size_t>(master.out * master.in, 1);
    float mean = lanes[0] / static_cast<float>(count);
    if (lanes[0] > hwy::HighestValue<float>()) mean = detail::mean_of_huge(master, {0, master.out, 0, master.in});
    all.of[0].high = hn::Set(kTag, mean);
  }
}

template <class T>
void quantize_as(const ConstPanels& master, const Weight& to) noexcept {
  const std::size_t out = master.out, in = master.in;
  if constexpr (T::scale_rule == numeric::ScaleRule::none) {
    for (std::size_t o = 0; o < out; o += kPanelWidth) PanelEncoder<T>(master, to, o).write(0, in);
  } else if (to.granularity == Granularity::tensor) {
    Statistics all;
    gather_tensor<T>(master, all);
    V scale = hn::Zero(kTag);
    const LaneGroups groups = lane_groups<T>(all.of[0], false, scale);
    *static_cast<float*>(to.scales) = hn::GetLane(scale);
    if constexpr (T::scale_rule == numeric::ScaleRule::range)
      *static_cast<typename T::Code*>(to.zero_points) = static_cast<typename T::Code>(hn::GetLane(groups.zero));
    for (std::size_t o = 0; o < out; o += kPanelWidth) {
      PanelEncoder<T> panel(master, to, o);
      for (LaneGroups& lanes : panel.groups) lanes = groups;
      panel.write(0, in);
    }
  } else {
    const std::size_t step = to.granularity == Granularity::channel ? in : kScaleBlock;
    for (std::size_t o = 0; o < out; o += kPanelWidth) {
      PanelEncoder<T> panel(master, to, o);
      std::size_t at = scale_index(to.granularity, in, o, 0), k = 0;
      do {  // a channel has its scale though it be empty
        const std::size_t end = std::min(in, k + step);
        if (end == k && is_block(to.granularity)) break;
        Statistics group;
        gather<T>(panel.rows + k * kPanelWidth, end - k, group);
        panel.make_groups(group, k, end - k, at);
        panel.write(k, end);
        k = end;
        at += kPanelWidth;
      } while (k < in);
    }
  }
}

/// Scales and zero points of a panel's lanes, into place `at` of the arrays (of `tensor`, of one lane alone).
template <class T>
WideGroups wide_groups(const Statistics& statistics, const Weight& to, std::size_t lanes, std::size_t at) noexcept {
  alignas(64) float low[kPanelWidth], high[kPanelWidth];
  for (std::size_t v = 0; v < kPanelVectors; ++v) {
    hn::Store(statistics.of[v].low, kTag, low + v * kPanelLanes);
    hn::Store(statistics.of[v].high, kTag, high + v * kPanelLanes);
  }
  WideGroups groups;
  for (std::size_t i = 0; i < kPanelWidth; ++i) {
    const bool is_tensor = to.granularity == Granularity::tensor;
    detail::WideScale made{1.0, 0};
    if (i < lanes) made = detail::wide_scale(T::dtype, low[is_tensor ? 0 : i], high[is_tensor ? 0 : i]);
    groups.scale[i] = made.scale;
    groups.zero[i] = static_cast<double>(made.zero);
    if (is_tensor && i != 0) continue;
    static_cast<double*>(to.scales)[at + i] = i < lanes ? made.scale : 0.0;
    if constexpr (T::scale_rule == numeric::ScaleRule::range)
      static_cast<typename T::Code*>(to.zero_points)[at + i] = static_cast<typename T::Code>(made.zero);
  }
  return groups;
}

template <class T>
void quantize_wide_as(const ConstPanels& master, const Weight& to) noexcept {
  const std::size_t out = master.out, in = master.in;
  const bool is_tensor = to.granularity == Granularity::tensor;
  Statistics all;
  if (is_tensor) {
    gather_tensor<T>(master, all);
    if (out == 0) wide_groups<T>(all, to, 1, 0);
  }
  const std::size_t step = is_block(to.granularity) ? kScaleBlock : std::max<std::size_t>(in, 1);
  const std::size_t groups = is_block(to.granularity) ? (in + step - 1) / step : 1;
  for (std::size_t o = 0; o < out; o += kPanelWidth)
    for (std::size_t group = 0; group < groups; ++group) {
      const std::size_t k = group * step, n = std::min(in - k, step), lanes = std::min(out - o, kPanelWidth);
      const float* rows = master.data + panel_index(in, o, k);
      Statistics some;
      if (!is_tensor) gather<T>(rows, n, some);
      const std::size_t at = is_tensor ? 0 : scale_index(to.granularity, in, o, k);
      const WideGroups by = wide_groups<T>(is_tensor ? all : some, to, lanes, at);
      quantize_words32<T>(rows, n, by, static_cast<std::uint32_t*>(to.codes) + panel_index(in, o, k));
    }
}

void quantize_weight(const ConstPanels& master, const Weight& to) noexcept {
  WEFT_ISA_RAN();
  const std::size_t size = panels_size(master.out, master.in);
  visit(to.dtype, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    if constexpr (T::bits < 32) {
      quantize_as<T>(master, to);
    } else if constexpr (T::dtype == Dtype::float64) {
      widen(master.data, size, static_cast<std::uint64_t*>(to.codes));
    } else if constexpr (T::dtype == Dtype::float32) {
      if (size != 0) std::memcpy(to.codes, master.data, size * sizeof(float));
    } else if constexpr (T::bits == 32) {
      quantize_wide_as<T>(master, to);
    } else {
      detail::quantize_reference(master, to);
    }
  });
}

bool has_magnitude_within(const float* w, std::size_t n, std::int32_t least, std::int32_t most) noexcept {
  WEFT_ISA_RAN();
  const IntVector below = hn::Set(kIntTag, least - 1), last = hn::Set(kIntTag, most);
  IntVector any = hn::Zero(kIntTag);
  for (std::size_t i = 0; i < n; i += kPanelLanes) {
    const IntVector bits = magnitude_bits(hn::Load(kTag, w + i));
    any = hn::Or(
        any, hn::AndNot(hn::VecFromMask(kIntTag, hn::Gt(bits, last)), hn::VecFromMask(kIntTag, hn::Gt(bits, below))));
  }
  return !hn::AllFalse(kIntTag, hn::Ne(any, hn::Zero(kIntTag)));
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kQuantize = WEFT_DISPATCH(quantize_weight);
constexpr auto kHasMagnitudeWithin = WEFT_DISPATCH(has_magnitude_within);
}  // namespace

void quantize(const ConstPanels& master, const Weight& to) noexcept { kQuantize.get()(master, to); }

std::optional<std::size_t> first_unstorable(const ConstPanels& master, Dtype dtype, bool allow_non_finite) noexcept {
  constexpr std::int32_t kInfinity = 0x7f800000, kNan = 0x7f800001, kLast = 0x7fffffff;
  const bool takes_infinity = allow_non_finite && visit(dtype, [](auto type) { return decltype(type)::has_infinity; });
  const bool takes_nan = allow_non_finite && visit(dtype, [](auto type) { return decltype(type)::has_nan; });
  if (takes_infinity && takes_nan) return std::nullopt;
  const std::int32_t least = takes_infinity ? kNan : kInfinity, most = takes_nan ? kInfinity : kLast;
  const std::size_t in = master.in, size = in * kPanelWidth;
  for (std::size_t first = 0; first < master.out; first += kPanelWidth) {
    const float* panel = master.data + panel_index(in, first, 0);
    if (!kHasMagnitudeWithin.get()(panel, size, least, most)) continue;
    for (std::size_t o = first; o < std::min(first + kPanelWidth, master.out); ++o)
      for (std::size_t k = 0; k < in; ++k) {
        const auto word = std::bit_cast<std::uint32_t>(master.data[panel_index(in, o, k)]);
        const auto magnitude = static_cast<std::int32_t>(word & 0x7fffffffu);
        if (magnitude >= least && magnitude <= most) return o * in + k;
      }
  }
  return std::nullopt;
}

}  // namespace weft::kernels
#endif
