// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

/// 2^exponent as a bound for sizes; where std::size_t has 32 bits (WebAssembly), at most its largest number.
constexpr std::size_t size_limit(unsigned exponent) noexcept {
  return exponent < 8 * sizeof(std::size_t) ? std::size_t{1} << exponent : SIZE_MAX;
}

/// one * other, or, where that does not fit, the largest number: which no array of anybody's has for a size.
constexpr std::uint64_t product_or_most(std::uint64_t one, std::uint64_t other) noexcept {
  return other != 0 && one > UINT64_MAX / other ? UINT64_MAX : one * other;
}

}  // namespace weft
