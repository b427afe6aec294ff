// SPDX-License-Identifier: Apache-2.0

#include "scheduler/internal/worker_pool.hpp"

#include "scheduler/internal/alone.hpp"

#include <algorithm>
#include <new>
#include <thread>
#include <utility>

namespace weft::scheduler::internal {
namespace {

constexpr std::uint32_t kBareTries = 96;  // looks without a pause: a neighbour's line takes about so long to come
constexpr std::uint32_t kCheckEvery = 16;
constexpr std::uint32_t kYields = 16;
constexpr std::uint32_t kPassesALook = 64;
constexpr Nanoseconds kRestSlice = std::chrono::milliseconds(2);  // how late a resting worker hears of the end

}  // namespace

WorkerPool::WorkerPool(std::vector<std::uint32_t> cores, Options options, Request request)
    : options_(options), request_(std::move(request)), workers_(cores.size()) {
  for (std::size_t m = 0; m < cores.size(); ++m) workers_[m].core = cores[m];
  scratch_.resize(workers_.size() + 1);
}

bool WorkerPool::prepare_regions(TickProgram& program, std::uint64_t first) noexcept {
  region_count_ = static_cast<std::uint32_t>(program.region_count());
  if (region_count_ > regions_.size()) {
    try {
      regions_ = std::vector<Region>(region_count_);
      own_list_.resize(region_count_);
    } catch (const std::bad_alloc&) {
      regions_.clear();
      return false;
    }
  }
  for (std::uint32_t r = 0; r < region_count_; ++r) {
    Region& region = regions_[r];
    // Relaxed: the store that opens the generation publishes all of this.
    region.progress.store(first, std::memory_order_relaxed);
    region.owner.store(0, std::memory_order_relaxed);
    region.neighbours = program.neighbours(r);
    region.checked = 0;
    region.interior_done = false;
  }
  assign_homes(program);
  return true;
}

// A region is assigned to a worker on the core where its memory lies; several workers of one core take turns. Without a
// known core, blocks of consecutive regions go to consecutive workers.
void WorkerPool::assign_homes(TickProgram& program) noexcept {
  const std::uint32_t workers = static_cast<std::uint32_t>(workers_.size());
  std::uint32_t last = 0;
  for (std::uint32_t r = 0; r < region_count_; ++r) {
    std::uint32_t home =
        workers < region_count_ ? static_cast<std::uint32_t>(std::uint64_t{r} * workers / region_count_) : r;
    const std::uint32_t core = program.own_core(r);
    if (core != kAnyCore && workers_[home].core != core) {
      for (std::uint32_t i = 1; i <= workers; ++i) {
        const std::uint32_t candidate = (last + i) % workers;
        if (workers_[candidate].core != core) continue;
        home = candidate;
        break;
      }
    }
    regions_[r].home = last = home;
  }
  std::fill(scratch_.begin(), scratch_.end(), 0u);
  for (std::uint32_t r = 0; r < region_count_; ++r) ++scratch_[regions_[r].home + 1];
  for (std::uint32_t m = 0; m < workers; ++m) {
    workers_[m].own_begin = scratch_[m];
    scratch_[m + 1] += scratch_[m];
    workers_[m].own_end = workers_[m].own_begin;  // grows while the list is filled
  }
  for (std::uint32_t r = 0; r < region_count_; ++r) own_list_[workers_[regions_[r].home].own_end++] = r;
}

bool WorkerPool::run(TickProgram& program, std::uint64_t n, std::uint64_t& done, std::uint64_t first) noexcept {
  if (!prepare_regions(program, first)) return false;
  program_ = &program;
  n_ = n;
  block_ = program.block();
  limit_.store(block_ == 0 ? n : first + std::min(block_, n - first), std::memory_order_relaxed);
  helps_ = false;
  watches_ = options_.watches_cores && pays_to_rest(region_count_, workers_.size());
  const std::uint64_t generation = open_run();
  Shift shift{.self = 0, .generation = generation};
  work(shift);
  done = limit_.load(std::memory_order_relaxed);
  close_run(generation);
  return true;
}

void WorkerPool::run_as_team(TickProgram& program, std::uint64_t n, std::uint64_t& done) noexcept {
  region_count_ = 0;  // nothing to adopt
  helps_ = true;
  watches_ = false;
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
    first == 0 ? tasks_.post(now, body, context) : tasks_.post(now, shifted, &from);
    wake_all();
    tasks_.work(true);
    tasks_.await();
  }
}

