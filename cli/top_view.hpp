// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace weft::cli {

/// What `weft top` shows of an agent's figures (docs/formats/top.md): lines at most `columns` wide and at most `rows`
/// of them, most wanted first. Figures that are missing or of another kind are left out: the agent may be of another
/// version.
std::vector<std::string> top_view(const nlohmann::json& figures, std::size_t columns, std::size_t rows, bool unicode);

}  // namespace weft::cli
