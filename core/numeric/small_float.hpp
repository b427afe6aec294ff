// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/dtype.hpp"
#include "core/numeric/scale_rule.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace weft::numeric {

/// Meaning of the codes with the largest exponent: infinity and NaNs as in IEEE 754, numbers except one NaN (all
/// bits set), or numbers alone.
enum class Specials { ieee, one_nan, none };

/// Binary floating point of 16 bits and fewer: sign, exponent, mantissa, from the highest bit down. An exponent field
/// of 0 holds subnormals, which are kept. Integer arithmetic alone, so FTZ and DAZ change nothing.
/// @source IEEE 754-2019, 3.4; OCP 8-bit Floating Point Specification (OFP8) 1.0; OCP Microscaling Formats 1.0, 5.3.3
template <Dtype kDtype, int kExponentBits, int kMantissaBits, Specials kSpecials, ScaleRule kRule>
struct SmallFloat {
  static constexpr Dtype dtype = kDtype;
  static constexpr int bits = 1 + kExponentBits + kMantissaBits;
  static constexpr ScaleRule scale_rule = kRule;
  using Code = std::conditional_t<bits <= 8, std::uint8_t, std::uint16_t>;
  using Number = float;
  using Scale = float;

  static constexpr int exponent_bits = kExponentBits, mantissa_bits = kMantissaBits;
  static constexpr int bias = (1 << (kExponentBits - 1)) - 1;
  static constexpr bool has_infinity = kSpecials == Specials::ieee, has_nan = kSpecials != Specials::none;

  static constexpr Code kSign = Code(1u << (bits - 1));
  /// The exponent field all ones, mantissa 0; infinity where there is one.
  static constexpr Code kTop = Code(((1u << kExponentBits) - 1) << kMantissaBits);
  static constexpr Code kInfinity = kTop;
  /// The one NaN that encode gives: positive and, in IEEE formats, quiet with no payload.
  static constexpr Code kNan = Code(kSpecials == Specials::ieee ? kTop | 1u << (kMantissaBits - 1) : kSign - 1u);
  /// The largest finite number and its code.
  static constexpr Code kLargest = Code(kSpecials == Specials::ieee      ? kTop - 1u
                                        : kSpecials == Specials::one_nan ? kSign - 2u
                                                                         : kSign - 1u);
  static constexpr float largest_number() noexcept { return decode(kLargest); }

  /// The nearest number's code, ties to the even one; finite values saturate, signs of zero stay. Infinity saturates
  /// where the format has none; NaN becomes kNan, or +0 in a format without.
  static constexpr Code encode(float x) noexcept {
    const auto word = std::bit_cast<std::uint32_t>(x);
    const Code sign = word >> 31 ? kSign : Code{0};
    const std::uint32_t magnitude = word & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return has_nan ? kNan : Code{0};
    if (magnitude == 0x7f800000u) return Code(sign | (has_infinity ? kInfinity : kLargest));
    // |x| = mantissa * 2^(exponent - 150); the format's numbers near it are multiples of 2^(field - bias - bits).
    const int exponent = std::max(static_cast<int>(magnitude >> 23), 1);
    const std::uint32_t mantissa = (magnitude & 0x7fffffu) | (magnitude >> 23 ? 0x800000u : 0u);
    const int field = std::max(exponent - 127 + bias, 1);
    const int shift = std::min(field - bias - kMantissaBits - (exponent - 150), 31);
    const std::uint32_t kept = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
    const std::uint32_t rounded = kept + (rest > half || (rest == half && (kept & 1u)) ? 1u : 0u);
    // `rounded` holds the implicit bit, which adds the last one to the exponent; so does a carry out of the mantissa.
    const std::uint32_t code = (static_cast<std::uint32_t>(field - 1) << kMantissaBits) + rounded;
    return Code(sign | std::min<std::uint32_t>(code, kLargest));
  }

  /// The number of a code, exactly; of a NaN's code the canonical NaN.
  static constexpr float decode(Code code) noexcept {
    const std::uint32_t sign = code & kSign ? 0x80000000u : 0u;
    const std::uint32_t magnitude = code & (kSign - 1u);
    if (has_nan && magnitude > (has_infinity ? kInfinity : kLargest)) return std::bit_cast<float>(0x7fc00000u);
    if (has_infinity && magnitude == kInfinity) return std::bit_cast<float>(sign | 0x7f800000u);
    // bfloat16 has float32's exponents, its subnormals too.
    if (bias == 127 || magnitude == 0) return std::bit_cast<float>(sign | magnitude << (23 - kMantissaBits));
    if (magnitude >> kMantissaBits)
      return std::bit_cast<float>(
          sign | ((magnitude << (23 - kMantissaBits)) + (static_cast<std::uint32_t>(127 - bias) << 23)));
    const int top = 31 - std::countl_zero(magnitude);
    return std::bit_cast<float>(sign | static_cast<std::uint32_t>(top + 1 - bias - kMantissaBits + 127) << 23 |
                                (magnitude << (23 - top) & 0x7fffffu));
  }
  static constexpr bool is_code(Code code) noexcept { return bits == 8 || bits == 16 || code >> bits == 0; }
};

using Float16 = SmallFloat<Dtype::float16, 5, 10, Specials::ieee, ScaleRule::none>;
using Bfloat16 = SmallFloat<Dtype::bfloat16, 8, 7, Specials::ieee, ScaleRule::none>;
using Fp8E4m3 = SmallFloat<Dtype::fp8_e4m3, 4, 3, Specials::one_nan, ScaleRule::largest>;
using Fp8E5m2 = SmallFloat<Dtype::fp8_e5m2, 5, 2, Specials::ieee, ScaleRule::largest>;
using Fp4 = SmallFloat<Dtype::fp4, 2, 1, Specials::none, ScaleRule::largest>;

}  // namespace weft::numeric
