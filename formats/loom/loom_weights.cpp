// SPDX-License-Identifier: Apache-2.0

#include "formats/internal/load.hpp"
#include "formats/loom/loom_blocks.hpp"
#include "formats/loom/loom_entity.hpp"

#include "core/numeric.hpp"
#include "core/printable.hpp"
#include "core/size_limit.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

namespace weft::formats {
namespace {

// docs/formats/loom_entity.md, "Weights": what Loom's codes stand for. Where its tables differ from those
// of docs/numerics.md, these are its own.

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kFp4[8] = {0.0f, 0.75f, 1.0f, 1.5f, 2.0f, 3.0f, kInfinity, kNan};

float fp4(unsigned code) { return (code & 8) ? -kFp4[code & 7] : kFp4[code & 7]; }

float fp8_e4m3(unsigned code) {
  const int exponent = static_cast<int>(code >> 3 & 15);
  const float mantissa = 1.0f + static_cast<float>(code & 7) / 8.0f;
  // The largest exponent holds numbers too, up to 480. Below the smallest one it is no IEEE format.
  const float value = exponent != 0 ? std::ldexp(mantissa, exponent - 7)
                      : (code & 7)  ? std::ldexp(mantissa, -10)
                                    : 0.0f;
  return (code & 0x80) ? -value : value;
}

float fp8_e5m2(unsigned code) {
  const int exponent = static_cast<int>(code >> 2 & 31);
  float value = std::ldexp(1.0f + static_cast<float>(code & 3) / 4.0f, exponent - 15);
  if (exponent == 31) value = (code & 3) ? kNan : kInfinity;
  if ((code & 0x7F) == 0) value = 0.0f;
  return (code & 0x80) ? -value : value;
}

/// Code number i of codes of less than a byte: the first stands in the highest bits.
unsigned small_code(ByteSpan bytes, std::size_t i, unsigned bits) {
  const std::size_t each = 8 / bits;
  const auto shift = static_cast<unsigned>(8 - bits - (i % each) * bits);
  return std::to_integer<unsigned>(bytes[i / each]) >> shift & ((1u << bits) - 1);
}
float sign_extended(unsigned code, unsigned bits) {
  const int value = static_cast<int>(code);
  return static_cast<float>(code >> (bits - 1) ? value - (1 << bits) : value);
}

template <class T>
T element(ByteSpan bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof value);
  return value;
}

/// Weight number i, before the scale.
float number(Dtype dtype, ByteSpan bytes, std::size_t i) {
  switch (dtype) {
    case Dtype::float64:
      return static_cast<float>(element<double>(bytes, i));
    case Dtype::float32:
      return element<float>(bytes, i);
    case Dtype::float16:
      return numeric::Float16::decode(element<std::uint16_t>(bytes, i));
    case Dtype::bfloat16:
      return std::bit_cast<float>(std::uint32_t{element<std::uint16_t>(bytes, i)} << 16);
    case Dtype::fp8_e4m3:
      return fp8_e4m3(element<std::uint8_t>(bytes, i));
    case Dtype::fp8_e5m2:
      return fp8_e5m2(element<std::uint8_t>(bytes, i));
    case Dtype::fp4:
      return fp4(small_code(bytes, i, 4));
    case Dtype::int64:
      return static_cast<float>(element<std::int64_t>(bytes, i));
    case Dtype::int32:
      return static_cast<float>(element<std::int32_t>(bytes, i));
    case Dtype::int16:
      return static_cast<float>(element<std::int16_t>(bytes, i));
    case Dtype::int8:
      return static_cast<float>(element<std::int8_t>(bytes, i));
    case Dtype::int4:
      return sign_extended(small_code(bytes, i, 4), 4);
    case Dtype::int2:
    case Dtype::ternary:  // two's complement, as int2; old writers made -2 of it
      return sign_extended(small_code(bytes, i, 2), 2);
    case Dtype::uint64:
      return static_cast<float>(element<std::uint64_t>(bytes, i));
    case Dtype::uint32:
      return static_cast<float>(element<std::uint32_t>(bytes, i));
    case Dtype::uint16:
      return static_cast<float>(element<std::uint16_t>(bytes, i));
    case Dtype::uint8:
      return static_cast<float>(element<std::uint8_t>(bytes, i));
    case Dtype::uint4:
      return static_cast<float>(small_code(bytes, i, 4));
    case Dtype::uint2:
      return static_cast<float>(small_code(bytes, i, 2));
    case Dtype::binary:
      return small_code(bytes, i, 1) ? 1.0f : -1.0f;
  }
  WEFT_ASSERT(false, "a Dtype that core/dtypes.def does not name");
  return kNan;
}

bool is_scaled(Dtype dtype) {
  return dtype != Dtype::float64 && dtype != Dtype::float32 && dtype != Dtype::float16 && dtype != Dtype::bfloat16;
}

std::string named(const LoomBlob& blob) { return "blob '" + printable(blob.path) + "': "; }

Failure wrong_form(const LoomBlob& blob, const char* expected) {
  return fail(Errc::invalid_argument, named(blob) + "holds no " + expected);
}

}  // namespace

