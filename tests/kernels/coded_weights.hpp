// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/linear.hpp"
#include "kernels/linear_dequantized.hpp"

#include "core/aligned_buffer.hpp"
#include "core/philox.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

/// Weights of random codes for tests, and what they are worth: written from kernels/weight.hpp and the published tables
/// alone, in binary64 and with subnormals, so that it shares neither code nor arithmetic with the kernels.
namespace weft::kernels::testing_coded {

/// Codes of a weight: those of finite numbers, or any bits that are a code.
enum class Codes { finite, any };

inline std::vector<Dtype> all_dtypes() {
  std::vector<Dtype> all;
  for (int i = 0; i < kDtypeCount; ++i) all.push_back(static_cast<Dtype>(i));
  return all;
}

/// Every type with every granularity that it has.
inline std::vector<Encoding> all_encodings() {
  std::vector<Encoding> all;
  for (const Dtype dtype : all_dtypes())
    for (const Granularity g : {Granularity::tensor, Granularity::channel, Granularity::block32})
      if (const Encoding encoding(dtype, g); encoding.granularity == g) all.push_back(encoding);
  return all;
}

class CodedMatrix {
 public:
  CodedMatrix(Encoding encoding, std::size_t out, std::size_t in)
      : encoding_(encoding), out_(out), in_(in), bytes_(weight_bytes(encoding, out, in)) {
    codes_ = AlignedBuffer<std::uint8_t>(bytes_.codes);
    scales_ = AlignedBuffer<std::uint8_t>(bytes_.scales);
    zeros_ = AlignedBuffer<std::uint8_t>(bytes_.zeros);
  }

  ConstWeight view() const {
    ConstWeight w;
    w.codes = codes_.data();
    w.scales = bytes_.scales ? scales_.data() : nullptr;
    w.zeros = bytes_.zeros ? zeros_.data() : nullptr;
    w.out = out_, w.in = in_, w.dtype = encoding_.dtype, w.granularity = encoding_.granularity;
    return w;
  }

  std::uint64_t code(std::size_t o, std::size_t k) const {
    std::uint64_t word = 0;
    const Place at = place(o, k);
    std::memcpy(&word, codes_.data() + at.byte, at.bytes);
    return word >> at.shift & mask();
  }
  void set_code(std::size_t o, std::size_t k, std::uint64_t code) {
    std::uint64_t word = 0;
    const Place at = place(o, k);
    std::memcpy(&word, codes_.data() + at.byte, at.bytes);
    word = (word & ~(mask() << at.shift)) | (code & mask()) << at.shift;
    std::memcpy(codes_.data() + at.byte, &word, at.bytes);
  }
  void set_scale(std::size_t o, std::size_t k, double scale) {
    const float rounded = static_cast<float>(scale);
    if (wide())
      std::memcpy(scales_.data() + group(o, k) * 8, &scale, 8);
    else
      std::memcpy(scales_.data() + group(o, k) * 4, &rounded, 4);
  }
  void set_zero(std::size_t o, std::size_t k, std::uint64_t zero) {
    std::memcpy(zeros_.data() + group(o, k) * zero_bytes(), &zero, zero_bytes());
  }

  void fill(RandomStream& random, Codes which) {
    const auto bits64 = [&] { return std::uint64_t{random.next_u32()} << 32 | random.next_u32(); };
    for (std::size_t o = 0; o < out_; ++o)
      for (std::size_t k = 0; k < in_; ++k) {
        set_code(o, k, bits64());
        if (encoding_.dtype == Dtype::float64 && (which == Codes::finite || random.next_below(50) != 0))
          set_code(o, k, std::bit_cast<std::uint64_t>(random.next_normal() + random.next_normal() * 0x1p-30));
        if (encoding_.dtype == Dtype::float32) set_code(o, k, std::bit_cast<std::uint32_t>(random.next_normal()));
        if (encoding_.dtype == Dtype::bfloat16 && (which == Codes::finite || random.next_below(8) != 0))
          set_code(o, k, std::bit_cast<std::uint32_t>(random.next_normal()) >> 16);
        while (which == Codes::finite && !std::isfinite(number(code(o, k)))) set_code(o, k, bits64());
        if (has_scale(encoding_.dtype)) {
          // Later elements of a group write over the earlier ones' scale.
          set_scale(o, k, (0.5 + random.next_uniform()) * std::exp2(-bits(encoding_.dtype)));
          if (has_zero_point(encoding_.dtype)) set_zero(o, k, bits64() & mask());
        }
      }
  }

  /// The number of a code by its format's definition, scale and zero point aside; integers of 64 bits lose digits.
  double number(std::uint64_t code) const {
    switch (encoding_.dtype) {
      case Dtype::float64:
        return std::bit_cast<double>(code);
      case Dtype::float32:
        return std::bit_cast<float>(static_cast<std::uint32_t>(code));
      case Dtype::float16:
        return ieee(code, 5, 10);
      case Dtype::bfloat16:
        return ieee(code, 8, 7);
      case Dtype::fp8_e5m2:
        return ieee(code, 5, 2);
      case Dtype::fp8_e4m3:
        return (code & 0x7f) == 0x7f ? std::nan("") : finite(code, 4, 3);
      case Dtype::fp4:
        return finite(code, 2, 1);
      case Dtype::binary:
        return code ? 1 : -1;
      case Dtype::uint64:
      case Dtype::uint32:
      case Dtype::uint16:
      case Dtype::uint8:
      case Dtype::uint4:
      case Dtype::uint2:
        return static_cast<double>(code);
      default:
        return static_cast<double>(signed_code(code));
    }
  }

