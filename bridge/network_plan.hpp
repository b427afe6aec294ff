// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "bridge/bedrock.hpp"

#include "mesh/network/network.hpp"

#include "core/coord.hpp"
#include "core/json.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace weft::bridge {

/// A network of Weft as a payload describes it, and the values of its parameters.
struct NetworkPlan {
  struct Parameter {
    Coord at;
    std::string name;           ///< "weight", "bias": a name of the layer's parameters
    std::vector<float> values;  ///< row-major [out, in], or a vector
  };
  /// Port whose values are token ids: entry `zero_entry` of the table, its last one, is all zeros and stands for every
  /// id outside of it.
  struct Tokens {
    std::size_t port = 0, zero_entry = 0;
  };

  Bedrock bedrock = Bedrock::dense;
  mesh::NetworkSpec spec;  ///< its inputs are the ports of a sample, its only output is "out"
  std::vector<Parameter> parameters;
  std::optional<Tokens> tokens;
  bool centres_rows = false;  ///< the first layer subtracts the mean of each row, so it may be done before
  std::size_t layer_count = 0;
  std::size_t weight_bytes = 0;  ///< as the answer counts them
  std::size_t widest = 0;        ///< values of the widest layer or port of a sample
  std::size_t row = 0;           ///< values that the network gives for a sample
  std::size_t output_dim = 0;    ///< values of a row of the answer; more than `row`: zeros follow (mixer)
};

/// Makes the plan of a payload: layers in their order, each reading the one before it; of `residual` one addition of
/// the ports "main" and "skip"; of `mixer` the fixed network that its model_id names, of the ports "in" and "tokens".
/// @error parse_failed, out_of_range, shape_mismatch, not_finite, too_large: naming layer and field, what was found and
///        what is wanted
/// @source own description of planetbridging 0.7.3's payloads (docs/bridge.md)
Result<NetworkPlan> plan_network(Bedrock bedrock, const Json& payload);

}  // namespace weft::bridge
