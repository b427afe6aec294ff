// SPDX-License-Identifier: Apache-2.0

#include "scheduler/internal/alone.hpp"
#include "scheduler/internal/arenas.hpp"
#include "scheduler/internal/executor_choice.hpp"
#include "scheduler/internal/region_graph.hpp"
#include "scheduler/internal/worker_pool.hpp"
#include "scheduler/internal/workload.hpp"

#include "topology/core_assignment.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace weft::scheduler {
namespace {

using internal::ExecutorChoice;
using internal::Nanoseconds;
using internal::WorkerPool;

constexpr std::size_t kMostThreads = 4096;

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

class ParallelExecutor final : public Executor {
 public:
  ParallelExecutor(const topology::Machine& machine, std::vector<topology::CoreAssignment> cores,
                   const ExecutorOptions& options)
      : machine_(machine), options_(options), arenas_(machine, std::move(cores), options.pin) {
    std::vector<std::uint32_t> workers;
    for (const topology::CoreAssignment& assignment : arenas_.cores()) workers.push_back(assignment.core);
    // Threads that share a core only take it from each other by spinning, and are not taken for strangers.
    const bool crowded = workers.size() > machine_.usable_cpus();
    const Nanoseconds spin = crowded ? std::min<Nanoseconds>(options.spin, std::chrono::microseconds(2)) : options.spin;
    const bool watches = options.avoid_taken_cores && options.pin && !crowded && !machine_.info().synthetic;
    graph_.emplace(arenas_, internal::RegionGraph::Options{options.hooks, watches});
    resident_ = std::make_unique<Resident>(std::move(workers),
                                           WorkerPool::Options{spin, options.linger, options.hooks, watches},
                                           [this](std::size_t worker) { return request(worker); });
  }
  ~ParallelExecutor() override {
    graph_.reset();
    resident_->pool.close();
    arenas_.close();  // waits for workers to leave
    keep_until_free(std::move(resident_));
  }

  std::uint64_t run(TickProgram& program, std::uint64_t n) noexcept override {
    const std::size_t regions = program.region_count();
    const bool as_team = regions == 1 && program.wants_team();
    const bool is_small = (regions <= 1 && !as_team) || n == 0 || concurrency() == 1;
    is_small_.store(is_small, std::memory_order_relaxed);
    // Acquire and release hand the workers from one caller to the next.
    if (is_small || busy_.exchange(true, std::memory_order_acquire)) return run_alone(program, n);
    const std::uint64_t done = as_team ? run_as_team(program, n) : run_or_share(program, n, regions);
    busy_.store(false, std::memory_order_release);
    return done;
  }

  std::size_t concurrency() const noexcept override { return arenas_.cores().size(); }
  std::string_view name() const noexcept override { return scheduler::name(options_.kind); }
  void prepare() noexcept override {
    if (concurrency() == 1 || is_small_.load(std::memory_order_relaxed) ||
        busy_.exchange(true, std::memory_order_acquire))
      return;
    if (options_.alone_below.count() == 0 || workload_.is_help_welcome())
      way() == ExecutorChoice::kGraph ? graph_->prepare() : resident_->pool.request_absent();
    busy_.store(false, std::memory_order_release);
  }

  void dismiss() noexcept override {
    if (busy_.exchange(true, std::memory_order_acquire)) return;
    resident_->pool.dismiss();
    busy_.store(false, std::memory_order_release);
  }

 private:
  ExecutorChoice::Way way() const noexcept {
    if (options_.kind == ExecutorKind::automatic) return choices_.last().way();
    return options_.kind == ExecutorKind::graph ? ExecutorChoice::kGraph : ExecutorChoice::kResident;
  }

