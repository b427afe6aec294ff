// SPDX-License-Identifier: Apache-2.0

#include "scheduler/internal/worker_pool.hpp"

#include "scheduler/internal/alone.hpp"
#include "scheduler/internal/worker_run.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace weft::scheduler::internal {
namespace {

constexpr Nanoseconds kBackoffSlice = std::chrono::milliseconds(2);  // how late a worker in backoff hears of the end

}  // namespace

WorkerPool::WorkerPool(std::vector<std::uint32_t> cores, Options options, Request request)
    : request_(std::move(request)), state_(std::move(cores), options) {}

bool WorkerPool::run(TickProgram& program, std::uint64_t n, std::uint64_t& done, std::uint64_t first) noexcept {
  if (!state_.plan.prepare(program, first)) return false;
  state_.program = &program;
  state_.n = n;
  state_.block = program.block();
  state_.limit.store(state_.block == 0 ? n : first + std::min(state_.block, n - first), std::memory_order_relaxed);
  state_.helps = false;
  state_.watches = state_.options.watches_cores && pays_to_back_off(state_.plan.size(), state_.workers.size());
  const std::uint64_t generation = open_run();
  WorkerRun(state_, 0, generation).work();
  done = state_.limit.load(std::memory_order_relaxed);
  close_run(generation);
  return true;
}

void WorkerPool::run_as_team(TickProgram& program, std::uint64_t n, std::uint64_t& done) noexcept {
  state_.plan.clear();  // nothing to steal
  state_.helps = true;
  state_.watches = false;
  const std::uint64_t generation = open_run();
  program.use_team(this);
  done = run_alone(program, n);
  program.use_team(nullptr);
  close_run(generation);
}

void WorkerPool::operator()(std::size_t count, Body body, void* context) noexcept {
  struct Shifted {
    Body body;
    void* context;
    std::size_t first;
  };
  for (std::size_t first = 0; first < count; first += TaskQueue::kMostTasks) {
    Shifted from{body, context, first};
    const auto shifted = [](void* all, std::size_t i) {
      const Shifted& own = *static_cast<const Shifted*>(all);
      own.body(own.context, own.first + i);
    };
    const std::size_t now = std::min(TaskQueue::kMostTasks, count - first);
    first == 0 ? state_.tasks.post(now, body, context) : state_.tasks.post(now, shifted, &from);
    state_.wake_all();
    state_.tasks.work(true);
    state_.tasks.await();
  }
}

// Lets the workers in; returns the run's number.
std::uint64_t WorkerPool::open_run() noexcept {
  const std::uint64_t generation = state_.generation.load(std::memory_order_relaxed) + 1;
  state_.workers[0].in_run.store(generation, std::memory_order_relaxed);
  // Sequentially consistent: pairs with leaving workers, who store their phase and then look at the generation.
  state_.generation.store(generation, std::memory_order_seq_cst);
  for (std::uint32_t m = 1; m < state_.workers.size(); ++m) {
    if (!state_.helps && state_.plan.assigned_count(m) == 0) continue;
    if (state_.workers[m].phase.load(std::memory_order_seq_cst) == kAbsent) request(m);
  }
  return generation;
}

// Returns when no worker is in the run any more.
void WorkerPool::close_run(std::uint64_t generation) noexcept {
  state_.generation.store(generation + 1, std::memory_order_seq_cst);  // pairs with the load in join
  state_.wake_all();
  state_.workers[0].in_run.store(0, std::memory_order_relaxed);
  for (const PoolWorker& worker : state_.workers) {
    // Acquire: pairs with the release at the end of join; what the worker did happens before run returns.
    for (std::uint32_t tries = 0; worker.in_run.load(std::memory_order_seq_cst) == generation; ++tries) {
      tries < 4096 ? pause() : std::this_thread::yield();
    }
  }
}

bool WorkerPool::is_present() const noexcept {
  for (std::uint32_t m = 1; m < state_.workers.size(); ++m) {
    if (state_.workers[m].phase.load(std::memory_order_relaxed) == kArrived) return true;
  }
  return false;
}

