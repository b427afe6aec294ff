// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/journal_flusher.hpp"

#include "storage/checkpoint.hpp"

#include "core/result.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace weft::agent {

/// Statistics of the last checkpoint.
struct CheckpointStatistics {
  LogPosition at;
  std::chrono::nanoseconds pause{0};    ///< that the mesh stood still for it
  std::chrono::nanoseconds writing{0};  ///< from then until it was verified on the device
  std::uint64_t bytes = 0;
  std::uint64_t written = 0, failed = 0;  ///< checkpoints since the agent was opened
};

/// Writes checkpoints beside the running mesh: one at a time, on a thread of its own beneath the ticks' priority, or,
/// without `background`, at once. A checkpoint that fails is void; the ones before it and the journal stay.
/// @thread start, wait: one; the statistics: any
class Checkpointer {
 public:
  struct Content {
    ByteSource file;
    std::string info;  // JSON object
  };
  /// A checkpoint to write: `encode` is called on the writing thread and reads only the snapshot.
  struct Job {
    LogPosition at;
    std::chrono::nanoseconds pause{0};
    std::function<Result<Content>()> encode;
  };
  /// On the writing thread `before` is called when a checkpoint is encoded and not yet on the device, `done` after each
  /// good one. `store` must outlive it.
  Checkpointer(storage::CheckpointStore& store, std::function<void()> before, std::function<void(LogPosition)> done,
               bool background, Now now);
  /// Waits for the one being written.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  bool is_busy() const;
  /// `awaited`: on the calling thread, which would do nothing but wait, at its own priority.
  /// @pre not busy
  void start(Job job, bool awaited = false);
  /// Until none is being written. @error what the last one failed with
  Status wait();
  CheckpointStatistics statistics() const;
  /// Why the last one failed; nothing when it did not.
  std::optional<std::string> last_error() const;

 private:
  void work();
  void write(Job job);
  Status store(const Job& job, std::uint64_t& bytes);

  storage::CheckpointStore& store_;
  const std::function<void()> before_;
  const std::function<void(LogPosition)> done_;
  const Now now_;
  mutable std::mutex mutex_;  // what follows
  std::condition_variable changed_;
  std::optional<Job> job_;
  bool is_writing_ = false, stops_ = false;
  Status last_;
  CheckpointStatistics statistics_;
  std::thread thread_;
};

/// The file of a checkpoint that holds mesh, learner and what the program around them keeps.
inline constexpr const char* kAgentFile = "agent.entity";

}  // namespace weft::agent