Status decode_weights_v1(const LoomBlob& blob, std::size_t count, std::size_t first, std::span<float> values) {
  const Dtype dtype = blob.is_native ? blob.dtype : Dtype::float32;
  const std::string object = "blob '" + printable(blob.path) + "': ";
  if (blob.form != LoomBlob::Form::numbers)
    return fail(Errc::unsupported, object + "is packed as only language models are");
  const auto element_bits = static_cast<std::size_t>(bits(dtype));
  constexpr std::size_t kMostWeights = size_limit(40);
  if (count > kMostWeights)
    return fail(Errc::too_large, object + std::to_string(count) + " weights, at most 2^40 are read");
  const std::size_t needed = (count * element_bits + 7) / 8;
  if (blob.bytes.size() != needed)
    return fail(Errc::corrupt, object + std::to_string(count) + " weights of " + std::string(name(dtype)) + " take " +
                                   std::to_string(needed) + " bytes, there are " + std::to_string(blob.bytes.size()));
  const std::size_t used = count * element_bits % 8;
  if (used != 0 && (std::to_integer<unsigned>(blob.bytes.back()) & (0xFFu >> used)) != 0)
    return fail(Errc::corrupt, object + "bits after the last weight are not zero");
  const float scale = is_scaled(dtype) ? blob.scale : 1.0f;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = number(dtype, blob.bytes, first + i) * scale;
    if (!std::isfinite(values[i]))
      return fail(Errc::corrupt, object + "weight " + std::to_string(first + i) + " is not a finite number");
  }
  return {};
}

Result<std::vector<float>> decode_weights_v1(const LoomBlob& blob, std::size_t count) {
  WEFT_CHECK(decode_weights_v1(blob, count, 0, {}));  // before anything is allocated
  std::vector<float> values(count);
  WEFT_CHECK(decode_weights_v1(blob, count, 0, values));
  return values;
}

float LoomBlocks::scale(std::size_t block) const noexcept { return load<float>(scales, block * sizeof(float)); }
int LoomBlocks::number(std::size_t weight) const noexcept {
  const int code = static_cast<int>(std::to_integer<unsigned>(codes[weight / 2]) >> (weight % 2 * 4) & 15);
  return code > 7 ? code - 16 : code;
}

Result<LoomBlocks> loom_blocks(const LoomBlob& blob, std::size_t count) {
  if (blob.form != LoomBlob::Form::blocks) return wrong_form(blob, "blocks");
  constexpr std::size_t kHead = 8, kWord = 4;
  if (blob.bytes.size() < kHead) return fail(Errc::corrupt, named(blob) + "is cut short");
  const std::size_t scales = load<std::uint32_t>(blob.bytes, 0), words = load<std::uint32_t>(blob.bytes, 4);
  const std::size_t blocks = (count + LoomBlocks::kWeights - 1) / LoomBlocks::kWeights;
  const std::size_t code_words = blocks * LoomBlocks::kCodeBytes / kWord;
  if (scales != blocks || words < code_words)
    return fail(Errc::corrupt, named(blob) + std::to_string(scales) + " blocks in " + std::to_string(words) +
                                   " words, expected " + std::to_string(blocks) + " in " + std::to_string(code_words) +
                                   " or more");
  if (blob.bytes.size() - kHead != (scales + words) * kWord)
    return fail(Errc::corrupt, named(blob) + std::to_string(blob.bytes.size()) + " bytes, expected " +
                                   std::to_string(kHead + (scales + words) * kWord));
  const LoomBlocks found{blob.bytes.subspan(kHead, scales * kWord), blob.bytes.subspan(kHead + scales * kWord)};
  const ByteSpan rest = found.codes.subspan(code_words * kWord);
  if (std::any_of(rest.begin(), rest.end(), [](std::byte byte) { return byte != std::byte{0}; }))
    return fail(Errc::corrupt, named(blob) + "words behind the last block are not zero");
  for (std::size_t i = 0; i < blocks; ++i)
    if (const float scale = found.scale(i); !std::isfinite(scale) || scale < 0)
      return fail(Errc::corrupt, named(blob) + "scale " + std::to_string(i) + " is " + std::to_string(scale));
  return found;
}

unsigned LoomTernary::code(std::size_t row, std::size_t col) const noexcept {
  return load<std::uint32_t>(words, (row * row_words + col / 16) * sizeof(std::uint32_t)) >> (col % 16 * 2) & 3;
}

Result<LoomTernary> loom_ternary(const LoomBlob& blob) {
  if (blob.form != LoomBlob::Form::ternary) return wrong_form(blob, "ternary matrix");
  constexpr std::size_t kHead = 24, kWord = 4;
  if (blob.bytes.size() < kHead) return fail(Errc::corrupt, named(blob) + "is cut short");
  const auto word = [&](std::size_t i) { return std::size_t{load<std::uint32_t>(blob.bytes, i * kWord)}; };
  LoomTernary matrix{word(0), word(1), word(4), word(2), load<float>(blob.bytes, 12), blob.bytes.subspan(kHead)};
  const std::size_t row_words = (matrix.cols + 15) / 16;
  if (matrix.row_words == 0) matrix.row_words = row_words;
  // Both are below 2^32.
  if (matrix.row_words != row_words || word(5) != matrix.rows * row_words || matrix.words.size() != word(5) * kWord)
    return fail(Errc::corrupt, named(blob) + "a matrix [" + std::to_string(matrix.rows) + ", " +
                                   std::to_string(matrix.cols) + "] in " + std::to_string(matrix.words.size()) +
                                   " bytes, " + std::to_string(matrix.row_words) + " words a row");
  if (!std::isfinite(matrix.scale))
    return fail(Errc::corrupt, named(blob) + "its scale is " + std::to_string(matrix.scale));
  return matrix;
}

}  // namespace weft::formats
