// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/vulkan.hpp"

#include "core/result.hpp"

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace weft::gpu {

/// Bytes that a device's user holds of each memory heap of the driver, and their limits.
/// @thread any
class Budget {
 public:
  /// `asks`: the driver says what it would let this process hold. `most`: no more than this of each heap, whatever it
  /// says; 0: no such bound.
  void open(VkPhysicalDevice physical, std::string_view device, bool asks, std::uint64_t most);
  /// @error  too_large: more than the heap's limit with what is held already, with all three numbers
  Status take(std::uint32_t heap, std::uint64_t bytes, std::string_view what);
  void give_back(std::uint32_t heap, std::uint64_t bytes) noexcept;
  std::uint64_t held(std::uint32_t heap) const;
  std::uint64_t limit(std::uint32_t heap) const;

 private:
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  std::string device_;
  bool asks_ = false;
  std::uint64_t most_ = 0;
  mutable std::mutex mutex_;
  std::array<std::uint64_t, VK_MAX_MEMORY_HEAPS> held_{};
};

}  // namespace weft::gpu