// Lets the workers in; returns the run's number.
std::uint64_t WorkerPool::open_run() noexcept {
  const std::uint64_t generation = generation_.load(std::memory_order_relaxed) + 1;
  workers_[0].in_run.store(generation, std::memory_order_relaxed);
  // Sequentially consistent: pairs with leaving workers, who store their phase and then look at the generation.
  generation_.store(generation, std::memory_order_seq_cst);
  for (std::uint32_t m = 1; m < workers_.size(); ++m) {
    if (!helps_ && workers_[m].own_begin == workers_[m].own_end) continue;
    if (workers_[m].phase.load(std::memory_order_seq_cst) == kAbsent) request(m);
  }
  return generation;
}

// Returns when no worker is in the run any more.
void WorkerPool::close_run(std::uint64_t generation) noexcept {
  generation_.store(generation + 1, std::memory_order_seq_cst);  // pairs with the load in join
  wake_all();
  workers_[0].in_run.store(0, std::memory_order_relaxed);
  for (const Worker& worker : workers_) {
    // Acquire: pairs with the release at the end of join; what the worker did happens before run returns.
    for (std::uint32_t tries = 0; worker.in_run.load(std::memory_order_seq_cst) == generation; ++tries) {
      tries < 4096 ? pause() : std::this_thread::yield();
    }
  }
}

bool WorkerPool::is_present() const noexcept {
  for (std::uint32_t m = 1; m < workers_.size(); ++m) {
    if (workers_[m].phase.load(std::memory_order_relaxed) == kArrived) return true;
  }
  return false;
}

void WorkerPool::request(std::size_t m) noexcept {
  std::uint32_t phase = kAbsent;
  if (!workers_[m].phase.compare_exchange_strong(phase, kRequested, std::memory_order_seq_cst)) return;
  if (!request_(m)) workers_[m].phase.store(kAbsent, std::memory_order_seq_cst);
}

void WorkerPool::request_absent() noexcept {
  dismissed_.store(~std::uint64_t{0}, std::memory_order_relaxed);
  for (std::size_t m = 1; m < workers_.size(); ++m) {
    if (workers_[m].phase.load(std::memory_order_relaxed) == kAbsent) request(m);
  }
}

bool WorkerPool::arrive(std::size_t worker) noexcept {
  std::uint32_t phase = kRequested;
  return workers_[worker].phase.compare_exchange_strong(phase, kArrived, std::memory_order_seq_cst);
}

bool WorkerPool::decline(std::size_t worker) noexcept {
  std::uint32_t phase = kRequested;
  return workers_[worker].phase.compare_exchange_strong(phase, kAbsent, std::memory_order_seq_cst);
}

void WorkerPool::serve(std::size_t m) noexcept {
  Worker& worker = workers_[m];
  std::uint64_t served = 0;
  Nanoseconds deadline = now() + options_.linger;
  for (std::uint32_t tries = 1;; ++tries) {
    if (closing_.load(std::memory_order_seq_cst)) break;
    const std::uint64_t generation = generation_.load(std::memory_order_acquire);
    if ((generation & 1) && generation != served) {
      if (options_.watches_cores && worker.is_resting()) {
        std::this_thread::sleep_for(kRestSlice);
        deadline = now() + options_.linger;
        continue;
      }
      served = generation;
      join(m, generation);
      if (worker.is_resting()) served = 0;  // it comes back
      deadline = now() + options_.linger;
      continue;
    }
    const bool is_dismissed = dismissed_.load(std::memory_order_relaxed) == generation;
    if (tries % 64 != 0 || (now() < deadline && !is_dismissed)) {
      pause();
      continue;
    }
    // Leave. A caller that opened a run meanwhile either sees this phase and requests anew, or is seen here.
    worker.phase.store(kAbsent, std::memory_order_seq_cst);
    const std::uint64_t last = generation_.load(std::memory_order_seq_cst);
    if (!(last & 1) || last == served || closing_.load(std::memory_order_seq_cst)) return;
    std::uint32_t phase = kAbsent;
    if (!worker.phase.compare_exchange_strong(phase, kArrived, std::memory_order_seq_cst)) return;
  }
  worker.phase.store(kAbsent, std::memory_order_seq_cst);
}

void WorkerPool::close() noexcept {
  closing_.store(true, std::memory_order_seq_cst);
  for (const Worker& worker : workers_) {
    while (worker.phase.load(std::memory_order_seq_cst) == kArrived) std::this_thread::yield();
  }
}

