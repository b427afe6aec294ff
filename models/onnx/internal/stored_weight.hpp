// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/onnx/internal/onnx_network.hpp"

#include "mesh/persistence/foreign_weights.hpp"

#include "core/encoding.hpp"
#include "core/result.hpp"

#include <map>
#include <optional>
#include <string>

namespace weft::models::onnx {

/// The type of Weft's that holds codes, scales and zero points of a matrix as they are; nothing: none does. Codes of a
/// signed type with zero points, or with its lowest code, are those of the unsigned type, both moved by half its range.
std::optional<Encoding> stored_encoding(const Weight& weight);

/// The type of all matrices of a layer, where it is one; nothing: float32. `lost`: set where some were codes.
std::optional<Encoding> stored_encoding(const std::map<std::string, Weight>& weights, bool& lost);

/// Fills rows of a matrix. @pre stored_encoding(weight) is the node's
Status read_codes(const Weight& weight, const mesh::ParameterCodes& wanted);

}  // namespace weft::models::onnx
