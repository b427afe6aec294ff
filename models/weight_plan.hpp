// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/config_reader.hpp"
#include "models/decoder_network.hpp"
#include "models/model_files.hpp"
#include "models/peft.hpp"
#include "models/tensor_layout.hpp"

#include "mesh/persistence/foreign_weights.hpp"

#include "core/encoding.hpp"
#include "core/result.hpp"
#include "core/shape.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::models {

/// Type of Origin: four ternary codes a byte, as BitNet b1.58 keeps them. Of a matrix [out, in] the byte [r][k] holds
/// the rows r, r + out/4, r + out/2 and r + 3 out/4, the first in its low bits; 0, 1, 2 stand for -1, 0, 1.
inline constexpr std::string_view kPackedTernary = "packed ternary";

/// Tensor of a model's files that has a parameter's values.
struct Origin {
  std::string tensor;
  std::string type;
  TensorLayout layout;
  std::string scale = {};          // tensor [1] that the values are multiplied with; of a packed matrix its scale
  bool is_scale_inverted = false;  // it divides
  std::string adapter = {};        // among LoraAdapters::pairs(); empty: none
  std::size_t adapter_row = 0;     // of the parameter's first row
};

/// The encoding whose codes a type of files holds: those of carriers and kPackedTernary; nothing: it must be quantized.
/// Scales that are multiplied with another are float32.
std::optional<Encoding> carried_encoding(const Origin& origin) noexcept;

/// The origin of every parameter of a decoder's network, by depth and name.
struct WeightPlan {
  std::map<std::pair<std::uint32_t, std::string>, Origin> origins;
  std::vector<std::string> notes;
  std::shared_ptr<const LoraAdapters> adapters = nullptr;  // that are added to the tensors' values
};

/// `adapters`: null, or what is added to matrices. `found`: what is wrong already, and is told with the rest.
/// @error corrupt: all that does not fit, at once: tensors that are missing, have another shape or a type without
///        values, and those that belong to no part of the network; adapters likewise
Result<WeightPlan> plan_weights(const ModelFiles& opened, const Decoder& decoder, const DecoderNetwork& network,
                                std::shared_ptr<const LoraAdapters> adapters = nullptr, Problems found = {});

/// Weights as the plan says: values, and codes where a layer's type is the one that its tensor holds.
struct PlannedWeights {
  mesh::ReadParameter values;
  mesh::ReadCodes codes;
};
/// Holds one tensor at a time. Values that are not finite are refused by tensor and index, or given as they are.
/// @error not_finite
PlannedWeights planned_weights(std::shared_ptr<const formats::TensorFile> tensors, WeightPlan plan,
                               bool allows_nonfinite = false);

}  // namespace weft::models
