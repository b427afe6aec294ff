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
#include <vector>

namespace weft::learning {

/// A learner's live state as blobs of an .entity file: optimiser arrays, update counts, messages under way. The blobs
/// point into this object, which holds copies: the learner may go on. Its room is used again by the next capture.
/// @thread one at a time: captured on the learner's thread, then read on any
class LearnerBlobs {
 public:
  LearnerBlobs() = default;
  explicit LearnerBlobs(Learner& learner) { capture(learner); }
  LearnerBlobs(const LearnerBlobs&) = delete;
  LearnerBlobs& operator=(const LearnerBlobs&) = delete;

  /// Copies the state as it is between runs.
  void capture(Learner& learner);
  const std::vector<formats::Tensor>& tensors() const noexcept { return blobs_; }
  /// As Learner::hash_layer was then; for CheckpointSnapshot::state_hash.
  void hash_layer(mesh::NodeId node, StateHasher& hasher) const;

 private:
  /// True when the blobs are those of such a learner and point to the copy of its state.
  bool fits(const mesh::WeightStore& weights, const Optimizer& optimizer) const noexcept;
  struct Array {
    std::size_t offset = 0, size = 0;  // floats
  };
  std::vector<formats::Tensor> blobs_;
  std::vector<Array> arrays_;  // [slot][parameter]
  std::size_t slots_ = 0;
  std::vector<std::size_t> first_;  // node -> its first parameter; one past the end at the back
  AlignedBuffer<float> floats_;
  mesh::BatchCopy copies_;
  std::vector<std::uint32_t> in_flight_;
  std::vector<std::uint64_t> updates_;
};

/// The same over the learner's own arrays, which are not copied: the learner must stay as it is while they are used.
std::vector<formats::Tensor> learner_tensors(Learner& learner);

/// Puts it back. @error not_found, shape_mismatch, corrupt; then the learner is to be thrown away
Status restore_learner(Learner& learner, const formats::EntityFile& file);

}  // namespace weft::learning
