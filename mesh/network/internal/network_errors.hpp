// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/coord.hpp"
#include "core/result.hpp"
#include "core/shape.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace weft::mesh::internal {

/// Path of a key in the network file, with the layer's place: "layers[3].out ([0,1,0,0])".
inline std::string key_path(std::size_t position, Coord at, std::string_view key) {
  return "layers[" + std::to_string(position) + "]." + std::string(key) + " (" + to_string(at) + ")";
}

/// The number of values of a shape that a network states.
/// @error out_of_range: no axis, more than 8, an empty one, more than 2^24 values
Result<std::size_t> check_extents(const std::string& object, const Shape& shape);

}  // namespace weft::mesh::internal
