// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/record_source.hpp"
#include "agent/replayable_mesh.hpp"

#include "storage/checkpoint.hpp"

#include "core/result.hpp"
#include "core/state_hash.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace weft::agent {

struct ReplayOptions {
  /// From the newest checkpoint at or before this tick; none: from the oldest there is.
  std::optional<std::uint64_t> from;
  /// Changes of the network, "layers[3].dtype=int8", "learning.rule=dtp": what would have been. No hashes are compared
  /// then.
  std::vector<std::string> set;
  /// True to compare tick and hash with every marker and checkpoint.
  bool verifies = false;
  mesh::MeshOptions mesh;
  /// Called by `run` after each record, or part of one, with tick and number of records.
  std::function<void(std::uint64_t tick, std::uint64_t records)> watch{};
};

/// A checkpoint of an agent.
struct CheckpointInfo {
  std::uint64_t record = 0, tick = 0;
  Hash128 hash;
};

/// A replay of an agent from one of its checkpoints. Reads the directory only, so that it may run beside the agent.
/// @thread one at a time
class Replay {
 public:
  /// @error not_found: no agent is there, no checkpoint is that old; corrupt; what a changed network is refused for
  static Result<Replay> open(storage::FileSystem& files, const std::string& directory, ReplayOptions options);
  /// The checkpoints that verify, oldest first.
  static Result<std::vector<CheckpointInfo>> checkpoint_infos(storage::FileSystem& files, const std::string& directory);

  ReplayableMesh& replayable() noexcept { return replayable_; }
  std::uint64_t tick() const noexcept { return replayable_.mesh().ticks(); }
  /// Replays to the last boundary at or before `until` (none: to where the journal ends now). Boundaries are ticks,
  /// and samples of batches; a call that a fault ended is one step.
  /// @error corrupt: the replay differs from the record; names record and tick
  Status run(std::optional<std::uint64_t> until = std::nullopt);
  /// The smallest step there is. False: the end.
  Result<bool> step();

  const CheckpointInfo& start() const noexcept { return start_; }
  /// State of the checkpoint that the changed network has no use for, and that begins anew; see
  /// ReplayableMesh::restore_changed.
  const std::vector<std::string>& anew() const noexcept { return anew_; }
  std::uint64_t records() const noexcept { return records_; }
  std::uint64_t compared() const noexcept { return compared_; }
  /// Hash over all external inputs since the start, in order: inputs, targets, commands, sessions; independent of their
  /// division into calls.
  Hash128 outside() const noexcept { return outside_; }
  /// Annotations passed since the last call. Each is returned once.
  std::vector<AnnotationRecord> take_annotations() { return std::exchange(notes_, {}); }
  /// Torn tail and damages of the journal; known at the end.
  const storage::JournalFindings& findings() const noexcept { return source_.findings(); }
  /// Reasons why an agent would not be opened there, though the journal reads well: it ends before what had been
  /// acknowledged, or before a checkpoint. Known once `run` came to the end.
  const std::vector<std::string>& missing() const noexcept { return missing_; }

 private:
  Replay(storage::FileSystem& files, const std::string& directory, storage::JournalPlace place,
         ReplayableMesh replayable);
  /// Takes up the next record. False: the end.
  Result<bool> next();
  Status check_overtaken() const;
  void check_end();
  bool is_divisible() const noexcept;
  std::uint64_t parts() const noexcept;
  std::uint64_t ticks_of_part() const;
  bool shows_again() const;
  /// Replays `count` parts of the record.
  Status replay_parts(std::uint64_t count);
  void note_external(std::uint64_t first, std::uint64_t count);
  Status verify();
  Failure within(Error error) const;

  ReplayableMesh replayable_;
  storage::FileSystem* files_;
  RecordSource source_;
  std::string directory_;
  CheckpointInfo start_;
  std::vector<std::string> anew_;
  std::optional<Record> record_;  // being replayed
  std::vector<std::byte> payload_;
  std::uint64_t number_ = 0, done_ = 0;  // its number, parts replayed
  std::uint64_t records_ = 0, compared_ = 0;
  bool verifies_ = false;
  std::optional<std::uint64_t> acknowledged_;  // record
  std::vector<std::string> missing_;
  std::vector<CheckpointInfo> checkpoints_;  // to be compared with
  std::function<void(std::uint64_t, std::uint64_t)> watch_;
  Hash128 outside_{};
  std::vector<AnnotationRecord> notes_;
};

/// Changes a value of a network's JSON: "layers[3].dtype=int8", "seed=7". The place must be one that its object or
/// array can hold; what the value may be is the network reader's matter.
/// @error invalid_argument: no such place
Result<std::string> with_change(std::string_view network, std::string_view change);

}  // namespace weft::agent
