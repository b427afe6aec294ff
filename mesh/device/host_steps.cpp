// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/host_steps.hpp"

#include <algorithm>

namespace weft::mesh {

HostSteps::HostSteps(StepRunner& runner, std::vector<std::uint8_t> is_host)
    : runner_(runner), is_host_(std::move(is_host)), regions_(runner.plan().regions().size()) {
  const auto choose = [&](const std::vector<RegionPart>& from, std::vector<RegionPart>& to) {
    std::copy_if(from.begin(), from.end(), std::back_inserter(to),
                 [&](const RegionPart& part) { return is_host_[part.first] != 0; });
  };
  for (std::size_t r = 0; r < regions_.size(); ++r) {
    choose(runner.plan().region(r).interior, regions_[r].interior);
    choose(runner.plan().region(r).boundary, regions_[r].boundary);
  }
}

void HostSteps::begin(std::uint64_t tick, bool is_first) noexcept {
  base_tick_ = tick;
  has_failed_.store(false, std::memory_order_relaxed);
  RunBuffers& buffers = runner_.buffers();
  for (NodeId port = 0; port < buffers.feeds().size() && is_first; ++port)
    if (is_host_[port]) buffers.fill_first(port, tick);
}

bool HostSteps::run(scheduler::Executor& executor, std::uint64_t step) noexcept {
  step_ = step;
  executor.run(*this, 1);
  ++runner_.serial();
  return !has_failed();  // the run's end made it visible
}

void HostSteps::run_interior(std::size_t region, std::uint64_t step) noexcept {
  runner_.run(regions_[region].interior, nullptr, at(region, step), *this);
}

void HostSteps::run_boundary(std::size_t region, std::uint64_t step) noexcept {
  const RegionStep now = at(region, step);
  runner_.run(regions_[region].boundary, nullptr, now, *this);
  runner_.learn_late(now, is_host_, *this);
}

void HostSteps::fail_firing(const RegionPart&, std::uint64_t, actors::FaultKind, const char*) noexcept {
  has_failed_.store(true, std::memory_order_relaxed);  // read when the step has been run
}

void HostSteps::fail_learning(NodeId, std::uint32_t, std::uint64_t, actors::FaultKind, const char*) noexcept {
  has_failed_.store(true, std::memory_order_relaxed);
}

void HostSteps::command(std::size_t region, std::uint32_t cell, CommandMessage command) {
  regions_[region].commands.emplace_back(cell, std::move(command));
}

bool HostSteps::has_commands() const noexcept {
  return std::any_of(regions_.begin(), regions_.end(), [](const Region& region) { return !region.commands.empty(); });
}

void HostSteps::send_commands(CommandDelivery& to) {
  for (Region& from : regions_)
    for (auto& [cell, message] : std::exchange(from.commands, {})) to.keep(cell, std::move(message));
}

void HostSteps::forget_commands() noexcept {
  for (Region& region : regions_) region.commands.clear();
}

}  // namespace weft::mesh
