// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

namespace weft {

/// The path of a file of the source tree: "examples/digits.json". One object file alone knows where the tree lies, so
/// that a compiler cache serves all others from any checkout.
std::string source_path(const std::string& name);

}  // namespace weft
