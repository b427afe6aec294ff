// SPDX-License-Identifier: Apache-2.0

#include "cli/command_queue.hpp"

#include "agent/command_execution.hpp"

#include "mesh/runtime/command.hpp"

#include <utility>

namespace weft::cli {
namespace {

using agent::AgentCommand;

/// Waits until the command is on the device, so that no crash takes back what was answered.
void keep(const CommandPlace& place, Json& answer) {
  agent::Agent& agent = *place.agent;
  const bool is_by_checkpoints = place.durability.mode == agent::Durability::Mode::checkpoint;
  const Status kept = is_by_checkpoints ? Status() : agent.acknowledge();
  const agent::AgentStatistics now = agent.statistics();
  answer["kept"] = kept && now.acknowledged.record >= now.at.record;
  if (!kept) answer["why_not_kept"] = kept.error().text();
}

std::string refusal(const Error& error) { return Json{{"refused", error.text()}, {"code", name(error.code())}}.dump(); }

std::string execute(const AgentCommand& command, const CommandPlace& place) {
  if (!place.agent)
    return refusal(Error(Errc::unsupported,
                         "this run keeps no journal, so a command to it would be lost; start it with --state DIR"));
  const auto post = [&](Coord cell, std::shared_ptr<mesh::Command> message) {
    return place.agent->post(cell, std::move(message), true);
  };
  auto answer = agent::execute_command(command, {place.agent->mesh(), place.learner, *place.original, post});
  if (!answer) return refusal(answer.error());
  keep(place, *answer);
  return answer->dump(Json::Order::as_set);
}

}  // namespace

std::optional<std::string> CommandQueue::take(std::uint64_t ticket, const Json& json) {
  auto command = agent::read_command(json);
  if (!command) return refusal(command.error());
  const std::lock_guard hold(mutex_);
  if (closed_) return refusal(Error(Errc::halted, *closed_));
  if (waiting_.size() == kMostWaiting)
    return refusal(Error(Errc::full, std::to_string(kMostWaiting) + " commands wait already; try again later"));
  waiting_.push_back({ticket, *std::move(command)});
  has_commands_.store(true, std::memory_order_release);
  return std::nullopt;
}

std::vector<CommandQueue::Waiting> CommandQueue::take_all() {
  if (!has_commands_.load(std::memory_order_acquire)) return {};
  const std::lock_guard hold(mutex_);
  has_commands_.store(false, std::memory_order_relaxed);
  return std::exchange(waiting_, {});
}

void CommandQueue::execute_all(const CommandPlace& place, const Reply& reply) {
  for (const Waiting& each : take_all()) reply(each.ticket, execute(each.command, place));
}

void CommandQueue::close(const std::string& why, const Reply& reply) {
  {
    const std::lock_guard hold(mutex_);
    closed_ = why;
  }
  for (const Waiting& each : take_all()) reply(each.ticket, refusal(Error(Errc::halted, why)));
}

}  // namespace weft::cli
