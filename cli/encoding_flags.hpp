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
/// The names that `--granularity` takes.
std::vector<std::string> granularity_names();
/// Returns `--dtype`.
Flag add_encoding_flags(CLI::App& verb, EncodingFlags& flags);
/// @error invalid_argument: a granularity without a type, or that the type cannot have
Result<std::optional<Encoding>> read_encoding(const EncodingFlags& flags);

/// `--qat`: learn through the stored weights.
void add_qat_flag(CLI::App& verb, bool& qat);

/// Layers that have a weight matrix whose type is theirs, and not of a layer inside them alone, in grid order.
std::vector<mesh::NodeId> matrix_layers(const mesh::Graph& graph);
/// The layer at "z,y,x,l" or "[z,y,x,l]", or all with a weight matrix for "*".
/// @error invalid_argument: no such text; unknown_name: no layer stands there
Result<std::vector<mesh::NodeId>> find_layers(const mesh::Graph& graph, const std::string& place,
                                              const char* flag = "--layer");

/// A layer inside a container as "z,y,x,l.layers[0]", and deeper "z,y,x,l.layers[0].layers[2]"; null: `place` names no
/// layer inside.
/// @error invalid_argument, unknown_name: naming what is not there
Result<mesh::LayerSpec*> find_inside(mesh::NetworkSpec& spec, const mesh::Graph& graph, const std::string& place,
                                     const char* flag = "--layer");

}  // namespace weft::cli
