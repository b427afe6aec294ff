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
  return hasher.digest();
}

void EpisodeTrail::add(const Answer& answer) {
  const Hash128 now = chained(answers(), answer);
  high_ = now.high;
  low_ = now.low;
  if (answer.is_reset) {
    actions_.clear();
    steps_ = 0;
    return;
  }
  if (++steps_ > most_)
    actions_.clear();
  else
    actions_.push_back(static_cast<std::uint16_t>(answer.action));
}

}  // namespace weft::agent
