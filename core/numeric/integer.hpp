// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/dtype.hpp"
#include "core/numeric/scale_rule.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace weft::numeric {

/// |x| rounded to the nearest integer, ties to even, at most 2^64 - 1; NaN gives 0. On bits, whatever FTZ and DAZ say.
constexpr std::uint64_t rounded_magnitude(double x) noexcept {
  const auto word = std::bit_cast<std::uint64_t>(x);
  const int exponent = static_cast<int>(word >> 52 & 0x7ff) - 1075;
  const std::uint64_t fraction = word & 0x000fffffffffffffu, mantissa = fraction | 0x0010000000000000u;
  if (exponent == 0x7ff - 1075) return fraction ? 0 : ~std::uint64_t{0};
  if (exponent > 11) return ~std::uint64_t{0};
  if (exponent >= 0) return mantissa << exponent;
  const int shift = -exponent;
  if (shift > 53) return 0;  // below a half, zeros and subnormals too
  const std::uint64_t kept = mantissa >> shift, rest = mantissa & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  return kept + (rest > half || (rest == half && (kept & 1)) ? 1 : 0);
}

template <int kBits>
using UnsignedOf = std::conditional_t<
    kBits <= 8, std::uint8_t,
    std::conditional_t<kBits == 16, std::uint16_t, std::conditional_t<kBits == 32, std::uint32_t, std::uint64_t>>>;

/// Two's complement, symmetric: -2^(bits-1) is no code. Scales of 32 and 64 bits are double.
template <Dtype kDtype, int kBits, ScaleRule kRule = ScaleRule::largest>
struct Signed {
  static constexpr Dtype dtype = kDtype;
  static constexpr int bits = kBits;
  static constexpr ScaleRule scale_rule = kRule;
  static constexpr bool has_infinity = false, has_nan = false;
  using Code = UnsignedOf<kBits>;
  using Number = std::int64_t;
  using Scale = std::conditional_t<(kBits >= 32), double, float>;

  static constexpr Code kMask = Code(~std::uint64_t{0} >> (64 - kBits));
  /// The largest number that encode gives: 2^(bits-1) - 1, of 64 bits the largest double below.
  static constexpr std::uint64_t kLargest =
      kBits == 64 ? (std::uint64_t{1} << 63) - 1024 : (std::uint64_t{1} << (kBits - 1)) - 1;
  static constexpr Scale largest_number() noexcept { return static_cast<Scale>(kLargest); }

  /// The nearest integer, ties to even, at most kLargest away from 0; NaN gives 0.
  static constexpr Code encode(double x) noexcept {
    // By bits alone, which are ordered as magnitudes are, infinity and then NaNs above all numbers: no sign hangs on a
    // comparison of doubles or on a choice between numbers.
    constexpr std::uint64_t kInfinity = 0x7ff0000000000000u;
    const auto word = std::bit_cast<std::uint64_t>(x), distance = word << 1 >> 1;
    const std::uint64_t sign = 0 - (word >> 63);  // all bits, or none
    std::uint64_t magnitude = distance > kInfinity ? 0 : kLargest;
    if (distance < std::bit_cast<std::uint64_t>(static_cast<double>(kLargest))) magnitude = rounded_magnitude(x);
    return Code(((magnitude ^ sign) - sign) & kMask);
  }
  static constexpr Number decode(Code code) noexcept {
    return static_cast<std::int64_t>(std::uint64_t{code} << (64 - kBits)) >> (64 - kBits);
  }
  static constexpr bool is_code(Code code) noexcept { return code <= kMask && code != (kMask >> 1) + 1; }
};

/// Codes counted from a zero point. Scales of 32 and 64 bits are double.
template <Dtype kDtype, int kBits>
struct Unsigned {
  static constexpr Dtype dtype = kDtype;
  static constexpr int bits = kBits;
  static constexpr ScaleRule scale_rule = ScaleRule::range;
  static constexpr bool has_infinity = false, has_nan = false;
  using Code = UnsignedOf<kBits>;
  using Number = std::uint64_t;
  using Scale = std::conditional_t<(kBits >= 32), double, float>;

  static constexpr Code kMask = Code(~std::uint64_t{0} >> (64 - kBits));
  /// The largest code that encode gives: 2^bits - 1, of 64 bits the largest double below.
  static constexpr std::uint64_t kLargest = kBits == 64 ? ~std::uint64_t{0} - 2047 : std::uint64_t{kMask};
  /// Steps of a range, which scales are made of: as many, but of 64 bits so few that the quotients of both ends,
  /// rounded to double each, still fit.
  static constexpr Scale largest_number() noexcept {
    return static_cast<Scale>(kBits == 64 ? ~std::uint64_t{8191} : kLargest);
  }

  /// The nearest integer, ties to even, plus the zero point, within 0 and kLargest; NaN gives the zero point.
  static constexpr Code encode(double x, std::uint64_t zero = 0) noexcept {
    const std::uint64_t magnitude = rounded_magnitude(x);
    if (x < 0) return Code(zero - std::min(magnitude, zero));
    return Code(zero + std::min(magnitude, kLargest - std::min(zero, kLargest)));
  }
  static constexpr Number decode(Code code) noexcept { return code; }
  /// code - zero, exact except for one rounding to double (which 32 bits and fewer never need).
  static constexpr double difference(Code code, Code zero) noexcept {
    return code >= zero ? static_cast<double>(std::uint64_t{code} - zero)
                        : -static_cast<double>(std::uint64_t{zero} - code);
  }
  static constexpr bool is_code(Code code) noexcept { return code <= kMask; }
};

using Int64 = Signed<Dtype::int64, 64>;
using Int32 = Signed<Dtype::int32, 32>;
using Int16 = Signed<Dtype::int16, 16>;
using Int8 = Signed<Dtype::int8, 8>;
using Int4 = Signed<Dtype::int4, 4>;
using Int2 = Signed<Dtype::int2, 2>;
using Uint64 = Unsigned<Dtype::uint64, 64>;
using Uint32 = Unsigned<Dtype::uint32, 32>;
using Uint16 = Unsigned<Dtype::uint16, 16>;
using Uint8 = Unsigned<Dtype::uint8, 8>;
using Uint4 = Unsigned<Dtype::uint4, 4>;
using Uint2 = Unsigned<Dtype::uint2, 2>;
/// int2's codes -1 0 1, of multiples of the mean.
/// @source Ma et al. 2024, eq. 1-3, arXiv:2402.17764
using Ternary = Signed<Dtype::ternary, 2, ScaleRule::mean>;

}  // namespace weft::numeric
