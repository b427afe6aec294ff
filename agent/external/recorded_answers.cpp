// SPDX-License-Identifier: Apache-2.0

#include "agent/external/recorded_answers.hpp"

#include <string>

namespace weft::agent {

Result<Answer> RecordedAnswers::next(bool is_reset) {
  if (left_.empty() || left_.front().is_reset != is_reset)
    return fail(Errc::corrupt, std::string("no answer of the environment to ") +
                                   (is_reset ? "the beginning of an episode" : "an action") +
                                   " is in the journal here");
  Answer answer = left_.front();
  left_ = left_.subspan(1);
  return answer;
}

Result<Answer> RecordedAnswers::reset(std::uint64_t, std::uint64_t) { return next(true); }

Result<Answer> RecordedAnswers::step(std::uint32_t action) {
  if (!left_.empty() && !left_.front().is_reset && left_.front().action != action) {
    const std::string text = "the agent takes action " + std::to_string(action) + ", and took " +
                             std::to_string(left_.front().action) + " when it was recorded";
    if (!is_changed_) return fail(Errc::corrupt, text);
    return fail(Errc::differs, text +
                                   "; the journal has no answer of the external environment to it, so a changed "
                                   "replay ends here");
  }
  return next(false);
}

}  // namespace weft::agent
