// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/runtime/command_delivery.hpp"
#include "mesh/runtime/fault_handler.hpp"
#include "mesh/runtime/region_plan.hpp"
#include "mesh/runtime/scheduling_exceptions.hpp"
#include "mesh/runtime/step_runner.hpp"

#include "scheduler/executor.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace weft::mesh {

/// Runs ticks of one State over a network: regions in step, the delivery of commands, the answers to faults.
/// @thread run: one at a time; commands().post, halt: any, while it lasts (Arrivals outlives it)
class Engine final : public scheduler::TickProgram, private StepEvents {
 public:
  explicit Engine(const RunSetup& setup);

  /// The first step's visits on the activity table are told apart from others by this number, the next step's by the
  /// next.
  void begin_visits(std::uint64_t serial) noexcept { runner_.serial() = serial; }
  /// Runs `steps` steps of a run that began at `tick`, from its step `first` on; returns how many were done. A halt
  /// ends them where it would end the whole run.
  std::uint64_t run(scheduler::Executor& executor, std::uint64_t tick, std::uint64_t steps,
                    std::uint64_t first = 0) noexcept;
  /// Finds out whether the run that begins may keep values (StepRunner::allow_kept_values).
  void choose_kept_values() noexcept {
    runner_.allow_kept_values(rule() && exceptions_.are_none() && !commands_.has_mail());
  }
  /// Ticks among the first `steps` steps.
  std::uint64_t ticks_in(std::uint64_t steps) const noexcept { return runner_.ticks_in(steps); }
  StepRule* rule() const noexcept { return runner_.rule(); }
  /// Runs end at the next block boundary once `flag` is not 0; null: none does. It outlives the engine.
  void stop_by(const std::atomic<int>* flag) noexcept { stop_ = flag; }
  const std::atomic<int>* stop_flag() const noexcept { return stop_; }
  /// Steps are ticks from now on, though what the rule needed stays.
  void forget_rule() noexcept { runner_.forget_rule(); }
  /// Operations and layers that were cut up among threads so far.
  std::uint64_t parallel_operations() noexcept { return runner_.streams().parallel_operations(); }

  RunBuffers& buffers() noexcept { return runner_.buffers(); }
  const RunBuffers& buffers() const noexcept { return runner_.buffers(); }
  CommandDelivery& commands() noexcept { return commands_; }
  const CommandDelivery& commands() const noexcept { return commands_; }
  const SchedulingExceptions& exceptions() const noexcept { return exceptions_; }
  StepRunner& runner() noexcept { return runner_; }

  /// A fault of the cell that holds `node`, found between runs at tick `tick`. Ignored for a cell that is isolated.
  void report_fault(NodeId node, std::uint64_t tick, actors::FaultKind kind, const char* reason = "") noexcept;
  bool is_halted() const noexcept { return commands_.arrivals().halt().is_set(); }
  std::optional<Halt> halt() const noexcept { return commands_.arrivals().halt().get(); }
  void note_halt(const Halt& halt) noexcept { commands_.arrivals().halt().note(halt); }
  void clear_halt() noexcept { commands_.arrivals().halt().clear(); }

  std::size_t region_count() const noexcept override { return regions_.size(); }
  std::span<const std::uint32_t> neighbours(std::size_t region) const noexcept override {
    return plan_.region(region).neighbours;
  }
  std::uint32_t own_core(std::size_t region) const noexcept override { return plan_.region(region).core; }
  void run_interior(std::size_t region, std::uint64_t step) noexcept override;
  void run_boundary(std::size_t region, std::uint64_t step) noexcept override;
  bool should_stop(std::uint64_t) noexcept override { return is_halted() || (stop_ && stop_->load() != 0); }
  void use_order(scheduler::Order* order) noexcept override;
  bool wants_team() const noexcept override { return threads_ > 1; }
  void use_team(scheduler::Team* team) noexcept override { runner_.streams().use_team(team); }

 private:
  struct alignas(64) Region {
    std::optional<FusedCells> interior, boundary;
    std::uint64_t writes = 0;  // the tick whose slot this step commits: a restart fills it
  };
  RegionStep at(std::size_t region, std::uint64_t step) noexcept {
    return runner_.at(region, base_tick_, first_step_ + step, runner_.serial() + step);
  }
  void fail_firing(const RegionPart& part, std::uint64_t tick, actors::FaultKind kind,
                   const char* reason) noexcept override;
  void fail_learning(NodeId node, std::uint32_t parameter, std::uint64_t tick, actors::FaultKind kind,
                     const char* reason) noexcept override;
  void answer(std::uint32_t cell, std::uint64_t tick, actors::FaultKind kind, const char* reason,
              const FaultOrigins& origins) noexcept;
  void command(std::size_t region, std::uint32_t cell, CommandMessage command) override;

  RegionPlan plan_;
  StepRunner runner_;
  CommandDelivery commands_;
  FaultHandler faults_;
  SchedulingExceptions exceptions_;
  std::vector<Region> regions_;
  std::size_t threads_;
  bool may_fuse_;
  bool is_running_ = false;
  const std::atomic<int>* stop_ = nullptr;
  std::uint64_t base_tick_ = 0;
  std::uint64_t first_step_ = 0;  // of the run, which the executor calls 0
};

}  // namespace weft::mesh
