// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/internal/learner_parts.hpp"

#include <cstdint>
#include <optional>

namespace weft::learning {

/// The sample whose error enters at a tick in its order (pipelined); none: no target came for it by then.
std::optional<std::uint64_t> labelled_at(const LearnerParts& parts, std::uint64_t tick) noexcept;
/// Puts the errors that enter in the next steps (LateSamples::Entry).
void plan_errors(LearnerParts& parts, std::uint64_t steps);
/// Copies the answer that has just left, and scores it where its target came before.
void take_answers(LearnerParts& parts);
/// Adds the scores of a sample, by its answer.
void score_late(LearnerParts& parts, const LateSample& sample);

}  // namespace weft::learning
