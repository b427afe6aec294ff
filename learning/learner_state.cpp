// SPDX-License-Identifier: Apache-2.0

// A learner's part of a state in memory (Mesh::take_snapshot).

#include "learning/internal/learner_parts.hpp"
#include "learning/internal/word_archives.hpp"
#include "learning/learner.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace weft::learning {

using mesh::MeshAccess;
using mesh::NodeId;

namespace {
/// Kind of the arrays, where equal sizes may have different meanings.
std::uint64_t kind_of(const LearningOptions& options) noexcept {
  const std::uint64_t patience = options.late == Late::none ? 0 : options.patience;
  return static_cast<std::uint64_t>(options.rule) | static_cast<std::uint64_t>(options.schedule) << 8 |
         static_cast<std::uint64_t>(options.loss) << 16 | static_cast<std::uint64_t>(options.optimizer.kind) << 24 |
         static_cast<std::uint64_t>(options.perturb.is_on()) << 31 | static_cast<std::uint64_t>(options.late) << 32 |
         patience << 40 | static_cast<std::uint64_t>(options.drift.detector.kind) << 58 |
         static_cast<std::uint64_t>(options.replay.method) << 62;
}

constexpr Field kLate{"late", Scope::messages}, kOpen{"open_samples", Scope::control};

/// Fields of late samples as the words of one list, whose length is in the file.
std::vector<std::uint32_t> late_words(const LearnerParts& parts, Scopes scopes) {
  std::vector<std::uint32_t> words;
  WordArchive archive(words, scopes);
  LateSamples::visit(parts.late, archive, parts.clock);
  return words;
}

void visit_late(const LearnerParts& parts, OutArchive& archive) {
  if (archive.takes(kLate)) archive.list(kLate, late_words(parts, kSavedLate));
}

void visit_late(LearnerParts& parts, InArchive& archive) {
  if (!archive.takes(kLate)) return;
  std::vector<std::uint32_t> words;
  archive.list(kLate, words);
  if (archive.has_failed()) return;
  parts.late.forget_errors();
  InWordArchive late(words, kSavedLate);
  LateSamples::visit(parts.late, late, parts.clock);
  parts.late_words_fit = late.is_done();
}

/// Every field of a learner, named once.
template <class Parts, class Archive>
void visit_learner(Parts& parts, Archive& archive) {
  archive.same(Field{"kind", Scope::results}, kind_of(parts.options));
  auto& now = parts.clock.now;
  archive(Field{"samples", Scope::messages}, now.samples);
  archive(Field{"scored", Scope::messages}, now.scored);
  archive(Field{"steps", Scope::messages}, now.steps);
  archive(Field{"start_tick", Scope::messages}, now.start_tick);
  archive(Field{"block_first", Scope::results}, now.block_first);
  auto& values = parts.messages.values();
  archive.same(Field{"message_floats", Scope::messages}, values.size());
  archive(Field{"errors", Scope::messages, Field::kOnly, Field::kOnly, true}, std::span(values.data(), values.size()));
  if (!parts.records.empty()) ActivationRecords::visit(parts.records, archive);
  std::uint32_t i = 0;
  for (auto& output : parts.rings.outputs()) OutputRing::visit(output, i++, archive);
  for (NodeId node = 0; node < parts.sizes.measured().size(); ++node)
    if (parts.sizes.measured()[node])
      archive(Field{"gradient_size", Scope::messages, node}, std::span(parts.sizes.sizes()[node]));
  DriftWatch::visit(parts.watches.drift, archive);
  AnomalyWatch::visit(parts.watches.anomaly, archive);
  Reservoir::visit(parts.past.reservoir, archive);
  UnitRenewal::visit(parts.past.renewal, archive);
  WeightSwap::visit(parts.past.swap, archive);
  archive.list(Field{"scores", Scope::answers}, parts.pending_scores);
  auto& optimizer = parts.updates.optimizer();
  Optimizer::visit(optimizer, archive, 0, optimizer.nodes());
  LearnedInverses::visit(parts.inverses, archive, 0, static_cast<NodeId>(optimizer.nodes()));
  for (auto& group : parts.updates.progress()) {
    archive(Field{"pending", Scope::steps}, group.pending);
    archive(Field{"is_used", Scope::steps}, group.is_used);
    archive(Field{"has_failed", Scope::steps}, group.has_failed);
  }
  archive(Field{"first_phase", Scope::steps}, parts.clock.first_phase);
  archive(Field{"late_end", Scope::steps}, parts.clock.late_end);
  archive(Field{"stands", Scope::steps}, parts.clock.stands);
  // The last of its scope: its length is in the file.
  if (!parts.late.is_on()) return;
  visit_late(parts, archive);
  archive.list(Field{"expired", Scope::answers}, parts.late.all_expired());
}

constexpr Field kVersion{"version", Scope::steps};  // of a parameter

}  // namespace

