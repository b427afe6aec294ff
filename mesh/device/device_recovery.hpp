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

/// A mesh's hold on its device, over faults: the mesh lets go when the device fails, and takes hold of it, or of
/// another that the name fits, after so many steps on the CPU: kFirstWait, and twice as many after each fault more.
/// After kMostTries it stays on the CPU. kProven steps on the device without a fault begin the count anew.
/// @thread one at a time
class DeviceRecovery {
 public:
  static constexpr std::uint64_t kFirstWait = 1024, kProven = 65536;
  static constexpr int kMostTries = 10;
  static constexpr std::uint64_t kNever = UINT64_MAX;

  DeviceRecovery(std::string selector, std::shared_ptr<gpu::Device> device)
      : selector_(std::move(selector)), options_(device->options()), device_(std::move(device)) {}

  bool is_held() const noexcept { return is_held_; }
  /// @pre it is held
  gpu::Device& device() noexcept { return *device_; }
  /// It failed, and nothing of it is in use any more: counts that, and says so in the log.
  void let_go(const Error& error, DeviceStatistics& statistics) noexcept;
  /// Steps on the CPU before it may be taken again.
  std::uint64_t wait() const noexcept;
  /// Tries to; counts that where it succeeds. @pre wait() is 0
  void take(DeviceStatistics& statistics) noexcept;
  /// Steps that were run: on the device while it was held, on the CPU while it was not.
  void note_steps(std::uint64_t steps) noexcept { steps_ += steps; }

 private:
  /// When it is taken again, in words.
  std::string next() const;

  std::string selector_;
  gpu::DeviceOptions options_;
  std::shared_ptr<gpu::Device> device_;  // kept while it is not held, unless it was lost: what it compiled is good
  bool is_held_ = true;
  int tries_ = 0;  // to take it again
  std::uint64_t steps_ = 0, wait_ = kFirstWait;
};

}  // namespace weft::mesh
