// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"

namespace weft::cli {

/// Prints the description that `weft inspect --json` prints, for people: tables on stdout, as wide as the terminal.
void print_network(const Json& description);

}  // namespace weft::cli
