// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/device.hpp"
#include "gpu/fault_injection.hpp"
#include "gpu/internal/budget.hpp"
#include "gpu/internal/instance.hpp"
#include "gpu/internal/limits.hpp"
#include "gpu/internal/spirv.hpp"
#include "gpu/internal/vulkan.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

namespace weft::gpu {

/// Shader variant of a device.
struct Variant {
  bool emulated = false;
  bool flush_in_code = false;
};

/// A logical device and its one queue. Everything else of this room holds one.
class Context {
 public:
  static Result<std::shared_ptr<Context>> create(std::shared_ptr<Instance> instance, VkPhysicalDevice physical,
                                                 const DeviceInfo& info, const DeviceOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Hands commands to the queue, to run one after the other; the timeline reaches the returned number when all are
  /// done. @thread any
  Result<std::uint64_t> submit(std::span<const VkCommandBuffer> commands);
  /// @error  timed_out: nothing went on for as long as options.timeout; unsupported: the driver lost the device. Both
  ///         make it lost.
  Status wait(std::uint64_t number);
  /// Waits, the device lost or not, until nothing up to that number is at work any more, so that memory may be given
  /// back. After false it hangs for good, and is_abandoned: what it may still touch must be left alone. @thread any
  bool settle(std::uint64_t number) noexcept;
  bool is_abandoned() const noexcept { return is_abandoned_.load(std::memory_order_acquire); }
  /// The number of the last submission that is known to be done.
  std::uint64_t done() const;
  /// Nothing, or that the device is lost, and by what.
  Status lost() const;
  bool is_lost() const noexcept { return is_lost_.load(std::memory_order_acquire); }
  /// True when fault injection makes this call fail.
  bool strikes(DriverFault fault) const { return options.faults && options.faults->strikes(fault); }

  VolkDeviceTable vk{};
  VkDevice device = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  std::uint32_t queue_family = 0;
  DeviceInfo info;
  DeviceOptions options;
  FloatControls controls;
  Variant variant;
  VkPhysicalDeviceMemoryProperties memory{};
  Budget budget;
  std::shared_ptr<Instance> instance;

 private:
  Context() = default;
  Status initialise();
  /// Takes the device for lost; the first reason stays.
  Failure lose(Error error);
  /// A call's failure, which may mean that.
  Failure failed(std::string_view what, VkResult result);
  VkResult wait_for(std::uint64_t number, std::chrono::nanoseconds most) const;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkSemaphore timeline_ = VK_NULL_HANDLE;
  std::mutex mutex_;  // of the queue
  std::uint64_t submitted_ = 0;
  mutable std::mutex reason_mutex_;
  std::optional<Error> reason_;  // of being lost
  // Set after reason_ was: release there, acquire above.
  std::atomic<bool> is_lost_{false}, is_abandoned_{false};
};

/// Properties of `physical`, its limits no higher than `most`; `missing` holds the reasons for which it cannot be used.
DeviceInfo describe(VkPhysicalDevice physical, std::size_t index, const Limits& most);
/// All of an instance's.
Result<std::vector<VkPhysicalDevice>> physical_devices(const Instance& instance);

}  // namespace weft::gpu
