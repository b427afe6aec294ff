// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_assignment.hpp"
#include "mesh/device/device_image.hpp"
#include "mesh/device/device_recovery.hpp"
#include "mesh/device/device_statistics.hpp"
#include "mesh/device/mixed_steps.hpp"
#include "mesh/device/readback.hpp"
#include "mesh/device/recordable_rule.hpp"
#include "mesh/device/replay_log.hpp"
#include "mesh/device/run_windows.hpp"
#include "mesh/device/step_graphs.hpp"
#include "mesh/runtime/engine.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace weft::mesh {

/// Runs an engine's steps on a device that has a copy of the mesh's memory. Steps are recorded as command graphs: the
/// operations that the engine and the learning rule would do on the CPU, on the same pointers. The device goes ahead of
/// the host; `download` brings its values back. Only inputs, labels and scores cross the bus in between.
///
/// Recording supposes that all goes well: outputs and updates are finite, and no command is due. A run for which that
/// does not hold is replayed on the CPU, from where host and device last agreed: everything since is in a log, and the
/// bits are the same. So supervision decides as it would have, and a lost device loses nothing: steps go on on the CPU
/// until the device may be taken again. A step in which a command is known to be due is the CPU's from the first.
/// Cells that stay on the host (mesh/device/device_assignment.hpp) are run there while the device runs the others
/// (MixedSteps). Commands of observers among them end such a run of steps.
/// @thread one at a time
class DeviceExecutor {
 public:
  /// The parts must outlive it.
  DeviceExecutor(DeviceRecovery& recovery, Engine& engine);
  ~DeviceExecutor();

  /// As Engine::run.
  std::uint64_t run(scheduler::Executor& executor, std::uint64_t tick, std::uint64_t steps) noexcept;
  /// Sets a port's value between runs.
  void set_input(NodeId port, std::size_t session, std::span<const float> values, std::uint64_t tick) noexcept;
  /// Downloads the device's memory where it is newer; the host may write afterwards.
  void download() noexcept;
  /// One row of a node's last committed output, without a download of everything, while the device is ahead.
  std::span<const float> output(NodeId node, std::size_t session, std::uint64_t tick) noexcept;
  /// True when the device is ahead of the host.
  bool is_ahead() const noexcept { return is_ahead_; }
  /// The host has written, or may have.
  void note_host_change() noexcept { is_behind_ = true; }
  /// Steps are under way: code that asks for the mesh's memory is part of them.
  bool is_running() const noexcept { return is_running_; }
  const DeviceStatistics& statistics() const noexcept { return statistics_; }
  /// Counts the steps of a copy that was measured.
  void count_copy(const DeviceStatistics& copy) noexcept {
    statistics_.copy_steps += copy.device_steps;
    statistics_.copy_replays += copy.replays;
  }
  /// Counts on from the statistics of another one for the same mesh.
  void count_on(const DeviceStatistics& before);

 private:
  bool is_mixed() const noexcept { return statistics_.host_cells > 0; }
  /// Null: there is none, or its steps cannot be recorded.
  RecordableRule* rule() const noexcept;
  bool has_feeds_or_sinks() const noexcept;
  std::size_t node_count() const noexcept { return engine_.runner().graph().nodes().size(); }
  /// Steps after which rings, messages and phases are as they were.
  std::uint64_t base_steps() const noexcept;
  std::uint64_t block_steps() const noexcept;
  /// Steps of a block whose graphs come again although some cells do not fire in every tick; at most block_steps()
  /// where there are windows.
  std::uint64_t steps_at_once() const;
  /// Steps of a part of a block: their inputs are worth a submission.
  std::uint64_t part_steps() const noexcept;
  /// Steps of a run, of `steps` in all, from this one on before one in which more than firing happens.
  std::uint64_t steady_steps(std::uint64_t tick, std::uint64_t step, std::uint64_t steps) const;
  /// Steps of a run in which nothing else is known to happen; returns how many were done.
  std::uint64_t run_steady(scheduler::Executor& executor, std::uint64_t tick, std::uint64_t first,
                           std::uint64_t steps) noexcept;
  /// The same on the device. Nothing: its values are not what they should be.
  Result<std::optional<std::uint64_t>> try_device(std::uint64_t tick, std::uint64_t first, std::uint64_t steps);
  /// After steps on the device: they count.
  void settle(std::uint64_t done) noexcept;
  std::uint64_t run_host(scheduler::Executor& executor, std::uint64_t tick, std::uint64_t first,
                         std::uint64_t steps) noexcept;
  /// Makes the image where there is none, and brings the device up to the host.
  Status prepare();
  Status make_image();
  void push_first_inputs(std::uint64_t tick);
  /// Steps [first, end) of a run, or fewer where an observer commands; returns how many.
  Result<std::uint64_t> run_device(std::uint64_t tick, std::uint64_t first, std::uint64_t end);
  Status run_block(std::uint64_t tick, std::uint64_t step, std::uint64_t count, std::uint64_t times);
  Result<std::uint64_t> run_mixed(std::uint64_t tick, std::uint64_t first, std::uint64_t end);
  /// Samples that these steps touch.
  std::pair<std::uint64_t, std::uint64_t> samples_of(std::uint64_t tick, std::uint64_t step, std::uint64_t count) const;
  Result<std::shared_ptr<StepGraph>> graph_of(std::uint64_t tick, const BlockSteps& steps);
  /// Runs the log on the CPU, from where host and device agreed; returns the steps of its last entry that were done.
  /// `is_under_way`: that one is the run that the caller is in.
  std::uint64_t replay(scheduler::Executor& executor, bool is_under_way) noexcept;
  std::uint64_t replay_entry(scheduler::Executor& executor, const ReplayLog::Entry& entry) noexcept;
  void forget_log() noexcept;
  /// Copies the device's memory to the host, for a replay to begin from. After a failure the CPU has replayed the
  /// log instead. @return true when it went well
  bool read_back() noexcept;
  /// Drops all that is the device's. `replay` must follow where it was ahead.
  void fall_back(const Error& error) noexcept;

  DeviceRecovery& recovery_;
  Engine& engine_;
  HostPlaces places_;
  DeviceStatistics statistics_;
  DeviceImage image_;
  RunWindows windows_;
  MixedSteps mixed_;
  StepGraphs graphs_;
  ReplayLog log_;
  scheduler::Executor* executor_ = nullptr;  // of the last run
  bool is_ahead_ = false, is_behind_ = true, is_running_ = false;
  std::map<std::pair<NodeId, std::size_t>, std::vector<float>> outputs_;  // read since the last run
  std::array<Readback, 2> readbacks_;  // a device that is lost half way must not take the last one along
  bool has_readback_ = false;          // the first is where the log begins; else the host's own memory is
};

}  // namespace weft::mesh
