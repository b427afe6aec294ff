// SPDX-License-Identifier: Apache-2.0

#include "models/carriers.hpp"

#include "core/numeric.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

namespace weft::models {
namespace {

constexpr std::array<unsigned, 5> kPowers{1, 3, 9, 27, 81};       // of 3
constexpr float kLeastScale = std::numeric_limits<float>::min();  // 2^-126, of blocks of zeros

unsigned byte_at(ByteSpan block, std::size_t i) { return std::to_integer<unsigned>(block[i]); }

/// A block's scale, of at most 16 bits, so each product with a code is exact.
Result<float> half_at(ByteSpan block, std::size_t i) {
  const float d = numeric::Float16::decode(static_cast<std::uint16_t>(byte_at(block, i) | byte_at(block, i + 1) << 8));
  if (!std::isfinite(d)) return fail(Errc::not_finite, "a scale is " + std::to_string(d));
  return d;
}

/// Hands each block of a row to `read(block, codes, first group)`.
template <class Read>
Status each_block(ByteSpan row, std::size_t bytes, std::size_t elements, const CodeRow& to, Read&& read) {
  for (std::size_t b = 0; b * elements < to.codes.size(); ++b)
    WEFT_CHECK(
        read(row.subspan(b * bytes, bytes), to.codes.subspan(b * elements, elements), b * elements / kScaleBlock));
  return {};
}

/// Signed numbers times d, in two's complement of `bits` bits.
void put_signed(std::span<const int> numbers, float d, int bits, std::span<std::uint8_t> codes) {
  const int sign = d < 0 ? -1 : d == 0 ? 0 : 1;
  for (std::size_t e = 0; e < numbers.size(); ++e)
    codes[e] = static_cast<std::uint8_t>(static_cast<unsigned>(sign * numbers[e]) & ((1u << bits) - 1));
}
float positive(float d) { return d == 0 ? kLeastScale : std::abs(d); }

Status read_q8_0(ByteSpan row, const CodeRow& to) {
  return each_block(row, 34, 32, to, [&](ByteSpan block, std::span<std::uint8_t> codes, std::size_t group) -> Status {
    WEFT_TRY(const float d, half_at(block, 0));
    std::array<int, 32> numbers{};
    for (std::size_t e = 0; e < 32; ++e) {
      numbers[e] = static_cast<std::int8_t>(byte_at(block, 2 + e));
      if (numbers[e] == -128) return fail(Errc::unsupported, "has the code -128, which int8 has not");
    }
    put_signed(numbers, d, 8, codes);
    to.scales[group] = positive(d);
    return {};
  });
}

Status read_q5_0(ByteSpan row, const CodeRow& to) {
  return each_block(row, 22, 32, to, [&](ByteSpan block, std::span<std::uint8_t> codes, std::size_t group) -> Status {
    WEFT_TRY(const float d, half_at(block, 0));
    std::array<int, 32> numbers{};
    for (std::size_t e = 0; e < 32; ++e) {
      const unsigned nibble = byte_at(block, 6 + e % 16) >> (e < 16 ? 0 : 4) & 15;
      const unsigned high = byte_at(block, 2 + e / 8) >> e % 8 & 1;
      numbers[e] = static_cast<int>(nibble | high << 4) - 16;
    }
    put_signed(numbers, d, 8, codes);
    to.scales[group] = positive(d);
    return {};
  });
}

Status read_q4_0(ByteSpan row, const CodeRow& to) {
  return each_block(row, 18, 32, to, [&](ByteSpan block, std::span<std::uint8_t> codes, std::size_t group) -> Status {
    WEFT_TRY(const float d, half_at(block, 0));
    for (std::size_t e = 0; e < 32; ++e) {
      const unsigned q = byte_at(block, 2 + e % 16) >> (e < 16 ? 0 : 4) & 15;
      codes[e] = static_cast<std::uint8_t>(d < 0 ? 15 - q : d == 0 ? 8 : q);
    }
    to.scales[group] = positive(d);
    to.zero_points[group] = d < 0 ? 7 : 8;
    return {};
  });
}

/// Blocks of 256 signed numbers with one scale behind them.
template <class Number>
Status read_ternary(ByteSpan row, std::size_t bytes, const CodeRow& to, Number number) {
  return each_block(
      row, bytes, 256, to, [&](ByteSpan block, std::span<std::uint8_t> codes, std::size_t group) -> Status {
        WEFT_TRY(const float d, half_at(block, bytes - 2));
        std::array<int, 256> numbers{};
        for (std::size_t e = 0; e < 256; ++e) {
          numbers[e] = number(block, e) - 1;
          if (numbers[e] > 1)
            return fail(Errc::unsupported, "has the code 3, which stands for 2 and is no ternary number");
        }
        put_signed(numbers, d, 2, codes);
        std::fill_n(to.scales.begin() + static_cast<std::ptrdiff_t>(group), 256 / kScaleBlock, positive(d));
        return {};
      });
}
Status read_tq2_0(ByteSpan row, const CodeRow& to) {
  return read_ternary(row, 66, to, [](ByteSpan block, std::size_t e) {
    return static_cast<int>(byte_at(block, 32 * (e / 128) + e % 32) >> 2 * (e % 128 / 32) & 3);
  });
}
Status read_tq1_0(ByteSpan row, const CodeRow& to) {
  return read_ternary(row, 54, to, [](ByteSpan block, std::size_t e) {
    const auto digit = [](unsigned x, std::size_t n) { return static_cast<int>(((x * kPowers[n]) % 256) * 3 >> 8); };
    if (e < 160) return digit(byte_at(block, e % 32), e / 32);
    if (e < 240) return digit(byte_at(block, 32 + (e - 160) % 16), (e - 160) / 16);
    return digit(byte_at(block, 48 + (e - 240) % 4), (e - 240) / 4);
  });
}

Status read_q1_0(ByteSpan row, const CodeRow& to) {
  return each_block(row, 18, 128, to, [&](ByteSpan block, std::span<std::uint8_t> codes, std::size_t group) -> Status {
    WEFT_TRY(const float d, half_at(block, 0));
    if (d == 0) return fail(Errc::unsupported, "has a block of zeros, which binary has not");
    for (std::size_t e = 0; e < 128; ++e)
      codes[e] = static_cast<std::uint8_t>((byte_at(block, 2 + e / 8) >> e % 8 & 1) ^ (d < 0 ? 1u : 0u));
    std::fill_n(to.scales.begin() + static_cast<std::ptrdiff_t>(group), 128 / kScaleBlock, std::abs(d));
    return {};
  });
}

Status read_q2_0(ByteSpan row, const CodeRow& to) {
  return each_block(row, 18, 64, to, [&](ByteSpan block, std::span<std::uint8_t> codes, std::size_t group) -> Status {
    WEFT_TRY(const float d, half_at(block, 0));
    for (std::size_t e = 0; e < 64; ++e) {
      const unsigned q = byte_at(block, 2 + e / 4) >> 2 * (e % 4) & 3;
      codes[e] = static_cast<std::uint8_t>(d < 0 ? 3 - q : d == 0 ? 1 : q);
    }
    for (std::size_t i = group; i < group + 64 / kScaleBlock; ++i)
      to.scales[i] = positive(d), to.zero_points[i] = d < 0 ? 2 : 1;
    return {};
  });
}

Status read_mxfp4(ByteSpan row, const CodeRow& to) {
  return each_block(row, 17, 32, to, [&](ByteSpan block, std::span<std::uint8_t> codes, std::size_t group) -> Status {
    const unsigned exponent = byte_at(block, 0);
    if (exponent == 0 || exponent == 255)
      return fail(Errc::unsupported,
                  "has the scale " + std::string(exponent == 0 ? "2^-127" : "NaN") + ", which is no normal float32");
    to.scales[group] = std::ldexp(1.0f, static_cast<int>(exponent) - 127);
    for (std::size_t e = 0; e < 32; ++e) {
      const unsigned q = byte_at(block, 1 + e % 16) >> (e < 16 ? 0 : 4) & 15;
      codes[e] = static_cast<std::uint8_t>(q == 8 ? 0 : q);  // ggml reads -0 as 0
    }
    return {};
  });
}

Status read_loom_blocks(ByteSpan row, const CodeRow& to) {
  return each_block(row, 20, 32, to, [&](ByteSpan block, std::span<std::uint8_t> codes, std::size_t group) -> Status {
    float scale = 0;
    std::memcpy(&scale, block.data(), sizeof scale);
    for (std::size_t e = 0; e < 32; ++e) {
      codes[e] = static_cast<std::uint8_t>(byte_at(block, 4 + e / 2) >> e % 2 * 4 & 15);
      if (scale == 0) codes[e] = 0;
      if (codes[e] == 8) return fail(Errc::unsupported, "has the code -8, which int4 has not");
    }
    to.scales[group] = positive(scale);
    return {};
  });
}

// --- the way back ----------------------------------------------------------------------------------------------------

/// Code of 0 in a group.
std::uint8_t zero_code(const CodeRow& row, std::size_t group) {
  return row.zero_points.empty() ? std::uint8_t{0} : row.zero_points[group];
}
bool is_zero(const CodeRow& row, std::size_t group, std::size_t elements) {
  const auto codes = row.codes.subspan(group * kScaleBlock, elements);
  return std::all_of(codes.begin(), codes.end(), [&](std::uint8_t code) { return code == zero_code(row, group); });
}

/// Scale and zero point of a block of so many elements from `group` on, where one serves all of it.
struct BlockScale16 {
  std::uint16_t bits = 0;
  float scale = 0;  // 0: all of the block is 0
  std::uint8_t zero_point = 0;
};
std::optional<BlockScale16> scale_of_block(const CodeRow& row, std::size_t group, std::size_t elements) {
  BlockScale16 of_block{0, row.scales[group], zero_code(row, group)};
  if (is_zero(row, group, elements)) return BlockScale16{0, 0, of_block.zero_point};
  for (std::size_t i = group; i < group + elements / kScaleBlock; ++i)
    if (row.scales[i] != of_block.scale || zero_code(row, i) != of_block.zero_point) return std::nullopt;
  of_block.bits = numeric::Float16::encode(of_block.scale);
  if (numeric::Float16::decode(of_block.bits) != of_block.scale) return std::nullopt;
  return of_block;
}
void put_half(std::span<std::byte> block, std::size_t i, unsigned bits, bool is_negative) {
  const unsigned half = bits | (is_negative ? 0x8000u : 0u);
  block[i] = std::byte(half & 255), block[i + 1] = std::byte(half >> 8);
}

/// Calls `put(block, codes, scale)` for each block, in bytes that are 0 before.
template <class Put>
bool each_block_of(const CodeRow& row, std::size_t elements, std::size_t bytes, std::span<std::byte> to, Put&& put) {
  std::fill(to.begin(), to.end(), std::byte{0});
  for (std::size_t b = 0; b * elements < row.codes.size(); ++b) {
    const auto scale = scale_of_block(row, b * elements / kScaleBlock, elements);
    if (!scale || !put(to.subspan(b * bytes, bytes), row.codes.subspan(b * elements, elements), *scale)) return false;
  }
  return true;
}

using Codes = std::span<const std::uint8_t>;

bool write_q8_0(const CodeRow& row, std::span<std::byte> to) {
  return each_block_of(row, 32, 34, to, [](std::span<std::byte> block, Codes codes, const BlockScale16& scale) {
    put_half(block, 0, scale.bits, false);
    std::memcpy(block.data() + 2, codes.data(), 32);
    return true;
  });
}
/// `offset`: what is added to a signed code; an unsigned one has its zero point for it.
bool write_q4_0_of(const CodeRow& row, std::span<std::byte> to, unsigned offset) {
  return each_block_of(row, 32, 18, to, [&](std::span<std::byte> block, Codes codes, const BlockScale16& scale) {
    const bool is_unsigned = offset == 0, is_negative = is_unsigned && scale.zero_point == 7;
    if (scale.scale != 0 && is_unsigned && !is_negative && scale.zero_point != 8) return false;
    put_half(block, 0, scale.bits, is_negative && scale.scale != 0);
    for (std::size_t e = 0; e < 32; ++e) {
      const unsigned q = scale.scale == 0 ? 8u : is_negative ? 15u - codes[e] : (codes[e] + offset) & 15u;
      block[2 + e % 16] |= std::byte(q << (e < 16 ? 0 : 4));
    }
    return true;
  });
}
bool write_q4_0(const CodeRow& row, std::span<std::byte> to) { return write_q4_0_of(row, to, 0); }
bool write_signed_q4_0(const CodeRow& row, std::span<std::byte> to) { return write_q4_0_of(row, to, 8); }

bool write_tq2_0(const CodeRow& row, std::span<std::byte> to) {
  return each_block_of(row, 256, 66, to, [](std::span<std::byte> block, Codes codes, const BlockScale16& scale) {
    for (std::size_t e = 0; e < 256; ++e)
      block[32 * (e / 128) + e % 32] |= std::byte(((codes[e] + 1u) & 3u) << 2 * (e % 128 / 32));
    put_half(block, 64, scale.bits, false);
    return true;
  });
}
bool write_q1_0(const CodeRow& row, std::span<std::byte> to) {
  std::fill(to.begin(), to.end(), std::byte{0});
  for (std::size_t b = 0; b * 128 < row.codes.size(); ++b) {
    const auto block = to.subspan(b * 18, 18);
    const float scale = row.scales[b * 4];
    for (std::size_t i = 1; i < 4; ++i)
      if (row.scales[b * 4 + i] != scale) return false;
    const std::uint16_t half = numeric::Float16::encode(scale);
    if (numeric::Float16::decode(half) != scale) return false;
    put_half(block, 0, half, false);
    for (std::size_t e = 0; e < 128; ++e) block[2 + e / 8] |= std::byte(row.codes[b * 128 + e] << e % 8);
  }
  return true;
}
bool write_q2_0(const CodeRow& row, std::span<std::byte> to) {
  return each_block_of(row, 64, 18, to, [](std::span<std::byte> block, Codes codes, const BlockScale16& scale) {
    const bool is_negative = scale.zero_point == 2;
    if (scale.scale != 0 && !is_negative && scale.zero_point != 1) return false;
    put_half(block, 0, scale.bits, is_negative && scale.scale != 0);
    for (std::size_t e = 0; e < 64; ++e) {
      const unsigned q = scale.scale == 0 ? 1u : is_negative ? 3u - codes[e] : codes[e];
      block[2 + e / 4] |= std::byte(q << 2 * (e % 4));
    }
    return true;
  });
}
bool write_mxfp4(const CodeRow& row, std::span<std::byte> to) {
  std::fill(to.begin(), to.end(), std::byte{0});
  for (std::size_t b = 0; b * 32 < row.codes.size(); ++b) {
    int exponent = 0;
    if (std::frexp(row.scales[b], &exponent) != 0.5f) return false;
    const auto block = to.subspan(b * 17, 17);
    block[0] = std::byte(exponent - 1 + 127);
    for (std::size_t e = 0; e < 32; ++e)
      block[1 + e % 16] |= std::byte((row.codes[b * 32 + e] & 15u) << (e < 16 ? 0 : 4));
  }
  return true;
}

}  // namespace

const BlockWriter* find_block_writer(const Encoding& encoding) noexcept {
  constexpr Granularity kBlocks = Granularity::block32;
  static const std::array<BlockWriter, 8> kWriters{{{Encoding(Dtype::int8, kBlocks), "q8_0", write_q8_0},
                                                    {Encoding(Dtype::int4, kBlocks), "q4_0", write_signed_q4_0},
                                                    {Encoding(Dtype::uint4, kBlocks), "q4_0", write_q4_0},
                                                    {Encoding(Dtype::int2, kBlocks), "tq2_0", write_tq2_0},
                                                    {Encoding(Dtype::ternary, kBlocks), "tq2_0", write_tq2_0},
                                                    {Encoding(Dtype::binary, kBlocks), "q1_0", write_q1_0},
                                                    {Encoding(Dtype::uint2, kBlocks), "q2_0", write_q2_0},
                                                    {Encoding(Dtype::fp4, kBlocks), "mxfp4", write_mxfp4}}};
  for (const BlockWriter& writer : kWriters)
    if (writer.encoding.dtype == encoding.dtype && is_block(encoding.granularity)) return &writer;
  return nullptr;
}

const Carrier* find_carrier(std::string_view type) noexcept {
  constexpr Granularity kBlocks = Granularity::block32, kHalfBlocks = Granularity::block32_f16;
  static const std::array<Carrier, 9> kCarriers{{{"q8_0", Encoding(Dtype::int8, kHalfBlocks), read_q8_0},
                                                 {"q5_0", Encoding(Dtype::int8, kHalfBlocks), read_q5_0},
                                                 {"q4_0", Encoding(Dtype::uint4, kHalfBlocks), read_q4_0},
                                                 {"tq1_0", Encoding(Dtype::int2, kHalfBlocks), read_tq1_0},
                                                 {"tq2_0", Encoding(Dtype::int2, kHalfBlocks), read_tq2_0},
                                                 {"q1_0", Encoding(Dtype::binary, kHalfBlocks), read_q1_0},
                                                 {"q2_0", Encoding(Dtype::uint2, kHalfBlocks), read_q2_0},
                                                 {"mxfp4", Encoding(Dtype::fp4, kBlocks), read_mxfp4},
                                                 {kLoomBlocks, Encoding(Dtype::int4, kBlocks), read_loom_blocks}}};
  for (const Carrier& carrier : kCarriers)
    if (carrier.type == type) return &carrier;
  return nullptr;
}

Encoding packed_ternary_encoding() noexcept { return Encoding(Dtype::ternary, Granularity::tensor); }

void pack_codes(std::span<const std::uint8_t> codes, int bits, std::size_t first, std::span<std::byte> bytes) noexcept {
  if (bits == 8) {
    std::memcpy(bytes.data() + first, codes.data(), codes.size());
    return;
  }
  const std::size_t each = 8 / static_cast<std::size_t>(bits);
  for (std::size_t i = 0; i < codes.size(); ++i)
    bytes[(first + i) / each] |= std::byte(codes[i] << ((first + i) % each * static_cast<std::size_t>(bits)));
}

void unpack_codes(std::span<const std::byte> bytes, int bits, std::size_t first,
                  std::span<std::uint8_t> codes) noexcept {
  const std::size_t width = static_cast<std::size_t>(bits), each = 8 / width;
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::uint8_t>(
        std::to_integer<unsigned>(bytes[(first + i) / each]) >> (first + i) % each * width & ((1u << width) - 1));
}

}  // namespace weft::models
