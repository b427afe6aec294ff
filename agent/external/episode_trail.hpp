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
  /// `most`: actions that are kept; of an episode with more, none are. `width`: values of an action; 0: it is a choice.
  explicit EpisodeTrail(std::size_t most, std::size_t width = 0) : most_(most), width_(width) {}

  void add(const Answer& answer);
  /// The episode was left: the traces of the learner are to begin anew with its next step.
  void cut() noexcept { is_cut_ = 1; }
  bool take_cut() noexcept { return std::exchange(is_cut_, 0) != 0; }
  /// The episode's place, with its actions.
  EpisodePlace place(std::uint64_t seed, std::uint64_t episode, std::uint64_t steps) const noexcept {
    return {seed, episode, steps, choices_, values_, width_, answers()};
  }
  /// Of its actions, in its state.
  std::size_t bytes_of_actions() const noexcept {
    return choices_.size() * sizeof(choices_[0]) + values_.size() * sizeof(values_[0]);
  }
  Hash128 answers() const noexcept { return {high_, low_}; }

  /// The list last: its length is that of the episode.
  template <class Self, class Archive>
  static void visit(Self& self, Archive& archive) {
    archive(Field{"is_cut", Scope::control}, self.is_cut_);
    archive(Field{"steps_of_episode", Scope::control}, self.steps_);
    archive(Field{"answers_high", Scope::control}, self.high_);
    archive(Field{"answers_low", Scope::control}, self.low_);
    if (self.width_ == 0)
      archive.list(Field{"actions", Scope::control}, self.choices_);
    else
      archive.list(Field{"values", Scope::control}, self.values_);
  }
  bool is_possible() const noexcept {
    const std::size_t known = place(0, 0, 0).known();
    return is_cut_ <= 1 && known <= most_ && (known == 0 || known == steps_) &&
           (width_ == 0 || values_.size() % width_ == 0);
  }

 private:
  std::size_t most_, width_;
  std::uint64_t is_cut_ = 0, steps_ = 0, high_ = 0, low_ = 0;
  std::vector<std::uint16_t> choices_;
  std::vector<float> values_;  // [step][width_]
};

/// Adds an answer to a chain of hashes; that of a reset begins it.
Hash128 chained(Hash128 before, const Answer& answer);

}  // namespace weft::agent
