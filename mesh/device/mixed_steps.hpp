// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_image.hpp"
#include "mesh/device/device_statistics.hpp"
#include "mesh/device/host_device_exchange.hpp"
#include "mesh/device/host_steps.hpp"
#include "mesh/device/run_windows.hpp"
#include "mesh/memory/byte_ranges.hpp"
#include "mesh/runtime/engine.hpp"

#include "gpu/command_graph.hpp"
#include "gpu/memory.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace weft::mesh {

/// Steps of which the device runs one part and the host the other. After each step both get what they touch of what the
/// other wrote.
class MixedSteps {
 public:
  /// `is_host`: by node.
  MixedSteps(Engine& engine, DeviceImage& image, DeviceStatistics& statistics, std::vector<std::uint8_t> is_host)
      : engine_(engine), image_(image), statistics_(statistics), host_(engine.runner(), std::move(is_host)) {}

  HostSteps& host() noexcept { return host_; }
  const HostSteps& host() const noexcept { return host_; }
  /// Memory that the host touches, and the device's copy of which is therefore not the newer one.
  const ByteRanges& by_host() const noexcept { return exchange_.by_host(); }

  /// Memory of the mesh that no operation of the device touches.
  ByteRanges hosts_alone(std::span<const DeviceRegion> regions) const;
  /// Forgets what crosses: of a new image.
  void reset();
  /// Before the steps of a run that began at `tick`; `is_first`: the run's first is among them.
  void begin(std::uint64_t tick, bool is_first);
  /// Keeps the host's memory that a step overwrites, until `forget`.
  void keep(HostDeviceExchange::Step& step, std::uint64_t tick);
  /// One step on both sides, and the exchange after it. `end`: of the samples that it touches.
  Status run(scheduler::Executor& executor, const std::shared_ptr<gpu::CommandGraph>& graph,
             const HostDeviceExchange::Step& crossing, const RunWindows& windows, std::uint64_t step,
             std::uint64_t end);

  /// Records what the host's part of a step touches.
  void track_host(const StepRecorder::Recording& recording, std::uint64_t step,
                  std::vector<gpu::MemoryAccess>& accesses);
  /// Adds what both sides of a step touch, and exchanges what has not crossed before.
  Status open(HostDeviceExchange::Step& step, std::span<const gpu::MemoryAccess> by_host,
              std::span<const gpu::MemoryAccess> by_device);

  /// The host's memory as it was at `forget`; and from now on that is what it holds now.
  void take_back() noexcept { exchange_.take_back(); }
  void forget() noexcept { exchange_.forget(); }
  /// Drops all that is the device's.
  void drop() noexcept { fetched_ = gpu::Buffer(); }

 private:
  void upload(const ByteRanges& ranges);
  /// Copies `fetches_` to the host: from what was submitted so far, then when that is done.
  Status begin_fetch();
  Status end_fetch();
  void keep_nan_marks();

  Engine& engine_;
  DeviceImage& image_;
  DeviceStatistics& statistics_;
  HostSteps host_;
  HostDeviceExchange exchange_;
  std::vector<DeviceBuffers::DeviceCopy> fetches_;
  gpu::Buffer fetched_;
  std::vector<std::byte> fetched_bytes_;
  std::uint64_t kept_at_ = 0;  // the epoch of the exchange
};

}  // namespace weft::mesh
