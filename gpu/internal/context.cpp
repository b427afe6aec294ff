// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/context.hpp"

#include <optional>
#include <vector>

namespace weft::gpu {
namespace {

/// A queue family that computes; one without graphics where there is one, since no desktop waits on it.
std::optional<std::uint32_t> choose_family(VkPhysicalDevice physical) {
  std::uint32_t count = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, families.data());
  std::optional<std::uint32_t> chosen;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) continue;
    if (!chosen || !(families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT)) chosen = i;
  }
  return chosen;
}

}  // namespace

Result<std::shared_ptr<Context>> Context::create(std::shared_ptr<Instance> instance, VkPhysicalDevice physical,
                                                 const DeviceInfo& info) {
  std::shared_ptr<Context> context(new Context);
  context->instance = std::move(instance);
  context->physical = physical;
  context->info = info;
  WEFT_CHECK(context->initialise());
  return context;
}

Status Context::initialise() {
  const auto family = choose_family(physical);
  if (!family) return fail(Errc::unsupported, "vulkan: " + info.name + " has no queue that computes");
  queue_family = *family;
  const float priority = 1.0f;
  auto queues = structure<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
  queues.queueFamilyIndex = queue_family;
  queues.queueCount = 1;
  queues.pQueuePriorities = &priority;
  auto v12 = structure<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  v12.bufferDeviceAddress = VK_TRUE;
  v12.timelineSemaphore = VK_TRUE;
  v12.shaderInt8 = info.int8;
  v12.storageBuffer8BitAccess = info.int8;
  v12.shaderFloat16 = info.float16;
  auto v11 = structure<VkPhysicalDeviceVulkan11Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &v12);
  v11.storageBuffer16BitAccess = info.int16;
  VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR dots{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR, &v11, VK_TRUE};
  auto features = structure<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
  features.pNext = info.dot_product ? static_cast<void*>(&dots) : &v11;
  features.features.shaderInt64 = VK_TRUE;
  features.features.shaderFloat64 = info.float64;
  features.features.shaderInt16 = info.int16;
  std::vector<const char*> extensions;
  if (info.memory_budget) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  if (info.dot_product) extensions.push_back(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
  auto create = structure<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &features);
  create.queueCreateInfoCount = 1;
  create.pQueueCreateInfos = &queues;
  create.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  create.ppEnabledExtensionNames = extensions.data();
  WEFT_VULKAN_CHECK("open " + info.name, vkCreateDevice(physical, &create, nullptr, &device));
  volkLoadDeviceTable(&vk, device);
  vk.vkGetDeviceQueue(device, queue_family, 0, &queue_);
  vkGetPhysicalDeviceMemoryProperties(physical, &memory);
  controls = {.keep_special_values = info.special_values_control, .flush_subnormals = info.flush_control};
  auto type = structure<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  const auto semaphore = structure<VkSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type);
  WEFT_VULKAN_CHECK("create a semaphore", vk.vkCreateSemaphore(device, &semaphore, nullptr, &timeline_));
  return {};
}

Context::~Context() {
  if (!device) return;
  vk.vkDeviceWaitIdle(device);
  vk.vkDestroySemaphore(device, timeline_, nullptr);
  vk.vkDestroyDevice(device, nullptr);
}

Result<std::uint64_t> Context::submit(std::span<const VkCommandBuffer> commands) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = submitted_ + 1;
  auto values = structure<VkTimelineSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
  values.signalSemaphoreValueCount = 1;
  values.pSignalSemaphoreValues = &number;
  auto submit = structure<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO, &values);
  submit.commandBufferCount = static_cast<std::uint32_t>(commands.size());
  submit.pCommandBuffers = commands.data();
  submit.signalSemaphoreCount = 1;
  submit.pSignalSemaphores = &timeline_;
  WEFT_VULKAN_CHECK("submit to " + info.name, vk.vkQueueSubmit(queue_, 1, &submit, VK_NULL_HANDLE));
  submitted_ = number;
  return number;
}

Status Context::wait(std::uint64_t number) const {
  constexpr std::uint64_t kMinute = 60'000'000'000;
  auto wait = structure<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
  wait.semaphoreCount = 1;
  wait.pSemaphores = &timeline_;
  wait.pValues = &number;
  const VkResult result = vk.vkWaitSemaphores(device, &wait, kMinute);
  if (result == VK_TIMEOUT)
    return fail(Errc::timed_out, "vulkan: " + info.name + " did not finish submission " + std::to_string(number) +
                                     " within a minute (it is at " + std::to_string(done()) + ")");
  WEFT_VULKAN_CHECK("wait for " + info.name, result);
  return {};
}

std::uint64_t Context::done() const {
  std::uint64_t value = 0;
  vk.vkGetSemaphoreCounterValue(device, timeline_, &value);
  return value;
}

}  // namespace weft::gpu
