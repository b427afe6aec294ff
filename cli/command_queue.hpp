// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/agent.hpp"
#include "agent/agent_command.hpp"
#include "learning/learner.hpp"

#include "mesh/mesh.hpp"

#include "core/json.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace weft::cli {

/// Mesh that commands act on.
struct CommandPlace {
  agent::Agent* agent = nullptr;                // null: nothing is journalled, so commands are refused
  const learning::Learner* learner = nullptr;   // null: none
  const mesh::NetworkSpec* original = nullptr;  // the network as it was begun
  agent::Durability durability{};
};

/// Commands of `weft send` to a running agent, from the socket's thread to the run loop, which executes them between
/// two blocks of samples: each is in the journal before it is answered, so a replay executes it at the same place.
class CommandQueue {
 public:
  static constexpr std::size_t kMostWaiting = 64;
  /// Says the answer to a ticket: one line of JSON.
  using Reply = std::function<void(std::uint64_t ticket, std::string line)>;

  /// A command that came. An answer where it is refused at once; else it waits for the run loop. @thread any
  std::optional<std::string> take(std::uint64_t ticket, const Json& command);
  /// Executes what waits. @thread the run loop's, between its blocks
  void execute_all(const CommandPlace& place, const Reply& reply);
  /// No command is executed any more; those that wait are refused too. @thread the run loop's
  void close(const std::string& why, const Reply& reply);

 private:
  struct Waiting {
    std::uint64_t ticket = 0;
    agent::AgentCommand command;
  };
  std::vector<Waiting> take_all();

  std::mutex mutex_;  // of the two below
  std::vector<Waiting> waiting_;
  std::optional<std::string> closed_;  // why
  std::atomic<bool> has_commands_{false};
};

}  // namespace weft::cli
