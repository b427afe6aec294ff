// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "capi/internal/handles.hpp"
#include "capi/weft.h"

#include "agent/agent.hpp"
#include "learning/layer_monitor.hpp"
#include "learning/learner.hpp"

#include "mesh/mesh.hpp"
#include "mesh/network/network.hpp"
#include "mesh/persistence/snapshot.hpp"
#include "mesh/runtime/command.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace weft::capi {

struct NetworkObject final : Object {
  using Handle = weft_network;
  static constexpr Kind kKind = Kind::network;
  mesh::NetworkSpec spec;
};

/// A mesh with what drives it: its own, or an agent's, whose calls go into a journal.
struct MeshState final : SharedState {
  explicit MeshState(mesh::Mesh built) : own(std::move(built)) {}
  explicit MeshState(std::unique_ptr<agent::Agent> opened) : agent(std::move(opened)) {}

  const mesh::Mesh& mesh() const noexcept { return agent ? agent->mesh() : *own; }
  /// The mesh, for a call that no journal has. @error unsupported: it is an agent's; `instead` says what to do
  Result<mesh::Mesh*> own_mesh(std::string_view call, std::string_view instead);
  /// `work` on whichever has the call of that name: the agent or the mesh.
  template <class Work>
  auto change(Work&& work) {
    using Given = decltype(work(*own));
    return agent ? Given(work(*agent)) : work(*own);
  }
  /// The learner that is attached; null: none.
  learning::Learner* learner() noexcept { return agent ? agent->learner() : attached; }

  std::optional<mesh::Mesh> own;
  std::unique_ptr<agent::Agent> agent;
  learning::Learner* attached = nullptr;          // to `own`
  std::string section;                            // "learning" as it was built with
  std::optional<learning::LayerMonitor> monitor;  // of the learner; goes before it
};

struct MeshObject final : Object {
  using Handle = weft_mesh;
  static constexpr Kind kKind = Kind::mesh;
  explicit MeshObject(std::shared_ptr<MeshState> of) : Object(of), state(*of) {}
  MeshState& state;
};

struct LearnerObject final : Object {
  using Handle = weft_learner;
  static constexpr Kind kKind = Kind::learner;
  /// The agent's.
  explicit LearnerObject(std::shared_ptr<MeshState> of) : Object(of), state(*of) {}
  /// One of the mesh's own, of a section "learning".
  LearnerObject(std::shared_ptr<MeshState> of, std::unique_ptr<learning::Learner> built, std::string section)
      : Object(of), state(*of), own(std::move(built)) {
    state.attached = own.get();
    state.section = std::move(section);
  }
  ~LearnerObject() override {
    if (!own) return;
    state.monitor.reset();
    state.attached = nullptr;
  }
  learning::Learner& learner() noexcept { return *state.learner(); }
  /// `work` on whichever has the call of that name: the agent or the learner.
  template <class Work>
  auto change(Work&& work) {
    using Given = decltype(work(learner()));
    return state.agent ? Given(work(*state.agent)) : work(learner());
  }
  MeshState& state;
  std::unique_ptr<learning::Learner> own;
};

struct AgentObject final : Object {
  using Handle = weft_agent;
  static constexpr Kind kKind = Kind::agent;
  explicit AgentObject(std::shared_ptr<MeshState> of) : Object(of), shared_mesh(std::move(of)) {}
  agent::Agent& agent() noexcept { return *shared_mesh->agent; }
  /// An agent that goes takes its mesh and its learner along.
  ~AgentObject() override {
    shared_mesh->is_closed = true;
    shared_mesh->monitor.reset();
    shared_mesh->agent.reset();
  }
  std::shared_ptr<MeshState> shared_mesh;
};

struct SnapshotObject final : Object {
  using Handle = weft_snapshot;
  static constexpr Kind kKind = Kind::snapshot;
  mesh::Snapshot snapshot;
};

struct AnswerObject final : Object {
  using Handle = weft_answer;
  static constexpr Kind kKind = Kind::answer;
  explicit AnswerObject(mesh::CommandMessage sent) : message(std::move(sent)) {}
  mesh::CommandMessage message;
};

}  // namespace weft::capi
