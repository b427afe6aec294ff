// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/dtype.hpp"
#include "core/numeric/scale_rule.hpp"

#include <cstdint>

namespace weft::numeric {

/// A sign: 1 for +1, 0 for -1.
struct Binary {
  static constexpr Dtype dtype = Dtype::binary;
  static constexpr int bits = 1;
  static constexpr ScaleRule scale_rule = ScaleRule::mean;
  static constexpr bool has_infinity = false, has_nan = false;
  using Code = std::uint8_t;
  using Number = int;
  using Scale = float;

  /// 1 for x >= 0, -0 too; NaN gives 0.
  static constexpr Code encode(float x) noexcept { return x >= 0.0f ? 1 : 0; }
  static constexpr int decode(Code code) noexcept { return code ? 1 : -1; }
  static constexpr bool is_code(Code code) noexcept { return code <= 1; }
};

}  // namespace weft::numeric
