// SPDX-License-Identifier: Apache-2.0

#include "scheduler/internal/alone.hpp"
#include "scheduler/internal/worker_pool.hpp"
#include "scheduler/internal/workload.hpp"

#include "topology/core_assignment.hpp"

#include "core/log.hpp"

#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace weft::scheduler {
namespace {

using internal::Nanoseconds;
using internal::WorkerPool;

constexpr std::size_t kMostThreads = 4096;

// Keeps the workers of one arena on cores: a worker in slot i sits where the arena's i-th worker belongs. TBB lends
// workers to other arenas of the process, so each gets its old mask back when it leaves.
class PinningObserver final : public tbb::task_scheduler_observer {
 public:
  PinningObserver(tbb::task_arena& arena, topology::Machine machine, std::vector<std::uint32_t> cores)
      : tbb::task_scheduler_observer(arena), machine_(std::move(machine)), cores_(std::move(cores)) {
    observe(true);
  }
  ~PinningObserver() override {
    // Workers inside would keep their pin: give them a moment to leave.
    for (int i = 0; i < 2000 && inside_.load(std::memory_order_acquire) != 0; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    observe(false);
  }

  void on_scheduler_entry(bool is_worker) override {
    if (!is_worker) return;
    inside_.fetch_add(1, std::memory_order_relaxed);
    const int slot = std::max(0, tbb::this_task_arena::current_thread_index());
    auto binding = topology::ThreadBinding::pin(machine_, cores_[static_cast<std::size_t>(slot) % cores_.size()]);
    if (binding) {
      binding_ = std::move(*binding);
    } else if (!told_.exchange(true, std::memory_order_relaxed)) {
      log_info("workers are not pinned: " + binding.error().text());
    }
  }
  void on_scheduler_exit(bool is_worker) override {
    if (!is_worker) return;
    binding_.reset();
    inside_.fetch_sub(1, std::memory_order_release);
  }

 private:
  topology::Machine machine_;
  std::vector<std::uint32_t> cores_;
  std::atomic<int> inside_{0};
  std::atomic<bool> told_{false};
  // A worker is in one arena at a time.
  static thread_local std::optional<topology::ThreadBinding> binding_;
};
thread_local std::optional<topology::ThreadBinding> PinningObserver::binding_;

// The workers of one NUMA node. Workers [first, first + count) live here.
struct NodeArena {
  NodeArena(std::size_t first_worker, std::size_t worker_count)
      : first(first_worker), count(worker_count), arena(static_cast<int>(worker_count), 0) {}
  std::size_t first, count;
  tbb::task_arena arena;
  std::optional<PinningObserver> observer;
};

// A worker pool and the tasks sent to TBB for it. A task that no worker has taken yet still points here, and TBB
// neither runs nor drops it when its arena goes; so a pool with tasks left is kept where the last one still finds it.
struct Resident {
  Resident(std::vector<std::uint32_t> cores, WorkerPool::Options options, WorkerPool::Request request)
      : pool(std::move(cores), options, std::move(request)) {}
  WorkerPool pool;
  std::atomic<int> tasks{0};                                                            // sent and not ended
  bool is_free() const noexcept { return tasks.load(std::memory_order_acquire) == 0; }  // pairs with the end of a task
};

void keep_until_free(std::unique_ptr<Resident> resident) {
  // Never destroyed: a late task may outlive every static.
  static std::mutex& guard = *new std::mutex;
  static auto& leftovers = *new std::vector<std::unique_ptr<Resident>>;
  const std::lock_guard lock(guard);
  leftovers.push_back(std::move(resident));
  std::erase_if(leftovers, [](const auto& each) { return each->is_free(); });
}

class TbbExecutor final : public Executor {
 public:
  TbbExecutor(const topology::Machine& machine, std::vector<topology::CoreAssignment> core_assignments,
              const ExecutorOptions& options)
      : machine_(machine), options_(options), cores_assigned_(std::move(core_assignments)) {
    // By default TBB has a worker for each other CPU; asked for more, it must be allowed to make them.
    if (cores_assigned_.size() > tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism)) {
      more_workers_.emplace(tbb::global_control::max_allowed_parallelism, cores_assigned_.size());
    }
    make_arenas();
    std::vector<std::uint32_t> cores;
    for (const topology::CoreAssignment& assignment : cores_assigned_) cores.push_back(assignment.core);
    // Threads that share a core only take it from each other by spinning.
    const bool crowded = cores_assigned_.size() > machine_.usable_cpus();
    const Nanoseconds spin = crowded ? std::min<Nanoseconds>(options.spin, std::chrono::microseconds(2)) : options.spin;
    resident_ = std::make_unique<Resident>(std::move(cores), WorkerPool::Options{spin, options.linger, options.hooks},
                                           [this](std::size_t worker) { return request(worker); });
  }
  ~TbbExecutor() override {
    resident_->pool.close();
    arenas_.clear();  // waits for workers to leave
    keep_until_free(std::move(resident_));
  }