void WorkerPool::request(std::size_t m) noexcept {
  std::uint32_t phase = kAbsent;
  if (!state_.workers[m].phase.compare_exchange_strong(phase, kRequested, std::memory_order_seq_cst)) return;
  if (!request_(m)) state_.workers[m].phase.store(kAbsent, std::memory_order_seq_cst);
}

void WorkerPool::request_absent() noexcept {
  dismissed_.store(~std::uint64_t{0}, std::memory_order_relaxed);
  for (std::size_t m = 1; m < state_.workers.size(); ++m) {
    if (state_.workers[m].phase.load(std::memory_order_relaxed) == kAbsent) request(m);
  }
}

bool WorkerPool::arrive(std::size_t worker) noexcept {
  std::uint32_t phase = kRequested;
  return state_.workers[worker].phase.compare_exchange_strong(phase, kArrived, std::memory_order_seq_cst);
}

bool WorkerPool::decline(std::size_t worker) noexcept {
  std::uint32_t phase = kRequested;
  return state_.workers[worker].phase.compare_exchange_strong(phase, kAbsent, std::memory_order_seq_cst);
}

void WorkerPool::serve(std::size_t m) noexcept {
  PoolWorker& worker = state_.workers[m];
  std::uint64_t served = 0;
  Nanoseconds deadline = now() + state_.options.linger;
  for (std::uint32_t tries = 1;; ++tries) {
    if (closing_.load(std::memory_order_seq_cst)) break;
    const std::uint64_t generation = state_.generation.load(std::memory_order_acquire);
    if ((generation & 1) && generation != served) {
      if (state_.options.watches_cores && worker.is_backing_off()) {
        std::this_thread::sleep_for(kBackoffSlice);
        deadline = now() + state_.options.linger;
        continue;
      }
      served = generation;
      join(m, generation);
      if (worker.is_backing_off()) served = 0;  // it comes back
      deadline = now() + state_.options.linger;
      continue;
    }
    const bool is_dismissed = dismissed_.load(std::memory_order_relaxed) == generation;
    if (tries % 64 != 0 || (now() < deadline && !is_dismissed)) {
      pause();
      continue;
    }
    // Leave. A caller that opened a run meanwhile either sees this phase and requests anew, or is seen here.
    worker.phase.store(kAbsent, std::memory_order_seq_cst);
    const std::uint64_t last = state_.generation.load(std::memory_order_seq_cst);
    if (!(last & 1) || last == served || closing_.load(std::memory_order_seq_cst)) return;
    std::uint32_t phase = kAbsent;
    if (!worker.phase.compare_exchange_strong(phase, kArrived, std::memory_order_seq_cst)) return;
  }
  worker.phase.store(kAbsent, std::memory_order_seq_cst);
}

void WorkerPool::close() noexcept {
  closing_.store(true, std::memory_order_seq_cst);
  for (const PoolWorker& worker : state_.workers) {
    while (worker.phase.load(std::memory_order_seq_cst) == kArrived) std::this_thread::yield();
  }
}

void WorkerPool::join(std::size_t m, std::uint64_t generation) noexcept {
  const auto self = static_cast<std::uint32_t>(m);
  PoolWorker& worker = state_.workers[m];
  worker.in_run.store(generation, std::memory_order_seq_cst);
  if (state_.generation.load(std::memory_order_seq_cst) == generation) {  // pairs with the store that closes the run
    if (state_.helps || state_.plan.assigned_count(self) != 0) {
      const HookScope scope(state_.options.hooks);
      WorkerRun run(state_, self, generation);
      state_.helps ? run.help() : run.work();
    }
  }
  worker.in_run.store(0, std::memory_order_release);  // pairs with the wait in run
  // Regions that it gave back may be stolen from now on, and who could may be asleep.
  if (state_.options.watches_cores) state_.wake_all();
}

}  // namespace weft::scheduler::internal
