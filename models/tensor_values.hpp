// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/tensor_file.hpp"

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <span>
#include <string_view>

namespace weft::models {

/// True for types whose values `decode_values` gives: float64, float32, float16, bfloat16 and the blocks of GGUF and
/// of Loom.
bool has_values(std::string_view type) noexcept;

/// Values as float32: float64 rounded to the nearest, all others exactly.
/// @pre `bytes` holds as many values of `type`, in whole blocks
/// @error unsupported: a type without values; of blocks as formats::dequantize
Status decode_values(std::string_view type, ByteSpan bytes, std::span<float> values);

}  // namespace weft::models
