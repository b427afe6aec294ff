// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"

#include <string_view>
#include <vector>

namespace weft::mesh {

/// Layer types as `weft layers --json` shows them, sorted: {"type", "formula", "takes", "gives", "options": [...]}, an
/// option as core/option_row.hpp writes it. The JSON Schema of network files and the page of layers are made of it
/// (tools/make_network_schema.py). Registered types too.
std::vector<Json> layer_listing();

}  // namespace weft::mesh
