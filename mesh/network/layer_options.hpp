// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/fwd.hpp"

#include "core/coord.hpp"
#include "core/result.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace weft::mesh {

/// One setting of a layer as the network file or the builder gave it.
using OptionValue = std::variant<bool, double, std::string, std::vector<double>>;

/// The settings that a layer type reads for itself (activation, bias, epsilon, ...), by name.
using Options = std::map<std::string, OptionValue, std::less<>>;

/// Properties of the surrounding network that a layer's factory may use.
struct LayerContext {
  /// The Philox key of what the layer draws while it runs: of the network's seed and its own place.
  std::array<std::uint32_t, 2> noise_key{};
  /// Containers around it.
  unsigned depth = 0;
  /// The layer at a place of the grid, for a container that computes with its weights. Null: there is no grid.
  std::function<Result<std::shared_ptr<const Layer>>(Coord)> find_tied;
};

}  // namespace weft::mesh