  /// The value of an element, rounded to float as weight.hpp says and flushed.
  float value(std::size_t o, std::size_t k) const {
    const bool moved = encoding_.dtype == Dtype::float32 || encoding_.dtype == Dtype::bfloat16;
    const double exact = unrounded(o, k);
    return moved ? static_cast<float>(exact) : rounded(exact);
  }

 private:
  __extension__ using Int128 = __int128;
  struct Place {
    std::size_t byte, bytes;
    unsigned shift;
  };
  // Elements [panel][k][lane], words [panel][k / n][lane].
  Place place(std::size_t o, std::size_t k) const {
    const auto width = static_cast<std::size_t>(bits(encoding_.dtype));
    const bool in_words = width < 8 || encoding_.dtype == Dtype::int8 || encoding_.dtype == Dtype::uint8;
    if (!in_words) return {((o / 16 * in_ + k) * 16 + o % 16) * (width / 8), width / 8, 0};
    const std::size_t n = 32 / width, words = (in_ + n - 1) / n;
    return {((o / 16 * words + k / n) * 16 + o % 16) * 4, 4, static_cast<unsigned>(k % n * width)};
  }
  std::uint64_t mask() const { return ~std::uint64_t{0} >> (64 - bits(encoding_.dtype)); }
  bool wide() const { return has_scale(encoding_.dtype) && bits(encoding_.dtype) >= 32; }
  std::size_t zero_bytes() const { return static_cast<std::size_t>(std::max(8, bits(encoding_.dtype))) / 8; }
  std::size_t group(std::size_t o, std::size_t k) const {
    if (encoding_.granularity == Granularity::tensor) return 0;
    if (encoding_.granularity == Granularity::channel) return o;
    return (o / 16 * ((in_ + 31) / 32) + k / 32) * 16 + o % 16;
  }
  std::int64_t signed_code(std::uint64_t code) const {
    const int unused = 64 - bits(encoding_.dtype);
    return static_cast<std::int64_t>(code << unused) >> unused;
  }
  static double finite(std::uint64_t code, int exponent_bits, int mantissa_bits) {
    const auto exponent = static_cast<int>(code >> mantissa_bits & ((1u << exponent_bits) - 1));
    const double fraction = std::ldexp(static_cast<double>(code & ((1u << mantissa_bits) - 1)), -mantissa_bits);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
    return code >> (exponent_bits + mantissa_bits) & 1 ? -magnitude : magnitude;
  }
  static double ieee(std::uint64_t code, int exponent_bits, int mantissa_bits) {
    const std::uint64_t top = (std::uint64_t{1} << exponent_bits) - 1;
    if ((code >> mantissa_bits & top) != top) return finite(code, exponent_bits, mantissa_bits);
    if (code & ((1u << mantissa_bits) - 1)) return std::nan("");
    const double infinity = std::numeric_limits<double>::infinity();
    return code >> (exponent_bits + mantissa_bits) & 1 ? -infinity : infinity;
  }
  // Tiny results are judged as if the exponent had no end (docs/numerics.md, the tininess corner).
  static float rounded(double exact) {
    const bool is_tiny = std::fabs(exact) < 0x1p-100 && std::fabs(static_cast<float>(exact * 0x1p100)) < 0x1p-26f;
    return is_tiny ? static_cast<float>(std::copysign(0.0, exact)) : static_cast<float>(exact);
  }
  double unrounded(std::size_t o, std::size_t k) const {
    const std::uint64_t q = code(o, k);
    if (!has_scale(encoding_.dtype)) return number(q);
    std::uint64_t zero = 0;
    if (has_zero_point(encoding_.dtype)) std::memcpy(&zero, zeros_.data() + group(o, k) * zero_bytes(), zero_bytes());
    if (wide()) {
      double scale;
      std::memcpy(&scale, scales_.data() + group(o, k) * 8, 8);
      // Wide enough for the exact difference of any two 64-bit integers.
      const Int128 difference = has_zero_point(encoding_.dtype) ? static_cast<Int128>(q) - zero : signed_code(q);
      return scale * static_cast<double>(difference);
    }
    float scale;
    std::memcpy(&scale, scales_.data() + group(o, k) * 4, 4);
    // At most 24 and 17 digits: exact in binary64.
    return static_cast<double>(scale) * (number(q) - static_cast<double>(zero));
  }

  Encoding encoding_;
  std::size_t out_, in_;
  WeightBytes bytes_;
  AlignedBuffer<std::uint8_t> codes_, scales_, zeros_;
};

/// A coded weight's reference values as panels.
struct DequantizedMatrix {
  explicit DequantizedMatrix(const CodedMatrix& coded)
      : out(coded.view().out), in(coded.view().in), data(panels_size(out, in)) {
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t k = 0; k < in; ++k) data[panel_index(in, o, k)] = coded.value(o, k);
  }
  ConstPanels view() const { return {data.data(), out, in}; }
  std::size_t out, in;
  AlignedBuffer<float> data;
};

}  // namespace weft::kernels::testing_coded
