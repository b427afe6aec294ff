// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace weft::formats {

/// A tensor type of GGUF: a row of a tensor is a whole number of blocks, each of `elements` values in `bytes` bytes.
struct GgufType {
  std::string_view name;     ///< as Tensor::type has it: "float32", "q4_K"
  std::uint32_t number = 0;  ///< in the file
  std::size_t elements = 1;
  std::size_t bytes = 0;
  bool in_files = true;  ///< q8_K: an intermediate form that no file holds
};

/// All types that are read, by number.
std::span<const GgufType> gguf_types() noexcept;
/// Nothing where there is no such type.
std::optional<GgufType> find_gguf_type(std::string_view name) noexcept;

/// The values of whole blocks, bit for bit those of ggml, save that subnormal ones are 0 (docs/numerics.md).
/// @pre `blocks` and `values` are of equally many whole blocks of type `type`, which is no plain dtype
/// @error not_finite: a scale that is no finite number, naming the block; unknown_name: not such a type
Status dequantize(std::string_view type, ByteSpan blocks, std::span<float> values);

}  // namespace weft::formats