void LearnerState::visit(OutArchive& archive) const {
  visit_learner(std::as_const(parts_), archive);
  if (!archive.takes(kVersion)) return;
  for (const auto& parameter : MeshAccess::weights(std::as_const(parts_.mesh)).parameters())
    archive(kVersion, parameter.version);
}

void LearnerState::visit(InArchive& archive) {
  visit_learner(parts_, archive);
  if (!archive.takes(kVersion)) return;
  mesh::WeightStore& weights = MeshAccess::weights(parts_.mesh);
  for (std::size_t i = 0; i < weights.parameters().size(); ++i) {
    std::uint64_t version = 0;
    archive(kVersion, version);
    weights.set_version(i, version);
  }
}

void LearnerState::visit_layer(NodeId node, OutArchive& archive) const {
  Optimizer::visit(std::as_const(parts_.updates).optimizer(), archive, node, 1);
  LearnedInverses::visit(std::as_const(parts_.inverses), archive, node, 1);
  // Detectors of drift and samples that wait for their targets are part of a state's hash, with the last layer's; a
  // cell that restarts leaves them.
  if (node + 1 != parts_.plan.layers.size()) return;
  if (parts_.watches.drift.is_on()) parts_.watches.drift.visit_hash(archive);
  if (parts_.watches.anomaly.is_on()) parts_.watches.anomaly.visit_hash(archive);
  if (parts_.past.reservoir.is_on()) parts_.past.reservoir.visit_hash(archive);
  if (parts_.past.renewal.is_on()) parts_.past.renewal.visit_hash(archive);
  if (parts_.past.swap.is_on()) parts_.past.swap.visit_hash(archive);
  if (!parts_.late.has_open() || !archive.takes(kOpen)) return;
  const std::vector<std::uint32_t> open = late_words(parts_, kHashedLate);
  archive(kOpen, std::span(open));
}

void LearnerState::visit_layer(NodeId node, InArchive& archive) {
  Optimizer::visit(parts_.updates.optimizer(), archive, node, 1);
  LearnedInverses::visit(parts_.inverses, archive, node, 1);
}

Status Learner::finish_restore() {
  LearnerParts& p = *parts_;
  const SampleClock::Counters& now = p.clock.now;
  if (now.scored > now.samples || now.start_tick > p.mesh.ticks() || !p.late_words_fit || !p.watches.drift.fits() ||
      !p.watches.anomaly.fits() || (p.late.is_on() && !p.late.fits(p.rings.outputs(), p.clock)))
    return fail(Errc::corrupt, "learner state: counters contradict each other");
  for (OutputRing& output : p.rings.outputs()) {
    for (std::size_t i = 0; i < output.labels.size(); ++i) {
      const std::size_t part = i % output.tokens, classes = output.starts[part + 1] - output.starts[part];
      const bool is_free = output.labels[i] == kNoLabel || (p.late.is_on() && output.labels[i] == kGradient);
      if (!is_free && output.labels[i] >= classes)
        return fail(Errc::corrupt, "learner state: label " + std::to_string(output.labels[i]) +
                                       " of an output of width " + std::to_string(classes));
    }
    output.set_classes(0, output.labels.size());
  }
  for (const std::array<float, 2>& size : p.sizes.sizes())
    if (!std::isfinite(size[0]) || !std::isfinite(size[1]))
      return fail(Errc::corrupt, "learner state: a gradient's size is not finite");
  if (!p.past.renewal.fits()) return fail(Errc::corrupt, "learner state: a unit's use is no amount");
  if (!p.past.swap.fits(p.rings)) return fail(Errc::corrupt, "learner state: an earlier weight or sample is none");
  if (!p.past.reservoir.fits(p.rings)) return fail(Errc::corrupt, "learner state: a stored sample is none");
  p.pending_scores.clear();
  p.watches.drift.clear_events();
  p.watches.anomaly.clear_events();
  p.late.clear_expired();
  return {};
}

}  // namespace weft::learning
