// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/external/answer_source.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::agent {

/// Answers that a journal holds, given once more. They must outlive it.
class RecordedAnswers final : public AnswerSource {
 public:
  /// `is_changed`: for an agent that was changed on purpose, which may act otherwise.
  RecordedAnswers(std::span<const Answer> answers, bool is_changed) : left_(answers), is_changed_(is_changed) {}

  bool is_used_up() const noexcept { return left_.empty(); }
  Result<bool> can_go_on(const EpisodePlace&) override { return left_.empty() || !left_.front().is_reset; }
  /// @error corrupt: no such answer comes next
  Result<Answer> reset(std::uint64_t seed, std::uint64_t episode) override;
  /// @error corrupt: as `reset`, or the answer is to another action; differs: it is, and the agent was changed
  Result<Answer> step(const Action& action) override;

 private:
  Result<Answer> next(bool is_reset);
  std::span<const Answer> left_;
  bool is_changed_;
};

}  // namespace weft::agent
