// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/vulkan.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace weft::gpu {

/// The process's connection to Vulkan: one, while anyone uses it.
class Instance {
 public:
  /// @error  unsupported: no loader, or it makes no instance
  static Result<std::shared_ptr<Instance>> get(bool validate);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  VkInstance handle() const noexcept { return handle_; }
  bool validates() const noexcept { return messenger_ != VK_NULL_HANDLE; }
  /// What the validation layers said so far. @thread any
  std::vector<std::string> errors() const;

 private:
  Instance() = default;
  Status create(bool validate);
  static VKAPI_ATTR VkBool32 VKAPI_CALL note(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                             VkDebugUtilsMessageTypeFlagsEXT types,
                                             const VkDebugUtilsMessengerCallbackDataEXT* data, void* self);
  VkInstance handle_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  mutable std::mutex mutex_;
  std::vector<std::string> errors_;
};

}  // namespace weft::gpu
