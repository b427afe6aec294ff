// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/drift/adaptation.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace weft::learning {

/// Answers in time around each change of the task, of those that were due: from the change until the accuracy is back
/// at 99 %, or the next change, as the area of an Adaptation is measured. Time is the wall clock's, so that this is no
/// part of any state: it counts from the beginning of the process.
/// @thread one at a time
class ChangeAvailability {
 public:
  /// So many scores came before.
  explicit ChangeAvailability(std::uint64_t scores = 0) : scores_(scores) {}
  /// `due` answers were due since the last call, and `met` of them came by their deadline. They count for the last
  /// change of `tracker`, which has their scores; where there is none, or it was over before them, for none.
  void add(std::uint64_t due, std::uint64_t met, const AdaptationTracker& tracker);
  /// Of the change that began at score `at`, a share; nothing where no answer was due around it.
  std::optional<double> of(std::uint64_t at) const noexcept;
  /// Over the changes that have one.
  std::optional<Spread> spread() const;

 private:
  struct Answers {
    std::uint64_t at = 0, due = 0, met = 0;
  };
  std::uint64_t scores_;
  std::vector<Answers> changes_;  // in their order; at most AdaptationTracker::kMost, the latest
};

}  // namespace weft::learning
