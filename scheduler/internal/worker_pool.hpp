// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/executor.hpp"
#include "scheduler/internal/pool_state.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

namespace weft::scheduler::internal {

/// The caller of a run and the workers that help it: who is there, and when a run begins and ends.
///
/// Worker 0 is the caller. The others run in tasks of TBB: `request` asks TBB for a worker, which
/// calls `serve(worker)` when it has a thread, and serve returns when there has been nothing to do for a while. The
/// request may fail: every region is worked even if no thread ever comes.
///
/// A run. The caller writes the plan of the run (PoolRegions, the limit) and publishes it by making generation odd. A
/// worker joins by writing the generation into its in_run, and is in only if the generation still stands then; the
/// caller ends the run by making generation even and waiting until no in_run names it. So nobody touches the program
/// after run returned. Both sides are store-then-load, hence sequentially consistent.
///
/// Work and backoff of a worker in a run: WorkerRun.
///
/// Help. A program that wants a team is run by the caller alone, and the workers of its run poll the task queue where
/// the caller posts tasks of a step.
class WorkerPool final : public Team {
 public:
  using Options = PoolOptions;
  using Request = std::function<bool(std::size_t worker)>;

  /// @param cores   core of each worker, worker 0 first
  /// @param request asks the pool for a worker; false when it cannot
  WorkerPool(std::vector<std::uint32_t> cores, Options options, Request request);

  std::size_t size() const noexcept override { return state_.workers.size(); }
  /// Tasks of the run that is open; on the thread that runs it.
  void operator()(std::size_t count, Body body, void* context) noexcept override;

  /// Runs steps [first, n) of the program; the hooks of the calling thread are the caller's business. One run at a
  /// time. `done`: where it stands, n or less. False, with nothing done, when there is no memory for the regions.
  bool run(TickProgram& program, std::uint64_t n, std::uint64_t& done, std::uint64_t first = 0) noexcept;
  /// Runs a program of one region on the calling thread, with this pool as its team.
  void run_as_team(TickProgram& program, std::uint64_t n, std::uint64_t& done) noexcept;
  /// True when some worker is awake.
  bool is_present() const noexcept;
  /// Requests all absent workers.
  void request_absent() noexcept;

  /// Lets the workers leave that wait for the next run.
  void dismiss() noexcept {
    dismissed_.store(state_.generation.load(std::memory_order_relaxed), std::memory_order_release);
  }

  /// Marks a requested worker as arrived: true for exactly one thread.
  bool arrive(std::size_t worker) noexcept;
  /// Takes a request back, so that it can be made again: true when there was one.
  bool decline(std::size_t worker) noexcept;
  /// Loop of a worker that has started; returns when it is no longer needed.
  void serve(std::size_t worker) noexcept;

  /// Lets no worker stay or come any more; returns when all that had arrived have left.
  void close() noexcept;

 private:
  enum Phase : std::uint32_t { kAbsent, kRequested, kArrived };

  void request(std::size_t worker) noexcept;
  void join(std::size_t worker, std::uint64_t generation) noexcept;
  std::uint64_t open_run() noexcept;
  void close_run(std::uint64_t generation) noexcept;

  Request request_;
  PoolState state_;
  std::atomic<std::uint64_t> dismissed_{~std::uint64_t{0}};  // the generation after which nobody waits for the next
  std::atomic<bool> closing_{false};
};

}  // namespace weft::scheduler::internal
