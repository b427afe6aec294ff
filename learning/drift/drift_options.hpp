// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/drift/detector.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <string_view>

namespace weft::learning {

struct LearningOptions;

/// Number that a detector takes: of a score, 1 for a wrong answer, else 0, or the loss; of an agent that acts, the size
/// of each temporal-difference error, or each episode's return, with its sign turned round: what is worse is larger.
enum class DriftInput : int { error, loss, td_error, episode_return };
std::string_view name(DriftInput input) noexcept;
/// True for numbers that come from acting in an environment.
constexpr bool is_of_acting(DriftInput input) noexcept { return input >= DriftInput::td_error; }

/// Weights that take the place of the present ones at a change: those that the network began with, or those that are
/// right most often of these, of the present ones and of earlier ones.
enum class Swap : int { none, initial, best };
std::string_view name(Swap swap) noexcept;

/// The section "drift" of "learning": what looks for changes of the task, and what is done at one.
struct DriftOptions {
  DetectorOptions detector{};
  DriftInput input = DriftInput::error;
  std::uint32_t rate_boost = 1;       // factor of all learning rates at a change, a power of two; 1: none
  std::uint32_t boost_samples = 500;  // scores after which it halves, until it is 1
  std::uint32_t react_every = 32;     // samples between two looks of `weft run` for something to do
  bool checkpoint = false;            // at a change (of an agent)
  float renew = 0.0f;                 // share of each hidden layer's units that begin anew at a change
  Swap swap = Swap::none;             // at a change
  std::uint32_t swap_weights = 4;     // earlier weights that are kept (best)
  std::uint32_t swap_every = 500;     // samples from one copy of the weights to the next (best)
  std::uint32_t swap_samples = 64;    // the last ones with a label, by which weights are compared (best)
  bool operator==(const DriftOptions&) const = default;

  bool is_on() const noexcept { return detector.kind != DetectorKind::none; }
  /// Something is done at a change.
  bool has_reactions() const noexcept { return is_on() && (rate_boost > 1 || checkpoint || renews() || swaps()); }
  bool renews() const noexcept { return is_on() && renew > 0.0f; }
  bool swaps() const noexcept { return is_on() && swap != Swap::none; }
};

/// @error invalid_argument: options that contradict each other
Status check_drift(const DriftOptions& options);
/// Actions at a change against the other sections. @error invalid_argument
Status check_drift_actions(const LearningOptions& options);

}  // namespace weft::learning
