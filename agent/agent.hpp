// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/checkpointer.hpp"
#include "agent/durability.hpp"
#include "agent/inbox.hpp"
#include "agent/journal_flusher.hpp"
#include "agent/journal_record.hpp"
#include "agent/replayable_mesh.hpp"
#include "learning/learner_snapshot.hpp"

#include "mesh/persistence/checkpoint_snapshot.hpp"

#include "storage/checkpoint.hpp"
#include "storage/journal.hpp"

#include "core/result.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::agent {

namespace internal {
struct Found;
}

/// State of the program around an agent: saved with each checkpoint, brought up to date from the journal.
/// @thread the agent's
class StateExtension {
 public:
  virtual ~StateExtension() = default;
  /// Called first, with the mesh of the agent, which lasts as long as the agent.
  virtual Status begin(ReplayableMesh& replayable) = 0;
  /// A JSON object.
  virtual std::string save() const = 0;
  virtual Status load(std::string_view json) = 0;
  /// A record was replayed; scores wait in the learner.
  virtual Status replayed(const Record& record) = 0;
};

/// State found in the data directory, and the repairs made to it.
struct Recovery {
  bool is_new = false;           ///< true: the directory was empty
  std::uint64_t checkpoint = 0;  ///< tick of the checkpoint it began from
  std::uint64_t records = 0;     ///< replayed
  std::uint64_t torn_bytes = 0;  ///< of a record whose writing was cut off, dropped
  LogPosition at;                ///< where it stands now
  Hash128 hash;                  ///< of that
  std::chrono::nanoseconds took{0};
  std::vector<std::string> passed_over;  ///< checkpoints that do not verify, and why
  std::vector<std::string> damages;      ///< of the journal; with `salvage` only
};

/// Statistics of one agent at a moment.
struct AgentStatistics {
  LogPosition at, acknowledged;
  std::uint64_t waiting_bytes = 0;  ///< in memory, not on the device
  std::uint64_t journal_bytes = 0;  ///< since the last checkpoint was taken
  std::uint64_t journal_failures = 0;
  CheckpointStatistics checkpoint;
  std::optional<std::string> last_error;  ///< why nothing is being acknowledged
};

/// A mesh (and its learner) kept in a data directory: checkpoints, and a journal of all external inputs since. Opening
/// the directory again restores it, to the bit.
///
/// Every call does its work first and then appends its record, which is acknowledged when `acknowledged` has reached it
/// (Durability). When the disk fails, the agent goes on, reports it in log and statistics, and catches up later.
/// @thread one at a time
/// @exact  opened again it has the state hash that it had when the last record was written
class Agent {
 public:
  struct Options {
    Durability durability;
    std::size_t keep = 3;                                       ///< checkpoints, at least 1
    std::uint64_t checkpoint_every = 0;                         ///< ticks; 0: as the next two say
    std::uint64_t checkpoint_bytes = std::uint64_t{256} << 20;  ///< of journal since the last one
    std::uint64_t checkpoint_steps = 100000;                    ///< of an agent that acts: ticks since the last one
    /// Of records that could not be written. Beyond it they are dropped, and a checkpoint must bring them to the
    /// device.
    std::uint64_t waiting_bytes = std::uint64_t{256} << 20;
    bool learns = true;      ///< by the network's section "learning"
    bool salvage = false;    ///< go on where a damaged journal ends, though it went further
    bool background = true;  ///< write beside the mesh; else in the calls
    storage::JournalOptions journal;
    mesh::MeshOptions mesh;
    Now now = steady_now;
    /// Called for a new agent before its first checkpoint, for example to load weights from a file.
    std::function<Status(mesh::Mesh&)> on_create;
    StateExtension* extension = nullptr;
    /// The first difference between the network of the agent that is found and the one given, in words; nothing where
    /// it may go on. Empty: any difference but devices is one.
    std::function<Result<std::optional<std::string>>(std::string_view stored, std::string_view given)> differ;
    /// Identity of the agent besides its network: it must be the same whenever the directory is opened.
    std::string identity;
  };

  /// A new agent of `spec` when `directory` is empty or missing (its parent must exist), else the one found there:
  /// verified, and replayed up to its last record.
  /// @error invalid_argument: an agent of another network or identity, or a directory with other files; storage:
  /// in use; corrupt: no checkpoint or journal
  ///        can be used, or the replay differs from the record; names the damaged file
  static Result<std::unique_ptr<Agent>> open(storage::FileSystem& files, const std::string& directory,
                                             const mesh::NetworkSpec& spec, Options options, Recovery& recovery);
  /// The same on this machine's files, for callers that need no Recovery.
  static Result<std::unique_ptr<Agent>> open(const std::string& directory, const mesh::NetworkSpec& spec,
                                             Options options);
  static Result<std::unique_ptr<Agent>> open(const std::string& directory, const mesh::NetworkSpec& spec) {
    return open(directory, spec, Options());
  }
  /// The agent in `directory`, with the network that it was created with.
  /// @error not_found: none does; invalid_argument: it is kept by another program beside it, such as `weft run`, whose
  ///        own state would be lost; as the others
  static Result<std::unique_ptr<Agent>> open(const std::string& directory, Options options);
  static Result<std::unique_ptr<Agent>> open(const std::string& directory) { return open(directory, Options()); }

  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  const mesh::Mesh& mesh() const noexcept { return replayable_.mesh(); }
  /// Of all its state, as markers and checkpoints have it.
  Hash128 hash() const { return replayable_.hash(); }
  learning::Learner* learner() noexcept { return replayable_.learner(); }
  /// Null: the network has no section "reinforcement". To look at; `act` moves it.
  EnvironmentLoop* loop() noexcept { return replayable_.loop(); }

