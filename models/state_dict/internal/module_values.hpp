// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/state_dict/internal/modules.hpp"

#include "mesh/persistence/foreign_weights.hpp"

#include "formats/tensor_file.hpp"

#include "core/result.hpp"

namespace weft::models::state_dict {

/// Fills rows of a parameter from a tensor.
Status read_values(const formats::TensorFile& file, const Values& from, const mesh::ParameterRows& wanted);

}  // namespace weft::models::state_dict
