// SPDX-License-Identifier: Apache-2.0

#include "learning/drift/change_availability.hpp"

#include <algorithm>

namespace weft::learning {

void ChangeAvailability::add(std::uint64_t due, std::uint64_t met, const AdaptationTracker& tracker) {
  const std::uint64_t before = scores_;
  scores_ = tracker.scores();
  if (due == 0 || tracker.changes().empty()) return;
  const Adaptation& last = tracker.changes().back();
  if (last.to_99 && last.at + *last.to_99 <= before) return;
  if (changes_.empty() || changes_.back().at != last.at) {
    if (changes_.size() == AdaptationTracker::kMost) changes_.erase(changes_.begin());
    changes_.push_back({last.at});
  }
  changes_.back().due += due;
  changes_.back().met += std::min(met, due);
}

std::optional<double> ChangeAvailability::of(std::uint64_t at) const noexcept {
  const auto found = std::lower_bound(changes_.begin(), changes_.end(), at,
                                      [](const Answers& each, std::uint64_t wanted) { return each.at < wanted; });
  if (found == changes_.end() || found->at != at) return std::nullopt;
  return static_cast<double>(found->met) / static_cast<double>(found->due);
}

std::optional<Spread> ChangeAvailability::spread() const {
  std::vector<double> shares;
  for (const Answers& each : changes_) shares.push_back(static_cast<double>(each.met) / static_cast<double>(each.due));
  return spread_of_values(shares);
}

}  // namespace weft::learning
