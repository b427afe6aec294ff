// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_statistics.hpp"

#include "gpu/device.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace weft::mesh {

/// Retries after faults of a mesh's device, with exponential backoff. A fault releases the device. After kFirstWait
/// steps on the CPU it is acquired again, or another that the selector fits; each further fault doubles the wait. After
/// kMostTries the mesh stays on the CPU. kProven steps on the device without a fault reset the count.
/// @thread one at a time
class DeviceRecovery {
 public:
  static constexpr std::uint64_t kFirstWait = 1024, kProven = 65536;
  static constexpr int kMostTries = 10;
  static constexpr std::uint64_t kNever = UINT64_MAX;

  DeviceRecovery(std::string selector, std::shared_ptr<gpu::Device> device)
      : selector_(std::move(selector)), options_(device->options()), device_(std::move(device)) {}

  /// For something else that runs on the same device, whose faults are its own. @pre it is held
  DeviceRecovery of_copy() const { return {selector_, device_}; }
  bool is_held() const noexcept { return is_held_; }
  /// @pre it is held
  gpu::Device& device() noexcept { return *device_; }
  std::shared_ptr<gpu::Device> shared_device() const { return device_; }
  /// Counts the fault, logs it and releases the device. @pre nothing on the device is in use
  void release(const Error& error, DeviceStatistics& statistics) noexcept;
  /// Steps left on the CPU before the next try; kNever: none will follow.
  std::uint64_t wait() const noexcept;
  /// Tries to acquire the device; counts a success. @pre wait() is 0
  void acquire(DeviceStatistics& statistics) noexcept;
  /// Counts steps that were run: on the device while it is held, else on the CPU.
  void note_steps(std::uint64_t steps) noexcept { steps_ += steps; }

 private:
  /// Time of the next try, in words.
  std::string next() const;

  std::string selector_;
  gpu::DeviceOptions options_;
  std::shared_ptr<gpu::Device> device_;  // kept while it is not held, unless it was lost: what it compiled is good
  bool is_held_ = true;
  int tries_ = 0;  // to acquire it again
  std::uint64_t steps_ = 0, wait_ = kFirstWait;
};

}  // namespace weft::mesh
