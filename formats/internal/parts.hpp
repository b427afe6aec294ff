// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/tensor_file.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace weft::formats {

/// Tensors in the order given, in parts of at most `most_bytes`; one that has more is a part by itself. At least one
/// part, which without tensors is empty. `bytes_of(tensor)`: its bytes in the file.
template <class BytesOf>
std::vector<std::vector<Tensor>> parts_of(std::vector<Tensor> tensors, std::uint64_t most_bytes,
                                          const BytesOf& bytes_of) {
  std::vector<std::vector<Tensor>> parts(1);
  std::uint64_t held = 0;
  for (Tensor& tensor : tensors) {
    const std::uint64_t bytes = bytes_of(tensor);
    if (!parts.back().empty() && (bytes > most_bytes || held > most_bytes - bytes)) {
      parts.emplace_back();
      held = 0;
    }
    held += bytes;
    parts.back().push_back(std::move(tensor));
  }
  return parts;
}

}  // namespace weft::formats
