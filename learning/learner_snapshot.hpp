// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/learner.hpp"
#include "learning/optimizer.hpp"

#include "mesh/memory/batch_copy.hpp"
#include "mesh/weights/weight_store.hpp"

#include "formats/entity/entity.hpp"

#include "core/state_hash.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::learning {

/// A learner's live state as tensors of an .entity file: optimiser arrays, update counts, messages under way. The
/// tensors point into this object, which holds copies: the learner may go on. Its memory is reused by the next one.
/// @thread one at a time: taken on the learner's thread, then read on any
class LearnerSnapshot {
 public:
  LearnerSnapshot() = default;
  explicit LearnerSnapshot(Learner& learner) { take(learner); }
  LearnerSnapshot(const LearnerSnapshot&) = delete;
  LearnerSnapshot& operator=(const LearnerSnapshot&) = delete;

  /// Copies the state as it is between runs.
  void take(Learner& learner);
  const std::vector<formats::Tensor>& tensors() const noexcept { return tensors_; }
  /// learning::kept_ticks of the learner; 0 before the first one.
  std::size_t kept_ticks() const noexcept { return kept_ticks_; }
  /// As the rule's part of a layer's hash was then; for mesh::state_hash.
  void hash_layer(mesh::NodeId node, StateHasher& hasher) const;

 private:
  class Copier;

  std::vector<formats::Tensor> tensors_;  // of the optimizer's fields over bytes_, then of the messages
  std::vector<std::size_t> first_;        // node -> its first parameter; one past the end at the back
  std::vector<mesh::NodeId> inverses_;    // layers with a learned inverse
  AlignedBuffer<std::byte> bytes_;
  mesh::BatchCopy copies_;
  std::vector<std::uint32_t> messages_;
  std::vector<std::uint64_t> packed_;  // the same where that is much smaller, or empty
  std::size_t kept_ticks_ = 0;
  std::vector<std::byte> open_;  // samples that wait for their targets, as the last layer's hash takes them
};

/// A rule's state as tensors of an .entity file, over its own arrays, which are not copied: the rule must stay as it is
/// while they are used. A field of the optimizer's is a tensor each; messages under way are one, `learning/in_flight`,
/// of u32, or of u64 where they take less than half of it packed (learning/internal/packed_words.hpp).
std::vector<formats::Tensor> rule_tensors(const mesh::RuleState& rule);
/// Puts it back. @error not_found, shape_mismatch, corrupt; then the rule is to be thrown away
Status restore_rule(mesh::RuleState& rule, const formats::TensorFile& file);

/// rule_tensors of a learner.
std::vector<formats::Tensor> learner_tensors(Learner& learner);
/// Puts it back. @error not_found, shape_mismatch, corrupt; then the learner is to be thrown away
Status restore_learner(Learner& learner, const formats::EntityFile& file);

/// True where all that a learner with options `was` keeps means the same to one with options `now`, if it fits.
bool keeps_meaning(const LearningOptions& was, const LearningOptions& now);
/// State of a learner with other options, which a file holds.
struct LearnerBefore {
  LearningOptions options;
  Ticket next_ticket = 0;  // of samples that may be taught late
  std::uint64_t open = 0;  // samples that waited for their targets
};
/// Puts into a new learner what the file of one with other options has that means the same to it: arrays and counts of
/// updates of the same optimiser, learned inverses, the number of the next ticket. The rest begins anew: returns the
/// names of what had begun by then. @error not_found, corrupt; then the learner is to be thrown away
Result<std::vector<std::string>> take_over(Learner& learner, const LearnerBefore& before,
                                           const formats::EntityFile& file);

}  // namespace weft::learning
