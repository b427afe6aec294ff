// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/external/answer.hpp"

#include "core/result.hpp"
#include "core/state_hash.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::agent {

/// The place of an episode, for an environment that has to come back to it.
struct EpisodePlace {
  std::uint64_t seed = 0, episode = 0, steps = 0;
  std::span<const std::uint16_t> choices{};  ///< actions of all its steps; fewer: they are not known any more
  std::span<const float> values{};           ///< the same of actions that are values, one action after the other
  std::size_t width = 0;                     ///< values of an action; 0: it is a choice
  Hash128 answers{};                         ///< chain over its answers (EpisodeTrail)

  std::size_t known() const noexcept { return width == 0 ? choices.size() : values.size() / width; }
  /// That of step `i`, from 0. @pre i < known()
  Action action(std::size_t i) const noexcept {
    return width == 0 ? Action{choices[i], {}} : Action{0, values.subspan(i * width, width)};
  }
};

/// Answers of an environment outside of this process: of a program beside it, or of a journal.
/// @thread one at a time
class AnswerSource {
 public:
  virtual ~AnswerSource() = default;
  /// Before each step within an episode. False: the environment cannot go on with it, and the episode is left.
  virtual Result<bool> can_go_on(const EpisodePlace& place) = 0;
  virtual Result<Answer> reset(std::uint64_t seed, std::uint64_t episode) = 0;
  virtual Result<Answer> step(const Action& action) = 0;
};

}  // namespace weft::agent
