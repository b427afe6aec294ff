// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/durability.hpp"
#include "agent/durable_watermark.hpp"

#include "storage/journal.hpp"

#include "core/result.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace weft::agent {

/// Position in an agent's log at the end of a call: the journal's last record and the mesh's tick.
struct LogPosition {
  std::uint64_t record = 0;
  std::uint64_t tick = 0;
  bool operator==(const LogPosition&) const = default;
};

/// Monotonic time. Tests give their own.
using Now = std::function<std::chrono::nanoseconds()>;
std::chrono::nanoseconds steady_now();

/// Brings an agent's journal to the device as its durability asks: on a thread of its own, or, without `background`, in
/// the calls themselves. What fails is tried again, at first soon and then each second, until it works; meanwhile the
/// agent goes on and nothing more counts as acknowledged.
/// @thread appended, flush: one thread; the statistics: any
class JournalFlusher {
 public:
  struct Options {
    Durability durability;
    bool background = true;
    Now now = steady_now;
  };
  /// `journal` must outlive it.
  JournalFlusher(storage::JournalWriter& journal, DurableWatermark acknowledgements, Options options,
                 LogPosition start);
  /// Stops the thread; writes nothing more.
  ~JournalFlusher();
  JournalFlusher(const JournalFlusher&) = delete;
  JournalFlusher& operator=(const JournalFlusher&) = delete;

  /// A call has put its records into the journal.
  void appended(LogPosition position);
  /// All of it to the device, now. @error storage
  Status flush();
  /// A checkpoint on the device holds everything up to there.
  /// @thread any
  void checkpointed(LogPosition position);

  /// The newest position on the device: by a checkpoint, or by the journal without a gap before it.
  LogPosition acknowledged() const;
  /// Forgets what waits in memory, up to and with `record`: only a checkpoint of it or a later one brings it back.
  void drop(std::uint64_t record);
  bool has_gap() const;
  /// Why nothing is being acknowledged at present.
  std::optional<std::string> last_error() const;
  /// Times that the journal could not be written or synced.
  std::uint64_t failures() const noexcept { return failures_.load(std::memory_order_relaxed); }

 private:
  void work();
  /// One attempt, unless the last failure is too fresh.
  Status commit(bool sync, bool now);
  bool wants_sync() const;

  storage::JournalWriter& journal_;
  DurableWatermark acknowledgements_;  // under committing_
  const Options options_;
  std::mutex committing_;  // one commit at a time

  mutable std::mutex mutex_;  // what follows
  LogPosition latest_, acknowledged_;
  std::uint64_t gap_ = 0;  // the last record that was dropped and no checkpoint holds; 0: none
  std::optional<std::string> last_error_;
  std::chrono::nanoseconds last_sync_{0}, next_try_{0}, pause_{0};
  bool stops_ = false;
  std::condition_variable wakes_;
  std::atomic<bool> sleeps_{false};
  std::atomic<std::uint64_t> failures_{0};
  std::thread thread_;
};

}  // namespace weft::agent
