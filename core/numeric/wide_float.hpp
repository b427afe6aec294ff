// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/dtype.hpp"
#include "core/numeric/scale_rule.hpp"

#include <bit>
#include <cstdint>

namespace weft::numeric {

/// binary32: the master's own bits, NaN payloads too.
struct Float32 {
  static constexpr Dtype dtype = Dtype::float32;
  static constexpr int bits = 32;
  static constexpr ScaleRule scale_rule = ScaleRule::none;
  static constexpr bool has_infinity = true, has_nan = true;
  using Code = std::uint32_t;
  using Number = float;
  using Scale = float;

  static constexpr Code encode(float x) noexcept { return std::bit_cast<Code>(x); }
  static constexpr float decode(Code code) noexcept { return std::bit_cast<float>(code); }
  static constexpr bool is_code(Code) noexcept { return true; }
};

/// binary64. Every float32 has its code, subnormals included; encode and decode work on bits, whatever FTZ and DAZ say.
struct Float64 {
  static constexpr Dtype dtype = Dtype::float64;
  static constexpr int bits = 64;
  static constexpr ScaleRule scale_rule = ScaleRule::none;
  static constexpr bool has_infinity = true, has_nan = true;
  using Code = std::uint64_t;
  using Number = double;
  using Scale = float;
  static constexpr Code kNan = 0x7ff8000000000000u;

  /// Exact; any NaN becomes kNan.
  static constexpr Code encode(float x) noexcept {
    const auto word = std::bit_cast<std::uint32_t>(x);
    const Code sign = Code{word >> 31} << 63;
    const std::uint32_t magnitude = word & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return kNan;
    if (magnitude == 0x7f800000u) return sign | 0x7ff0000000000000u;
    if (magnitude >= 0x00800000u) return sign | ((Code{magnitude} << 29) + (Code{1023 - 127} << 52));
    if (magnitude == 0) return sign;
    // m * 2^-149: the leading bit goes to the implicit place.
    const int top = 31 - std::countl_zero(magnitude);
    return sign | Code(top - 149 + 1023) << 52 | (Code{magnitude} << (52 - top) & 0x000fffffffffffffu);
  }
  static constexpr double decode(Code code) noexcept { return std::bit_cast<double>(code); }
  static constexpr bool is_code(Code) noexcept { return true; }
};

}  // namespace weft::numeric
