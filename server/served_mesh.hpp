// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/cell_frames.hpp"
#include "server/event_ring.hpp"
#include "server/http_exchange.hpp"
#include "server/latency_histogram.hpp"
#include "server/live_mesh.hpp"
#include "server/numa.hpp"

#include "mesh/device/device_statistics.hpp"

#include "actors/actor.hpp"
#include "actors/supervisor.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace weft::server {

/// Facts of a mesh that never change: read without its thread.
struct MeshDescription {
  struct End {  ///< an input port or an output
    std::string name;
    std::size_t width = 0;
  };
  std::string name, network, directory;
  std::vector<std::size_t> grid;  ///< z, y, x
  std::vector<End> inputs, outputs;
  std::size_t layers = 0, learners = 0;  ///< learners: 0 without a section "learning"

  const End* input(std::string_view port) const noexcept;
  const End* output(std::string_view of) const noexcept;
};

/// Statistics that a mesh published last, at most about 50 ms old while it works.
struct MeshStatistics {
  std::uint64_t tick = 0, samples = 0, weight_version = 1, weight_bytes = 0;
  std::string phase = "running", weight_label;
  double ticks_per_second = 0;
  std::optional<double> accuracy, mean_loss;
  DriftDetector::Event drift;  ///< the last one; number 0: none
  std::uint64_t drifts = 0;
  std::optional<learning::LateCounts> late;  ///< where targets may come later
  std::vector<std::string> sessions;
  actors::SupervisionCounters supervision;
  std::array<std::uint64_t, actors::kActorStatusCount> cells{};
  std::optional<agent::AgentStatistics> agent;
  std::optional<std::chrono::system_clock::time_point> checkpoint_time;  ///< when the last one was on the device
  std::optional<mesh::DeviceStatistics> device;                          ///< where one was asked for
  std::vector<std::pair<std::uint64_t, std::string>> kept_weights;       ///< versions and labels
  std::optional<std::string> halted;                                     ///< the fault that halted it, in words
};

/// Counts of a mesh's requests since it is served. @thread any
struct MeshCounters {
  std::atomic<std::uint64_t> queued{0}, rejected{0}, cancelled_queued{0}, timed_out{0};
  std::atomic<std::uint64_t> forward_rows{0}, forward_batches{0};
  NumaBytes weights_read;  ///< of one that is on a node
  LatencyHistogram tick_seconds{LatencyHistogram::kOfTicks};
};

/// Rows for one pass of the network.
struct ForwardRequest {
  struct Port {
    std::string name;
    std::vector<float> values;  ///< [rows][width]
  };
  std::size_t rows = 0;
  std::vector<Port> inputs;
  std::vector<std::string> outputs;
  /// Formats the answer: the outputs in their command, [rows][width] each. Called on the connection's thread.
  std::function<HttpResponse(std::vector<std::span<const float>>)> format;
};

/// A mesh with a thread and a bounded queue. Requests are executed as they came; forward requests
/// that stand behind one another in the queue are computed as one batch, to the same bits as each alone.
/// @thread any
class ServedMesh {
 public:
  struct Options {
    std::size_t queue = 64;                          ///< requests that may wait
    std::chrono::milliseconds longest_wait{30'000};  ///< of a request, in the queue
    std::size_t batch_rows = 1024;                   ///< of forward requests, at most
    std::optional<NumaNode> node{};                  ///< that its thread stays on, at first
  };
  /// Answer to a request that was executed.
  struct Answer {
    std::function<HttpResponse()> format;  ///< called on the connection's thread
    bool waits = false;                    ///< until all so far is on the device
  };
  using Act = std::function<Result<Answer>(LiveMesh&)>;
  /// The mesh's own clock.
  struct Pace {
    bool runs = false;
    double tick_rate = 0;  ///< ticks a second; 0: as fast as it can
    std::optional<std::uint64_t> until_tick;
  };

  ServedMesh(std::string name, std::unique_ptr<LiveMesh> mesh, Options options);
  /// As `stop`, without a checkpoint.
  ~ServedMesh();
  ServedMesh(const ServedMesh&) = delete;
  ServedMesh& operator=(const ServedMesh&) = delete;

  const std::string& name() const noexcept { return description_.name; }
  const MeshDescription& description() const noexcept { return description_; }
  std::shared_ptr<const MeshStatistics> statistics() const;
  const MeshCounters& counters() const noexcept { return counters_; }
  std::optional<NumaNode> node() const;
  std::size_t waiting() const;
  EventRing& events() noexcept { return events_; }

  /// Queues work for the mesh's thread, which answers the exchange; refused at once (429, 503) where there is no room.
  void submit(ExchangePointer exchange, Act act);
  void submit(ExchangePointer exchange, ForwardRequest forward);
  void set_pace(Pace pace);
  /// Time until the next tick of one that ticks by itself: zero where that is as fast as it can; none: it does not.
  /// @thread the mesh's, within an Act
  std::optional<std::chrono::nanoseconds> time_to_spare() const;
  /// Outputs of all cells, for those who look at them; made for the first one. @thread the mesh's, within an Act
  CellFrames& cell_frames();
  /// Moves mesh, sessions and thread to another node, between two ticks; as it was where that fails.
  /// @thread the mesh's, within an Act  @error as LiveMesh::move_to
  Status move_to(const NumaNode& node);
  /// Executes what waits, takes a checkpoint where there is a data directory, and ends the thread; later requests
  /// are refused. @error storage: the checkpoint
  Status stop(bool takes_checkpoint);

 private:
  using Clock = std::chrono::steady_clock;
  struct Job {
    ExchangePointer exchange;
    Act act;
    std::optional<ForwardRequest> forward;
    Clock::time_point queued;
  };
  struct Waiting {
    ExchangePointer exchange;
    std::function<HttpResponse()> format;
  };

  void queue(Job job);
  void work();
  std::deque<Job> next_jobs();
  bool is_gone(const Job& job);
  void execute(std::deque<Job> jobs);
  void execute(Job& job);
  void execute_batch(std::span<Job> jobs);
  bool forward(std::span<Job> jobs);
  void acknowledge();
  void run_block();
  /// Counts the ticks that a call ran. `before`: where it began.
  void count_ticks(std::uint64_t before, Clock::time_point begin);
  /// Counts weights that were read so many times.
  void count_weights(std::uint64_t times);
  void publish(bool is_due);
  std::optional<std::chrono::system_clock::time_point> checkpoint_time(const MeshStatistics* before,
                                                                       std::uint64_t written) const;
  void tell_changes(const MeshStatistics& before, const MeshStatistics& now);

  const Options options_;
  const MeshDescription description_;
  const std::unique_ptr<LiveMesh> mesh_;  // of the thread alone
  MeshCounters counters_;
  EventRing events_;
  mutable std::mutex mutex_;  // of the seven below
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  Pace pace_;
  std::shared_ptr<const MeshStatistics> statistics_;
  std::optional<NumaNode> node_;
  bool stops_ = false;
  // Of the thread:
  std::vector<Waiting> waiting_;
  Clock::time_point published_{}, next_tick_{};
  std::uint64_t block_ = 1, published_tick_ = 0;
  bool has_changed_ = true;
  std::unique_ptr<CellFrames> cell_frames_;
  std::thread thread_;
};

}  // namespace weft::server
