// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_buffers.hpp"
#include "mesh/device/device_recovery.hpp"
#include "mesh/device/device_statistics.hpp"
#include "mesh/device/graph_recorder.hpp"
#include "mesh/device/host_device_exchange.hpp"
#include "mesh/device/readback.hpp"
#include "mesh/memory/byte_archive.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/engine.hpp"

#include "gpu/device.hpp"
#include "gpu/program.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft::mesh {

/// Runs an engine's steps on a device that mirrors the mesh's memory. Steps are recorded as programs: what the engine
/// and the learning rule would do on the CPU, on the same pointers (GraphRecorder). The device goes ahead of the host;
/// `pull` brings the host up to it. Nothing but inputs, labels and scores crosses the bus in between.
///
/// Recording supposes that all goes well: outputs and updates are finite, and no order is carried out. A run for which
/// that does not hold is lived on the CPU, from where host and device last agreed: what came since is in a log, and the
/// bits are the same. So supervision sees what it would have seen, and a lost device loses nothing: steps go on on the
/// CPU until the hold lets the device be taken again. A step in which an order is known to be carried out is the CPU's
/// from the first.
/// Cells that stay on the host (mesh/device/device_assignment.hpp) are run there by the engine while the device runs
/// the others; after each step each side gets what it touches of what the other wrote
/// (mesh/device/host_device_exchange.hpp). What watchers among them order ends a stretch of such steps.
/// @thread one at a time
class DeviceExecutor {
 public:
  /// The parts must outlive it.
  DeviceExecutor(DeviceRecovery& hold, const Graph& graph, WeightStore& weights, State& state, Engine& engine,
                 std::span<const std::unique_ptr<Cell>> cells);
  ~DeviceExecutor();

  /// As Engine::run.
  std::uint64_t run(scheduler::Executor& executor, std::uint64_t tick, std::uint64_t steps) noexcept;
  /// Sets a port's value between runs.
  void set_input(NodeId port, std::size_t session, std::span<const float> values, std::uint64_t tick) noexcept;
  /// Brings the host's memory up to the device's; the host may write afterwards.
  void pull() noexcept;
  /// One row of what a node committed last, without bringing up everything, while the device is ahead.
  std::span<const float> output(NodeId node, std::size_t session, std::uint64_t tick) noexcept;
  /// Whether the device is ahead of the host.
  bool is_ahead() const noexcept { return is_ahead_; }
  /// The host has written, or may have.
  void note_host_change() noexcept { is_behind_ = true; }
  /// Steps under way: who asks for the mesh's memory is part of them.
  bool is_running() const noexcept { return is_running_; }
  const DeviceStatistics& figures() const noexcept { return figures_; }
  /// Counts on from what another one did for the same mesh.
  void count_on(const DeviceStatistics& before) noexcept {
    figures_.device_steps += before.device_steps;
    figures_.host_steps += before.host_steps;
    figures_.replays += before.replays;
    figures_.programs += before.programs;
    figures_.pushes += before.pushes;
    figures_.pulls += before.pulls;
    figures_.exchanged_bytes += before.exchanged_bytes;
    figures_.faults += before.faults;
    figures_.restarts += before.restarts;
    figures_.last_fault = before.last_fault;
    if (hold_.is_held()) return;
    figures_.device = before.device;
    figures_.why_host = before.why_host;
  }

 private:
  /// Steps since host and device last agreed, or an input.
  struct Logged {
    std::uint64_t tick = 0, first = 0, steps = 0;  // of a run that began at `tick`
    struct Feed {
      NodeId port = 0;
      PortFeed feed;
      std::vector<float> values;
    };
    std::vector<Feed> feeds;
    ByteArchive hook;
    NodeId port = 0;
    std::size_t session = 0;
    std::vector<float> input;  // not empty: an input
  };
  struct Recorded {
    std::shared_ptr<gpu::Program> program;
    std::vector<std::pair<NodeId, std::uint64_t>> updates;
    std::vector<NodeId> guarded;      // of which the device counts the updates
    HostDeviceExchange::Step border;  // of a mesh that the host runs in part
  };
  /// Steps of one program, of the block of steps that a window of inputs and samples holds.
  struct Steps {
    std::uint64_t first = 0, count = 0, block = 0, sample = 0;  // the block's first step and sample
  };
  struct Window {  // of a port or an output, on the device
    gpu::Buffer buffer;
  };

