// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/verb.hpp"

#include "mesh/mesh.hpp"

#include "core/encoding.hpp"
#include "core/result.hpp"

#include <optional>
#include <string>
#include <vector>

namespace weft::cli {

/// `--dtype`, `--granularity`: how weights are to be stored.
struct EncodingFlags {
  std::optional<std::string> dtype, granularity;
};
/// Returns `--dtype`.
Flag add_encoding_flags(CLI::App& verb, EncodingFlags& flags);
/// @error invalid_argument: a granularity without a type, or for a type without scales
Result<std::optional<Encoding>> read_encoding(const EncodingFlags& flags);

/// Layers that have a weight matrix, in grid order.
std::vector<mesh::NodeId> matrix_layers(const mesh::Graph& graph);
/// The layer at "z,y,x,l" or "[z,y,x,l]", or all with a weight matrix for "*".
/// @error invalid_argument: no such text; unknown_name: no layer stands there
Result<std::vector<mesh::NodeId>> find_layers(const mesh::Graph& graph, const std::string& place,
                                              const char* flag = "--layer");

}  // namespace weft::cli
