// SPDX-License-Identifier: Apache-2.0

#include "agent/external/recorded_answers.hpp"

#include <algorithm>
#include <charconv>
#include <string>

namespace weft::agent {
namespace {

std::string action_text(std::uint32_t choice, std::span<const float> values) {
  if (values.empty()) return std::to_string(choice);
  std::string text;
  for (const float value : values) {
    char number[32];
    text += text.empty() ? "[" : ", ";
    text.append(number, std::to_chars(number, number + sizeof number, value).ptr);
  }
  return text + "]";
}

}  // namespace

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

Result<Answer> RecordedAnswers::step(const Action& action) {
  const bool is_other =
      !left_.empty() && !left_.front().is_reset &&
      (left_.front().action != action.choice || !std::ranges::equal(left_.front().values, action.values));
  if (is_other) {
    const std::string text = "the agent takes action " + action_text(action.choice, action.values) + ", and took " +
                             action_text(left_.front().action, left_.front().values) + " when it was recorded";
    if (!is_changed_) return fail(Errc::corrupt, text);
    return fail(Errc::differs, text +
                                   "; the journal has no answer of the external environment to it, so a changed "
                                   "replay ends here");
  }
  return next(false);
}

}  // namespace weft::agent
