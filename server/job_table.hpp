// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/worker.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace weft::server {

/// Work that takes longer than a client should wait for: done one after another on a thread of its own, asked about by
/// its id, and cancelled by it. What has ended is kept for an hour.
/// @thread any
class JobTable {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::hours kKept{1};
  static constexpr std::size_t kWaiting = 32, kMostKept = 1024;

  /// The work's view of its job.
  class Progress {
   public:
    /// True: somebody cancelled it, or the server ends; the work returns as soon as it can.
    bool is_cancelled() const noexcept { return cancelled_.load(std::memory_order_relaxed); }
    void cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }
    /// `text`: a count in words, "tick 4096".
    void tell(std::string text);
    std::string text() const;

   private:
    std::atomic<bool> cancelled_{false};
    mutable std::mutex mutex_;
    std::string text_;
  };
  /// The result, a JSON object.
  using Work = std::function<Result<Json>(Progress&)>;

  JobTable() : worker_(kWaiting) {}
  ~JobTable() { stop(); }
  /// Cancels all and waits for the one at work.
  void stop();

  /// Queues work; returns its id. @error full
  Result<std::string> submit(std::string op, std::string mesh, Work work);
  /// {"id", "op", "mesh", "state": queued, running, done, failed or cancelled, "progress", "result", "error"}
  /// @error not_found
  Result<Json> describe(const std::string& id) const;
  std::vector<Json> all() const;
  /// One that waits is not begun; one at work is told to end; one that has ended is forgotten. @error not_found
  Status cancel(const std::string& id);

 private:
  enum class State { queued, running, done, failed, cancelled };
  struct Job {
    std::string op, mesh;
    std::shared_ptr<Progress> progress = std::make_shared<Progress>();
    State state = State::queued;
    Json result;
    std::optional<Error> error;
    Clock::time_point ended{};
  };
  void run(const std::string& id, const Work& work);
  void forget_old();
  static Json json_of(const std::string& id, const Job& job);

  mutable std::mutex mutex_;  // of the three below
  std::map<std::string, Job> jobs_;
  std::uint64_t last_ = 0;
  bool stops_ = false;
  Worker worker_;
};

}  // namespace weft::server
