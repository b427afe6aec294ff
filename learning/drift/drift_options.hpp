// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/drift/detector.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <string_view>

namespace weft::learning {

/// Number of a score that a detector takes: 1 for a wrong answer, else 0, or the loss.
enum class DriftInput : int { error, loss };
std::string_view name(DriftInput input) noexcept;

/// The section "drift" of "learning": what looks for changes of the task, and what is done at one.
struct DriftOptions {
  DetectorOptions detector{};
  DriftInput input = DriftInput::error;
  std::uint32_t rate_boost = 1;       // factor of all learning rates at a change, a power of two; 1: none
  std::uint32_t boost_samples = 500;  // scores after which it halves, until it is 1
  std::uint32_t react_every = 32;     // samples between two looks of `weft run` for something to do
  bool checkpoint = false;            // at a change (of an agent)
  bool operator==(const DriftOptions&) const = default;

  bool is_on() const noexcept { return detector.kind != DetectorKind::none; }
  /// Something is done at a change.
  bool has_reactions() const noexcept { return is_on() && (rate_boost > 1 || checkpoint); }
};

/// @error invalid_argument: options that contradict each other
Status check_drift(const DriftOptions& options);

}  // namespace weft::learning
