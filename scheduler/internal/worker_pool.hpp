// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/executor.hpp"
#include "scheduler/internal/core_watch.hpp"
#include "scheduler/internal/task_queue.hpp"
#include "scheduler/internal/wait.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace weft::scheduler::internal {

/// The caller of a run and the workers that help it: who works which region, and how they wait for each other.
///
/// Worker 0 is the caller. The others run in tasks of TBB: `request` asks TBB for a worker, which
/// calls `serve(worker)` when it has a thread, and serve returns when there has been nothing to do for a while. The
/// request may fail: every region is worked even if no thread ever comes.
///
/// A run. The caller writes the plan of the run (regions_, limit_) and publishes it by making generation_ odd. A worker
/// joins by writing the generation into its in_run, and is in only if the generation still stands then; the caller ends
/// the run by making generation_ even and waiting until no in_run names it. So nobody touches the program after run
/// returned. Both sides are store-then-load, hence sequentially consistent.
///
/// A region. progress counts its finished steps and is what neighbours await. owner says which worker works it; only
/// the owner touches the rest. It is taken by compare-exchange (acquire) and given back by a release store, which hands
/// over all that the last owner wrote. Each region has an assigned worker. Where the assigned worker is not in the run,
/// any worker that stalls adopts the region, works it among its own, and gives it back between steps once the assigned
/// worker has come. Each takes its fair share of such regions first, and gives back what is more than that when others
/// have come: the one with the most regions is the one that all wait for.
///
/// Waiting: look again, then spin, then yield, then sleep. The caller, before it sleeps, adopts every region that
/// nobody works, so whatever can go on has somebody awake or to be woken. Who publishes progress looks for sleepers
/// among the owners of neighbouring regions (wait.hpp says why no wake-up is lost). No deadlock: of all unfinished
/// regions one with the least progress can always go on.
///
/// Rest. A worker that finds its core used by others leaves the run for a while: it gives its regions back, which
/// others adopt, and sleeps (core_watch.hpp). The caller stays, and works nothing meanwhile unless nobody else does.
/// A thread that works alone does not rest.
///
/// Help. A program that wants a team is run by the caller alone, and the workers of its run poll the task queue where
/// the caller posts tasks of a step.
class WorkerPool final : public Team {
 public:
  struct Options {
    Nanoseconds spin{0}, linger{0};
    ThreadHooks hooks{};
    bool watches_cores = false;
    ThreadTimes (*times)() noexcept = thread_times;  // of the thread that asks
  };
  using Request = std::function<bool(std::size_t worker)>;

  /// @param cores   core of each worker, worker 0 first
  /// @param request asks the pool for a worker; false when it cannot
  WorkerPool(std::vector<std::uint32_t> cores, Options options, Request request);

  std::size_t size() const noexcept override { return workers_.size(); }
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
  void dismiss() noexcept { dismissed_.store(generation_.load(std::memory_order_relaxed), std::memory_order_release); }

  /// Marks a requested worker as arrived: true for exactly one thread.
  bool arrive(std::size_t worker) noexcept;
  /// Takes a request back, so that it can be made again: true when there was one.
  bool decline(std::size_t worker) noexcept;
  /// Loop of a worker that has started; returns when it is no longer needed.
  void serve(std::size_t worker) noexcept;

  /// Lets no worker stay or come any more; returns when all that had arrived have left.
  void close() noexcept;

 private:
  static constexpr std::size_t kLine = 128;  // two cache lines: adjacent ones are fetched together
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  enum Phase : std::uint32_t { kAbsent, kRequested, kArrived };

  struct Worker {
    // Written by this worker, read by others.
    alignas(kLine) std::atomic<std::uint64_t> in_run{0};
    alignas(kLine) std::atomic<std::uint32_t> phase{kAbsent};
    ParkingSpot spot;
    std::uint32_t core = 0;
    std::atomic<std::int64_t> rest_ends{0};  // nanoseconds; the time until which it takes no regions
    bool is_resting() const noexcept {
      const std::int64_t end = rest_ends.load(std::memory_order_relaxed);
      return end != 0 && now().count() < end;
    }
    alignas(kLine) CoreWatch watch;  // this worker's alone
    // Written by the caller before a run opens: home regions are own_list_[own_begin, own_end).
    alignas(kLine) std::uint32_t own_begin = 0;
    std::uint32_t own_end = 0;
  };