void WorkerPool::join(std::size_t m, std::uint64_t generation) noexcept {
  Worker& worker = workers_[m];
  worker.in_run.store(generation, std::memory_order_seq_cst);
  if (generation_.load(std::memory_order_seq_cst) == generation) {  // pairs with the store that closes the run
    if (helps_ || worker.own_begin != worker.own_end) {
      const HookScope scope(options_.hooks);
      Shift shift{.self = static_cast<std::uint32_t>(m), .generation = generation};
      helps_ ? help(shift) : work(shift);
    }
  }
  worker.in_run.store(0, std::memory_order_release);  // pairs with the wait in run
  // Regions that it gave back to rest may be adopted from now on, and who could may be asleep.
  if (options_.watches_cores) wake_all();
}

void WorkerPool::work(Shift& shift) noexcept {
  Worker& worker = workers_[shift.self];
  shift.unclaimed = worker.own_end - worker.own_begin;
  shift.next_orphan = worker.own_begin;
  if (watches_) worker.watch.restart();
  if (watches_ && shift.self == 0 && worker.is_resting()) begin_rest(shift);
  for (;;) {
    if (pass(shift)) {
      if (shift.armed) disarm(shift);
      shift.tries = shift.yields = 0;
      if (watches_ && should_rest(shift)) {
        begin_rest(shift);
        if (shift.self != 0) break;
      }
    } else if (is_over(shift)) {
      break;
    } else {
      wait(shift);
    }
  }
  if (shift.armed) disarm(shift);
}

bool WorkerPool::should_rest(Shift& shift) noexcept {
  CoreWatch& watch = workers_[shift.self].watch;
  if (!watch.is_due() || !watch.is_taken(options_.times())) return false;
  if (!has_help(shift)) return false;  // nobody would take its regions
  const Nanoseconds time = now();
  const auto resting = std::count_if(workers_.begin(), workers_.end(), [&](const Worker& worker) {
    return worker.rest_ends.load(std::memory_order_relaxed) > time.count();
  });
  if (static_cast<std::size_t>(resting) >= most_resting(workers_.size())) return false;
  workers_[shift.self].rest_ends.store(watch.rest_ends().count(), std::memory_order_relaxed);
  return true;
}

// Gives all regions back. No longer in the run, so that others may adopt them; the caller stays to end it.
void WorkerPool::begin_rest(Shift& shift) noexcept {
  shift.rests = true;
  while (shift.first != kNone) {
    Region& region = regions_[shift.first];
    shift.first = region.next;
    region.owner.store(0, std::memory_order_release);  // pairs with the acquire of the next owner
  }
  shift.unclaimed = shift.adopted = 0;
  if (shift.self != 0) return;     // join tells the others
  (void)is_standing_still(shift);  // from here on
  workers_[0].in_run.store(0, std::memory_order_seq_cst);
  wake_all();
}

// The caller only: it takes its regions back as a worker does that came late.
void WorkerPool::end_rest(Shift& shift) noexcept {
  const Worker& worker = workers_[0];
  shift.rests = false;
  workers_[0].rest_ends.store(0, std::memory_order_relaxed);
  shift.unclaimed = worker.own_end - worker.own_begin;
  workers_[0].watch.restart();
  workers_[0].in_run.store(shift.generation, std::memory_order_seq_cst);
}

bool WorkerPool::has_help(const Shift& shift) const noexcept {
  for (std::uint32_t m = 0; m < workers_.size(); ++m)
    if (m != shift.self && is_in_run(m, shift.generation)) return true;
  return false;
}

// For a whole sleep of the caller's: it is needed.
bool WorkerPool::is_standing_still(Shift& shift) const noexcept {
  std::uint64_t steps = 0;
  for (std::uint32_t r = 0; r < region_count_; ++r) steps += regions_[r].progress.load(std::memory_order_relaxed);
  return std::exchange(shift.steps_seen, steps) == steps;
}

// Takes tasks from the queue until the run is over, and waits for them as others wait for neighbours.
void WorkerPool::help(Shift& shift) noexcept {
  for (;;) {
    if (tasks_.work(false) != 0) {
      if (shift.armed) disarm(shift);
      shift.tries = shift.yields = 0;
    } else if (generation_.load(std::memory_order_acquire) != shift.generation) {  // pairs with the store in close_run
      break;
    } else {
      wait(shift);
    }
  }
  if (shift.armed) disarm(shift);
}