  /// As the mesh's and the learner's own. What those refuse changes nothing and is not written down.
  Status set_input(std::string_view port, std::span<const float> values, std::size_t session = 0);
  Status tick(std::uint64_t n = 1);
  Status learn(std::span<const mesh::RunInput> inputs, std::span<const learning::Target> targets,
               std::uint64_t samples);
  Status drain();
  /// Acts so many times in the environment of the network's section "reinforcement". An external one that fails breaks
  /// a step off: the steps before it are in the journal, later calls are refused, and the directory, opened anew, goes
  /// on from there.
  Status act(std::uint64_t steps);
  Result<learning::Ticket> observe(std::span<const mesh::RunInput> inputs);
  Status teach(learning::Ticket ticket, std::span<const learning::Target> targets);
  Status forgo(learning::Ticket ticket);
  /// `now`: executed at once, with what else waits and is due, rather than with the next tick: the same bits.
  Result<mesh::CommandMessage> post(Coord cell, std::shared_ptr<mesh::Command> control, bool now = false);
  /// As Mesh::tell and Mesh::ask; a command is sent as by `post`. What other threads send to an address of the mesh
  /// (mesh::tell) waits in the agent, up to 1,024 messages; the next call that ticks or sends takes it first, as if it
  /// were told here.
  Result<std::uint64_t> tell(Coord to, mesh::MessagePointer message);
  Result<mesh::MailPointer> ask(Coord to, mesh::MailPointer mail, std::uint64_t ticks = 0);
  Result<std::size_t> add_session();
  Status remove_session(std::size_t session);
  Status reset_session(std::size_t session);
  /// A session that mesh::detach_session wrote, here or on another machine. @error as mesh::attach_session
  Result<std::size_t> attach_session(ByteSpan file, bool allow_other_weights = false);
  void resume();
  /// Appends an annotation of the caller (a reward, a seed), returned in order when the run is replayed.
  Status note(std::string_view topic, std::string_view text);
  /// Appends a marker, tick and state hash, for `weft replay --verify` and `weft diff` to compare.
  Status mark();

  /// Takes a checkpoint now (it is written beside the mesh). False: one is being written still.
  bool checkpoint();
  /// Takes one, and waits until it is on the device. @error storage
  Status checkpoint_and_wait();
  /// Waits until everything so far is acknowledged. @error storage
  Status acknowledge();

  AgentStatistics statistics() const;
  const std::string& directory() const noexcept { return store_.directory(); }

 private:
  friend struct AgentAccess;
  Agent(storage::FileSystem& files, storage::CheckpointStore store, Options options, ReplayableMesh replayable);
  Status initialize();
  Status recover(const internal::Found& saved, Recovery& recovery);
  void begin_writing(std::unique_ptr<storage::JournalWriter> journal);
  Status ready() const;
  /// A message that the mesh took.
  Status write_down(Coord to, const mesh::Message& message);
  /// Sends on what waits in the inbox. What finds a full mailbox waits on, and later messages to its cell behind it.
  void take_in();
  Status take_checkpoint(bool awaited);
  Result<Checkpointer::Content> encode(const storage::JournalPlace& place, const std::string& extension) const;
  template <class Write>
  Status journaled(Status status, RecordKind kind, Write&& write);
  /// After a record: what is due now, a reaction to a change of the task among it. `kind`: none of a call that a fault
  /// ended. @error as ReplayableMesh::react
  Status look_after(RecordKind kind);

  storage::FileSystem& files_;
  storage::CheckpointStore store_;
  const std::string journal_directory_;
  const Options options_;
  std::string network_;  // it was created with, as text
  ReplayableMesh replayable_;
  const bool has_learner_;
  bool holds_checkpoints_ = false;
  RecordBytes bytes_;
  // The checkpoint being written; the next one is taken when it is done.
  mesh::CheckpointSnapshot snapshot_;
  learning::LearnerSnapshot learner_snapshot_;
  std::vector<std::byte> loop_snapshot_;                      // empty: no environment
  std::optional<std::string> broken_;                         // what made state and journal part
  std::uint64_t checkpoint_tick_ = 0, checkpoint_bytes_ = 0;  // when the last one was taken
  std::chrono::nanoseconds next_checkpoint_{0};
  std::unique_ptr<storage::JournalWriter> journal_;
  std::unique_ptr<JournalFlusher> flusher_;
  Inbox inbox_;
  std::unique_ptr<Checkpointer> checkpointer_;  // last: it goes first
};

}  // namespace weft::agent
