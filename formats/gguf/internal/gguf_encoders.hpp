// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

/// Encoders of one block each. Values are finite; the thread's floating-point mode is the default one.
namespace weft::formats::gguf {

using Values = std::span<const float>;

struct Encoder {
  std::string_view type;
  void (*encode)(Values x, std::byte* block);
};
/// Blocks with one scale, and those of codes that are looked up.
std::span<const Encoder> plain_encoders() noexcept;
/// Blocks of 256 with scales of 4 to 8 bits (the K types).
std::span<const Encoder> k_encoders() noexcept;

/// A rounded number as a code: bounded, and 0 of what is no number.
inline int bounded(float rounded, int least, int most) {
  if (std::isnan(rounded)) return least > 0 ? least : 0;
  if (rounded <= static_cast<float>(least)) return least;
  return rounded >= static_cast<float>(most) ? most : static_cast<int>(rounded);
}
/// To the nearest whole number, ties to the even one.
inline int nearest(float x, int least, int most) { return bounded(std::nearbyint(x), least, most); }
/// Ties away from zero.
inline int nearest_away(float x, int least, int most) { return bounded(std::round(x), least, most); }

/// The element of the largest magnitude, the first of equals.
float largest(Values x);
/// Puts the binary16 number nearest to `value`; returns what it decodes to.
float put_half(std::byte* at, float value);
/// Codes of two bits of 256 elements in 64 bytes: four runs of 32 share the bytes of a half.
void put_two_bits(std::byte* at, std::span<const std::uint8_t> codes);

}  // namespace weft::formats::gguf
