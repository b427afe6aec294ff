// SPDX-License-Identifier: Apache-2.0

#include "models/tensor_values.hpp"

#include "models/carriers.hpp"

#include "formats/gguf/gguf_blocks.hpp"

#include "core/dtype.hpp"
#include "core/numeric.hpp"

#include <cstring>
#include <string>
#include <type_traits>

namespace weft::models {
namespace {

/// Floats that stand for themselves, without a scale.
bool is_plain(Dtype dtype) noexcept {
  return dtype == Dtype::float64 || dtype == Dtype::float32 || dtype == Dtype::float16 || dtype == Dtype::bfloat16;
}

template <class Number>
void decode_numbers(ByteSpan bytes, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    typename Number::Code code;
    std::memcpy(&code, bytes.data() + i * sizeof code, sizeof code);
    values[i] = static_cast<float>(Number::decode(code));
  }
}

/// Blocks of kLoomBlocks.
void decode_loom_blocks(ByteSpan bytes, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const ByteSpan block = bytes.subspan(i / 32 * 20, 20);
    float scale = 0;
    std::memcpy(&scale, block.data(), sizeof scale);
    const unsigned code = std::to_integer<unsigned>(block[4 + i % 32 / 2]) >> i % 2 * 4 & 15;
    values[i] = static_cast<float>(code > 7 ? static_cast<int>(code) - 16 : static_cast<int>(code)) * scale;
  }
}

}  // namespace

bool has_values(std::string_view type) noexcept {
  if (const auto dtype = parse_dtype(type)) return is_plain(*dtype);
  return type == kLoomBlocks || formats::find_gguf_type(type).has_value();
}

Status decode_values(std::string_view type, ByteSpan bytes, std::span<float> values) {
  if (type == kLoomBlocks) {
    decode_loom_blocks(bytes, values);
    return {};
  }
  const auto dtype = parse_dtype(type);
  if (!dtype && formats::find_gguf_type(type)) return formats::dequantize(type, bytes, values);
  if (!dtype || !is_plain(*dtype)) return fail(Errc::unsupported, std::string(type) + " is no type of weights here");
  if (*dtype == Dtype::float64)
    decode_numbers<numeric::Float64>(bytes, values);
  else if (*dtype == Dtype::float16)
    decode_numbers<numeric::Float16>(bytes, values);
  else if (*dtype == Dtype::bfloat16)
    decode_numbers<numeric::Bfloat16>(bytes, values);
  else
    std::memcpy(values.data(), bytes.data(), values.size_bytes());
  return {};
}

}  // namespace weft::models
