// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/internal/learning_plan.hpp"

#include "kernels/views.hpp"

#include "core/aligned_buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::learning {

/// Messages between layers that learn, double-buffered: a step writes the half of its parity and reads the other.
class ErrorMessages {
 public:
  ErrorMessages() = default;
  ErrorMessages(const LearningPlan& plan, std::size_t learners)
      : slots_(plan.messages), half_(plan.message_floats), learners_(learners), values_(2 * plan.message_floats) {}

  kernels::MatrixView at(std::uint32_t index, std::uint64_t parity) noexcept {
    const MessageSlot& slot = slots_[index];
    return {values_.data() + parity * half_ + slot.offset, learners_, slot.width, slot.stride};
  }
  AlignedBuffer<float>& values() noexcept { return values_; }
  const AlignedBuffer<float>& values() const noexcept { return values_; }

 private:
  std::vector<MessageSlot> slots_;
  std::size_t half_ = 0;  // floats of one parity
  std::size_t learners_ = 1;
  AlignedBuffer<float> values_;
};

}  // namespace weft::learning
