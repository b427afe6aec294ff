// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/decoder.hpp"
#include "models/family.hpp"
#include "models/internal/planned_tensor.hpp"

#include "mesh/fwd.hpp"

#include "formats/entity/entity.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft::models::internal {

/// A language model that weft import made, loaded, and its description.
struct DescribedModel {
  const Family* family = nullptr;
  Json config;
  Decoder decoder;
  std::string name;
  std::shared_ptr<const mesh::Mesh> mesh;

  /// Matrices of blocks are ternary, four codes a byte, in the files of Hugging Face.
  bool is_packed() const noexcept {
    return decoder.ternary == TernaryBlocks::packed || decoder.ternary == TernaryBlocks::packed_inverse;
  }
};

/// Weights and network of one file, description of another, or of the same. `max_memory`: bytes that the mesh may take
/// by estimate; 0: no bound but the machine's. @error unsupported: no description; too_large
Result<DescribedModel> load_described(const formats::EntityFile& weights, const formats::EntityFile& described,
                                      std::uint64_t max_memory = 0);

/// The tensors that it has in a GGUF file or one of Hugging Face, as float32 or in the 16 bits that its matrices have.
/// @error unsupported: the network is not that of the description; packed matrices that are ternary no more
Result<std::vector<PlannedTensor>> plan_tensors(const DescribedModel& model, bool is_gguf);

}  // namespace weft::models::internal
