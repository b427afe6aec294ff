// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <string>

namespace weft::cli {

/// An SVG picture as PNG, by the program `rsvg-convert` of librsvg, which is looked for in PATH.
/// @error unsupported: it is not there; storage: it fails, with what it says
Result<std::string> png_of(const std::string& svg);

}  // namespace weft::cli
