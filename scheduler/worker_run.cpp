// SPDX-License-Identifier: Apache-2.0

#include "scheduler/internal/worker_run.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace weft::scheduler::internal {
namespace {

constexpr std::uint32_t kBareTries = 96;  // looks without a pause: a neighbour's line takes about so long to come
constexpr std::uint32_t kCheckEvery = 16;
constexpr std::uint32_t kYields = 16;
constexpr std::uint32_t kPassesALook = 64;

}  // namespace

void WorkerRun::work() noexcept {
  PoolWorker& worker = pool_.workers[self_];
  unclaimed_ = pool_.plan.assigned_count(self_);
  next_unowned_ = pool_.plan.first_assigned(self_);
  if (pool_.watches) worker.watch.restart();
  if (pool_.watches && self_ == 0 && worker.is_backing_off()) begin_backoff();
  for (;;) {
    if (pass()) {
      if (armed_) disarm();
      tries_ = yields_ = 0;
      if (pool_.watches && should_back_off()) {
        begin_backoff();
        if (self_ != 0) break;
      }
    } else if (is_over()) {
      break;
    } else {
      wait();
    }
  }
  if (armed_) disarm();
}

void WorkerRun::help() noexcept {
  for (;;) {
    if (pool_.tasks.work(false) != 0) {
      if (armed_) disarm();
      tries_ = yields_ = 0;
    } else if (pool_.generation.load(std::memory_order_acquire) != generation_) {  // pairs with the store in close_run
      break;
    } else {
      wait();
    }
  }
  if (armed_) disarm();
}

bool WorkerRun::should_back_off() noexcept {
  CoreWatch& watch = pool_.workers[self_].watch;
  if (!watch.is_due() || !watch.is_taken(pool_.options.times())) return false;
  if (!has_help()) return false;  // nobody would take its regions
  const Nanoseconds time = now();
  const auto backing_off = std::count_if(pool_.workers.begin(), pool_.workers.end(), [&](const PoolWorker& worker) {
    return worker.backoff_ends.load(std::memory_order_relaxed) > time.count();
  });
  if (static_cast<std::size_t>(backing_off) >= most_backing_off(pool_.workers.size())) return false;
  pool_.workers[self_].backoff_ends.store(watch.backoff_ends().count(), std::memory_order_relaxed);
  return true;
}

// Gives all regions back. No longer in the run, so that others may steal them; the caller stays to end it.
void WorkerRun::begin_backoff() noexcept {
  backs_off_ = true;
  while (first_ != kNoRegion) {
    PoolRegion& region = pool_.plan[first_];
    first_ = region.next;
    region.owner.store(0, std::memory_order_release);  // pairs with the acquire of the next owner
  }
  unclaimed_ = stolen_ = 0;
  if (self_ != 0) return;     // join tells the others
  (void)is_standing_still();  // from here on
  pool_.workers[0].in_run.store(0, std::memory_order_seq_cst);
  pool_.wake_all();
}

// The caller only: it takes its regions back as a worker does that came late.
void WorkerRun::end_backoff() noexcept {
  PoolWorker& worker = pool_.workers[0];
  backs_off_ = false;
  worker.backoff_ends.store(0, std::memory_order_relaxed);
  unclaimed_ = pool_.plan.assigned_count(0);
  worker.watch.restart();
  worker.in_run.store(generation_, std::memory_order_seq_cst);
}

bool WorkerRun::has_help() const noexcept {
  for (std::uint32_t m = 0; m < pool_.workers.size(); ++m)
    if (m != self_ && pool_.is_in_run(m, generation_)) return true;
  return false;
}

// For a whole sleep of the caller's: it is needed.
bool WorkerRun::is_standing_still() noexcept {
  std::uint64_t steps = 0;
  for (std::uint32_t r = 0; r < pool_.plan.size(); ++r) steps += pool_.plan[r].progress.load(std::memory_order_relaxed);
  return std::exchange(steps_seen_, steps) == steps;
}

