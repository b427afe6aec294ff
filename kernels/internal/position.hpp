// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace weft::kernels::detail {

/// A position of 48 bits kept in two floats, integers of 24 bits, the low one first: a float alone stops at 2^24.
/// A value that is no such integer counts as 0 or is rounded down.
inline std::uint64_t read_position(const float* state) noexcept {
  const auto digit = [](float v) -> std::uint64_t {
    return v >= 0.0f && v < 0x1p24f ? static_cast<std::uint32_t>(v) : 0u;
  };
  return digit(state[0]) | digit(state[1]) << 24;
}
inline void write_position(std::uint64_t position, float* state) noexcept {
  state[0] = static_cast<float>(position & 0xffffffu);
  state[1] = static_cast<float>(position >> 24 & 0xffffffu);
}

}  // namespace weft::kernels::detail
