// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/learner.hpp"

#include "core/json.hpp"

namespace weft::cli {

/// A learner's detector of drift, as `done` events have it; null: there is none.
Json drift_json(const learning::Learner& learner);

}  // namespace weft::cli
