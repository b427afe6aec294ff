// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/anomaly.hpp"
#include "learning/drift/drift_watch.hpp"
#include "learning/internal/activation_records.hpp"
#include "learning/internal/backward_step.hpp"
#include "learning/internal/consolidator.hpp"
#include "learning/internal/error_messages.hpp"
#include "learning/internal/feedback_weights.hpp"
#include "learning/internal/gradient_sizes.hpp"
#include "learning/internal/late_samples.hpp"
#include "learning/internal/learned_inverses.hpp"
#include "learning/internal/learning_plan.hpp"
#include "learning/internal/learning_scratch.hpp"
#include "learning/internal/reservoir.hpp"
#include "learning/internal/sample_clock.hpp"
#include "learning/internal/sample_rings.hpp"
#include "learning/internal/unit_renewal.hpp"
#include "learning/internal/weight_swap.hpp"
#include "learning/internal/weight_updates.hpp"
#include "learning/learner.hpp"

#include "mesh/device/recordable_rule.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace weft::learning {

/// Parts for what was before, and for units that begin anew: they act between two samples.
struct PastParts {
  LearningOptions given;  // as the caller knows them: their learners are those of new samples
  Reservoir reservoir;
  Consolidator consolidator;
  UnitRenewal renewal;
  WeightSwap swap;
  bool is_on() const noexcept { return reservoir.is_on() || consolidator.is_on(); }
};

/// Parts that look at scores.
struct ScoreWatches {
  DriftWatch drift;
  AnomalyWatch anomaly;
};

/// Parts of a learner.
struct LearnerParts {
  LearnerParts(mesh::Mesh& of, const LearningOptions& given, LearningPlan made, Optimizer optimizer);
  void add_score(const Score& score);
  /// Samples that were learned from: where targets come late those of which they came.
  std::uint64_t learned() const noexcept {
    const LateCounts& counts = late.counts();
    return late.is_on() ? late.entered() - counts.observed + counts.taught : clock.now.samples;
  }
  /// Between two samples, of which the last one was learned from at what layers published at `tick`.
  void care_for_weights(std::uint64_t tick);

  mesh::Mesh& mesh;
  LearningOptions options;
  LearningPlan plan;
  SampleClock clock;
  SampleRings rings;
  LateSamples late;
  ActivationRecords records;
  ErrorMessages messages;
  FeedbackWeights feedback;
  LearnedInverses inverses;
  GradientSizes sizes;
  WeightUpdates updates;
  std::vector<LearningScratch> scratch;  // by region
  BackwardStep backward;
  std::vector<Score> pending_scores;
  ScoreWatches watches;
  PastParts past;
  bool late_words_fit = true;  // those that were read last
  std::unique_ptr<mesh::RuleState> saved;
  std::unique_ptr<mesh::RecordableRule> recordable;
};

/// The saved part of a learner (learner_state.cpp).
class LearnerState final : public mesh::RuleState {
 public:
  explicit LearnerState(LearnerParts& parts) : parts_(parts) {}
  void visit(OutArchive& archive) const override;
  void visit(InArchive& archive) override;
  void visit_layer(mesh::NodeId node, OutArchive& archive) const override;
  void visit_layer(mesh::NodeId node, InArchive& archive) override;

 private:
  LearnerParts& parts_;
};

/// The part of a learner that a device needs to run its steps (learner_device.cpp).
class RecordedLearner final : public mesh::RecordableRule {
 public:
  explicit RecordedLearner(LearnerParts& parts) : parts_(parts) {}
  void each_region(const std::function<void(const mesh::DeviceRegion&)>& visit) const override;
  std::uint64_t period() const noexcept override { return parts_.clock.steps_per_sample(); }
  std::pair<std::uint64_t, std::uint64_t> samples_of(std::uint64_t step, std::uint64_t tick,
                                                     std::uint64_t count) const override;
  std::uint64_t samples_ahead() const noexcept override;
  std::optional<Hash128> record_key(std::uint64_t step, std::uint64_t tick, std::uint64_t count) const override;
  std::span<const std::uint64_t> update_counts() const noexcept override;
  void add_updates(mesh::NodeId node, std::uint64_t updates) noexcept override;
  /// Layers with tied weights move together with others.
  bool may_skip(mesh::NodeId node) const noexcept override { return parts_.plan.layers[node].groups.empty(); }
  void take_host_snapshot(mesh::ByteArchive& to) const override;
  void restore_host_snapshot(const mesh::ByteArchive& from) override;

 private:
  std::pair<std::uint64_t, std::uint64_t> entries_of(std::uint64_t step, std::uint64_t count) const;
  void each_optimizer_region(const std::function<void(const mesh::DeviceRegion&)>& visit) const;

  LearnerParts& parts_;
};

}  // namespace weft::learning
