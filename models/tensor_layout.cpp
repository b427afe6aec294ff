// SPDX-License-Identifier: Apache-2.0

#include "models/tensor_layout.hpp"

#include <utility>

namespace weft::models {

std::string tensor_name(const Family& family, bool is_gguf, bool has_prefix, std::string_view part,
                        const std::optional<std::size_t>& block, bool is_bias) {
  const std::string end = is_bias ? ".bias" : ".weight";
  if (is_gguf) return (block ? "blk." + std::to_string(*block) + "." : "") + std::string(part) + end;
  std::string_view own = part;
  for (const PartName& row : family.parts)
    if (row.gguf == part) own = row.hugging_face;
  std::string name = has_prefix && part != "output" ? std::string(family.prefix) : "";
  if (block) name += std::string(family.blocks) + std::to_string(*block) + ".";
  return name + std::string(own) + end;
}

TensorLayout tensor_layout(const Family& family, bool is_gguf, const ParameterPlace& place) {
  const bool is_matrix = place.in != 0;
  TensorLayout layout;
  layout.first_row = place.first_row;
  layout.is_transposed =
      is_matrix && place.is_transposed != (!is_gguf && family.has_transposed_matrices && place.block.has_value());
  layout.shape = {place.rows};
  if (is_matrix) layout.shape = layout.is_transposed ? Shape{place.in, place.rows} : Shape{place.rows, place.in};
  if (is_gguf && family.has_paired_rows) layout.paired_heads = place.heads;
  if (!is_gguf && family.has_gains_less_one && !is_matrix && !place.is_bias) layout.added = 1;
  return layout;
}

}  // namespace weft::models
