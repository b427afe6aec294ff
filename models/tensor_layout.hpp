// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/decoder_network.hpp"
#include "models/family.hpp"

#include "core/shape.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace weft::models {

/// Name of a part's tensor in a GGUF file, or in one of Hugging Face, where inner models lack the family's prefix.
std::string tensor_name(const Family& family, bool is_gguf, bool has_prefix, std::string_view part,
                        const std::optional<std::size_t>& block, bool is_bias);

/// Place of a parameter's values in its tensor.
struct TensorLayout {
  Shape shape;                   // of the tensor, outermost first
  std::size_t first_row = 0;     // of the parameter's rows
  std::size_t paired_heads = 0;  // rows of so many heads stand as 0, n/2, 1, n/2 + 1, ...; 0: in order
  bool is_transposed = false;    // the parameter's rows are the tensor's columns
  float added = 0;               // to each of the tensor's values

  /// The tensor's row, or column where it is transposed, of a parameter's row; `out`: how many the parameter has.
  std::size_t row_of(std::size_t out, std::size_t row) const noexcept {
    if (paired_heads == 0) return first_row + row;
    const std::size_t n = out / paired_heads, head = row / n, i = row % n;
    return first_row + head * n + 2 * (i % (n / 2)) + i / (n / 2);
  }
};
TensorLayout tensor_layout(const Family& family, bool is_gguf, const ParameterPlace& place);

}  // namespace weft::models
