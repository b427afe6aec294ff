// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/agent.hpp"

#include "core/result.hpp"

#include <shared_mutex>

namespace weft::agent {

/// Parts of an agent that servers need and its users do not.
/// @thread as Agent
struct AgentAccess {
  /// While they are held, no checkpoint is taken but by `checkpoint` and `checkpoint_and_wait`, so that calls which
  /// belong together stand on one side of it.
  static void hold_checkpoints(Agent& agent, bool held) noexcept;
  /// Builds the mesh again on other cores, in their memory, and goes on with that one: the same bits. Addresses of its
  /// cells lead nowhere from then on. `readers`, where there are any, holds off those who read the mesh from other
  /// threads while the one takes the other's place, and no longer.
  /// @error  as mesh::Mesh::build: the mesh stays where it is
  static Status move_to(Agent& agent, const topology::Machine& machine, std::shared_mutex* readers = nullptr);
  /// Lets what is sent to addresses of the mesh wait in the inbox.
  static void take_deliveries(Agent& agent);
  /// Steps after which something may be due, not before.
  static Status act_at_once(Agent& agent, std::uint64_t steps);
};

}  // namespace weft::agent