  struct Region {
    alignas(kLine) std::atomic<std::uint64_t> progress{0};
    alignas(kLine) std::atomic<std::uint32_t> owner{0};  // worker + 1; 0: nobody
    std::uint32_t home = 0;
    std::span<const std::uint32_t> neighbours;
    // The owner's own.
    alignas(kLine) std::uint32_t checked = 0;  // neighbours known to have finished the step before
    std::uint32_t next = kNone;                // list of the regions a worker owns
    bool interior_done = false;
  };

  /// One worker's part of one run.
  struct Shift {
    std::uint32_t self = 0;
    std::uint64_t generation = 0;
    std::uint64_t limit = 0;        // last value read of limit_
    std::uint32_t first = kNone;    // list of owned, unfinished regions
    std::uint32_t unclaimed = 0;    // home regions, from own_begin on, not yet owned nor finished
    std::uint32_t next_orphan = 0;  // where to look on for orphans
    std::uint32_t adopted = 0;      // owned regions of other workers
    std::uint32_t passes = 0;
    std::uint32_t unfinished = 0;  // caller only: all regions before it stand at the limit
    bool armed = false;
    bool rests = false;            // others use the core
    std::uint64_t steps_seen = 0;  // of all regions, when the resting caller looked last
    // Since something last moved: looks, yields, and when spinning began.
    std::uint32_t tries = 0, yields = 0;
    Nanoseconds since{0};
  };

  bool prepare_regions(TickProgram& program, std::uint64_t first) noexcept;
  void assign_homes(TickProgram& program) noexcept;
  void request(std::size_t worker) noexcept;
  void join(std::size_t worker, std::uint64_t generation) noexcept;
  std::uint64_t open_run() noexcept;
  void close_run(std::uint64_t generation) noexcept;
  void help(Shift& shift) noexcept;
  void work(Shift& shift) noexcept;
  bool should_rest(Shift& shift) noexcept;
  void begin_rest(Shift& shift) noexcept;
  void end_rest(Shift& shift) noexcept;
  bool is_standing_still(Shift& shift) const noexcept;
  /// True when another thread works in this run.
  bool has_help(const Shift& shift) const noexcept;
  bool pass(Shift& shift) noexcept;
  std::uint32_t reversed(std::uint32_t list) noexcept;
  bool advance(Shift& shift, Region& region, std::uint32_t r) noexcept;
  void claim_homes(Shift& shift) noexcept;
  enum class Adopt { share, one, all };
  bool adopt(Shift& shift, Adopt wanted) noexcept;
  std::uint32_t fair_share(const Shift& shift) const noexcept;
  bool has_too_many(Shift& shift) const noexcept;
  bool is_over(Shift& shift) noexcept;
  void wait(Shift& shift) noexcept;
  bool is_cut_short(Shift& shift) noexcept;
  void disarm(Shift& shift) noexcept;
  void wake(std::uint32_t worker) noexcept;
  void wake_for(const Region& region, std::uint64_t progress) noexcept;
  void wake_all() noexcept;
  bool is_in_run(std::uint32_t worker, std::uint64_t generation) const noexcept {
    return workers_[worker].in_run.load(std::memory_order_relaxed) == generation;
  }

  Options options_;
  Request request_;
  std::vector<Worker> workers_;

  // The plan of the run; written by the caller while no run is open.
  TickProgram* program_ = nullptr;
  std::uint64_t n_ = 0, block_ = 0;
  std::uint32_t region_count_ = 0;
  bool helps_ = false;    // workers poll the task queue
  bool watches_ = false;  // workers watch their cores
  std::vector<Region> regions_;
  std::vector<std::uint32_t> own_list_, scratch_;
  TaskQueue tasks_;

  alignas(kLine) std::atomic<std::uint64_t> generation_{0};  // odd: a run is open
  std::atomic<std::uint64_t> dismissed_{~std::uint64_t{0}};  // the generation after which nobody waits for the next
  std::atomic<bool> closing_{false};
  alignas(kLine) std::atomic<std::uint64_t> limit_{0};     // steps that regions may do before the next question
  alignas(kLine) std::atomic<std::uint32_t> sleepers_{0};  // workers asleep or about to be
};

}  // namespace weft::scheduler::internal
