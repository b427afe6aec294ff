// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/external/answer_source.hpp"

#include "core/archive.hpp"
#include "core/state_hash.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace weft::agent {

/// Actions of the present episode of an external environment, and a chain of hashes over the answers to them.
/// State of the agent, by which a program that is started anew comes back to where it was.
class EpisodeTrail {
 public:
  /// `most`: actions that are kept; of an episode with more, none are.
  explicit EpisodeTrail(std::size_t most) : most_(most) {}

  void add(const Answer& answer);
  /// The episode was left: the traces of the learner are to begin anew with its next step.
  void cut() noexcept { is_cut_ = 1; }
  bool take_cut() noexcept { return std::exchange(is_cut_, 0) != 0; }
  std::span<const std::uint16_t> actions() const noexcept { return actions_; }
  Hash128 answers() const noexcept { return {high_, low_}; }

  /// The list last: its length is that of the episode.
  template <class Self, class Archive>
  static void visit(Self& self, Archive& archive) {
    archive(Field{"is_cut", Scope::control}, self.is_cut_);
    archive(Field{"steps_of_episode", Scope::control}, self.steps_);
    archive(Field{"answers_high", Scope::control}, self.high_);
    archive(Field{"answers_low", Scope::control}, self.low_);
    archive.list(Field{"actions", Scope::control}, self.actions_);
  }
  bool is_possible() const noexcept {
    return is_cut_ <= 1 && actions_.size() <= most_ && (actions_.empty() || actions_.size() == steps_);
  }

 private:
  std::size_t most_;
  std::uint64_t is_cut_ = 0, steps_ = 0, high_ = 0, low_ = 0;
  std::vector<std::uint16_t> actions_;
};

/// Adds an answer to a chain of hashes; that of a reset begins it.
Hash128 chained(Hash128 before, const Answer& answer);

}  // namespace weft::agent
