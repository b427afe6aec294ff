// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/drift/adaptation.hpp"

#include "core/json.hpp"

#include <optional>
#include <string>

namespace weft::cli {

/// Changes of the task and what came of them: each one, and mean and standard deviation over all; null without one.
Json adaptation_json(const learning::AdaptationTracker& tracker);
/// "2 changes; fell by 31.2 %, 58.1 hits lost, back at 95 % after 320"; nothing without one.
std::optional<std::string> adaptation_text(const learning::AdaptationTracker& tracker);

}  // namespace weft::cli
