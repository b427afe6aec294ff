// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/agent_command.hpp"

#include "mesh/fwd.hpp"

#include "core/coord.hpp"
#include "core/json.hpp"
#include "core/result.hpp"

#include <functional>
#include <memory>

namespace weft::learning {
class Learner;
}

namespace weft::agent {

/// Mesh that a command acts on.
struct CommandTarget {
  const mesh::Mesh& mesh;
  const learning::Learner* learner;   ///< null: none, so that orders of rates are refused
  const mesh::NetworkSpec& original;  ///< the network as it was begun: the rates that `thaw` gives back
  /// Sends a command to a cell and has it executed at once.
  std::function<Result<mesh::CommandMessage>(Coord cell, std::shared_ptr<mesh::Command> command)> post;
};

/// Executes a command: a message goes to each cell or layer that it means. The answer is that of docs/formats/top.md
/// without `kept`.
/// @error unknown_name: nothing stands there; unsupported: nothing there that it could change; the first failure of a
///        command, with how many were executed
/// @thread the mesh's
Result<Json> execute_command(const AgentCommand& command, const CommandTarget& target);

}  // namespace weft::agent
