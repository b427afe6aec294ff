// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/weight.hpp"

#include "core/aligned_buffer.hpp"
#include "core/philox.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
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
    for (const Granularity g : kGranularities)
      if (const Encoding encoding(dtype, g); encoding.granularity == g && check_granularity(dtype, g))
        all.push_back(encoding);
  return all;
}

/// Those that tests of a device compile shaders for. All types read scales of binary16 by the same text, so a few types
/// have them here.
inline std::vector<Encoding> device_encodings() {
  std::vector<Encoding> all = all_encodings();
  std::erase_if(all, [](const Encoding& each) {
    constexpr Dtype kTypes[] = {Dtype::fp8_e4m3, Dtype::int16, Dtype::int4, Dtype::uint8, Dtype::binary};
    return each.granularity == Granularity::block32_f16 &&
           std::find(std::begin(kTypes), std::end(kTypes), each.dtype) == std::end(kTypes);
  });
  return all;
}

__extension__ using Int128 = __int128;

/// The place of element (o, k) among the codes: elements [panel][k][lane], words [panel][k / n][lane].
struct CodePlace {
  CodePlace(Dtype dtype, std::size_t in, std::size_t o, std::size_t k) {
    const auto width = static_cast<std::size_t>(bits(dtype));
    if (width >= 8 && dtype != Dtype::int8 && dtype != Dtype::uint8) {
      bytes = width / 8, byte = ((o / 16 * in + k) * 16 + o % 16) * bytes;
      return;
    }
    const std::size_t n = 32 / width, words = (in + n - 1) / n;
    bytes = 4, byte = ((o / 16 * words + k / n) * 16 + o % 16) * 4, shift = static_cast<unsigned>(k % n * width);
  }
  std::size_t byte, bytes;
  unsigned shift = 0;
};
inline std::uint64_t code_mask(Dtype dtype) { return ~std::uint64_t{0} >> (64 - bits(dtype)); }
inline bool is_wide(Dtype dtype) { return has_scale(dtype) && bits(dtype) >= 32; }
inline std::size_t zero_bytes(Dtype dtype) { return bits(dtype) < 8 ? 1 : static_cast<std::size_t>(bits(dtype)) / 8; }
/// The index of an element's scale and zero point.
inline std::size_t group_of(Granularity granularity, std::size_t in, std::size_t o, std::size_t k) {
  if (granularity == Granularity::tensor) return 0;
  if (granularity == Granularity::channel) return o;
  return (o / 16 * ((in + 31) / 32) + k / 32) * 16 + o % 16;
}

/// The number of a small float: sign, exponent, mantissa, without infinities.
inline double small_float(std::uint64_t code, int exponent_bits, int mantissa_bits) {
  const auto exponent = static_cast<int>(code >> mantissa_bits & ((1u << exponent_bits) - 1));
  const double fraction = std::ldexp(static_cast<double>(code & ((1u << mantissa_bits) - 1)), -mantissa_bits);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return code >> (exponent_bits + mantissa_bits) & 1 ? -magnitude : magnitude;
}
/// The distance of binary16 numbers at `x` > 0, as a power of two.
inline int half_place(double x) { return std::max(std::ilogb(x) - 10, -24); }
/// The code of the binary16 number nearest to `x` > 0, which is at most 65504.
inline std::uint16_t half_code(double x) {
  const int place = half_place(x);
  return static_cast<std::uint16_t>((place + 24) * 1024 + static_cast<int>(std::nearbyint(std::ldexp(x, -place))));
}

inline std::uint64_t code_at(const ConstWeight& w, std::size_t o, std::size_t k) {
  const CodePlace at(w.dtype, w.in, o, k);
  std::uint64_t word = 0;
  std::memcpy(&word, static_cast<const unsigned char*>(w.codes) + at.byte, at.bytes);
  return word >> at.shift & code_mask(w.dtype);
}
/// 1 where the type has no scale.
inline double scale_at(const ConstWeight& w, std::size_t o, std::size_t k) {
  if (!has_scale(w.dtype)) return 1;
  const std::size_t i = group_of(w.granularity, w.in, o, k);
  if (is_wide(w.dtype)) return static_cast<const double*>(w.scales)[i];
  if (w.granularity == Granularity::block32_f16)
    return small_float(static_cast<const std::uint16_t*>(w.scales)[i], 5, 10);
  return static_cast<double>(static_cast<const float*>(w.scales)[i]);
}
inline std::uint64_t zero_at(const ConstWeight& w, std::size_t o, std::size_t k) {
  std::uint64_t zero = 0;
  const std::size_t size = zero_bytes(w.dtype);
  if (has_zero_point(w.dtype))
    std::memcpy(&zero, static_cast<const unsigned char*>(w.zero_points) + group_of(w.granularity, w.in, o, k) * size,
                size);
  return zero;
}