// Works every owned region as far as it goes now; true when anything moved. Then the list is in reverse order: the
// region that was worked last comes first in the next pass, while its weights are still in the core's cache.
bool WorkerRun::pass() noexcept {
  if (unclaimed_ != 0) claim_assigned();
  bool moved = false, sheds = has_too_many();
  std::uint32_t kept = kNoRegion;
  for (std::uint32_t r = first_; r != kNoRegion;) {
    PoolRegion& region = pool_.plan[r];
    const std::uint32_t next = region.next;
    bool keep = true;
    const bool is_stolen = region.worker != self_;
    if (is_stolen && (pool_.is_in_run(region.worker, generation_) || sheds)) {
      region.owner.store(0, std::memory_order_release);  // pairs with the acquire of the next owner
      light_fence();
      pool_.is_in_run(region.worker, generation_) ? pool_.wake(region.worker) : pool_.wake_all();
      keep = sheds = false;
    } else {
      moved |= advance(region, r);
      if (region.progress.load(std::memory_order_relaxed) ==
          pool_.n) {  // done: stays owned, so nobody looks at it again
        keep = false;
        light_fence();
        if (region.worker != self_) pool_.wake(region.worker);
      }
    }
    if (keep) {
      region.next = kept;
      kept = r;
    } else if (is_stolen) {
      --stolen_;
    }
    r = next;
  }
  first_ = moved ? kept : reversed(kept);
  return moved;
}

std::uint32_t WorkerRun::reversed(std::uint32_t list) noexcept {
  std::uint32_t result = kNoRegion;
  while (list != kNoRegion) {
    const std::uint32_t next = std::exchange(pool_.plan[list].next, result);
    result = std::exchange(list, next);
  }
  return result;
}

// One step of a region, or its first half; true when either was done.
bool WorkerRun::advance(PoolRegion& region, std::uint32_t r) noexcept {
  const std::uint64_t step = region.progress.load(std::memory_order_relaxed);  // written by its owner alone
  if (step >= limit_) {
    limit_ = pool_.limit.load(std::memory_order_acquire);  // pairs with the release in is_over
    if (step >= limit_) return false;
  }
  bool moved = false;
  if (!region.interior_done) {
    pool_.program->run_interior(r, step);
    region.interior_done = true;
    region.checked = 0;
    moved = true;
  }
  for (; region.checked < region.neighbours.size(); ++region.checked) {
    // Pairs with the release below, in the neighbour's owner.
    if (pool_.plan[region.neighbours[region.checked]].progress.load(std::memory_order_acquire) < step) return moved;
  }
  pool_.program->run_boundary(r, step);
  region.interior_done = false;
  region.progress.store(step + 1, std::memory_order_release);  // pairs with the acquire above
  light_fence();
  if (pool_.sleepers.load(std::memory_order_relaxed) != 0) pool_.wake_for(region, step + 1);
  return true;
}

// Takes the worker's own regions, back from who stole them if need be.
void WorkerRun::claim_assigned() noexcept {
  const std::span<const std::uint32_t> assigned = pool_.plan.assigned_to(self_);
  // Backwards and then pushed in front, so the list is ascending when all are free.
  for (std::size_t i = assigned.size(); i-- > 0 && unclaimed_ != 0;) {
    const std::uint32_t r = assigned[i];
    PoolRegion& region = pool_.plan[r];
    std::uint32_t owner = region.owner.load(std::memory_order_relaxed);
    if (owner == self_ + 1) continue;  // claimed before
    // Acquire: pairs with the release of who stole it.
    if (owner == 0 && region.owner.compare_exchange_strong(owner, self_ + 1, std::memory_order_acquire)) {
      region.next = first_;
      first_ = r;
    }
  }
  // Regions neither owned by this worker nor finished are still to be claimed.
  unclaimed_ = 0;
  for (const std::uint32_t r : assigned) {
    const PoolRegion& region = pool_.plan[r];
    unclaimed_ += region.owner.load(std::memory_order_relaxed) != self_ + 1 &&
                  region.progress.load(std::memory_order_acquire) != pool_.n;
  }
}