  // Sends a worker of the worker's node to work. It takes the worker that belongs to its slot, so that it need not
  // move; if that one is there already, any that is still wanted.
  bool request(std::size_t worker) noexcept {
    internal::NodeArena& node = arenas_.of(worker);
    resident_->tasks.fetch_add(1, std::memory_order_relaxed);
    try {
      // The task may outlive the arena.
      node.arena.enqueue([resident = resident_.get(), workers = node.workers] {
        const std::size_t worker_here = workers.worker_here().value_or(0);
        const bool is_caller = worker_here == 0;  // which waits for the graph: no time to serve
        const std::size_t here = is_caller ? 0 : worker_here - workers.first;
        for (std::size_t i = 0; i < workers.count; ++i) {
          const std::size_t wanted = workers.first + (here + i) % workers.count;
          if (is_caller) {
            if (resident->pool.decline(wanted)) break;
            continue;
          }
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

  std::uint64_t run_alone(TickProgram& program, std::uint64_t n) noexcept {
    const internal::HookScope scope(options_.hooks);
    return internal::run_alone(program, n);
  }

  std::uint64_t run_or_share(TickProgram& program, std::uint64_t n, std::size_t regions) noexcept {
    const Nanoseconds begin = internal::now();
    const bool alone = workload_.is_alone_better(&program, regions, n, begin, resident_->pool.is_present());
    if (!alone) stay_on_core(begin);
    bool shared = !alone;
    const std::uint64_t done = alone ? run_alone(program, n) : share(program, n, regions, shared);
    workload_.note(done, shared ? std::min(regions, concurrency()) : 1, begin, internal::now());
    return done;
  }

  // In turns, between which the way may change.
  std::uint64_t share(TickProgram& program, std::uint64_t n, std::size_t regions, bool& shared) noexcept {
    if (options_.kind != ExecutorKind::automatic) return run_part(program, way(), 0, n, shared);
    std::uint64_t done = 0;
    ExecutorChoice& choice = choices_.of(&program, regions);
    for (;;) {
      const Nanoseconds begin = internal::now();
      const auto turn = choice.next(&program, regions, concurrency(), n - done, program.block(), begin);
      const std::uint64_t end = done + turn.steps;
      const std::uint64_t before = done;
      done = run_part(program, turn.way, done, end, shared);
      choice.note(turn.way, done - before, begin, internal::now());
      if (done != end || end == n) return done;
      const internal::HookScope scope(options_.hooks);
      if (program.block() != 0 && program.should_stop(done)) return done;
    }
  }

  std::uint64_t run_part(TickProgram& program, ExecutorChoice::Way way, std::uint64_t first, std::uint64_t end,
                         bool& shared) noexcept {
    std::uint64_t done = first;
    if (way == ExecutorChoice::kGraph && graph_->run(program, first, end, done)) return done;
    const internal::HookScope scope(options_.hooks);
    if (resident_->pool.run(program, end, done, first)) return done;
    shared = false;
    return internal::run_alone(program, end, first);
  }

  std::uint64_t run_as_team(TickProgram& program, std::uint64_t n) noexcept {
    const internal::HookScope scope(options_.hooks);
    stay_on_core(internal::now());
    std::uint64_t done = 0;
    resident_->pool.run_as_team(program, n, done);
    return done;
  }

  // The caller is not ours to pin, but were it on a worker's core both would crawl: it is moved to its own, then left
  // to the system again.
  void stay_on_core(Nanoseconds now) noexcept {
    const std::uint32_t core = arenas_.cores()[0].core;
    if (!options_.pin || topology::is_on_core(machine_, core)) return;
    if (now < next_move_) return;
    // A caller that may not go there is not asked again soon.
    const bool moved = topology::move_to_core(machine_, core);
    next_move_ = now + (moved ? std::chrono::milliseconds(1) : std::chrono::milliseconds(100));
  }

  topology::Machine machine_;
  ExecutorOptions options_;
  internal::Arenas arenas_;
  std::optional<internal::RegionGraph> graph_;
  std::unique_ptr<Resident> resident_;
  std::atomic<bool> busy_{false};
  std::atomic<bool> is_small_{false};  // the last program: nobody is to be woken for it
  internal::Workload workload_{options_.alone_below, options_.linger};  // guarded by busy_
  internal::ExecutorChoices choices_;                                   // guarded by busy_
  Nanoseconds next_move_{0};                                            // guarded by busy_
};

}  // namespace

Result<std::unique_ptr<Executor>> make_executor(const topology::Machine& machine, ExecutorOptions options) {
  if (options.kind == ExecutorKind::deterministic)
    return fail(Errc::invalid_argument, "the deterministic executor has no threads: make_deterministic_executor");
  if (options.threads > kMostThreads) {
    return fail(Errc::invalid_argument,
                std::to_string(options.threads) + " threads, at most " + std::to_string(kMostThreads));
  }
  if (options.spin.count() < 0 || options.linger.count() < 0 || options.alone_below.count() < 0) {
    return fail(Errc::invalid_argument, "a negative time to wait");
  }
  try {
    return std::unique_ptr<Executor>(
        std::make_unique<ParallelExecutor>(machine, topology::core_assignments(machine, options.threads), options));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return fail(Errc::unsupported, std::string("oneTBB: ") + error.what());
  }
}

}  // namespace weft::scheduler
