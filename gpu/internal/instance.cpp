// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/instance.hpp"

#include "gpu/fault_injection.hpp"

#include "core/log.hpp"

#include <algorithm>
#include <cstring>

namespace weft::gpu {
namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";

bool has_validation_layer() {
  std::uint32_t count = 0;
  vkEnumerateInstanceLayerProperties(&count, nullptr);
  std::vector<VkLayerProperties> layers(count);
  vkEnumerateInstanceLayerProperties(&count, layers.data());
  for (const VkLayerProperties& layer : layers)
    if (std::strcmp(layer.layerName, kValidationLayer) == 0) return true;
  return false;
}

}  // namespace

Result<std::shared_ptr<Instance>> Instance::get(bool validate, FaultInjection* faults) {
  static std::mutex mutex;
  static std::weak_ptr<Instance> current;
  const std::lock_guard lock(mutex);
  const bool has_no_loader = faults && faults->strikes(DriverFault::no_loader);
  if (auto instance = current.lock(); instance && !has_no_loader) return instance;
  if (has_no_loader || volkInitialize() != VK_SUCCESS)
    return fail(Errc::unsupported, "vulkan: no loader on this machine (libvulkan.so.1); in Debian: libvulkan1");
  std::shared_ptr<Instance> made(new Instance);
  WEFT_CHECK(made->create(validate));
  current = made;
  return made;
}

Status Instance::create(bool validate) {
  const VkApplicationInfo application{
      VK_STRUCTURE_TYPE_APPLICATION_INFO, nullptr, "weft", 1, "weft", 1, VK_API_VERSION_1_3};
  const bool with_layer = validate && has_validation_layer();
  if (validate && !with_layer) log_warn("vulkan: validation was asked for, but its layer is not installed");
  const char* layers[] = {kValidationLayer};
  const char* extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME};
  const VkValidationFeatureEnableEXT enabled[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
  VkValidationFeaturesEXT features{VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT, nullptr, 1, enabled, 0, nullptr};
  auto info = structure<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
  info.pApplicationInfo = &application;
  if (with_layer) {
    info.pNext = &features;
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = layers;
    info.enabledExtensionCount = 2;
    info.ppEnabledExtensionNames = extensions;
  }
  WEFT_VULKAN_CHECK("create an instance (is there a driver? in Debian: mesa-vulkan-drivers has one without a GPU)",
                    vkCreateInstance(&info, nullptr, &handle_));
  volkLoadInstanceOnly(handle_);
  if (!with_layer) return {};
  auto messenger =
      structure<VkDebugUtilsMessengerCreateInfoEXT>(VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT);
  messenger.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT;
  messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  messenger.pfnUserCallback = note;
  messenger.pUserData = this;
  WEFT_VULKAN_CHECK("listen to the validation layer",
                    vkCreateDebugUtilsMessengerEXT(handle_, &messenger, nullptr, &messenger_));
  return {};
}

Instance::~Instance() {
  if (messenger_) vkDestroyDebugUtilsMessengerEXT(handle_, messenger_, nullptr);
  if (handle_) vkDestroyInstance(handle_, nullptr);
}

VkBool32 Instance::note(VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT,
                        const VkDebugUtilsMessengerCallbackDataEXT* data, void* self) {
  auto* instance = static_cast<Instance*>(self);
  log_error(data->pMessage);
  if (severity >= VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT) {
    const std::lock_guard lock(instance->mutex_);
    instance->errors_.emplace_back(data->pMessage);
    instance->error_count_.store(instance->errors_.size(), std::memory_order_release);
  }
  return VK_FALSE;
}

std::vector<std::string> Instance::errors(std::size_t first) const {
  const std::lock_guard lock(mutex_);
  return {errors_.begin() + static_cast<std::ptrdiff_t>(std::min(first, errors_.size())), errors_.end()};
}

void Instance::add_error() const {
  if (!validates()) return;
  auto message =
      structure<VkDebugUtilsMessengerCallbackDataEXT>(VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CALLBACK_DATA_EXT);
  message.pMessageIdName = "WEFT-planned-fault";
  message.pMessage = "an error that a plan of faults asked for";
  vkSubmitDebugUtilsMessageEXT(handle_, VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
                               VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT, &message);
}

}  // namespace weft::gpu
