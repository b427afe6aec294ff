// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/drift/drift_options.hpp"

#include "core/archive.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace weft::learning {

class Learner;
struct Score;

/// A warning or a change that a detector has seen.
struct DriftEvent {
  std::uint64_t level = 0;   // DriftLevel
  std::uint64_t sample = 0;  // of the score (Score::sample); of an agent that acts, the step, from 1
  std::uint64_t score = 0;   // number among all that the detector has taken, from 0
};

/// Actions that are due at a change.
struct DriftReaction {
  float rate_factor = 1.0f;  // of the present learning rates
  bool checkpoint = false, renews = false, swaps = false;
  bool is_due() const noexcept { return rate_factor != 1.0f || checkpoint || renews || swaps; }
};

/// A learner's scores, or what an agent that acts gives it, under a detector of drift, and what is to be done about a
/// change. It reads these alone, so what it sees and when is a function of the samples: state of the learner, saved and
/// hashed with it.
/// @thread one at a time
/// @exact  as DriftDetector
class DriftWatch {
 public:
  DriftWatch() = default;
  DriftWatch(const DriftOptions& options, std::uint64_t seed);

  bool is_on() const noexcept { return detector_ != nullptr; }
  /// Takes a score, where the detector is one of scores.
  void add(const Score& score);
  /// Takes a number of an agent that acts, at its step `step`, where the detector is one of those.
  void add(double value, std::uint64_t step);
  /// Scores taken; warnings, of which those in a row count once; changes, and those for the better.
  std::uint64_t scores() const noexcept { return counts_.scores; }
  std::uint64_t warnings() const noexcept { return counts_.warnings; }
  std::uint64_t changes() const noexcept { return counts_.changes; }
  std::uint64_t improvements() const noexcept { return counts_.improvements; }
  /// Since they were last cleared.
  std::span<const DriftEvent> events() const noexcept { return events_; }
  void clear_events() noexcept { events_.clear(); }

  DriftReaction due() const noexcept;
  /// It has been done.
  void reacted() noexcept;
  /// Nothing but the rates is to follow from the changes so far.
  void forgo() noexcept { counts_.reacted = counts_.changes; }

  /// Events wait in memory alone, as scores do.
  template <class Self, class Archive>
  static void visit(Self& self, Archive& archive) {
    if (!self.detector_) return;
    // Another detector's numbers may be as many.
    archive.same(Field{"drift_kind", Scope::messages}, self.kind());
    archive(Field{"drift_counts", Scope::messages}, self.counts_);
    self.visit_detector(archive);
    archive.list(Field{"drift_events", Scope::answers}, self.events_);
  }
  /// The same as a part of a state's hash.
  void visit_hash(OutArchive& archive) const;
  bool fits() const noexcept { return fits_; }

 private:
  struct Counts {
    std::uint64_t scores = 0, warnings = 0, changes = 0, improvements = 0, last_change = 0;
    std::uint64_t is_warned = 0;  // 1 from a warning to the change, or to the next score without one
    std::uint64_t boost = 0;      // the factor of the rates that is in force, as a power of two
    std::uint64_t reacted = 0;    // changes for which all but the rates was done
  };
  std::uint64_t kind() const noexcept { return static_cast<std::uint64_t>(options_.detector.kind); }
  std::uint64_t wanted_boost() const noexcept;
  void take(double value, std::uint64_t sample);
  void visit_detector(OutArchive& archive) const { detector_->visit(archive); }
  void visit_detector(InArchive& archive);

  DriftOptions options_{};
  std::unique_ptr<DriftDetector> detector_;  // null: off
  Counts counts_;
  std::vector<DriftEvent> events_;
  bool fits_ = true;
};

/// Weights at a change, between two samples: others take the place of the present ones (DriftOptions::swap), then units
/// begin anew (DriftOptions::renew). What is saved and hashed of a learner has both.
/// @error as MeshAccess::evaluate_copies; then the weights are as before
Status change_weights(Learner& learner, const DriftReaction& reaction);
/// Times that other weights came at a change, and units that began anew, by `renew` of either section.
struct WeightChanges {
  std::uint64_t swaps = 0, renewed = 0;
};
WeightChanges weight_changes(const Learner& learner) noexcept;

}  // namespace weft::learning
