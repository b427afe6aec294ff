// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_image.hpp"
#include "mesh/device/mixed_steps.hpp"
#include "mesh/device/run_windows.hpp"
#include "mesh/runtime/engine.hpp"

#include "gpu/command_graph.hpp"

#include "core/result.hpp"
#include "core/state_hash.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace weft::mesh {

/// Steps recorded as a command graph.
struct StepGraph {
  std::shared_ptr<gpu::CommandGraph> commands;
  std::vector<std::pair<NodeId, std::uint64_t>> updates;
  std::vector<NodeId> guarded;        // of which the device counts the updates
  HostDeviceExchange::Step crossing;  // of a mesh that the host runs in part
};

/// Command graphs of steps: recorded once, cached by everything that their operations depend on.
class StepGraphs {
 public:
  StepGraphs(Engine& engine, DeviceImage& image, RunWindows& windows, DeviceStatistics& statistics)
      : engine_(engine), image_(image), windows_(windows), statistics_(statistics) {}

  /// The graph of these steps of a run that began at `tick`, recorded if there is none yet. Counts its updates.
  Result<std::shared_ptr<StepGraph>> of(std::uint64_t tick, const BlockSteps& steps);
  /// From now on the host runs a part of each step.
  void divide(MixedSteps& mixed) noexcept { mixed_ = &mixed; }
  void clear() noexcept { graphs_.clear(); }

 private:
  /// Nothing: it cannot be told what the steps depend on.
  std::optional<Hash128> key_of(std::uint64_t tick, const BlockSteps& steps) const;
  Result<StepGraph> record(std::uint64_t tick, const BlockSteps& steps);

  Engine& engine_;
  DeviceImage& image_;
  RunWindows& windows_;
  MixedSteps* mixed_ = nullptr;  // null: the device runs all of a step
  DeviceStatistics& statistics_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::shared_ptr<StepGraph>> graphs_;  // by key
};

}  // namespace weft::mesh
