// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/learner.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <span>

namespace weft::learning {

// For networks of one input, one output and one session. @error invalid_argument: another network; as predict and learn

/// The answer of session 0 as it is now, beside the ticks: x [width] -> y [width].
Status predict_one(const Learner& learner, std::span<const float> x, std::span<float> y);
/// Anomaly score (`anomaly`) of a sample of session 0, as it is now; nothing is learned. Settled, it is that which
/// `learn_one` of the same sample then gives, but for layers that do otherwise in training.
/// @error invalid_argument: learning.anomaly.score is none; as learn_one
Result<float> score_one(const Learner& learner, std::span<const float> x, std::uint32_t label);
Result<float> score_one(const Learner& learner, std::span<const float> x, std::span<const float> values);
/// Learns one sample, by its label or by its values.
Status learn_one(Learner& learner, std::span<const float> x, std::uint32_t label);
Status learn_one(Learner& learner, std::span<const float> x, std::span<const float> values);

}  // namespace weft::learning
