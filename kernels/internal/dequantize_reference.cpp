// SPDX-License-Identifier: Apache-2.0

#include "kernels/internal/dequantize_reference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace weft::kernels::detail {
namespace {

/// A small float of these bits: subnormals when its exponent field is 0. All products are of normal numbers and exact.
float small_float(bool negative, std::uint32_t exponent, std::uint32_t mantissa, int mantissa_bits, int bias) noexcept {
  const auto power = [](int e) { return std::bit_cast<float>(static_cast<std::uint32_t>(e + 127) << 23); };
  const std::uint32_t digits = exponent == 0 ? mantissa : mantissa | 1u << mantissa_bits;
  const int e = std::max<int>(static_cast<int>(exponent), 1) - bias - mantissa_bits;
  const float number = static_cast<float>(digits) * power(e);
  return negative ? -number : number;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

float e4m3_number(std::uint32_t code) noexcept {
  if ((code & 0x7f) == 0x7f) return kNan;
  return small_float(code & 0x80, code >> 3 & 15, code & 7, 3, 7);
}

float e2m1_number(std::uint32_t code) noexcept { return small_float(code & 8, code >> 1 & 3, code & 1, 1, 1); }

std::int32_t sign_extended(std::uint32_t code, int width) noexcept {
  return static_cast<std::int32_t>(code << (32 - width)) >> (32 - width);
}

template <class T>
T element(const void* data, std::size_t i) noexcept {
  return static_cast<const T*>(data)[i];
}

std::uint32_t word_code(const ConstWeight& w, std::size_t o, std::size_t k) noexcept {
  const int width = bits(w.dtype);
  const std::size_t n = codes_per_word(width), words = (w.in + n - 1) / n;
  const std::size_t at = (o / kPanelWidth * words + k / n) * kPanelWidth + o % kPanelWidth;
  const std::uint32_t word = element<std::uint32_t>(w.codes, at);
  return word >> (k % n * static_cast<std::size_t>(width)) & ((1u << width) - 1);
}

// float(scale * double(q - zero)): the difference as sign and magnitude, so that 64 bits hold it.
float wide_value(double scale, bool negative, std::uint64_t magnitude) noexcept {
  const double difference = static_cast<double>(magnitude);
  return static_cast<float>(scale * (negative ? -difference : difference));
}
float wide_signed(double scale, std::int64_t q) noexcept {
  const auto u = static_cast<std::uint64_t>(q);
  return wide_value(scale, q < 0, q < 0 ? 0 - u : u);
}
float wide_unsigned(double scale, std::uint64_t q, std::uint64_t zero) noexcept {
  return wide_value(scale, q < zero, q < zero ? zero - q : q - zero);
}

}  // namespace

float half_number(std::uint16_t code) noexcept {
  const std::uint32_t exponent = code >> 10 & 31, mantissa = code & 0x3ff;
  if (exponent < 31) return small_float(code & 0x8000, exponent, mantissa, 10, 15);
  if (mantissa != 0) return kNan;
  return code & 0x8000 ? -kInfinity : kInfinity;
}

float code_number(Dtype dtype, std::uint32_t code) noexcept {
  switch (dtype) {
    case Dtype::fp8_e4m3:
      return e4m3_number(code);
    case Dtype::fp8_e5m2:
      return half_number(static_cast<std::uint16_t>(code << 8));
    case Dtype::fp4:
      return e2m1_number(code);
    case Dtype::int8:
    case Dtype::int4:
    case Dtype::int2:
    case Dtype::ternary:
      return static_cast<float>(sign_extended(code, bits(dtype)));
    case Dtype::binary:
      return code != 0 ? 1.0f : -1.0f;
    default:
      return static_cast<float>(code);
  }
}

float code_value(const ConstWeight& w, std::size_t o, std::size_t k) noexcept {
  const std::size_t at = panel_index(w.in, o, k), group = scale_index(w.granularity, w.in, o, k);
  const auto scale = [&] { return w.scale(group); };
  const auto wide_scale = [&] { return element<double>(w.scales, group); };
  switch (w.dtype) {
    case Dtype::float64:
      return static_cast<float>(element<double>(w.codes, at));
    case Dtype::float32:
      return element<float>(w.codes, at);
    case Dtype::float16:
      return half_number(element<std::uint16_t>(w.codes, at));
    case Dtype::bfloat16:
      return std::bit_cast<float>(std::uint32_t{element<std::uint16_t>(w.codes, at)} << 16);
    case Dtype::fp8_e4m3:
    case Dtype::fp8_e5m2:
      return scale() * code_number(w.dtype, element<std::uint8_t>(w.codes, at));
    case Dtype::int64:
      return wide_signed(wide_scale(), element<std::int64_t>(w.codes, at));
    case Dtype::int32:
      return wide_signed(wide_scale(), element<std::int32_t>(w.codes, at));
    case Dtype::int16:
      return scale() * static_cast<float>(element<std::int16_t>(w.codes, at));
    case Dtype::uint64:
      return wide_unsigned(wide_scale(), element<std::uint64_t>(w.codes, at),
                           element<std::uint64_t>(w.zero_points, group));
    case Dtype::uint32:
      return wide_unsigned(wide_scale(), element<std::uint32_t>(w.codes, at),
                           element<std::uint32_t>(w.zero_points, group));
    case Dtype::uint16:
      return scale() * static_cast<float>(element<std::uint16_t>(w.codes, at) -
                                          int{element<std::uint16_t>(w.zero_points, group)});
    case Dtype::uint8:
    case Dtype::uint4:
    case Dtype::uint2:
      return scale() * static_cast<float>(static_cast<int>(word_code(w, o, k)) -
                                          int{element<std::uint8_t>(w.zero_points, group)});
    case Dtype::int8:
    case Dtype::int4:
    case Dtype::int2:
    case Dtype::fp4:
    case Dtype::ternary:
    case Dtype::binary:
      return scale() * code_number(w.dtype, word_code(w, o, k));
  }
  return 0.0f;
}

void dequantize_codes(const ConstWeight& w, const DequantizedPart& part, float* to) noexcept {
  for (std::size_t p = part.first_panel; p < part.first_panel + part.panels; ++p)
    for (std::size_t k = part.first_k; k < part.first_k + part.count; ++k)
      for (std::size_t o = p * kPanelWidth; o < (p + 1) * kPanelWidth; ++o)
        *to++ = o < w.out ? code_value(w, o, k) : 0.0f;
}

// Rule R1 (docs/numerics.md) on one code after the other.
void row_of_codes(const ConstWeight& w, const float* bias, const float* x, float* to) noexcept {
  for (std::size_t o = 0; o < w.out; ++o) {
    float total = 0.0f;
    for (std::size_t first = 0; first < w.in; first += kChunk) {
      float sum = 0.0f;
      for (std::size_t k = first; k < std::min(w.in, first + kChunk); ++k)
        sum = std::fma(code_value(w, o, k), x[k], sum);
      total += sum;
    }
    to[o] = bias ? total + bias[o] : total;
  }
}

}  // namespace weft::kernels::detail
