// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/environment_loop.hpp"
#include "agent/journal_record.hpp"
#include "learning/drift/drift_watch.hpp"
#include "learning/learner.hpp"

#include "mesh/mesh.hpp"

#include "formats/entity/entity.hpp"

#include "core/result.hpp"
#include "core/state_hash.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weft::agent {

/// One hash of all sessions of a mesh: the only one's, or a hash over all in order.
Hash128 fold_sessions(std::size_t sessions, const std::function<Hash128(std::size_t)>& hash_of);

/// `mesh` with the state of an environment's loop; `mesh` itself where there is none.
Hash128 with_loop(Hash128 mesh, ByteSpan loop);

/// True for records after which ReplayableMesh::due is asked; of those that a fault ended, none.
bool allows_reaction(RecordKind kind) noexcept;
bool allows_reaction(const Record& record) noexcept;

/// Name of that state among the tensors of a file.
inline constexpr const char* kLoopTensor = "reinforcement/state";

/// A mesh, and its learner if it has one, moved by records: an agent without its data directory.
/// The same records from the same state give the same state, to the bit.
/// @thread one at a time
class ReplayableMesh {
 public:
  /// A new one. `learns`: by the section "learning" of the network.
  static Result<ReplayableMesh> begin(const mesh::NetworkSpec& spec, bool learns, mesh::MeshOptions options);
  /// As a file with live state holds it; `spec` is the file's network, or one changed in types or rates.
  static Result<ReplayableMesh> restore(const formats::EntityFile& file, const mesh::NetworkSpec& spec,
                                        mesh::MeshOptions options);

  /// The same for a network that is changed in how it learns too. Where the state of the file's learner (section
  /// "learning" of `was`) means nothing to the changed one, or does not fit, a new learner goes on with the mesh
  /// (learning::take_over): `anew` names what begins anew. Calls may end otherwise than they did when they were
  /// recorded, and what is taught too late is left out. @error as `restore`, of the changed one
  static Result<ReplayableMesh> restore_changed(const formats::EntityFile& file, const mesh::NetworkSpec& was,
                                                const mesh::NetworkSpec& spec, const mesh::MeshOptions& options,
                                                std::vector<std::string>& anew);

  /// The same mesh, learner and loop once more, built with other options: other cores, other memory. Goes on to the
  /// same bits. @pre quiesce was called for this state
  Result<ReplayableMesh> copy(mesh::MeshOptions options);
  void swap(ReplayableMesh& other) noexcept;

  mesh::Mesh& mesh() noexcept { return *mesh_; }
  const mesh::Mesh& mesh() const noexcept { return *mesh_; }
  /// Null: no learner.
  learning::Learner* learner() noexcept { return learner_.get(); }
  /// Null: the network has no section "reinforcement", or does not learn.
  EnvironmentLoop* loop() noexcept { return loop_.get(); }
  const EnvironmentLoop* loop() const noexcept { return loop_.get(); }

  /// Over the state hashes of all sessions, in order, and the state of the environment's loop where there is one.
  Hash128 hash() const;

  /// Prepares the mesh for a checkpoint: delivers waiting commands, as the next tick would, and makes this state the
  /// one that `restart` returns to.
  void quiesce();
  /// Executes a record. @error corrupt: it ended otherwise than the record says, or a marker's tick or
  /// hash differs; errors of the mesh
  Status apply(const Record& record);
  /// Samples [first, first + count) of a batch. @error as the learner's
  Status learn(const LearnRecord& record, std::uint64_t first, std::uint64_t count);
  /// Acts so many times, and does what is due at a change of the task where it is looked for (`steps_to_look`): the
  /// same state, however the steps are divided into calls. @error as EnvironmentLoop::run, `react`
  Status act(std::uint64_t steps);
  /// Steps of the loop, at most so many, after which something may be due.
  std::uint64_t steps_to_look(std::uint64_t most) const noexcept;
  /// Reaction that the learner's `drift` wants after so many samples, at a change of the task.
  learning::DriftReaction due() const;
  /// Does what is due, if something is. @error as mesh::Mesh::post
  Status react();
  /// False: apply compares no hashes (a run that was changed on purpose), and reacts to the changes that it sees
  /// itself, rather than where its journal says so.
  void compare_marks(bool compare) noexcept { compares_ = compare; }
  bool compares_marks() const noexcept { return compares_; }
  /// Targets of samples that were still open when they were recorded, and had expired in a changed run: left out.
  std::uint64_t left_out() const noexcept { return left_out_; }

 private:
  ReplayableMesh() = default;
  /// Learner and loop, by the sections of the network.
  Status begin_learning(const mesh::NetworkSpec& spec);
  Status apply_one(const InputRecord& record);
  Status apply_one(const TicksRecord& record);
  Status apply_one(const LearnRecord& record);
  Status apply_one(const DrainRecord& record);
  Status apply_one(const CommandRecord& record);
  Status apply_one(const MessageRecord& record);
  Status apply_one(const AddSessionRecord& record);
  Status apply_one(const RemoveSessionRecord& record);
  Status apply_one(const ResetSessionRecord& record);
  Status apply_one(const AttachSessionRecord& record);
  Status apply_one(const ResumeRecord& record);
  Status apply_one(const MarkerRecord& record);
  Status apply_one(const CheckpointRecord& record);
  Status apply_one(const ObserveRecord& record);
  Status apply_one(const TeachRecord& record);
  Status apply_one(const ForgoRecord& record);
  Status apply_one(const DeliverRecord& record);
  Status apply_one(const ActRecord& record);
  Status apply_one(const ReactRecord& record);
  Status apply_one(const ActExternalRecord& record);
  Status compare(std::uint64_t tick, Hash128 hash) const;
  Status compare_tick(std::uint64_t tick) const;

  std::unique_ptr<mesh::Mesh> mesh_;
  std::unique_ptr<learning::Learner> learner_;  // after the mesh: it goes first
  std::unique_ptr<EnvironmentLoop> loop_;       // after the learner
  bool compares_ = true;
  bool is_changed_ = false;
  std::uint64_t left_out_ = 0;
};

}  // namespace weft::agent
