// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/internal/jinja_tree.hpp"

#include "core/result.hpp"

#include <string>

namespace weft::text::jinja {

/// Levels of a template: of expressions, and of blocks within blocks.
constexpr std::size_t kMostLevels = 100;

/// A template's tree. @error parse_failed, unsupported, too_large, all with line and column
Result<Tree> parse(std::string source);

}  // namespace weft::text::jinja
