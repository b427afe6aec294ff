// SPDX-License-Identifier: Apache-2.0

#include "kernels/weight.hpp"

#include "kernels/internal/dequantize_reference.hpp"

#include <algorithm>

namespace weft::kernels {
namespace {

std::size_t scale_blocks(std::size_t in) noexcept { return (in + kScaleBlock - 1) / kScaleBlock; }
std::size_t zero_size(Dtype dtype) noexcept {
  return has_zero_point(dtype) ? static_cast<std::size_t>(std::max(bits(dtype), 8)) / 8 : 0;
}
std::size_t panel_bytes(Dtype dtype, std::size_t in) noexcept {
  const auto width = static_cast<std::size_t>(bits(dtype));
  if (code_layout(dtype) == CodeLayout::elements) return in * kPanelWidth * width / 8;
  const std::size_t n = codes_per_word(bits(dtype));
  return (in + n - 1) / n * kPanelWidth * 4;
}

}  // namespace

CodeLayout code_layout(Dtype dtype) noexcept {
  return dtype == Dtype::fp4 || has_integer_kernel(dtype) ? CodeLayout::words : CodeLayout::elements;
}

std::size_t scale_bytes(const Encoding& encoding) noexcept {
  if (has_double_scale(encoding.dtype)) return sizeof(double);
  return encoding.granularity == Granularity::block32_f16 ? sizeof(std::uint16_t) : sizeof(float);
}

std::size_t scale_count(const Encoding& encoding, std::size_t out, std::size_t in) noexcept {
  if (!has_scale(encoding.dtype)) return 0;
  switch (encoding.granularity) {
    case Granularity::tensor:
      return 1;
    case Granularity::channel:
      return panel_count(out) * kPanelWidth;
    case Granularity::block32:
    case Granularity::block32_f16:
      return panel_count(out) * scale_blocks(in) * kPanelWidth;
  }
  return 0;
}

std::size_t scale_index(Granularity granularity, std::size_t in, std::size_t o, std::size_t k) noexcept {
  switch (granularity) {
    case Granularity::tensor:
      return 0;
    case Granularity::channel:
      return o;
    case Granularity::block32:
    case Granularity::block32_f16:
      return (o / kPanelWidth * scale_blocks(in) + k / kScaleBlock) * kPanelWidth + o % kPanelWidth;
  }
  return 0;
}

WeightBytes weight_bytes(const Encoding& encoding, std::size_t out, std::size_t in) noexcept {
  const std::size_t scales = scale_count(encoding, out, in);
  return {panel_count(out) * panel_bytes(encoding.dtype, in), scales * scale_bytes(encoding),
          scales * zero_size(encoding.dtype)};
}

float ConstWeight::scale(std::size_t i) const noexcept {
  if (!has_half_scales()) return static_cast<const float*>(scales)[i];
  return detail::half_number(static_cast<const std::uint16_t*>(scales)[i]);
}

Weight::operator ConstWeight() const noexcept {
  ConstWeight weight;
  weight.codes = codes;
  weight.scales = scales;
  weight.zero_points = zero_points;
  weight.out = out;
  weight.in = in;
  weight.dtype = dtype;
  weight.granularity = granularity;
  return weight;
}

ConstWeight panel_range(const ConstWeight& weight, std::size_t first, std::size_t panels) noexcept {
  ConstWeight part = weight;
  const std::size_t o = first * kPanelWidth;
  part.out = std::min(weight.out - o, panels * kPanelWidth);
  const auto from = [](const void* base, std::size_t bytes) {
    return base ? static_cast<const char*>(base) + bytes : base;
  };
  part.codes = from(weight.codes, first * panel_bytes(weight.dtype, weight.in));
  if (weight.granularity != Granularity::tensor) {
    const std::size_t groups = scale_count(weight.encoding(), o, weight.in);
    part.scales = from(weight.scales, groups * scale_bytes(weight.encoding()));
    part.zero_points = from(weight.zero_points, groups * zero_size(weight.dtype));
  }
  return part;
}

bool holds_nan_code(const ConstWeight& weight) noexcept {
  const auto* const codes = static_cast<const std::uint8_t*>(weight.codes);
  const std::size_t line = 64, size = weight_bytes(weight.encoding(), weight.out, weight.in).codes;
  for (std::size_t i = 0; i < size; i += line) {
    std::uint8_t largest = 0;
    for (std::size_t j = i; j < std::min(i + line, size); ++j)
      largest = std::max(largest, static_cast<std::uint8_t>(codes[j] << 1));
    if (largest == 0xfe) return true;
  }
  return false;
}

}  // namespace weft::kernels