// Works every owned region as far as it goes now; true when anything moved. Then the list is in reverse order: the
// region that was worked last comes first in the next pass, while its weights are still in the core's cache.
bool WorkerPool::pass(Shift& shift) noexcept {
  if (shift.unclaimed != 0) claim_homes(shift);
  bool moved = false, sheds = has_too_many(shift);
  std::uint32_t kept = kNone;
  for (std::uint32_t r = shift.first; r != kNone;) {
    Region& region = regions_[r];
    const std::uint32_t next = region.next;
    bool keep = true;
    const bool is_adopted = region.home != shift.self;
    if (is_adopted && (is_in_run(region.home, shift.generation) || sheds)) {
      region.owner.store(0, std::memory_order_release);  // pairs with the acquire of the next owner
      light_fence();
      is_in_run(region.home, shift.generation) ? wake(region.home) : wake_all();
      keep = sheds = false;
    } else {
      moved |= advance(shift, region, r);
      if (region.progress.load(std::memory_order_relaxed) == n_) {  // done: stays owned, so nobody looks at it again
        keep = false;
        light_fence();
        if (region.home != shift.self) wake(region.home);
      }
    }
    if (keep) {
      region.next = kept;
      kept = r;
    } else if (is_adopted) {
      --shift.adopted;
    }
    r = next;
  }
  shift.first = moved ? kept : reversed(kept);
  return moved;
}

std::uint32_t WorkerPool::reversed(std::uint32_t list) noexcept {
  std::uint32_t result = kNone;
  while (list != kNone) {
    const std::uint32_t next = std::exchange(regions_[list].next, result);
    result = std::exchange(list, next);
  }
  return result;
}

// One step of a region, or its first half; true when either was done.
bool WorkerPool::advance(Shift& shift, Region& region, std::uint32_t r) noexcept {
  const std::uint64_t step = region.progress.load(std::memory_order_relaxed);  // written by its owner alone
  if (step >= shift.limit) {
    shift.limit = limit_.load(std::memory_order_acquire);  // pairs with the release in is_over
    if (step >= shift.limit) return false;
  }
  bool moved = false;
  if (!region.interior_done) {
    program_->run_interior(r, step);
    region.interior_done = true;
    region.checked = 0;
    moved = true;
  }
  for (; region.checked < region.neighbours.size(); ++region.checked) {
    // Pairs with the release below, in the neighbour's owner.
    if (regions_[region.neighbours[region.checked]].progress.load(std::memory_order_acquire) < step) return moved;
  }
  program_->run_boundary(r, step);
  region.interior_done = false;
  region.progress.store(step + 1, std::memory_order_release);  // pairs with the acquire above
  light_fence();
  if (sleepers_.load(std::memory_order_relaxed) != 0) wake_for(region, step + 1);
  return true;
}

// Takes the worker's own regions, from an adopter if need be.
void WorkerPool::claim_homes(Shift& shift) noexcept {
  const Worker& worker = workers_[shift.self];
  const std::uint32_t count = worker.own_end - worker.own_begin;
  // Backwards and then pushed in front, so the list is ascending when all are free.
  for (std::uint32_t i = count; i-- > 0 && shift.unclaimed != 0;) {
    const std::uint32_t r = own_list_[worker.own_begin + i];
    Region& region = regions_[r];
    std::uint32_t owner = region.owner.load(std::memory_order_relaxed);
    if (owner == shift.self + 1) continue;  // claimed before
    // Acquire: pairs with the release of the adopter.
    if (owner == 0 && region.owner.compare_exchange_strong(owner, shift.self + 1, std::memory_order_acquire)) {
      region.next = shift.first;
      shift.first = r;
    }
  }
  // Regions neither owned by this worker nor finished are still to be claimed.
  shift.unclaimed = 0;
  for (std::uint32_t i = worker.own_begin; i < worker.own_end; ++i) {
    const Region& region = regions_[own_list_[i]];
    shift.unclaimed += region.owner.load(std::memory_order_relaxed) != shift.self + 1 &&
                       region.progress.load(std::memory_order_acquire) != n_;
  }
}

// Takes regions whose assigned worker is not there: one within its share, one, or all of them. True when any was taken.
bool WorkerPool::adopt(Shift& shift, Adopt wanted) noexcept {
  if (wanted == Adopt::share && shift.adopted >= fair_share(shift)) return false;
  bool any = false;
  for (std::uint32_t i = 0; i < region_count_; ++i) {
    const std::uint32_t r = shift.next_orphan;
    shift.next_orphan = r + 1 < region_count_ ? r + 1 : 0;
    Region& region = regions_[r];
    std::uint32_t owner = region.owner.load(std::memory_order_relaxed);
    if (owner != 0 || is_in_run(region.home, shift.generation)) continue;
    // Acquire: pairs with the release of an earlier owner.
    if (!region.owner.compare_exchange_strong(owner, shift.self + 1, std::memory_order_acquire)) continue;
    region.next = shift.first;
    shift.first = r;
    ++shift.adopted;
    any = true;
    if (wanted != Adopt::all) break;
  }
  return any;
}

