// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/executor.hpp"
#include "scheduler/internal/core_watch.hpp"
#include "scheduler/internal/pool_regions.hpp"
#include "scheduler/internal/task_queue.hpp"
#include "scheduler/internal/wait.hpp"

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace weft::scheduler::internal {

struct PoolOptions {
  Nanoseconds spin{0}, linger{0};
  ThreadHooks hooks{};
  bool watches_cores = false;
  ThreadTimes (*times)() noexcept = thread_times;  // of the thread that asks
};

/// A worker as the others see it. All but `watch` is written by this worker and read by others.
struct PoolWorker {
  alignas(kPoolLine) std::atomic<std::uint64_t> in_run{0};  // the generation that it works in
  alignas(kPoolLine) std::atomic<std::uint32_t> phase{0};   // WorkerPool's: whether a thread serves it
  ParkingSpot spot;
  std::atomic<std::int64_t> backoff_ends{0};  // nanoseconds; the time until which it takes no regions
  bool is_backing_off() const noexcept {
    const std::int64_t end = backoff_ends.load(std::memory_order_relaxed);
    return end != 0 && now().count() < end;
  }
  alignas(kPoolLine) CoreWatch watch;  // this worker's alone
};

/// Data that the workers of a pool share.
struct PoolState {
  PoolState(std::vector<std::uint32_t> cores, PoolOptions with)
      : options(with), workers(cores.size()), plan(std::move(cores)) {}

  bool is_in_run(std::uint32_t worker, std::uint64_t run) const noexcept {
    return workers[worker].in_run.load(std::memory_order_relaxed) == run;
  }
  void wake(std::uint32_t worker) noexcept;
  /// Wakes who may wait for this progress: owners of neighbours, and the caller at the end of a block.
  void wake_for(const PoolRegion& region, std::uint64_t progress) noexcept;
  void wake_all() noexcept;

  PoolOptions options;
  std::vector<PoolWorker> workers;
  TaskQueue tasks;

  // The run; written by the caller while none is open.
  PoolRegions plan;
  TickProgram* program = nullptr;
  std::uint64_t n = 0, block = 0;
  bool helps = false;    // workers poll the task queue
  bool watches = false;  // workers watch their cores

  alignas(kPoolLine) std::atomic<std::uint64_t> generation{0};  // odd: a run is open
  alignas(kPoolLine) std::atomic<std::uint64_t> limit{0};       // steps that regions may do before the next question
  alignas(kPoolLine) std::atomic<std::uint32_t> sleepers{0};    // workers asleep or about to be
};

}  // namespace weft::scheduler::internal
