// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft::learning {

struct LearningOptions;

/// Learning from stored samples beside new ones. er: by their labels; der++: also by the answers of the time when they
/// were stored.
enum class ReplayMethod : int { none, er, der };
std::string_view name(ReplayMethod method) noexcept;

/// The section "replay" of "learning".
struct ReplayOptions {
  ReplayMethod method = ReplayMethod::none;
  std::uint32_t samples = 1;     // stored ones in each update, beside those of the learners
  std::uint32_t capacity = 500;  // samples that are stored at most
  float alpha = 0.5f;            // of the distance to the answers of then (der++)
  float beta = 1.0f;             // of a stored sample's loss, beside a new one's
  bool operator==(const ReplayOptions&) const = default;

  bool is_on() const noexcept { return method != ReplayMethod::none; }
  bool has_answers() const noexcept { return method == ReplayMethod::der; }
  /// Rows of an update that are of stored samples.
  std::size_t rows() const noexcept { return is_on() ? samples : 0; }
};

/// Ways to hold weights near those that learned what was before: by the loss's dependence on each (ewc), by what each
/// did for the loss (si), or by the answers of the network of then to the samples of now (lwf).
enum class Consolidation : int { none, ewc, si, lwf };
std::string_view name(Consolidation method) noexcept;

/// The section "consolidation" of "learning".
struct ConsolidationOptions {
  Consolidation method = Consolidation::none;
  std::uint32_t every = 1000;  // updates from one consolidation to the next
  float strength = 1.0f;
  float decay = 1.0f;        // of the importance of what was before, at each consolidation (ewc)
  float damping = 0.1f;      // added to the squares of the ways that weights went (si)
  float temperature = 2.0f;  // of the answers that are compared (lwf)
  bool operator==(const ConsolidationOptions&) const = default;

  bool is_on() const noexcept { return method != Consolidation::none; }
  bool weighs() const noexcept { return method == Consolidation::ewc || method == Consolidation::si; }
  bool guides() const noexcept { return method == Consolidation::lwf; }
  /// Arrays beside each weight.
  std::size_t arrays() const noexcept { return weighs() ? 3 : guides() ? 1 : 0; }
  bool is_due(std::uint64_t updates) const noexcept { return is_on() && updates > 0 && updates % every == 0; }
};

/// The two sections against the others. @error invalid_argument: naming both keys
Status check_past(const LearningOptions& options);

}  // namespace weft::learning
