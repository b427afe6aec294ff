// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace weft::cli {

/// Screen of `weft top` from an agent's statistics (docs/formats/top.md): at most `rows` lines of at most `columns`,
/// most important first. Keys that are missing or of another type are left out: the agent may be of another version.
std::vector<std::string> top_view(const Json& statistics, std::size_t columns, std::size_t rows, bool unicode);

}  // namespace weft::cli
