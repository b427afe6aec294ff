// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_region.hpp"

#include "gpu/fwd.hpp"

#include "kernels/op_stream.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace weft::mesh {

/// Operations on the host's memory, outside of ticks, run on a device that has a copy of that memory. What is recorded
/// once under a key runs again whenever the key comes back, so it must be the same operations on the same memory.
/// After a failure it is of no use: the host's memory is as it was last downloaded.
/// @exact  the bits that the operations have on the CPU
/// @thread one at a time
class DeviceProgram {
 public:
  using Record = std::function<void(kernels::OpStream&)>;

  /// `regions`: all memory that operations touch; what is `kept` or `constant` is uploaded.
  /// @error too_large, and those of a device
  static Result<DeviceProgram> make(std::shared_ptr<gpu::Device> device, std::vector<DeviceRegion> regions);
  DeviceProgram(DeviceProgram&&) noexcept;
  DeviceProgram& operator=(DeviceProgram&&) noexcept;
  ~DeviceProgram();

  /// Parts of regions that nobody reads after a run of what is recorded from here on: what only leaves results there
  /// that are not read in the same run is left out.
  void leave_out_unread(std::vector<std::span<const float>> memory);
  /// Runs what `record` does to a stream; recorded if the key is new. The device may still be at work afterwards.
  /// @error of the device; unsupported: an operation without a shader; internal: memory outside of the regions
  Status run(std::uint64_t key, const Record& record);
  /// The same of operations that do not come again.
  Status run_once(const Record& record);
  /// Copies a part of a region to the device, in order with the operations; the host may change it at once.
  Status upload(const void* host, std::size_t bytes);
  /// Brings a part of a region to the host: all that was run is done.
  Status download(void* host, std::size_t bytes);
  /// The same of several parts, in one go.
  Status download(std::span<const std::span<float>> host);
  /// Levels and dispatches of the command graphs that ran since the last call of this.
  struct Work {
    std::uint64_t levels = 0, dispatches = 0;
  };
  Work take_work() noexcept;
  /// Device memory that it holds.
  std::uint64_t bytes() const noexcept;

 private:
  struct Parts;
  explicit DeviceProgram(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace weft::mesh
