// SPDX-License-Identifier: Apache-2.0

#include "formats/gguf/gguf_blocks.hpp"

#include "formats/internal/load.hpp"

#include "core/assert.hpp"
#include "core/numeric.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

namespace weft::formats {
namespace {

// docs/formats/gguf.md, "Blocks". A decoder reads one block; e is the element, offsets are in bytes.

/// Bytes of one block.
class Block {
 public:
  explicit Block(const std::byte* at) : at_(at) {}
  unsigned operator[](std::size_t i) const { return std::to_integer<unsigned>(at_[i]); }
  int signed_at(std::size_t i) const { return static_cast<std::int8_t>(at_[i]); }
  float half(std::size_t i) const {
    return numeric::Float16::decode(static_cast<std::uint16_t>((*this)[i] | (*this)[i + 1] << 8));
  }
  unsigned nibble(std::size_t i, bool is_high) const { return is_high ? (*this)[i] >> 4 : (*this)[i] & 15; }
  unsigned bit(std::size_t i, std::size_t number) const { return (*this)[i + number / 8] >> (number % 8) & 1; }

 private:
  const std::byte* at_;
};

/// To float32, rounded once, subnormals as 0 whatever the thread's rounding mode says.
float flushed(double value) {
  if (std::abs(value) < static_cast<double>(std::numeric_limits<float>::min()))
    return std::signbit(value) ? -0.0f : 0.0f;
  return static_cast<float>(value);
}
float real(unsigned value) { return static_cast<float>(value); }
float real(int value) { return static_cast<float>(value); }

// Code 8 is +0, as ggml has it.
constexpr std::array<float, 16> kOcpE2m1{0.0f, 0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                         0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
constexpr std::array<int, 16> kNonLinear{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// Nibble of element e where the low halves of 16 bytes from `at` come first.
unsigned split_nibble(Block b, std::size_t at, std::size_t e) { return b.nibble(at + e % 16, e >= 16); }
/// Two bits of element e of 256: four runs of 32 share the bytes of a half.
unsigned two_bits(Block b, std::size_t at, std::size_t e) {
  return b[at + 32 * (e / 128) + e % 32] >> (2 * (e % 128 / 32)) & 3;
}

void q4_0(Block b, float* y) {
  for (std::size_t e = 0; e < 32; ++e) y[e] = b.half(0) * real(static_cast<int>(split_nibble(b, 2, e)) - 8);
}
void q4_1(Block b, float* y) {
  for (std::size_t e = 0; e < 32; ++e) y[e] = b.half(0) * real(split_nibble(b, 4, e)) + b.half(2);
}
void q5_0(Block b, float* y) {
  for (std::size_t e = 0; e < 32; ++e)
    y[e] = b.half(0) * real(static_cast<int>(split_nibble(b, 6, e) + 16 * b.bit(2, e)) - 16);
}
void q5_1(Block b, float* y) {
  for (std::size_t e = 0; e < 32; ++e) y[e] = b.half(0) * real(split_nibble(b, 8, e) + 16 * b.bit(4, e)) + b.half(2);
}
void q8_0(Block b, float* y) {
  for (std::size_t e = 0; e < 32; ++e) y[e] = b.half(0) * real(b.signed_at(2 + e));
}
void q2_k(Block b, float* y) {
  for (std::size_t e = 0; e < 256; ++e)
    y[e] = b.half(80) * real((b[e / 16] & 15) * two_bits(b, 16, e)) - b.half(82) * real(b[e / 16] >> 4);
}
void q3_k(Block b, float* y) {
  for (std::size_t e = 0; e < 256; ++e) {
    const std::size_t j = e / 16;
    const unsigned scale = b.nibble(96 + j % 8, j >= 8) + 16 * (b[104 + j % 4] >> (2 * (j / 4)) & 3);
    const int code = static_cast<int>(two_bits(b, 32, e)) - (b[e % 32] >> (e / 32) & 1 ? 0 : 4);
    y[e] = b.half(108) * real(static_cast<int>(scale) - 32) * real(code);
  }
}

struct ScaleAndMin {
  unsigned scale, min;
};
/// The j-th of eight pairs of 6 bits in 12 bytes from `at`.
ScaleAndMin six_bits(Block b, std::size_t at, std::size_t j) {
  if (j < 4) return {b[at + j] & 63, b[at + j + 4] & 63};
  return {(b[at + j + 4] & 15) | b[at + j - 4] >> 6 << 4, b[at + j + 4] >> 4 | b[at + j] >> 6 << 4};
}
void q4_k(Block b, float* y) {
  for (std::size_t e = 0; e < 256; ++e) {
    const auto [scale, min] = six_bits(b, 4, e / 32);
    y[e] = b.half(0) * real(scale * b.nibble(16 + 32 * (e / 64) + e % 32, e / 32 % 2 == 1)) - b.half(2) * real(min);
  }
}
void q5_k(Block b, float* y) {
  for (std::size_t e = 0; e < 256; ++e) {
    const auto [scale, min] = six_bits(b, 4, e / 32);
    const unsigned low = b.nibble(48 + 32 * (e / 64) + e % 32, e / 32 % 2 == 1);
    y[e] = b.half(0) * real(scale * (low + 16 * (b[16 + e % 32] >> (e / 32) & 1))) - b.half(2) * real(min);
  }
}
void q6_k(Block b, float* y) {
  for (std::size_t e = 0; e < 256; ++e) {
    const std::size_t n = e / 128, k = e % 128 / 32, l = e % 32;
    const unsigned low = b.nibble(64 * n + 32 * (k & 1) + l, k >= 2), high = b[128 + 32 * n + l] >> (2 * k) & 3;
    y[e] = b.half(208) * real(b.signed_at(192 + e / 16)) * real(static_cast<int>(low + 16 * high) - 32);
  }
}
void q8_k(Block b, float* y) {
  const float scale = std::bit_cast<float>(static_cast<std::uint32_t>(b[0] | b[1] << 8 | b[2] << 16 | b[3] << 24));
  for (std::size_t e = 0; e < 256; ++e) y[e] = flushed(static_cast<double>(scale) * b.signed_at(4 + e));
}
void tq1_0(Block b, float* y) {
  constexpr unsigned kPowers[] = {1, 3, 9, 27, 81};
  for (std::size_t e = 0; e < 256; ++e) {
    const bool is_first = e < 160, is_last = e >= 240;
    const std::size_t n = is_first ? e / 32 : is_last ? (e - 240) / 4 : (e - 160) / 16;
    const unsigned x = is_first ? b[e % 32] : is_last ? b[48 + (e - 240) % 4] : b[32 + (e - 160) % 16];
    y[e] = b.half(52) * real(static_cast<int>((x * kPowers[n] & 255) * 3 >> 8) - 1);
  }
}
void tq2_0(Block b, float* y) {
  for (std::size_t e = 0; e < 256; ++e) y[e] = b.half(64) * real(static_cast<int>(two_bits(b, 0, e)) - 1);
}
void iq4_nl(Block b, float* y) {
  for (std::size_t e = 0; e < 32; ++e) y[e] = b.half(0) * real(kNonLinear[split_nibble(b, 2, e)]);
}
void iq4_xs(Block b, float* y) {
  for (std::size_t e = 0; e < 256; ++e) {
    const std::size_t j = e / 32;
    const unsigned scale = b.nibble(4 + j / 2, j % 2 == 1) + 16 * (b[2 + j / 4] >> (2 * (j % 4)) & 3);
    const unsigned code = b.nibble(8 + 16 * j + e % 16, e % 32 >= 16);
    y[e] = b.half(0) * real(static_cast<int>(scale) - 32) * real(kNonLinear[code]);
  }
}
void mxfp4(Block b, float* y) {
  const double scale = std::ldexp(1.0, static_cast<int>(b[0]) - 127);
  for (std::size_t e = 0; e < 32; ++e) y[e] = flushed(static_cast<double>(kOcpE2m1[split_nibble(b, 1, e)]) * scale);
}
void nvfp4(Block b, float* y) {
  for (std::size_t e = 0; e < 64; ++e) {
    const unsigned code = b[e / 16];
    // E4M3 without its sign; 0x7f is 0, and 0xff the number that would follow the largest.
    const float scale = code == 0x7f   ? 0.0f
                        : code == 0xff ? 480.0f
                                       : numeric::Fp8E4m3::decode(static_cast<std::uint8_t>(code & 0x7f));
    y[e] = kOcpE2m1[b.nibble(4 + 8 * (e / 16) + e % 8, e % 16 >= 8)] * scale;
  }
}
void q1_0(Block b, float* y) {
  for (std::size_t e = 0; e < 128; ++e) y[e] = b.bit(2, e) ? b.half(0) : -b.half(0);
}
void q2_0(Block b, float* y) {
  for (std::size_t e = 0; e < 64; ++e) y[e] = b.half(0) * real(static_cast<int>(b[2 + e / 4] >> (2 * (e % 4)) & 3) - 1);
}

/// Form of a block's scales, which are looked at before they are believed.
enum class Scales { halves, float32, e8m0, e4m3 };
struct Decoder {
  std::uint32_t number;
  void (*decode)(Block, float*);
  Scales kind;
  std::array<int, 2> at;  // -1: none
};
constexpr Decoder kDecoders[] = {
    {2, q4_0, Scales::halves, {0, -1}},    {3, q4_1, Scales::halves, {0, 2}},     {6, q5_0, Scales::halves, {0, -1}},
    {7, q5_1, Scales::halves, {0, 2}},     {8, q8_0, Scales::halves, {0, -1}},    {10, q2_k, Scales::halves, {80, 82}},
    {11, q3_k, Scales::halves, {108, -1}}, {12, q4_k, Scales::halves, {0, 2}},    {13, q5_k, Scales::halves, {0, 2}},
    {14, q6_k, Scales::halves, {208, -1}}, {15, q8_k, Scales::float32, {0, -1}},  {20, iq4_nl, Scales::halves, {0, -1}},
    {23, iq4_xs, Scales::halves, {0, -1}}, {34, tq1_0, Scales::halves, {52, -1}}, {35, tq2_0, Scales::halves, {64, -1}},
    {39, mxfp4, Scales::e8m0, {0, -1}},    {40, nvfp4, Scales::e4m3, {0, -1}},    {41, q1_0, Scales::halves, {0, -1}},
    {42, q2_0, Scales::halves, {0, -1}}};

constexpr GgufType kGgufTypes[] = {
    {"float32", 0, 1, 4},          {"float16", 1, 1, 2},   {"q4_0", 2, 32, 18},      {"q4_1", 3, 32, 20},
    {"q5_0", 6, 32, 22},           {"q5_1", 7, 32, 24},    {"q8_0", 8, 32, 34},      {"q2_K", 10, 256, 84},
    {"q3_K", 11, 256, 110},        {"q4_K", 12, 256, 144}, {"q5_K", 13, 256, 176},   {"q6_K", 14, 256, 210},
    {"q8_K", 15, 256, 292, false}, {"iq4_nl", 20, 32, 18}, {"iq4_xs", 23, 256, 136}, {"int8", 24, 1, 1},
    {"int16", 25, 1, 2},           {"int32", 26, 1, 4},    {"int64", 27, 1, 8},      {"float64", 28, 1, 8},
    {"bfloat16", 30, 1, 2},        {"tq1_0", 34, 256, 54}, {"tq2_0", 35, 256, 66},   {"mxfp4", 39, 32, 17},
    {"nvfp4", 40, 64, 36},         {"q1_0", 41, 128, 18},  {"q2_0", 42, 64, 18}};

bool has_finite_scales(const Decoder& decoder, const std::byte* block) {
  const Block b(block);
  switch (decoder.kind) {
    case Scales::halves:
      return std::all_of(decoder.at.begin(), decoder.at.end(),
                         [&](int at) { return at < 0 || (b[static_cast<std::size_t>(at) + 1] & 0x7c) != 0x7c; });
    case Scales::float32:
      return (b[3] & 0x7f) != 0x7f || (b[2] & 0x80) == 0;
    case Scales::e8m0:
      return b[0] != 255;
    case Scales::e4m3:
      return true;  // its NaN is read as 0
  }
  return false;
}

}  // namespace

std::span<const GgufType> gguf_types() noexcept { return kGgufTypes; }

std::optional<GgufType> find_gguf_type(std::string_view name) noexcept {
  for (const GgufType& type : kGgufTypes)
    if (type.name == name) return type;
  return std::nullopt;
}

Status dequantize(std::string_view type, ByteSpan blocks, std::span<float> values) {
  const auto row = find_gguf_type(type);
  const auto* const decoder = row ? std::find_if(std::begin(kDecoders), std::end(kDecoders),
                                                 [&](const Decoder& one) { return one.number == row->number; })
                                  : std::end(kDecoders);
  if (decoder == std::end(kDecoders))
    return fail(Errc::unknown_name, "type " + in_quotes(type) + " has no blocks that Weft decodes");
  const std::size_t count = blocks.size() / row->bytes;
  WEFT_ASSERT(count * row->bytes == blocks.size() && count * row->elements == values.size(),
              "bytes that are no whole blocks, or values of another number of them");
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* const block = blocks.data() + i * row->bytes;
    if (!has_finite_scales(*decoder, block))
      return fail(Errc::not_finite, std::string(type) + ": the scale of block " + std::to_string(i) + " is not finite");
    decoder->decode(Block(block), values.data() + i * row->elements);
  }
  return {};
}

}  // namespace weft::formats
