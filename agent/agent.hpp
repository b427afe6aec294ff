// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/checkpointer.hpp"
#include "agent/durability.hpp"
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
  /// The life that it goes along with, before anything else is asked; it lives as long as the agent.
  virtual Status begin(ReplayableMesh& life) = 0;
  /// A JSON object.
  virtual std::string save() const = 0;
  virtual Status load(std::string_view json) = 0;
  /// A record was lived again; scores wait in the learner.
  virtual Status replayed(const Record& record) = 0;
};

/// State found in the data directory, and the repairs made to it.
struct Recovery {
  bool is_new = false;           ///< nothing: a life begins
  std::uint64_t checkpoint = 0;  ///< tick of the checkpoint it began from
  std::uint64_t records = 0;     ///< lived again
  std::uint64_t torn_bytes = 0;  ///< of a record whose writing was cut off, dropped
  LogPosition at;                ///< where it stands now
  Hash128 hash;                  ///< of that
  std::chrono::nanoseconds took{0};
  std::vector<std::string> passed_over;  ///< checkpoints that do not verify, and why
  std::vector<std::string> damages;      ///< of the journal; with `salvage` only
};

/// One agent's figures at a moment.
struct AgentStatistics {
  LogPosition at, acknowledged;
  std::uint64_t waiting_bytes = 0;  ///< in memory, not on the device
  std::uint64_t journal_bytes = 0;  ///< since the last checkpoint was taken
  std::uint64_t journal_failures = 0;
  CheckpointStatistics checkpoint;
  std::optional<std::string> last_error;  ///< why nothing is being acknowledged
};

/// A mesh (and its learner) whose life is kept in a directory: checkpoints, and a journal of all that came from outside
/// since. Opening the directory again stands it where it was, to the bit.
///
/// Every call does its work first and writes it down then; it counts as acknowledged when `acknowledged` has reached
/// it (Durability). Where the disk fails, the agent goes on, says so in the log and in its figures, and catches up.
/// @thread one at a time
/// @exact  opened again it has the state hash that it had when the last record was written
class Agent {
 public:
  struct Options {
    Durability durability;
    std::size_t keep = 3;                ///< checkpoints, at least 1
    std::uint64_t checkpoint_every = 0;  ///< ticks; 0: when the journal has grown by `checkpoint_bytes`
    std::uint64_t checkpoint_bytes = std::uint64_t{256} << 20;
    /// Of records that could not be written. Beyond it they are dropped, and a checkpoint must bring them to the
    /// device.
    std::uint64_t waiting_bytes = std::uint64_t{256} << 20;
    bool learns = true;      ///< by the network's section "learning"
    bool salvage = false;    ///< go on where a damaged journal ends, though it went further
    bool background = true;  ///< write beside the mesh; else in the calls
    storage::JournalOptions journal;
    mesh::MeshOptions mesh;
    Now now = steady_now;
    /// Of a new life: what happens to the mesh before its first checkpoint (weights from a file).
    std::function<Status(mesh::Mesh&)> on_create;
    StateExtension* extension = nullptr;
    /// Identity of the agent besides its network: it must be the same whenever the directory is opened.
    std::string identity;
  };

  /// A new life of `spec` where `directory` is empty or missing (its parent must be there), else the one found there:
  /// verified, and lived again up to its last record.
  /// @error invalid_argument: a life of another network or identity, or a directory of somebody else's files; storage:
  /// in use; corrupt: what is there leads
  ///        nowhere, or lives on differently than it did; names what is damaged
  static Result<std::unique_ptr<Agent>> open(storage::FileSystem& files, const std::string& directory,
                                             const mesh::NetworkSpec& spec, Options options, Recovery& recovery);
  /// The same on this machine's files, for who need not know what was found.
  static Result<std::unique_ptr<Agent>> open(const std::string& directory, const mesh::NetworkSpec& spec,
                                             Options options);
  static Result<std::unique_ptr<Agent>> open(const std::string& directory, const mesh::NetworkSpec& spec) {
    return open(directory, spec, Options());
  }
  /// The agent that lives in `directory`, by the network that it was begun with.
  /// @error not_found: none does; invalid_argument: it is kept by another program beside it, such as `weft run`, whose
  ///        own state would be lost; as the others
  static Result<std::unique_ptr<Agent>> open(const std::string& directory, Options options);
  static Result<std::unique_ptr<Agent>> open(const std::string& directory) { return open(directory, Options()); }

  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  const mesh::Mesh& mesh() const noexcept { return replayable_.mesh(); }
  learning::Learner* learner() noexcept { return replayable_.learner(); }

  /// As the mesh's and the learner's own. What those refuse changes nothing and is not written down.
  Status set_input(std::string_view port, std::span<const float> values, std::size_t session = 0);
  Status tick(std::uint64_t n = 1);
  Status learn(std::span<const mesh::RunInput> inputs, std::span<const learning::Target> targets,
               std::uint64_t samples);
  Status drain();
  Result<mesh::CommandMessage> post(Coord cell, std::shared_ptr<mesh::Command> control);
  Result<std::size_t> add_session();
  Status remove_session(std::size_t session);
  Status reset_session(std::size_t session);
  /// A session that mesh::detach_session wrote, here or on another machine. @error as mesh::attach_session
  Result<std::size_t> attach_session(ByteSpan file, bool allow_other_weights = false);
  void resume();
  /// Words of the caller's own (a reward, a seed), given back in order when the life is replayed.
  Status note(std::string_view topic, std::string_view text);
  /// Writes tick and hash down, for `weft replay --verify` and `weft diff` to compare.
  Status mark();

  /// Takes a checkpoint now (it is written beside the mesh). False: one is being written still.
  bool checkpoint();
  /// Takes one, and waits until it is on the device. @error storage
  Status checkpoint_and_wait();
  /// Waits until everything so far is acknowledged. @error storage
  Status acknowledge();

  AgentStatistics figures() const;
  const std::string& directory() const noexcept { return store_.directory(); }

 private:
  Agent(storage::FileSystem& files, storage::CheckpointStore store, Options options, ReplayableMesh life);
  Status initialize();
  Status recover(const internal::Found& home, Recovery& recovery);
  void begin_writing(std::unique_ptr<storage::JournalWriter> journal);
  Status ready() const;
  Status no_learner() const;
  Status take_checkpoint(bool awaited);
  Result<Checkpointer::Content> encode(const storage::JournalPlace& place, const std::string& extension) const;
  template <class Write>
  Status lived(Status status, RecordKind kind, Write&& write);
  void look_after();
  LogPosition boundary() const noexcept;

  storage::FileSystem& files_;
  storage::CheckpointStore store_;
  const std::string journal_directory_;
  const Options options_;
  std::string network_;  // of its birth, as text
  ReplayableMesh replayable_;
  const bool has_learner_;
  RecordBytes bytes_;
  // The checkpoint being written; the next one is taken when it is done.
  mesh::CheckpointSnapshot capture_;
  learning::LearnerBlobs learner_blobs_;
  std::optional<std::string> broken_;                         // what made state and journal part
  std::uint64_t checkpoint_tick_ = 0, checkpoint_bytes_ = 0;  // when the last one was taken
  std::chrono::nanoseconds next_checkpoint_{0};
  std::unique_ptr<storage::JournalWriter> journal_;
  std::unique_ptr<JournalFlusher> committer_;
  std::unique_ptr<Checkpointer> checkpointer_;  // last: it goes first
};

}  // namespace weft::agent