// Takes regions whose assigned worker is not there: one within its share, one, or all of them. True when any was taken.
bool WorkerRun::steal(Steal wanted) noexcept {
  if (wanted == Steal::share && stolen_ >= fair_share()) return false;
  bool any = false;
  for (std::uint32_t i = 0; i < pool_.plan.size(); ++i) {
    const std::uint32_t r = next_unowned_;
    next_unowned_ = r + 1 < pool_.plan.size() ? r + 1 : 0;
    PoolRegion& region = pool_.plan[r];
    std::uint32_t owner = region.owner.load(std::memory_order_relaxed);
    if (owner != 0 || pool_.is_in_run(region.worker, generation_)) continue;
    // Acquire: pairs with the release of an earlier owner.
    if (!region.owner.compare_exchange_strong(owner, self_ + 1, std::memory_order_acquire)) continue;
    region.next = first_;
    first_ = r;
    ++stolen_;
    any = true;
    if (wanted != Steal::all) break;
  }
  return any;
}

// Regions whose workers are not there, for each worker that is.
std::uint32_t WorkerRun::fair_share() const noexcept {
  std::uint32_t workers = 0, unowned = 0;
  for (std::uint32_t m = 0; m < pool_.workers.size(); ++m)
    pool_.is_in_run(m, generation_) ? ++workers : unowned += pool_.plan.assigned_count(m);
  return workers == 0 ? unowned : (unowned + workers - 1) / workers;
}

// Looked at now and then: it was alone, and others have come.
bool WorkerRun::has_too_many() noexcept {
  return stolen_ > 1 && ++passes_ % kPassesALook == 0 && stolen_ > fair_share();
}

// Nothing moved: true when this worker's part of the run is over. The caller also opens the next block here.
bool WorkerRun::is_over() noexcept {
  if (self_ != 0) return first_ == kNoRegion && unclaimed_ == 0;
  const std::uint64_t limit = pool_.limit.load(std::memory_order_relaxed);  // only this thread writes it
  for (; unfinished_ < pool_.plan.size(); ++unfinished_) {
    // Pairs with the release in advance: at a block's end the caller sees all that the regions wrote.
    if (pool_.plan[unfinished_].progress.load(std::memory_order_acquire) < limit) return false;
  }
  if (limit == pool_.n || pool_.program->should_stop(limit)) return true;
  unfinished_ = 0;
  pool_.limit.store(limit + std::min(pool_.block, pool_.n - limit),
                    std::memory_order_release);  // pairs with the acquire in advance
  pool_.wake_all();
  return false;
}

// A run that was stopped leaves workers with regions that may not go on: this is how they learn it.
bool WorkerRun::is_cut_short() noexcept {
  if (self_ == 0 || pool_.generation.load(std::memory_order_relaxed) == generation_) return false;
  first_ = kNoRegion;
  unclaimed_ = stolen_ = 0;
  return true;
}

void WorkerRun::wait() noexcept {
  if (armed_) {  // has looked once more since arming, in vain
    const bool was_woken = is_cut_short() || pool_.workers[self_].spot.park();
    disarm();
    yields_ = 0;
    if (pool_.watches) pool_.workers[self_].watch.restart();
    if (backs_off_ && (!pool_.workers[0].is_backing_off() || !has_help() || (!was_woken && is_standing_still())))
      end_backoff();
    return;
  }
  if (++tries_ < kBareTries) return;
  if (tries_ == kBareTries) since_ = now();
  pause();
  if (tries_ % kCheckEvery != 0 || is_cut_short()) return;
  if (!backs_off_ && steal(Steal::share)) return;
  if (now() - since_ < pool_.options.spin) return;
  if (!backs_off_ && steal(Steal::one)) return;  // whose share it is works at something else
  std::this_thread::yield();
  if (++yields_ < kYields) return;
  if (backs_off_ && !has_help()) return end_backoff();  // nobody has come, or they back off too
  if (self_ == 0 && !backs_off_ && steal(Steal::all)) return;
  pool_.sleepers.fetch_add(1, std::memory_order_seq_cst);
  pool_.workers[self_].spot.arm();
  armed_ = true;
}

void WorkerRun::disarm() noexcept {
  pool_.workers[self_].spot.disarm();
  pool_.sleepers.fetch_sub(1, std::memory_order_relaxed);
  armed_ = false;
}

}  // namespace weft::scheduler::internal
