// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_buffers.hpp"
#include "mesh/device/device_recovery.hpp"
#include "mesh/device/graph_recorder.hpp"
#include "mesh/device/run_counts.hpp"
#include "mesh/device/step_recorder.hpp"
#include "mesh/memory/byte_ranges.hpp"
#include "mesh/runtime/engine.hpp"

#include "gpu/device.hpp"
#include "gpu/vulkan_stream.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace weft::mesh {

/// A mesh on a device: its memory there, the stream to it, and the recorder of steps. Made when it is first needed,
/// made anew when weights have moved on the host, dropped when the device fails.
class DeviceImage {
 public:
  /// Groups of memory, by how often it changes: the first most often.
  static constexpr std::uint32_t kState = 0, kWeights = 1, kRule = 2, kAll = 3;

  DeviceImage(DeviceRecovery& recovery, Engine& engine, std::span<const std::uint8_t> is_host,
              std::span<const std::uint8_t> is_custom)
      : recovery_(recovery), engine_(engine), is_host_(is_host), is_custom_(is_custom) {}
  ~DeviceImage() { finish(); }
  DeviceImage(const DeviceImage&) = delete;
  DeviceImage& operator=(const DeviceImage&) = delete;

  /// The stream and the flags, where there are none.
  Status open();
  bool exists() const noexcept { return buffers_.has_value(); }
  /// True when it was made for weights that lie elsewhere now.
  bool is_outdated() const noexcept { return weights_seen_ != engine_.runner().weights().changes(); }
  /// Without it, steps are the CPU's.
  void reset();
  /// Allocates it. `window`: samples of a ring on the device. `hosts`: memory among the regions that the device never
  /// touches.
  using HostRanges = std::function<ByteRanges(std::span<const DeviceRegion>)>;
  Status make(std::size_t window, const HostRanges& hosts);
  /// Waits for what is at work, so that memory may be dropped.
  void finish() noexcept;
  /// Drops all that is the device's.
  void drop() noexcept;

  gpu::Memory& memory() noexcept { return recovery_.device().memory(); }
  gpu::VulkanStream& stream() noexcept { return *stream_; }
  DeviceBuffers& buffers() noexcept { return *buffers_; }
  GraphRecorder& recorder() noexcept { return *recorder_; }
  StepRecorder& steps() noexcept { return *steps_; }
  RunCounts& counts() noexcept { return counts_; }

 private:
  std::vector<DeviceRegion> regions() const;

  DeviceRecovery& recovery_;
  Engine& engine_;
  std::span<const std::uint8_t> is_host_, is_custom_;  // by node
  std::unique_ptr<gpu::VulkanStream> stream_;
  std::optional<DeviceBuffers> buffers_;
  RunCounts counts_;
  std::unique_ptr<GraphRecorder> recorder_;
  std::optional<StepRecorder> steps_;
  std::uint64_t weights_seen_ = 0;
};

}  // namespace weft::mesh
