// SPDX-License-Identifier: Apache-2.0

#include "models/state_dict/internal/module_values.hpp"

#include "models/tensor_values.hpp"

#include <algorithm>
#include <vector>

namespace weft::models::state_dict {

Status read_values(const formats::TensorFile& file, const Values& from, const mesh::ParameterRows& wanted) {
  WEFT_TRY(const formats::Tensor tensor, file.find(from.tensor));
  const std::size_t in = std::max<std::size_t>(wanted.spec.in, 1), rows = wanted.values.size() / in;
  const std::size_t first = from.first_row + wanted.first;
  std::size_t count = 1;
  for (const std::size_t extent : tensor.shape) count *= extent;
  const std::size_t bytes = tensor.bytes.size() / count;
  if (!from.is_transposed) {
    WEFT_CHECK(decode_values(tensor.type, tensor.bytes.subspan(first * in * bytes, rows * in * bytes), wanted.values));
    return file.intact();
  }
  std::vector<float> column(rows);
  for (std::size_t k = 0; k < in; ++k) {
    const std::size_t at = (k * tensor.shape[1] + first) * bytes;
    WEFT_CHECK(decode_values(tensor.type, tensor.bytes.subspan(at, rows * bytes), column));
    for (std::size_t i = 0; i < rows; ++i) wanted.values[i * in + k] = column[i];
  }
  return file.intact();
}

}  // namespace weft::models::state_dict
