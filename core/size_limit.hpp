// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

/// 2^exponent as a bound for sizes; where std::size_t has 32 bits (WebAssembly), at most its largest number.
constexpr std::size_t size_limit(unsigned exponent) noexcept {
  return exponent < 8 * sizeof(std::size_t) ? std::size_t{1} << exponent : SIZE_MAX;
}

}  // namespace weft
