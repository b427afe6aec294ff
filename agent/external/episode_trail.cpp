// SPDX-License-Identifier: Apache-2.0

#include "agent/external/episode_trail.hpp"

#include <bit>

namespace weft::agent {

Hash128 chained(Hash128 before, const Answer& answer) {
  StateHasher hasher;
  hasher.add(answer.is_reset ? Hash128{} : before);
  hasher.add(std::uint64_t{answer.action});
  hasher.add(std::bit_cast<std::uint64_t>(answer.outcome.reward));
  hasher.add(std::uint64_t{answer.outcome.terminated} | std::uint64_t{answer.outcome.truncated} << 1);
  hasher.add(std::span<const float>(answer.observation));
  if (!answer.values.empty()) hasher.add(std::span<const float>(answer.values));
  return hasher.digest();
}

void EpisodeTrail::add(const Answer& answer) {
  const Hash128 now = chained(answers(), answer);
  high_ = now.high;
  low_ = now.low;
  if (answer.is_reset) {
    choices_.clear();
    values_.clear();
    steps_ = 0;
    return;
  }
  if (++steps_ > most_) {
    choices_.clear();
    values_.clear();
  } else if (width_ == 0) {
    choices_.push_back(static_cast<std::uint16_t>(answer.action));
  } else {
    values_.insert(values_.end(), answer.values.begin(), answer.values.end());
  }
}

}  // namespace weft::agent
