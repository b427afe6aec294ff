// SPDX-License-Identifier: Apache-2.0

#include "formats/gguf/internal/gguf_encoders.hpp"

#include "core/numeric.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

// docs/formats/gguf.md, "Encoders": each operation is one of float32 in the order written.
namespace weft::formats::gguf {

float largest(Values x) {
  float found = 0.0f;
  for (const float value : x)
    if (std::abs(value) > std::abs(found)) found = value;
  return found;
}

float put_half(std::byte* at, float value) {
  constexpr float kMost = numeric::Float16::largest_number();
  const std::uint16_t code = numeric::Float16::encode(std::isnan(value) ? 0.0f : std::clamp(value, -kMost, kMost));
  std::memcpy(at, &code, sizeof code);  // little-endian, as core/state_hash.cpp asserts
  return numeric::Float16::decode(code);
}

void put_two_bits(std::byte* at, std::span<const std::uint8_t> codes) {
  for (std::size_t i = 0; i < 64; ++i) {
    const std::size_t first = 128 * (i / 32) + i % 32;
    at[i] =
        static_cast<std::byte>(codes[first] | codes[first + 32] << 2 | codes[first + 64] << 4 | codes[first + 96] << 6);
  }
}

namespace {

float magnitude(Values x) { return std::abs(largest(x)); }
float inverse(float x) { return x != 0.0f ? 1.0f / x : 0.0f; }

using Codes32 = std::array<std::uint8_t, 32>;
void put_nibbles(std::byte* at, const Codes32& codes) {
  for (std::size_t i = 0; i < 16; ++i) at[i] = static_cast<std::byte>((codes[i] & 15) | (codes[i + 16] & 15) << 4);
}
void put_fifth_bits(std::byte* at, const Codes32& codes) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < 32; ++i) bits |= std::uint32_t{codes[i]} >> 4 << i;
  std::memcpy(at, &bits, sizeof bits);
}

void q8_0(Values x, std::byte* block) {
  const float d = magnitude(x) / 127.0f, scale = inverse(d);
  put_half(block, d);
  for (std::size_t i = 0; i < 32; ++i)
    block[2 + i] = static_cast<std::byte>(nearest_away(x[i] * scale, -127, 127) & 255);
}

/// Codes counted from the middle; the largest element is the lowest code.
Codes32 signed_codes(Values x, int middle, std::byte* block) {
  const float d = largest(x) / static_cast<float>(-middle), scale = inverse(d);
  put_half(block, d);
  Codes32 codes;
  for (std::size_t i = 0; i < 32; ++i)
    codes[i] = static_cast<std::uint8_t>(
        bounded(std::trunc(x[i] * scale + (static_cast<float>(middle) + 0.5f)), 0, 2 * middle - 1));
  return codes;
}
/// Codes counted from the least element.
Codes32 unsigned_codes(Values x, int top, std::byte* block) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  const float d = (*high - *low) / static_cast<float>(top), scale = inverse(d);
  put_half(block, d);
  put_half(block + 2, *low);
  Codes32 codes;
  for (std::size_t i = 0; i < 32; ++i)
    codes[i] = static_cast<std::uint8_t>(bounded(std::trunc((x[i] - *low) * scale + 0.5f), 0, top));
  return codes;
}

void q4_0(Values x, std::byte* block) { put_nibbles(block + 2, signed_codes(x, 8, block)); }
void q5_0(Values x, std::byte* block) {
  const Codes32 codes = signed_codes(x, 16, block);
  put_fifth_bits(block + 2, codes);
  put_nibbles(block + 6, codes);
}
void q4_1(Values x, std::byte* block) { put_nibbles(block + 4, unsigned_codes(x, 15, block)); }
void q5_1(Values x, std::byte* block) {
  const Codes32 codes = unsigned_codes(x, 31, block);
  put_fifth_bits(block + 4, codes);
  put_nibbles(block + 8, codes);
}

std::array<std::uint8_t, 256> ternary_codes(Values x, std::byte* scale_at) {
  const float d = magnitude(x), scale = inverse(d);
  put_half(scale_at, d);
  std::array<std::uint8_t, 256> codes;
  for (std::size_t i = 0; i < 256; ++i) codes[i] = static_cast<std::uint8_t>(nearest_away(x[i] * scale, -1, 1) + 1);
  return codes;
}
void tq1_0(Values x, std::byte* block) {
  const auto codes = ternary_codes(x, block + 52);
  const auto put = [&](std::size_t at, std::size_t first, std::size_t step, std::size_t digits) {
    unsigned number = 0;
    for (std::size_t n = 0; n < digits; ++n) number = number * 3 + codes[first + n * step];
    if (digits == 4) number *= 3;
    block[at] = static_cast<std::byte>((number * 256 + 242) / 243);
  };
  for (std::size_t i = 0; i < 32; ++i) put(i, i, 32, 5);
  for (std::size_t i = 0; i < 16; ++i) put(32 + i, 160 + i, 16, 5);
  for (std::size_t i = 0; i < 4; ++i) put(48 + i, 240 + i, 4, 4);
}
void tq2_0(Values x, std::byte* block) { put_two_bits(block, ternary_codes(x, block + 64)); }

void mxfp4(Values x, std::byte* block) {
  constexpr float kNumbers[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  const float most = magnitude(x);
  int exponent = 0;
  std::frexp(most, &exponent);
  const int scale = most > 0.0f ? std::max(exponent - 3 + 127, 0) : 0;
  block[0] = static_cast<std::byte>(scale);
  Codes32 codes;
  for (std::size_t i = 0; i < 32; ++i) {
    float best = HUGE_VALF;
    for (std::uint8_t code = 0; code < 16; ++code) {
      const float number = std::ldexp(code < 8 ? kNumbers[code] : -kNumbers[code - 8], scale - 127);
      const float distance = std::abs(number - x[i]);
      if (distance < best) best = distance, codes[i] = code;
    }
  }
  put_nibbles(block + 1, codes);
}

void q1_0(Values x, std::byte* block) {
  float sum = 0.0f;
  for (const float value : x) sum += std::abs(value);
  put_half(block, sum / 128.0f);
  for (std::size_t i = 0; i < 16; ++i) {
    unsigned bits = 0;
    for (std::size_t k = 0; k < 8; ++k) bits |= (x[8 * i + k] >= 0.0f ? 1u : 0u) << k;
    block[2 + i] = static_cast<std::byte>(bits);
  }
}
void q2_0(Values x, std::byte* block) {
  const float d = magnitude(x), scale = inverse(d);
  put_half(block, d);
  for (std::size_t i = 0; i < 16; ++i) {
    unsigned bits = 0;
    for (std::size_t k = 0; k < 4; ++k)
      bits |= static_cast<unsigned>(std::clamp(nearest_away(x[4 * i + k] * scale, -2, 2) + 1, 0, 3)) << (2 * k);
    block[2 + i] = static_cast<std::byte>(bits);
  }
}

constexpr Encoder kEncoders[] = {{"q4_0", q4_0},   {"q4_1", q4_1},   {"q5_0", q5_0},   {"q5_1", q5_1}, {"q8_0", q8_0},
                                 {"tq1_0", tq1_0}, {"tq2_0", tq2_0}, {"mxfp4", mxfp4}, {"q1_0", q1_0}, {"q2_0", q2_0}};

}  // namespace

std::span<const Encoder> plain_encoders() noexcept { return kEncoders; }

}  // namespace weft::formats::gguf
