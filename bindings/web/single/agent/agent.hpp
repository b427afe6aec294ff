// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/learner.hpp"

#include "mesh/mesh.hpp"

#include "core/result.hpp"

namespace weft::agent {

/// There are no agents in this build: their journal has a thread of its own. None is ever made; the C ABI names it.
class Agent {
 public:
  Agent() = delete;
  const mesh::Mesh& mesh() const noexcept { return *mesh_; }
  learning::Learner* learner() noexcept { return nullptr; }
  Status set_input(std::string_view, std::span<const float>, std::size_t) { return none(); }
  Status tick(std::uint64_t = 1) { return none(); }
  Status learn(std::span<const mesh::RunInput>, std::span<const learning::Target>, std::size_t) { return none(); }
  Status drain() { return none(); }
  Result<learning::Ticket> observe(std::span<const mesh::RunInput>) { return none(); }
  Status teach(learning::Ticket, std::span<const learning::Target>) { return none(); }
  Status forgo(learning::Ticket) { return none(); }
  Result<mesh::CommandMessage> post(Coord, std::shared_ptr<mesh::Command>) { return none(); }
  Result<std::size_t> add_session() { return none(); }
  Status remove_session(std::size_t) { return none(); }
  Status reset_session(std::size_t) { return none(); }
  Result<std::size_t> attach_session(ByteSpan, bool) { return none(); }
  void resume() {}

 private:
  static Failure none() { return fail(Errc::unsupported, "this build has no agents"); }
  const mesh::Mesh* mesh_ = nullptr;
};

}  // namespace weft::agent