  bool has_feeds_or_sinks() const noexcept;
  /// Steps of a run, of `steps` in all, from this one on before one in which more than firing happens.
  std::uint64_t quiet_steps(std::uint64_t tick, std::uint64_t step, std::uint64_t steps) const;
  /// Steps of a run in which nothing else is known to happen; returns how many were done.
  std::uint64_t run_quiet(scheduler::Executor& executor, std::uint64_t tick, std::uint64_t first,
                          std::uint64_t steps) noexcept;
  /// Makes the mirror where there is none, and brings the device up to the host.
  Status prepare();
  Status make_mirror();
  /// Steps [first, end) of a run, or fewer where a watcher orders; returns how many.
  Result<std::uint64_t> run_device(std::uint64_t tick, std::uint64_t first, std::uint64_t end);
  Status run_block(std::uint64_t tick, std::uint64_t step, std::uint64_t count, std::uint64_t times);
  /// The program of these steps, recorded if it is not at hand.
  Result<std::shared_ptr<Recorded>> program_of(std::uint64_t tick, const Steps& steps);
  Result<Recorded> record(std::uint64_t tick, const Steps& steps);
  // Where the host runs some of the cells:
  bool is_mixed() const noexcept { return figures_.host_cells > 0; }
  void begin_mixed(std::uint64_t tick, bool is_first);
  /// One step on both sides, and what crosses after it.
  Status run_mixed_step(std::uint64_t tick, std::uint64_t step);
  Status run_both(const Recorded& recorded, std::uint64_t step, std::uint64_t end);
  /// What of the mesh's memory no operation of the device touches.
  ByteRanges hosts_alone(std::span<const DeviceRegion> pieces) const;
  /// Finds out what the host's parts of a step touch.
  void watch_host_parts(const Engine::Recording& recording, std::uint64_t step, std::vector<gpu::Touched>& touched);
  /// Learns what both sides of a step touch, and brings what was not wanted before.
  Status open_border(HostDeviceExchange::Step& step, std::span<const gpu::Touched> by_host,
                     std::span<const gpu::Touched> by_device);
  void keep_ports(std::uint64_t tick);
  void upload(const ByteRanges& ranges);
  /// Copies `fetches_` to the host: from what was recorded so far, then when that is done.
  Status begin_fetch();
  Status end_fetch();
  Status push_feeds(const Steps& steps);
  Status reset_counts();
  Status pull_counts();
  Status pull_sinks(std::uint64_t step, std::uint64_t count);
  std::uint64_t run_host(scheduler::Executor& executor, std::uint64_t tick, std::uint64_t first,
                         std::uint64_t steps) noexcept;
  /// Lives the log on the CPU, from where host and device agreed; returns the steps of its last entry that were done.
  /// `is_under_way`: that one is the run that the caller is in.
  std::uint64_t replay(scheduler::Executor& executor, bool is_under_way) noexcept;
  void forget_log() noexcept;
  void log_run(std::uint64_t tick, std::uint64_t first, std::uint64_t steps);
  /// Copies what the run's first `ticks` are fed into its entry of the log.
  void log_feeds(std::uint64_t ticks) noexcept;
  /// Has what the device holds at hand on the host, for a replay to begin from. After a failure the CPU has lived the
  /// log instead. @return whether it went well
  bool land() noexcept;
  /// Drops all that is the device's. `replay` must follow where it was ahead.
  void give_up(const Error& error) noexcept;
  scheduler::Executor* executor_ = nullptr;  // of the last run
  std::uint64_t block_steps() const noexcept;
  /// Steps of a block whose programs come again although some cells do not fire in every tick; at most block_steps()
  /// where there are windows.
  std::uint64_t steps_at_once() const;
  /// Steps of a part of a block: their inputs are worth a submission.
  std::uint64_t part_steps() const noexcept;

  DeviceRecovery& hold_;
  const Graph& graph_;
  WeightStore& weights_;
  State& state_;
  Engine& engine_;
  std::span<const std::unique_ptr<Cell>> cells_;
  std::unique_ptr<gpu::VulkanStream> stream_;
  std::optional<DeviceBuffers> mirror_;
  gpu::Buffer notes_;
  gpu::Buffer guards_;                    // by node: words, counts, and -1 at the end
  std::vector<std::uint8_t> is_guarded_;  // by node, in the run under way
  std::unique_ptr<GraphRecorder> recorder_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::shared_ptr<Recorded>> programs_;  // by hash
  std::vector<std::uint8_t> is_host_;                                                      // by node
  bool is_asked_ = true;                                                                   // by the network
  HostDeviceExchange border_;
  std::vector<DeviceBuffers::DeviceCopy> fetches_;
  gpu::Buffer fetched_;
  std::vector<std::byte> landing_;
  bool has_host_failed_ = false;
  std::uint64_t notes_kept_at_ = 0;  // the era of the border
  std::vector<Window> feeds_, sinks_;
  std::vector<float*> feed_places_;
  std::vector<OutputSink> sink_places_;
  std::uint64_t weights_seen_ = 0;
  bool is_ahead_ = false, is_behind_ = true, is_running_ = false;
  std::map<std::pair<NodeId, std::size_t>, std::vector<float>> outputs_;  // read since the last run
  std::vector<std::vector<float>> spare_;                                 // of feeds that were logged
  std::array<Readback, 2> landings_;  // a device that is lost half way must not take the last one along
  bool has_landed_ = false;           // the first is what the log begins from; else the host's own memory is
  std::vector<Logged> log_;
  std::uint64_t log_bytes_ = 0, log_steps_ = 0;
  std::vector<Watcher*> watchers_;
  std::vector<std::array<std::uint64_t, Watcher::kWords>> watched_;  // by watcher: as the log began
  DeviceStatistics figures_;
};

}  // namespace weft::mesh
