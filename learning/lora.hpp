// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace weft::learning {

struct LearningOptions;

/// The section "lora" of "learning": matrices move by adapters of low rank, and nothing else moves.
struct LoraOptions {
  std::uint32_t rank = 0;  // 0: none
  float alpha = 0.0f;      // over the rank the scale of an adapter; 0: the rank
  /// Last parts of the names of the matrices that have an adapter ("query"); none: all.
  std::vector<std::string> matrices{};
  bool operator==(const LoraOptions&) const = default;

  bool is_on() const noexcept { return rank != 0; }
  float scale() const noexcept { return alpha == 0.0f ? 1.0f : alpha / static_cast<float>(rank); }
};

/// The section against the others. @error out_of_range, invalid_argument: naming both keys
Status check_lora(const LearningOptions& options);

}  // namespace weft::learning
