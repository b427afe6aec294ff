// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/decoder_network.hpp"
#include "models/model_files.hpp"
#include "models/tensor_layout.hpp"

#include "mesh/persistence/foreign_weights.hpp"

#include "core/result.hpp"
#include "core/shape.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace weft::models {

/// Tensor of a model's files that has a parameter's values.
struct Origin {
  std::string tensor;
  std::string type;
  TensorLayout layout;
};

/// The origin of every parameter of a decoder's network, by depth and name.
struct WeightPlan {
  std::map<std::pair<std::uint32_t, std::string>, Origin> origins;
  std::vector<std::string> notes;
};

/// @error corrupt: all that does not fit, at once: tensors that are missing, have another shape or a type without
///        values, and those that belong to no part of the network
Result<WeightPlan> plan_weights(const ModelFiles& opened, const Decoder& decoder, const DecoderNetwork& network);

/// Reads parameters as the plan says; holds one tensor at a time.
mesh::ReadParameter parameter_reader(std::shared_ptr<const formats::TensorFile> tensors, WeightPlan plan);

}  // namespace weft::models
