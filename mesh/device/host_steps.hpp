// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/runtime/command_delivery.hpp"
#include "mesh/runtime/step_runner.hpp"

#include "scheduler/executor.hpp"
#include "scheduler/tick_program.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace weft::mesh {

/// The host's part of steps whose other part a device runs: some whole cells, and the ports that they read. Ticks are
/// quiet, so nothing is delivered; a fault is only noted, since the step is then run again in full.
class HostSteps final : public scheduler::TickProgram, private StepEvents {
 public:
  /// `is_host`: by node. The runner must outlive it.
  HostSteps(StepRunner& runner, std::vector<std::uint8_t> is_host);

  bool is_host(NodeId node) const noexcept { return is_host_[node]; }
  std::span<const std::uint8_t> hosts() const noexcept { return is_host_; }
  /// Before the steps of a run that began at `tick`; `is_first`: the run's first is among them.
  void begin(std::uint64_t tick, bool is_first) noexcept;
  /// The host's part of one step. False: one of its cells failed, and its values are not what they should be.
  bool run(scheduler::Executor& executor, std::uint64_t step) noexcept;
  bool has_failed() const noexcept { return has_failed_.load(std::memory_order_relaxed); }

  /// Commands of observers, held back until the steps count.
  bool has_commands() const noexcept;
  void send_commands(CommandDelivery& to);
  void forget_commands() noexcept;

  std::size_t region_count() const noexcept override { return regions_.size(); }
  std::span<const std::uint32_t> neighbours(std::size_t region) const noexcept override {
    return runner_.plan().region(region).neighbours;
  }
  std::uint32_t own_core(std::size_t region) const noexcept override { return runner_.plan().region(region).core; }
  void run_interior(std::size_t region, std::uint64_t step) noexcept override;
  void run_boundary(std::size_t region, std::uint64_t step) noexcept override;
  bool wants_team() const noexcept override { return runner_.streams().threads() > 1; }
  void use_team(scheduler::Team* team) noexcept override { runner_.streams().use_team(team); }

 private:
  struct alignas(64) Region {
    std::vector<RegionPart> interior, boundary;
    std::vector<std::pair<std::uint32_t, CommandMessage>> commands;  // to cells
  };
  RegionStep at(std::size_t region, std::uint64_t step) noexcept {
    return runner_.at(region, base_tick_, step_ + step, runner_.serial() + step);
  }
  void fail_firing(const RegionPart& part, std::uint64_t tick, actors::FaultKind kind,
                   const char* reason) noexcept override;
  void fail_learning(NodeId node, std::uint32_t parameter, std::uint64_t tick, actors::FaultKind kind,
                     const char* reason) noexcept override;
  void command(std::size_t region, std::uint32_t cell, CommandMessage command) override;

  StepRunner& runner_;
  std::vector<std::uint8_t> is_host_;  // by node
  std::vector<Region> regions_;
  std::uint64_t base_tick_ = 0, step_ = 0;
  std::atomic<bool> has_failed_{false};
};

}  // namespace weft::mesh
