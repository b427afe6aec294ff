// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace weft::gpu {

/// Kinds of device faults, by the call that reports them.
enum class DriverFault : int {
  no_device,         // opening it: VK_ERROR_INITIALIZATION_FAILED
  no_memory,         // memory asked of the driver: VK_ERROR_OUT_OF_DEVICE_MEMORY
  no_room,           // a buffer of memory that Weft holds: the same
  no_mapping,        // memory for the CPU's eyes: VK_ERROR_MEMORY_MAP_FAILED
  no_pipeline,       // a shader is compiled: VK_ERROR_OUT_OF_HOST_MEMORY
  no_commands,       // a command buffer is begun: the same
  lost_at_submit,    // VK_ERROR_DEVICE_LOST
  lost_at_wait,      // the same
  hang,              // a wait in which nothing goes on for as long as DeviceOptions::timeout
  validation_error,  // the validation layers find an error in a submission; where they are on
  no_loader,         // a device is opened: there is no libvulkan.so.1
  no_feature,        // a usable device is looked at: it lacks 64-bit integers in shaders
  inexact,           // shaders are tried: one result of the self-test is not the CPU's
};
inline constexpr int kDriverFaultCount = 13;

/// Faults made on purpose, to see that nothing is lost by them: given to a device by DeviceOptions::faults, which asks
/// it before each call of the kind. One plan may serve many devices, one after the other; it counts on over all.
/// @thread any
class FaultInjection {
 public:
  /// From now on calls of that kind fail: after `first` more that do not, `times` in a row.
  void fail(DriverFault fault, std::uint64_t first, std::uint64_t times = 1);
  /// Nothing fails any more.
  void clear();
  /// Number of calls so far, and of those it failed.
  std::uint64_t calls(DriverFault fault) const;
  std::uint64_t failed() const;

  /// True when this call is to fail. Internal.
  bool strikes(DriverFault fault);

 private:
  struct Row {
    std::uint64_t calls = 0, begin = 0, end = 0;  // those in [begin, end) fail
  };
  mutable std::mutex mutex_;
  std::array<Row, kDriverFaultCount> rows_;
  std::uint64_t failed_ = 0;
};

}  // namespace weft::gpu
