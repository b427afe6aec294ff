// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/internal/learning_plan.hpp"

#include "core/aligned_buffer.hpp"
#include "core/cache_line.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::learning {

/// Factors by link budget of the errors of one update, added up, by learner. Of a layer that several errors reach in an
/// update: it moves where any of them teaches something, and a device has to find that out by itself.
class UpdateBudgets {
 public:
  UpdateBudgets(const LearningPlan& plan, std::size_t learners) : learners_(learners) {
    std::size_t count = 0;
    for (const LayerPlan& layer : plan.layers) places_.push_back(layer.hops.size() > 1 ? count++ : kNone);
    sums_ = AlignedBuffer<float>(count * padded(learners));
  }

  /// Those of a layer; empty: one error reaches it.
  std::span<float> of(mesh::NodeId node) noexcept {
    if (places_[node] == kNone) return {};
    return {sums_.data() + places_[node] * padded(learners_), learners_};
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  std::size_t learners_;
  std::vector<std::size_t> places_;  // by node, among those with several errors
  AlignedBuffer<float> sums_;
};

}  // namespace weft::learning
