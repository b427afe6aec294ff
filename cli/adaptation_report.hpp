// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/drift/adaptation.hpp"
#include "learning/drift/change_availability.hpp"

#include "core/json.hpp"

#include <optional>
#include <string>

namespace weft::cli {

/// Time that an answer has, that of `--rate` from one sample to the next, and answers in time around changes.
struct Deadline {
  double seconds = 0;
  const learning::ChangeAvailability* answers = nullptr;  // null: without a rate no answer has a deadline
};

/// Changes of the task and what came of them: each one, and mean and standard deviation over all; null without one.
Json adaptation_json(const learning::AdaptationTracker& tracker, const Deadline& deadline);
/// "2 changes; fell by 31.2 %, 58.1 hits lost, back at 95 % after 320, 99.1 % of answers in time"; nothing without one.
std::optional<std::string> adaptation_text(const learning::AdaptationTracker& tracker, const Deadline& deadline);

}  // namespace weft::cli