  std::uint64_t run(TickProgram& program, std::uint64_t n) noexcept override {
    const internal::HookScope scope(options_.hooks);
    const std::size_t regions = program.region_count();
    const bool as_team = regions == 1 && program.wants_team();
    if ((regions <= 1 && !as_team) || n == 0 || cores_assigned_.size() == 1) return internal::run_alone(program, n);
    // Acquire and release hand the workers from one caller to the next.
    if (busy_.exchange(true, std::memory_order_acquire)) return internal::run_alone(program, n);
    const std::uint64_t done = as_team ? run_as_team(program, n) : run_or_share(program, n, regions);
    busy_.store(false, std::memory_order_release);
    return done;
  }

  std::size_t concurrency() const noexcept override { return cores_assigned_.size(); }
  std::string_view name() const noexcept override { return "tbb"; }
  void prepare() noexcept override {
    if (busy_.exchange(true, std::memory_order_acquire)) return;
    if (options_.alone_below.count() == 0 || workload_.is_help_welcome()) resident_->pool.request_absent();
    busy_.store(false, std::memory_order_release);
  }

 private:
  void make_arenas() {
    for (std::size_t m = 1; m < cores_assigned_.size();) {
      std::size_t end = m + 1;
      while (end < cores_assigned_.size() && cores_assigned_[end].node == cores_assigned_[m].node) ++end;
      arenas_.push_back(std::make_unique<NodeArena>(m, end - m));
      NodeArena& node = *arenas_.back();
      node.arena.initialize();
      if (options_.pin && !machine_.info().synthetic) {
        std::vector<std::uint32_t> cores;
        for (std::size_t i = m; i < end; ++i) cores.push_back(cores_assigned_[i].core);
        node.observer.emplace(node.arena, machine_, std::move(cores));
      }
      m = end;
    }
  }

  // Sends a worker of the worker's node to work. It takes the worker that belongs to its slot, so that it need not
  // move; if that one is there already, any that is still wanted.
  bool request(std::size_t worker) noexcept {
    for (const auto& node : arenas_) {
      if (worker >= node->first + node->count) continue;
      resident_->tasks.fetch_add(1, std::memory_order_relaxed);
      try {
        node->arena.enqueue([resident = resident_.get(), first = node->first, count = node->count] {
          const std::size_t slot = static_cast<std::size_t>(std::max(0, tbb::this_task_arena::current_thread_index()));
          for (std::size_t i = 0; i < count; ++i) {
            const std::size_t wanted = first + (slot + i) % count;
            if (!resident->pool.arrive(wanted)) continue;
            resident->pool.serve(wanted);
            break;
          }
          resident->tasks.fetch_sub(1, std::memory_order_release);  // the last touch; pairs with is_free
        });
        return true;
      } catch (const std::exception&) {
        resident_->tasks.fetch_sub(1, std::memory_order_relaxed);
        return false;  // no memory for a task: the caller works alone
      }
    }
    return false;
  }

  std::uint64_t run_or_share(TickProgram& program, std::uint64_t n, std::size_t regions) noexcept {
    const Nanoseconds begin = internal::now();
    std::uint64_t done = 0;
    const bool alone = workload_.is_alone_better(&program, regions, n, begin, resident_->pool.is_present());
    if (!alone) stay_on_core(begin);
    const bool shared = !alone && resident_->pool.run(program, n, done);
    if (!shared) done = internal::run_alone(program, n);
    workload_.note(done, shared ? std::min(regions, cores_assigned_.size()) : 1, begin, internal::now());
    return done;
  }

  std::uint64_t run_as_team(TickProgram& program, std::uint64_t n) noexcept {
    stay_on_core(internal::now());
    std::uint64_t done = 0;
    resident_->pool.run_as_team(program, n, done);
    return done;
  }

  // The caller is not ours to pin, but were it on a worker's core both would crawl: it is moved to its own, then left
  // to the system again.
  void stay_on_core(Nanoseconds now) noexcept {
    if (!options_.pin || topology::is_on_core(machine_, cores_assigned_[0].core)) return;
    if (now < next_move_) return;
    // A caller that may not go there is not asked again soon.
    const bool moved = topology::move_to_core(machine_, cores_assigned_[0].core);
    next_move_ = now + (moved ? std::chrono::milliseconds(1) : std::chrono::milliseconds(100));
  }

  topology::Machine machine_;
  ExecutorOptions options_;
  std::vector<topology::CoreAssignment> cores_assigned_;
  std::optional<tbb::global_control> more_workers_;
  std::vector<std::unique_ptr<NodeArena>> arenas_;
  std::unique_ptr<Resident> resident_;
  std::atomic<bool> busy_{false};
  internal::Workload workload_{options_.alone_below, options_.linger};  // guarded by busy_
  Nanoseconds next_move_{0};                                            // guarded by busy_
};

}  // namespace

Result<std::unique_ptr<Executor>> make_tbb_executor(const topology::Machine& machine, ExecutorOptions options) {
  if (options.threads > kMostThreads) {
    return fail(Errc::invalid_argument,
                std::to_string(options.threads) + " threads, at most " + std::to_string(kMostThreads));
  }
  if (options.spin.count() < 0 || options.linger.count() < 0 || options.alone_below.count() < 0) {
    return fail(Errc::invalid_argument, "a negative time to wait");
  }
  try {
    return std::unique_ptr<Executor>(
        std::make_unique<TbbExecutor>(machine, topology::core_assignments(machine, options.threads), options));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return fail(Errc::unsupported, std::string("oneTBB: ") + error.what());
  }
}

}  // namespace weft::scheduler
