// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <cstdint>
#include <string_view>

namespace weft::learning {

struct LearningOptions;

/// Ways to choose the units that begin anew: those that hardly answer (redo), or at a steady rate those of least use
/// (continual).
enum class Renewal : int { none, redo, continual };
std::string_view name(Renewal method) noexcept;

/// The section "renew" of "learning".
struct RenewalOptions {
  Renewal method = Renewal::none;
  std::uint32_t every = 1000;    // samples from one look at the units to the next (redo)
  float threshold = 0.1f;        // of a unit's mean |h| by its layer's, up to which it begins anew (redo)
  float rate = 1e-4f;            // share of the mature units that begin anew with each sample (continual)
  float decay = 0.99f;           // of utilities, with each sample (continual)
  std::uint32_t maturity = 100;  // samples that a unit has before it may begin anew (continual)
  bool operator==(const RenewalOptions&) const = default;

  bool is_on() const noexcept { return method != Renewal::none; }
};

/// The section against the others. @error out_of_range, invalid_argument: naming key and value
Status check_renewal(const LearningOptions& options);

}  // namespace weft::learning
