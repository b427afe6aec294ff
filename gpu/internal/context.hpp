// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/device.hpp"
#include "gpu/internal/instance.hpp"
#include "gpu/internal/spirv.hpp"
#include "gpu/internal/vulkan.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

namespace weft::gpu {

/// Which shaders a device gets.
struct Variant {
  bool emulated = false;
  bool flush_in_code = false;
};

/// A logical device and its one queue. Everything else of this room holds one.
class Context {
 public:
  static Result<std::shared_ptr<Context>> create(std::shared_ptr<Instance> instance, VkPhysicalDevice physical,
                                                 const DeviceInfo& info);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Hands commands to the queue, to run one after the other; the timeline reaches the returned number when all are
  /// done. @thread any
  Result<std::uint64_t> submit(std::span<const VkCommandBuffer> commands);
  /// @error  timed_out: after a minute; unsupported: the device is lost
  Status wait(std::uint64_t number) const;
  /// The number of the last submission that is known to be done.
  std::uint64_t done() const;

  VolkDeviceTable vk{};
  VkDevice device = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  std::uint32_t queue_family = 0;
  DeviceInfo info;
  FloatControls controls;
  Variant variant;
  VkPhysicalDeviceMemoryProperties memory{};
  std::shared_ptr<Instance> instance;

 private:
  Context() = default;
  Status initialise();
  VkQueue queue_ = VK_NULL_HANDLE;
  VkSemaphore timeline_ = VK_NULL_HANDLE;
  std::mutex mutex_;
  std::uint64_t submitted_ = 0;
};

/// What `physical` says of itself, and in `missing` why it cannot be used.
DeviceInfo describe(VkPhysicalDevice physical, std::size_t index);
/// All of an instance's.
Result<std::vector<VkPhysicalDevice>> physical_devices(const Instance& instance);

}  // namespace weft::gpu