// Regions whose workers are not there, for each worker that is.
std::uint32_t WorkerPool::fair_share(const Shift& shift) const noexcept {
  std::uint32_t workers = 0, orphans = 0;
  for (std::uint32_t m = 0; m < workers_.size(); ++m)
    is_in_run(m, shift.generation) ? ++workers : orphans += workers_[m].own_end - workers_[m].own_begin;
  return workers == 0 ? orphans : (orphans + workers - 1) / workers;
}

// Looked at now and then: it was alone, and others have come.
bool WorkerPool::has_too_many(Shift& shift) const noexcept {
  return shift.adopted > 1 && ++shift.passes % kPassesALook == 0 && shift.adopted > fair_share(shift);
}

// Nothing moved: true when this worker's part of the run is over. The caller also opens the next block here.
bool WorkerPool::is_over(Shift& shift) noexcept {
  if (shift.self != 0) return shift.first == kNone && shift.unclaimed == 0;
  const std::uint64_t limit = limit_.load(std::memory_order_relaxed);  // only this thread writes it
  for (; shift.unfinished < region_count_; ++shift.unfinished) {
    // Pairs with the release in advance: at a block's end the caller sees all that the regions wrote.
    if (regions_[shift.unfinished].progress.load(std::memory_order_acquire) < limit) return false;
  }
  if (limit == n_ || program_->should_stop(limit)) return true;
  shift.unfinished = 0;
  limit_.store(limit + std::min(block_, n_ - limit), std::memory_order_release);  // pairs with the acquire in advance
  wake_all();
  return false;
}

// A run that was stopped leaves workers with regions that may not go on: this is how they learn it.
bool WorkerPool::is_cut_short(Shift& shift) noexcept {
  if (shift.self == 0 || generation_.load(std::memory_order_relaxed) == shift.generation) return false;
  shift.first = kNone;
  shift.unclaimed = shift.adopted = 0;
  return true;
}

void WorkerPool::wait(Shift& shift) noexcept {
  if (shift.armed) {  // has looked once more since arming, in vain
    const bool was_woken = is_cut_short(shift) || workers_[shift.self].spot.park();
    disarm(shift);
    shift.yields = 0;
    if (watches_) workers_[shift.self].watch.restart();
    if (shift.rests && (!workers_[0].is_resting() || !has_help(shift) || (!was_woken && is_standing_still(shift))))
      end_rest(shift);
    return;
  }
  if (++shift.tries < kBareTries) return;
  if (shift.tries == kBareTries) shift.since = now();
  pause();
  if (shift.tries % kCheckEvery != 0 || is_cut_short(shift)) return;
  if (!shift.rests && adopt(shift, Adopt::share)) return;
  if (now() - shift.since < options_.spin) return;
  if (!shift.rests && adopt(shift, Adopt::one)) return;  // whose share it is works at something else
  std::this_thread::yield();
  if (++shift.yields < kYields) return;
  if (shift.rests && !has_help(shift)) return end_rest(shift);  // nobody has come, or they rest too
  if (shift.self == 0 && !shift.rests && adopt(shift, Adopt::all)) return;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  workers_[shift.self].spot.arm();
  shift.armed = true;
}

void WorkerPool::disarm(Shift& shift) noexcept {
  workers_[shift.self].spot.disarm();
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  shift.armed = false;
}

void WorkerPool::wake(std::uint32_t worker) noexcept {
  if (workers_[worker].spot.is_armed()) workers_[worker].spot.unpark();
}

// Wakes who may wait for this progress: owners of neighbours, and the caller at the end of a block.
void WorkerPool::wake_for(const Region& region, std::uint64_t progress) noexcept {
  for (const std::uint32_t neighbour : region.neighbours) {
    const std::uint32_t owner = regions_[neighbour].owner.load(std::memory_order_relaxed);
    // Between two owners its home is the one that must look.
    wake(owner == 0 ? regions_[neighbour].home : owner - 1);
  }
  if (progress >= limit_.load(std::memory_order_relaxed)) wake(0);
}

void WorkerPool::wake_all() noexcept {
  light_fence();
  if (sleepers_.load(std::memory_order_relaxed) == 0) return;
  for (std::uint32_t m = 0; m < workers_.size(); ++m) wake(m);
}

}  // namespace weft::scheduler::internal
