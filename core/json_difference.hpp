// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace weft {

/// The first place where two documents differ: "learning.rule: "fw_dtp" there, "dfa" here"; nothing when they are
/// equal. Paths that begin with `path`; the one that is `passed_over` may differ.
std::optional<std::string> first_difference(const Json& stored, const Json& given, std::string_view passed_over = "",
                                            const std::string& path = "");

}  // namespace weft
