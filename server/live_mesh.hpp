// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/agent.hpp"
#include "agent/durability.hpp"
#include "agent/replayable_mesh.hpp"
#include "learning/learner.hpp"
#include "server/score_window.hpp"

#include "mesh/mesh.hpp"

#include "formats/entity/entity.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::server {

/// State that a server keeps beside a mesh: names of sessions, the version of its weights. With a data directory
/// it is in each checkpoint, and a note in the journal tells each change.
struct ServedState {
  std::vector<std::string> sessions;  ///< by lane
  std::uint64_t weight_version = 1;
  std::string weight_label;

  Json json() const;
  /// @error parse_failed and others of the JSON reader
  static Result<ServedState> read(const Json& json);
};

/// A mesh and its learner, if it has one, behind one set of calls: in memory alone, or kept in a data directory by an
/// agent, which journals what comes from outside. Each call is as the agent's of the same name.
/// @thread one at a time
class LiveMesh {
 public:
  struct Options {
    mesh::MeshOptions mesh;
    std::string directory;  ///< data directory; empty: none, and nothing outlives the process
    agent::Durability durability;
    std::uint64_t checkpoint_every = 0;  ///< ticks; 0: by the journal's growth
    bool learns = true;                  ///< by the network's section "learning", which alone then moves the ticks
  };

  /// A new mesh of `spec`, or the one found in the data directory. @error as agent::Agent::open
  static Result<std::unique_ptr<LiveMesh>> create(const mesh::NetworkSpec& spec, Options options);
  /// The same with the weights of a file; without a data directory also with the live state that it may hold.
  static Result<std::unique_ptr<LiveMesh>> create(const formats::EntityFile& file, Options options);
  /// The mesh in a data directory. @error not_found: none is there
  static Result<std::unique_ptr<LiveMesh>> resume(Options options);
  ~LiveMesh();

  const mesh::Mesh& mesh() const noexcept;
  const learning::Learner* learner() const noexcept { return const_cast<LiveMesh*>(this)->learner_of(); }
  bool has_directory() const noexcept { return agent_ != nullptr; }
  const agent::Recovery& recovery() const noexcept { return recovery_; }
  const ServedState& state() const noexcept;
  /// With a data directory it goes on where it was.
  const ScoreWindow& scores() const noexcept;
  const Options& options() const noexcept { return options_; }

  Status set_input(std::string_view port, std::span<const float> values, std::size_t session);
  Status tick(std::uint64_t n);
  /// Scores of the samples that were finished by it are in `last_scores`.
  Status learn(std::span<const mesh::RunInput> inputs, std::span<const learning::Target> targets,
               std::uint64_t samples);
  Status drain();
  Result<learning::Ticket> observe(std::span<const mesh::RunInput> inputs);
  Status teach(learning::Ticket ticket, std::span<const learning::Target> targets);
  Status forgo(learning::Ticket ticket);
  std::span<const learning::Score> last_scores() const noexcept { return last_scores_; }
  /// Executed at once.
  Result<mesh::CommandMessage> post(Coord cell, std::shared_ptr<mesh::Command> command);
  void resume_after_halt();
  /// Builds the mesh again on another part of the machine, with its sessions, and goes on with that one: the same bits.
  /// `readers`: see agent::AgentAccess.
  /// @error as mesh::Mesh::build: the mesh stays where it is
  Status move_to(const topology::Machine& machine, std::shared_mutex* readers = nullptr);

  /// The lane of the session with this name. @error not_found
  Result<std::size_t> lane_of(std::string_view session) const;
  /// @error duplicate_name; as Mesh::add_session
  Result<std::size_t> add_session(const std::string& name);
  Status remove_session(std::string_view name);
  Status reset_session(std::string_view name);
  /// The session as the bytes of a file. @error as mesh::detach_session
  Result<ByteBuffer> save_session(std::string_view name) const;
  Result<std::size_t> attach_session(const std::string& name, ByteSpan file);

  /// Replaces all weights by those of a file of the same network, checked as a whole before the first one changes; the
  /// weights of before are kept as a version, up to kKeptVersions of them, in memory. Optimiser state stays.
  /// @error shape_mismatch, not_found, not_finite: nothing was changed
  Status replace_weights(const formats::EntityFile& file, const std::string& label);
  /// Replaces them by those of an earlier version that is kept; it gets a new number. @error not_found
  Status roll_back(std::optional<std::uint64_t> version);
  /// A version of the weights that was replaced.
  struct KeptVersion {
    std::uint64_t version = 0;
    std::string label;
    std::vector<std::vector<float>> values;  // by parameter
  };
  const std::vector<KeptVersion>& kept_versions() const noexcept { return kept_; }
  static constexpr std::size_t kKeptVersions = 2;
  /// Tick and state hash into the journal, after a note where one is given. @error unsupported: no data directory
  Status mark(std::string_view note);
  /// @error unsupported: no data directory; storage
  Status checkpoint();
  /// Waits until all so far is on the device; nothing to wait for without a data directory. @error storage
  Status acknowledge();
  std::optional<agent::AgentStatistics> statistics() const;
  Hash128 hash() const;
  /// The mesh as a file; `live` with its state. @error as mesh::entity_of
  Result<ByteBuffer> entity(bool live);

 private:
  class Extension;
  explicit LiveMesh(Options options);
  learning::Learner* learner_of() noexcept;
  Status with_learner() const;
  void take_scores();
  /// Brings the names in line with the sessions that there are, and undoes what a kill left half done.
  Status settle();
  Status remember();
  Status put_weights(std::vector<std::vector<float>> values, const std::string& label);
  agent::Agent::Options agent_options();

  const Options options_;
  std::unique_ptr<Extension> extension_;
  agent::Recovery recovery_;
  std::unique_ptr<agent::ReplayableMesh> volatile_;  // without a data directory
  std::unique_ptr<agent::Agent> agent_;              // with one
  std::vector<learning::Score> last_scores_;
  std::vector<KeptVersion> kept_;
};

}  // namespace weft::server
