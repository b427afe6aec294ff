// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/run_statistics.hpp"

#include "learning/layer_monitor.hpp"
#include "learning/learner.hpp"

#include "mesh/mesh.hpp"

#include "actors/supervisor.hpp"
#include "actors/watchdog.hpp"

#include "core/coord.hpp"
#include "core/json.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace weft::cli {

/// Statistics of a running agent, as its run loop publishes them (docs/formats/top.md).
struct LiveStatistics {
  using Clock = std::chrono::steady_clock;

  struct DegradedCell {  // a cell that is not simply running
    Coord at;
    actors::ActorStatus status = actors::ActorStatus::held;
    std::uint64_t faults = 0, restarts = 0, last_fault_tick = 0;
  };
  struct Saved {
    std::uint64_t samples = 0, ticks = 0, bytes = 0;
    Clock::time_point when{};
    double pause_seconds = 0;  // for which ticks stood still
  };
  struct Journal {
    std::string durability;
    std::uint64_t acknowledged = 0;  // the tick up to which all is on the device
    std::uint64_t waiting = 0;       // bytes that are not, yet
    std::uint64_t bytes = 0;         // since the last checkpoint
    std::string error;               // empty: it can be written
  };

  /// Of an agent that acts.
  struct Acting {
    std::uint64_t steps = 0, episodes = 0;
    double mean_return = 0;       // of the last 100 episodes
    double steps_per_second = 0;  // over the last second or so
  };

  std::string phase = "starting";  // starting, running, saving, finishing, stopping, done
  RunStatistics run{};             // rates over the last second or so
  actors::SupervisionCounters supervision;
  std::array<std::uint64_t, actors::kActorStatusCount> cells{};  // by status
  std::vector<DegradedCell> degraded;                            // at most kMostDegraded, in order of place
  std::uint64_t weight_bytes = 0, state_bytes = 0;
  std::uint64_t failed_checkpoints = 0;
  std::optional<learning::LateCounts> late;  // where targets may come later
  std::optional<Saved> saved;
  std::optional<Journal> journal;
  std::optional<Acting> acting;                    // without scores of samples
  std::vector<learning::LayerDiagnostics> layers;  // at most kMostLayers, in the network's order; empty: not measured

  static constexpr std::size_t kMostDegraded = 16, kMostLayers = 256;
};

/// Properties of an agent that never change while it runs.
struct AgentIdentity {
  std::string network, executor;
  std::size_t threads = 0, sessions = 0;
  std::vector<Coord> cells;  // by actor
  LiveStatistics::Clock::time_point started = LiveStatistics::Clock::now();
};

/// The last statistics, from the thread that runs ticks to those that look on.
/// @thread publish: one at a time; read: any
class LivePublisher {
 public:
  /// Never waits: while somebody is copying, statistics are dropped, and newer ones come soon.
  void publish(const LiveStatistics& statistics) {
    const std::unique_lock hold(mutex_, std::try_to_lock);
    if (hold) statistics_ = statistics;
  }
  LiveStatistics read() const {
    const std::lock_guard hold(mutex_);
    return statistics_;
  }

 private:
  mutable std::mutex mutex_;
  LiveStatistics statistics_;
};

/// The identity of a mesh that runs.
AgentIdentity identity_of(mesh::Mesh& mesh);
/// Looks at the cells: their standing, and what befell them.
void measure_cells(const mesh::Mesh& mesh, const AgentIdentity& agent, LiveStatistics& statistics);

/// A line of JSON without its end: the answer of `weft top`. Where the time goes is found out from then on for a while.
/// @thread any
std::string statistics_text_of(const AgentIdentity& agent, const LiveStatistics& statistics,
                               actors::Watchdog& watchdog);
Json hang_json(const actors::Hang& hang, Coord at);
/// The part of it that these statistics make.
Json to_json(const AgentIdentity& agent, const LiveStatistics& statistics);
/// Fates of samples whose targets come later; null: none can.
Json to_json(const learning::LateCounts& counts);
std::optional<learning::LateCounts> late_counts_of(const learning::Learner* learner);

/// "[0,1,1]": a cell's place, without a level.
Json cell_json(Coord at);

}  // namespace weft::cli
