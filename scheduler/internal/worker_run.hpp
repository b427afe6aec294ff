// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/internal/pool_state.hpp"

#include <cstdint>

namespace weft::scheduler::internal {

/// One worker's part of one run: the regions it owns, and how it waits.
///
/// Stealing. A worker that stalls takes regions whose assigned worker is not in the run, works them among its own, and
/// gives each back between steps once its assigned worker has come. Each takes its fair share of such regions first,
/// and gives back what is more than that when others have come: the one with the most regions is the one that all wait
/// for.
///
/// Waiting: look again, then spin, then yield, then sleep. The caller, before it sleeps, steals every region that
/// nobody works, so whatever can go on has somebody awake or to be woken. Who publishes progress looks for sleepers
/// among the owners of neighbouring regions (wait.hpp says why no wake-up is lost). No deadlock: of all unfinished
/// regions one with the least progress can always go on.
///
/// Backoff. A worker that finds its core used by others leaves the run for a while: it gives its regions back, which
/// others steal, and sleeps (core_watch.hpp). The caller stays, and works nothing meanwhile unless nobody else does.
/// A thread that works alone does not back off.
class WorkerRun {
 public:
  /// Of worker `self`; 0 is the caller.
  WorkerRun(PoolState& pool, std::uint32_t self, std::uint64_t generation) noexcept
      : pool_(pool), self_(self), generation_(generation) {}

  /// Works regions until the run is over, or until this worker backs off.
  void work() noexcept;
  /// Takes tasks from the queue until the run is over, and waits for them as others wait for neighbours.
  void help() noexcept;

 private:
  bool should_back_off() noexcept;
  void begin_backoff() noexcept;
  void end_backoff() noexcept;
  bool is_standing_still() noexcept;
  /// True when another thread works in this run.
  bool has_help() const noexcept;
  bool pass() noexcept;
  std::uint32_t reversed(std::uint32_t list) noexcept;
  bool advance(PoolRegion& region, std::uint32_t r) noexcept;
  void claim_assigned() noexcept;
  enum class Steal { share, one, all };
  bool steal(Steal wanted) noexcept;
  std::uint32_t fair_share() const noexcept;
  bool has_too_many() noexcept;
  bool is_over() noexcept;
  void wait() noexcept;
  bool is_cut_short() noexcept;
  void disarm() noexcept;

  PoolState& pool_;
  const std::uint32_t self_;
  const std::uint64_t generation_;
  std::uint64_t limit_ = 0;          // last value read of the pool's
  std::uint32_t first_ = kNoRegion;  // list of owned, unfinished regions
  std::uint32_t unclaimed_ = 0;      // assigned regions, not yet owned nor finished
  std::uint32_t next_unowned_ = 0;   // where to look on for one that nobody owns
  std::uint32_t stolen_ = 0;         // owned regions of other workers
  std::uint32_t passes_ = 0;
  std::uint32_t unfinished_ = 0;  // caller only: all regions before it stand at the limit
  bool armed_ = false;
  bool backs_off_ = false;        // others use the core
  std::uint64_t steps_seen_ = 0;  // of all regions, when the caller in backoff looked last
  // Since something last moved: looks, yields, and when spinning began.
  std::uint32_t tries_ = 0, yields_ = 0;
  Nanoseconds since_{0};
};

}  // namespace weft::scheduler::internal