inline double ieee_float(std::uint64_t code, int exponent_bits, int mantissa_bits) {
  const std::uint64_t top = (std::uint64_t{1} << exponent_bits) - 1;
  if ((code >> mantissa_bits & top) != top) return small_float(code, exponent_bits, mantissa_bits);
  if (code & ((1u << mantissa_bits) - 1)) return std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  return code >> (exponent_bits + mantissa_bits) & 1 ? -infinity : infinity;
}
inline std::int64_t signed_code(Dtype dtype, std::uint64_t code) {
  const int unused = 64 - bits(dtype);
  return static_cast<std::int64_t>(code << unused) >> unused;
}
/// The number of a code by its format's definition: a multiple of the scale, or the weight itself.
inline double number_of(Dtype dtype, std::uint64_t code, std::uint64_t zero = 0) {
  switch (dtype) {
    case Dtype::float64:
      return std::bit_cast<double>(code);
    case Dtype::float32: {
      const auto word = static_cast<std::uint32_t>(code);  // by bits: subnormals too, whatever the CPU flushes
      return (word & 0x7f800000u) ? std::bit_cast<float>(word) : small_float(code, 8, 23);
    }
    case Dtype::float16:
      return ieee_float(code, 5, 10);
    case Dtype::bfloat16:
      return ieee_float(code, 8, 7);
    case Dtype::fp8_e5m2:
      return ieee_float(code, 5, 2);
    case Dtype::fp8_e4m3:
      return (code & 0x7f) == 0x7f ? std::nan("") : small_float(code, 4, 3);
    case Dtype::fp4:
      return small_float(code, 2, 1);
    case Dtype::binary:
      return code ? 1 : -1;
    default:  // wide enough for the exact difference of any two integers of 64 bits
      return has_zero_point(dtype) ? static_cast<double>(static_cast<Int128>(code) - static_cast<Int128>(zero))
                                   : static_cast<double>(signed_code(dtype, code));
  }
}
/// scale * number in binary64: exact for scales of float32, before the rounding to float32 that dequantizing adds.
inline double exact_value_at(const ConstWeight& w, std::size_t o, std::size_t k) {
  return scale_at(w, o, k) * number_of(w.dtype, code_at(w, o, k), zero_at(w, o, k));
}
/// The same rounded and flushed as weight.hpp says. Tiny results are judged as if the exponent had no end
/// (docs/numerics.md, the tininess corner); float32 and bfloat16 move.
inline float value_at(const ConstWeight& w, std::size_t o, std::size_t k) {
  if (w.dtype == Dtype::float32) return std::bit_cast<float>(static_cast<std::uint32_t>(code_at(w, o, k)));
  if (w.dtype == Dtype::bfloat16) return std::bit_cast<float>(static_cast<std::uint32_t>(code_at(w, o, k)) << 16);
  const double exact = exact_value_at(w, o, k);
  const bool is_tiny = std::fabs(exact) < 0x1p-100 && std::fabs(static_cast<float>(exact * 0x1p100)) < 0x1p-26f;
  return is_tiny ? static_cast<float>(std::copysign(0.0, exact)) : static_cast<float>(exact);
}

class CodedMatrix {
 public:
  CodedMatrix(Encoding encoding, std::size_t out, std::size_t in)
      : encoding_(encoding), out_(out), in_(in), bytes_(weight_bytes(encoding, out, in)) {
    codes_ = AlignedBuffer<std::uint8_t>(bytes_.codes);
    scales_ = AlignedBuffer<std::uint8_t>(bytes_.scales);
    zero_points_ = AlignedBuffer<std::uint8_t>(bytes_.zero_points);
  }

  ConstWeight view() const {
    ConstWeight w;
    w.codes = codes_.data();
    w.scales = bytes_.scales ? scales_.data() : nullptr;
    w.zero_points = bytes_.zero_points ? zero_points_.data() : nullptr;
    w.out = out_, w.in = in_, w.dtype = encoding_.dtype, w.granularity = encoding_.granularity;
    return w;
  }
  std::uint64_t code(std::size_t o, std::size_t k) const { return code_at(view(), o, k); }
  float value(std::size_t o, std::size_t k) const { return value_at(view(), o, k); }

  void set_code(std::size_t o, std::size_t k, std::uint64_t code) {
    const CodePlace at(encoding_.dtype, in_, o, k);
    const std::uint64_t mask = code_mask(encoding_.dtype);
    std::uint64_t word = 0;
    std::memcpy(&word, codes_.data() + at.byte, at.bytes);
    word = (word & ~(mask << at.shift)) | (code & mask) << at.shift;
    std::memcpy(codes_.data() + at.byte, &word, at.bytes);
  }
  void set_scale(std::size_t o, std::size_t k, double scale) {
    const float rounded = static_cast<float>(scale);
    const std::size_t i = group_of(encoding_.granularity, in_, o, k);
    const std::uint16_t half = half_code(scale);
    if (encoding_.granularity == Granularity::block32_f16)
      std::memcpy(scales_.data() + i * 2, &half, 2);
    else if (is_wide(encoding_.dtype))
      std::memcpy(scales_.data() + i * 8, &scale, 8);
    else
      std::memcpy(scales_.data() + i * 4, &rounded, 4);
  }
  void set_zero(std::size_t o, std::size_t k, std::uint64_t zero) {
    const std::size_t size = zero_bytes(encoding_.dtype);
    std::memcpy(zero_points_.data() + group_of(encoding_.granularity, in_, o, k) * size, &zero, size);
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
        while (which == Codes::finite && !std::isfinite(number_of(encoding_.dtype, code(o, k))))
          set_code(o, k, bits64());
        if (has_scale(encoding_.dtype)) {
          // Later elements of a group write over the earlier ones' scale.
          set_scale(o, k, (0.5 + random.next_uniform()) * std::exp2(-bits(encoding_.dtype)));
          if (has_zero_point(encoding_.dtype)) set_zero(o, k, bits64() & code_mask(encoding_.dtype));
        }
      }
  }

 private:
  Encoding encoding_;
  std::size_t out_, in_;
  WeightBytes bytes_;
  AlignedBuffer<std::uint8_t> codes_, scales_, zero_points_;
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
