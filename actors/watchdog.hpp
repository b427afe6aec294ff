// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "actors/activity_table.hpp"
#include "actors/fwd.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

namespace weft::actors {

/// A worker that stands at one actor for longer than it should, or does so no more.
struct Hang {
  std::size_t worker = 0;
  ActorId actor = 0;
  std::uint64_t tick = 0;
  std::chrono::nanoseconds stood{0};  ///< so far; when it is over, as last seen
  bool is_over = false;               ///< it has moved on
};

/// Fate of a process with a worker that hangs: a thread cannot be ended from outside.
enum class OnHang : std::uint32_t {
  report,  ///< it is told, and the others go on as far as they can
  abort,   ///< it is told, then the process ends with SIGABRT, for its service manager to start it anew
};
std::string_view name(OnHang answer) noexcept;
std::optional<OnHang> parse_on_hang(std::string_view text) noexcept;

/// Finds hangs on an activity table that it is told to look at now and then; time is the caller's.
///
/// Only time that was watched counts: between two looks at most `longest_gap`. So a process that was stopped, a machine
/// that slept, or a watchdog that was kept off the processor is no hang of the actor's.
/// @thread one at a time
class HangDetector {
 public:
  HangDetector(const ActivityTable& activity, std::chrono::nanoseconds limit, std::chrono::nanoseconds longest_gap);

  /// Tells `report` of each worker that has stood for the limit since it was last told, once, and again when it moves
  /// on.
  void look(std::chrono::nanoseconds now, const std::function<void(const Hang&)>& report);
  /// Those that stand now.
  std::vector<Hang> hanging() const;

 private:
  struct Watched {
    ActivityTable::Place place;
    std::chrono::nanoseconds stood{0};
    bool is_told = false;
  };
  const ActivityTable& activity_;
  std::chrono::nanoseconds limit_, longest_gap_;
  std::optional<std::chrono::nanoseconds> last_;
  std::vector<Watched> watched_;
};

/// Options of a watchdog.
///   parameter | default | unit    | meaning
///   limit     | 10 s    | time    | a worker that stands at one actor for so long hangs; 0: nothing is watched
///   on_hang   | report  |         | what follows
///   told      | none    |         | called on the watchdog's thread, before the process ends where it does
struct WatchdogOptions {
  std::chrono::nanoseconds limit = std::chrono::seconds(10);
  OnHang on_hang = OnHang::report;
  std::function<void(const Hang&)> told{};
};

/// A thread that looks at an activity table: for hangs, and, while somebody wants to know, for where time goes. Those
/// who are watched pay nothing for it. A run that is not in progress is no hang.
/// @thread any
class Watchdog {
 public:
  /// An actor's share of the workers' time. All shares add up to 1 with the time in which workers were idle or waited.
  struct Share {
    ActorId actor = 0;
    double share = 0;
  };

  /// `activity` must outlive it. @param actors  how many there are, for the shares
  Watchdog(const ActivityTable& activity, std::size_t actors, WatchdogOptions options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Hangs found so far.
  std::uint64_t hangs() const noexcept { return hangs_.load(std::memory_order_relaxed); }
  /// Those that last.
  std::vector<Hang> hanging() const;

  /// Samples about a thousand times a second for the next `time`; a later call prolongs it. Old samples fade.
  void sample_for(std::chrono::nanoseconds time);
  /// The actors at which most samples were taken, most first; empty before the first.
  std::vector<Share> busiest(std::size_t most) const;

 private:
  using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC: stands while the machine sleeps
  void watch();
  void look(Clock::time_point now);
  void sample();

  const ActivityTable& activity_;
  const WatchdogOptions options_;
  const std::chrono::nanoseconds period_;
  std::atomic<std::uint64_t> hangs_{0};

  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  bool stops_ = false;
  std::optional<Clock::time_point> samples_until_;
  std::vector<std::uint32_t> counts_;  // by actor
  std::uint64_t samples_ = 0;
  std::vector<Hang> hanging_;

  HangDetector detector_;  // the thread's own
  std::thread thread_;     // last: it uses all the others
};

}  // namespace weft::actors
