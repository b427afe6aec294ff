// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/export.hpp"

#include <cstddef>
#include <cstdint>

namespace weft::models {

/// Writes what a model has learned since `described`, the file that weft import wrote, as a folder of PEFT:
/// adapter_config.json and adapter_model.safetensors, lora_alpha being the rank. Each matrix' difference is cut to
/// `rank`; of a model that `learning.lora` of that rank moved nothing but roundings is lost, and notes say how much is
/// of others. Tensors that are no matrices of layers, and the embedding, have no adapters: notes name those that moved.
/// `is_forced`, `max_memory` as ExportOptions, of each of the two models.
/// @error as export_model; unsupported: nothing has moved
Result<Exported> export_adapters(storage::FileSystem& files, const std::string& entity, const std::string& out,
                                 const std::string& described, std::size_t rank, bool is_forced = false,
                                 std::uint64_t max_memory = 0);

}  // namespace weft::models
