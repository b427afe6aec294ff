// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/learner.hpp"

#include "formats/entity.hpp"

#include <deque>
#include <vector>

namespace weft::learning {

/// A learner's live state as blobs of an .entity file: optimiser arrays, update counts, messages under way.
/// The blobs point into this object.
class LearnerBlobs {
 public:
  explicit LearnerBlobs(Learner& learner);
  const std::vector<formats::Blob>& blobs() const noexcept { return blobs_; }

 private:
  std::vector<formats::Blob> blobs_;
  std::vector<std::uint32_t> flight_;
  std::vector<std::uint64_t> updates_;
};

/// Puts it back. @error not_found, shape_mismatch, corrupt; then the learner is to be thrown away
Status restore_learner(Learner& learner, const formats::EntityFile& file);

}  // namespace weft::learning
