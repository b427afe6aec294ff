// SPDX-License-Identifier: Apache-2.0

#include "kernels/internal/quantize_reference.hpp"

#include "kernels/internal/scale_array.hpp"

#include "core/numeric.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

namespace weft::kernels::detail {
namespace {

constexpr float kLargestFloat = std::numeric_limits<float>::max(), kSmallestNormal = 0x1p-126f;

/// code_layout() as a constant.
template <class T>
constexpr bool kInWords = T::bits < 8 || T::dtype == Dtype::int8 || T::dtype == Dtype::uint8;

float finite_or_zero(float w) noexcept {
  return (std::bit_cast<std::uint32_t>(w) & 0x7f800000u) == 0x7f800000u ? 0.0f : w;
}

template <class Each>
void for_each_weight(const ConstPanels& master, const WeightGroup& g, const Each& each) noexcept {
  for (std::size_t o = g.first_out; o < g.first_out + g.outs; ++o)
    for (std::size_t k = g.first_in; k < g.first_in + g.ins; ++k)
      each(finite_or_zero(master.data[panel_index(master.in, o, k)]));
}

/// R2 over outputs of R1 over inputs, of |w| * factor. Of one output that is R1, of one block a serial sum.
float magnitude_sum(const ConstPanels& master, const WeightGroup& g, float factor) noexcept {
  float lanes[kLanes] = {};
  for (std::size_t i = 0; i < g.outs; ++i) {
    float total = 0.0f;
    for (std::size_t chunk = 0; chunk < g.ins; chunk += kChunk) {
      float sum = 0.0f;
      for (std::size_t k = chunk; k < std::min(chunk + kChunk, g.ins); ++k)
        sum += std::fabs(finite_or_zero(master.data[panel_index(master.in, g.first_out + i, g.first_in + k)])) * factor;
      total += sum;
    }
    lanes[i % kLanes] += total;
  }
  for (std::size_t half = kLanes / 2; half > 0; half /= 2)
    for (std::size_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  return lanes[0];
}

template <class Real>
struct GroupScale {
  Real scale;
  std::uint64_t zero = 0;
};

/// True when the float of `x` is infinite. Products and differences are looked at as doubles: of floats that overflow
/// g++ 13 concludes that an operand was infinite, and computes on with that (decodable, group_scale).
bool is_past_floats(double x) noexcept { return x >= 0x1.ffffffp127; }

/// The scale, or the next float down where `largest` times the scale is past the largest float.
float decodable(float scale, float largest) noexcept {
  return is_past_floats(double{scale} * largest) ? std::bit_cast<float>(std::bit_cast<std::uint32_t>(scale) - 1)
                                                 : scale;
}

/// Scale and zero point of a group; `in_half`: the scale is stored as binary16.
template <class T>
GroupScale<typename T::Scale> group_scale(const ConstPanels& master, const WeightGroup& g, bool in_half) noexcept {
  const auto stored = [in_half](float scale) { return in_half ? half_scale(scale).number : scale; };
  const auto at_least = [](float scale) { return scale > kSmallestNormal ? scale : kSmallestNormal; };
  if constexpr (T::scale_rule == numeric::ScaleRule::mean) {
    if (g.outs * g.ins == 0) return {kSmallestNormal};
    const float sum = magnitude_sum(master, g, 1.0f);
    const float mean = sum > kLargestFloat ? mean_of_huge(master, g) : sum / static_cast<float>(g.outs * g.ins);
    return {stored(at_least(mean))};
  } else {
    float low = 0.0f, high = 0.0f;
    for_each_weight(master, g, [&](float w) {
      if constexpr (T::scale_rule == numeric::ScaleRule::largest) w = std::fabs(w);
      low = std::min(low, w), high = std::max(high, w);
    });
    if constexpr (sizeof(typename T::Scale) == sizeof(double)) {
      const WideScale made = wide_scale(T::dtype, low, high);
      return {made.scale, made.zero};
    } else if constexpr (T::scale_rule == numeric::ScaleRule::largest) {
      return {stored(decodable(at_least(high / T::largest_number()), T::largest_number()))};
    } else {
      constexpr float kSteps = T::largest_number();
      // A range past the largest float is halved, and so are the steps.
      const float scale =
          stored(is_past_floats(double{high} - low) ? at_least((high * 0.5f - low * 0.5f) / (kSteps * 0.5f))
                                                    : decodable(at_least((high - low) / kSteps), kSteps));
      return {scale, T::encode(static_cast<double>(-low / scale))};
    }
  }
}

template <class T>
typename T::Code code_of(float w, [[maybe_unused]] typename T::Scale scale, [[maybe_unused]] std::uint64_t zero) {
  if constexpr (T::scale_rule == numeric::ScaleRule::none || T::bits == 1) {
    return T::encode(w);
  } else if constexpr (T::scale_rule != numeric::ScaleRule::range) {
    return T::encode(static_cast<typename T::Scale>(w) / scale);
  } else if constexpr (sizeof(typename T::Scale) == sizeof(double)) {
    return T::encode(static_cast<double>(w) / scale, zero);
  } else {
    // The end codes stand for up to half a step more than the weights: not for what is past the largest float.
    const bool no_lowest = is_past_floats(static_cast<double>(zero) * scale);
    const bool no_highest = is_past_floats(static_cast<double>(T::kLargest - zero) * scale);
    const std::uint64_t code = T::encode(static_cast<double>(w / scale), zero);
    return static_cast<typename T::Code>(
        std::clamp<std::uint64_t>(code, no_lowest ? 1 : 0, T::kLargest - (no_highest ? 1 : 0)));
  }
}

template <class T>
void write_scale(const ConstPanels& master, const Weight& to, const WeightGroup& g, std::size_t at) noexcept {
  using Scale = typename T::Scale;
  const bool in_half = ConstWeight(to).has_half_scales();
  const auto made = group_scale<T>(master, g, in_half);
  if (in_half)
    static_cast<std::uint16_t*>(to.scales)[at] = half_scale(static_cast<float>(made.scale)).code;
  else
    static_cast<Scale*>(to.scales)[at] = made.scale;
  if constexpr (T::scale_rule == numeric::ScaleRule::range)
    static_cast<typename T::Code*>(to.zero_points)[at] = static_cast<typename T::Code>(made.zero);
}

template <class T>
void write_scales(const ConstPanels& master, const Weight& to) noexcept {
  const std::size_t out = master.out, in = master.in;
  if (to.granularity == Granularity::tensor) return write_scale<T>(master, to, {0, out, 0, in}, 0);
  for (std::size_t o = 0; o < out; ++o) {
    if (to.granularity == Granularity::channel) {
      write_scale<T>(master, to, {o, 1, 0, in}, o);
    } else {
      for (std::size_t k = 0; k < in; k += kScaleBlock)
        write_scale<T>(master, to, {o, 1, k, std::min(kScaleBlock, in - k)}, scale_index(to.granularity, in, o, k));
    }
  }
}

template <class T>
void quantize_as(const ConstPanels& master, const Weight& to) noexcept {
  using Code = typename T::Code;
  using Scale = typename T::Scale;
  const std::size_t out = master.out, in = master.in;
  const WeightBytes bytes = weight_bytes(Encoding(T::dtype, to.granularity), out, in);
  for (const auto& [array, size] :
       {std::pair{to.codes, bytes.codes}, {to.scales, bytes.scales}, {to.zero_points, bytes.zero_points}})
    if (size != 0) std::memset(array, 0, size);
  if constexpr (T::scale_rule != numeric::ScaleRule::none) write_scales<T>(master, to);
  for (std::size_t first = 0; first < out; first += kPanelWidth)
    for (std::size_t k = 0; k < in; ++k)
      for (std::size_t o = first; o < std::min(first + kPanelWidth, out); ++o) {
        [[maybe_unused]] const std::size_t group = scale_index(to.granularity, in, o, k);
        Scale scale = 1;
        std::uint64_t zero = 0;
        if constexpr (T::scale_rule != numeric::ScaleRule::none) {
          if constexpr (sizeof(Scale) == sizeof(double))
            scale = static_cast<const Scale*>(to.scales)[group];
          else
            scale = ConstWeight(to).scale(group);
        }
        if constexpr (T::scale_rule == numeric::ScaleRule::range)
          zero = static_cast<const Code*>(to.zero_points)[group];
        const Code code = code_of<T>(master.data[panel_index(in, o, k)], scale, zero);
        if constexpr (kInWords<T>) {
          constexpr std::size_t n = codes_per_word(T::bits);
          const std::size_t words = (in + n - 1) / n;
          auto* word = static_cast<std::uint32_t*>(to.codes) + panel_index(words, o, k / n);
          *word |= std::uint32_t{code} << (k % n * T::bits);
        } else {
          static_cast<Code*>(to.codes)[panel_index(in, o, k)] = code;
        }
      }
}

}  // namespace

HalfScale half_scale(float scale) noexcept {
  constexpr float kUnit = 0x1p-24f, kLargest = 65504.0f;
  const float unit = scale < 0x1p-14f ? kUnit : std::ldexp(1.0f, std::ilogb(scale) - 10);
  const float number = std::min(std::ceil(scale / unit) * unit, kLargest);
  return {numeric::Float16::encode(number), number};
}

float mean_of_huge(const ConstPanels& master, const WeightGroup& group) noexcept {
  const float mean = magnitude_sum(master, group, 0x1p-64f) / static_cast<float>(group.outs * group.ins);
  return std::min(mean, kLargestFloat * 0x1p-64f) * 0x1p64f;
}

WideScale wide_scale(Dtype dtype, float low, float high) noexcept {
  return visit(dtype, [&](auto type) -> WideScale {
    using T = decltype(type);
    if constexpr (sizeof(typename T::Scale) == sizeof(double)) {
      // There are doubles below every float: only zero is left out.
      const double lo = low, hi = high, made = (hi - lo) / T::largest_number();
      const double scale = made > 0 ? made : static_cast<double>(kSmallestNormal);
      if constexpr (T::scale_rule == numeric::ScaleRule::range) return {scale, T::encode(-lo / scale)};
      return {scale, 0};
    }
    return {};
  });
}

void quantize_reference(const ConstPanels& master, const Weight& to) noexcept {
  visit(to.dtype, [&](auto type) { quantize_as<decltype(type)>(master, to); });
}

}  // namespace weft::kernels::detail
