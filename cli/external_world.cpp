// SPDX-License-Identifier: Apache-2.0

#include "cli/external_world.hpp"

#include "agent/external/episode_trail.hpp"
#include "agent/external/protocol.hpp"

#include <algorithm>
#include <utility>

namespace weft::cli {
namespace {

constexpr std::chrono::milliseconds kFirst{60000};  // a program loads its libraries before its first answer
constexpr std::chrono::milliseconds kClosing{200};

}  // namespace

ExternalWorld::ExternalWorld(Place place, const agent::EnvironmentOptions& options,
                             std::function<void(const Return&)> tell)
    : place_(std::move(place)),
      shape_{.observations = options.observations, .choices = options.actions, .values = options.values},
      timeout_(static_cast<std::int64_t>(options.timeout * 1000.0)),
      tell_(std::move(tell)) {}

Failure ExternalWorld::broken(const std::string& request, const Error& error) {
  channel_.reset();
  at_.reset();
  Error whole(error.code(), "environment '" + place_.name() + "', asked " + request + ": " + error.text());
  fault_ = Fault{request, whole};
  return fail(std::move(whole));
}

template <class T>
Result<T> ExternalWorld::good(Result<T> answer, const std::string& request) {
  if (!answer) return broken(request, answer.error());
  return answer;
}

Result<std::string> ExternalWorld::ask(const std::string& request, std::chrono::milliseconds timeout) {
  if (const Status wrote = channel_->write_line(request, timeout); !wrote) return broken(request, wrote.error());
  return good(channel_->read_line(agent::longest_line(shape_), timeout), request);
}

Status ExternalWorld::open() {
  if (channel_) return {};
  at_.reset();
  const std::string request = agent::describe_request();
  auto opened = place_.command.empty() ? LineChannel::connect(place_.socket) : LineChannel::start(place_.command);
  if (!opened) return broken(request, opened.error());
  channel_ = *std::move(opened);
  WEFT_TRY(const std::string line, ask(request, std::max(timeout_, kFirst)));
  WEFT_TRY([[maybe_unused]] const std::string name, good(agent::read_description(line, shape_), request));
  return {};
}

void ExternalWorld::close() {
  if (channel_)
    if (const Status wrote = channel_->write_line(agent::close_request(), kClosing); !wrote) return;
  channel_.reset();
  at_.reset();
}

Result<bool> ExternalWorld::can_go_on(const agent::EpisodePlace& place) {
  if (channel_ && at_ && at_->seed == place.seed && at_->episode == place.episode && at_->steps == place.steps)
    return true;
  WEFT_TRY(std::string why, come_back(place));
  const bool is_back = why.empty();
  tell_({place.episode, place.steps, std::move(why)});
  return is_back;
}

Result<std::string> ExternalWorld::come_back(const agent::EpisodePlace& place) {
  if (place.known() != place.steps)
    return "its " + std::to_string(place.steps) + " actions are more than reinforcement.environment.resend";
  WEFT_TRY(const agent::Answer begun, reset(place.seed, place.episode));
  Hash128 chain = agent::chained({}, begun);
  for (std::size_t i = 0; i < place.known(); ++i) {
    WEFT_TRY(const agent::Answer answer, step(place.action(i)));
    chain = agent::chained(chain, answer);
    if (answer.outcome.terminated || answer.outcome.truncated)
      return "to the same seed, episode and actions it ended after " + std::to_string(at_->steps) + " of " +
             std::to_string(place.steps) + " steps";
  }
  if (chain == place.answers) return std::string();
  return std::string("to the same seed, episode and actions it gave other answers than before");
}

Result<agent::Answer> ExternalWorld::reset(std::uint64_t seed, std::uint64_t episode) {
  WEFT_CHECK(open());
  const std::string request = agent::reset_request(seed, episode);
  WEFT_TRY(const std::string line, ask(request, timeout_));
  WEFT_TRY(agent::Answer answer, good(agent::read_reset_answer(line, shape_), request));
  at_ = At{seed, episode, 0};
  return answer;
}

Result<agent::Answer> ExternalWorld::step(const agent::Action& action) {
  WEFT_CHECK(open());
  const std::string request = agent::step_request(action);
  WEFT_TRY(const std::string line, ask(request, timeout_));
  WEFT_TRY(agent::Answer answer, good(agent::read_step_answer(line, action, shape_), request));
  if (at_) ++at_->steps;
  return answer;
}

}  // namespace weft::cli
