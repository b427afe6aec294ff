// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/network.hpp"

#include <string>
#include <string_view>

namespace weft::mesh {

/// Reads a network file (docs/formats/network.md). Only the text is checked here; `Graph::build` checks the network.
/// @error parse_failed, unknown_name, out_of_range, duplicate_name: naming source, line or path ("layers[3].dtype"),
/// what
///        was found and what is expected
Result<NetworkSpec> read_network(std::string_view json, std::string_view source_name);

/// The JSON of a network: reads back equal; keys sorted, so that one network has one text.
Result<std::string> write_network(const NetworkSpec& spec, int indent = 1);

}  // namespace weft::mesh
