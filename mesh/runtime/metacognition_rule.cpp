// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/metacognition_rule.hpp"

#include <algorithm>
#include <cmath>

namespace weft::mesh {

// Slow averages are made of + - * / in binary64: the same everywhere.
bool Watcher::holds(double value) noexcept {
  const bool is_relative = rule_.look == WatchRule::Look::gain_drift || rule_.look == WatchRule::Look::gradient_storm;
  if (!is_relative) return value > rule_.above || value < rule_.below;
  // Before the first value there is nothing to compare with, and a layer that learned nothing has no gradient.
  if (value == 0 && (seen_ == 0 || rule_.look == WatchRule::Look::gradient_storm)) return false;
  const bool is_warm = seen_ >= rule_.horizon;
  constexpr double kFar = std::numeric_limits<double>::max();
  double change = slow_ > 0 ? value / slow_ : kFar;
  // Drift counts both ways.
  if (rule_.look == WatchRule::Look::gain_drift && change < 1) change = change > 0 ? 1 / change : kFar;
  slow_ = seen_ == 0 ? value : slow_ + (value - slow_) / static_cast<double>(std::min(seen_ + 1, rule_.horizon));
  ++seen_;
  return is_warm && (change > rule_.above || change < rule_.below);
}

bool Watcher::look(std::uint64_t tick, double value) noexcept {
  held_ = holds(value) ? held_ + 1 : 0;
  if (held_ < rule_.patience || tick < quiet_until_) return false;
  held_ = 0;
  quiet_until_ = tick + rule_.cooldown;
  ++actions_;
  if (rule_.action == WatchRule::Action::swap) {
    is_swapped_ = 1 - is_swapped_;
    // The other layer has a gain of its own.
    slow_ = 0, seen_ = 0;
  }
  return true;
}

bool Watcher::restore(std::span<const std::uint64_t, kWords> words) noexcept {
  const auto slow = std::bit_cast<double>(words[3]);
  if (!(slow >= 0) || !std::isfinite(slow)) return false;
  if ((words[4] & 1) != 0 && rule_.action != WatchRule::Action::swap) return false;
  quiet_until_ = words[0], held_ = words[1], seen_ = words[2], slow_ = slow;
  actions_ = words[4] >> 1, is_swapped_ = words[4] & 1;
  return true;
}

}  // namespace weft::mesh
