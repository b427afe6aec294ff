// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/fwd.hpp"
#include "gpu/internal/vulkan.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace weft::gpu {

/// The process's connection to Vulkan: one, while anyone uses it.
class Instance {
 public:
  /// @error  unsupported: no loader, or it makes no instance
  static Result<std::shared_ptr<Instance>> get(bool validate, FaultInjection* faults = nullptr);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  VkInstance handle() const noexcept { return handle_; }
  bool validates() const noexcept { return messenger_ != VK_NULL_HANDLE; }
  /// Errors of the validation layers so far, from number `first` on; and their count. @thread any
  std::vector<std::string> errors(std::size_t first = 0) const;
  std::size_t error_count() const noexcept { return error_count_.load(std::memory_order_acquire); }
  /// Has the validation layers say something, where they are on: for plans of faults.
  void add_error() const;

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
  std::atomic<std::size_t> error_count_{0};  // of errors_, published after each; pairs with the acquire in error_count
};

}  // namespace weft::gpu
