// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/context.hpp"

#include "core/log.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft::gpu {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kDefault{0}, kOfFast = 30s, kOfSlow = 10min;
constexpr std::chrono::nanoseconds kLook = 1s;  // whether it goes on is looked at so often

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
                                                 const DeviceInfo& info, const DeviceOptions& options) {
  std::shared_ptr<Context> context(new Context);
  context->instance = std::move(instance);
  context->physical = physical;
  context->info = info;
  context->options = options;
  if (options.timeout == kDefault) context->options.timeout = info.kind == "cpu" ? kOfSlow : kOfFast;
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
  v12.shaderInt8 = info.int8 || info.matrix_units;
  v12.storageBuffer8BitAccess = info.int8;
  v12.shaderFloat16 = info.float16;
  v12.vulkanMemoryModel = info.matrix_units;
  auto v11 = structure<VkPhysicalDeviceVulkan11Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &v12);
  v11.storageBuffer16BitAccess = info.int16;
  VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR dots{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR, &v11, VK_TRUE};
  auto features = structure<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
  features.pNext = info.dot_product ? static_cast<void*>(&dots) : &v11;
  VkPhysicalDeviceCooperativeMatrixFeaturesNV matrices{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV,
                                                       features.pNext, VK_TRUE, VK_FALSE};
  if (info.matrix_units) features.pNext = &matrices;
  VkPhysicalDeviceConditionalRenderingFeaturesEXT conditions{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_CONDITIONAL_RENDERING_FEATURES_EXT, features.pNext, VK_TRUE, VK_FALSE};
  if (info.conditional_dispatches) features.pNext = &conditions;
  features.features.shaderInt64 = VK_TRUE;
  features.features.shaderFloat64 = info.float64;
  features.features.shaderInt16 = info.int16;
  std::vector<const char*> extensions;
  if (info.memory_budget) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  if (info.dot_product) extensions.push_back(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
  if (info.matrix_units) extensions.push_back(VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME);
  if (info.conditional_dispatches) extensions.push_back(VK_EXT_CONDITIONAL_RENDERING_EXTENSION_NAME);
  auto create = structure<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &features);
  create.queueCreateInfoCount = 1;
  create.pQueueCreateInfos = &queues;
  create.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  create.ppEnabledExtensionNames = extensions.data();
  WEFT_VULKAN_CHECK("open " + info.name, strikes(DriverFault::no_device)
                                             ? VK_ERROR_INITIALIZATION_FAILED
                                             : vkCreateDevice(physical, &create, nullptr, &device));
  volkLoadDeviceTable(&vk, device);
  vk.vkGetDeviceQueue(device, queue_family, 0, &queue_);
  vkGetPhysicalDeviceMemoryProperties(physical, &memory);
  budget.open(physical, info.name, info.memory_budget, options.memory_budget);
  controls = {.keep_special_values = info.special_values_control, .flush_subnormals = info.flush_control};
  auto type = structure<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  const auto semaphore = structure<VkSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type);
  WEFT_VULKAN_CHECK("create a semaphore", vk.vkCreateSemaphore(device, &semaphore, nullptr, &timeline_));
  return {};
}

Context::~Context() {
  if (!device) return;
  if (!settle(submitted_)) {
    // The driver still works on it. What it touches is left to the end of the process, the instance included.
    static std::mutex mutex;
    static auto* const left = new std::vector<std::shared_ptr<Instance>>;
    const std::lock_guard lock(mutex);
    left->push_back(std::move(instance));
    return;
  }
  vk.vkDeviceWaitIdle(device);
  vk.vkDestroySemaphore(device, timeline_, nullptr);
  vk.vkDestroyDevice(device, nullptr);
}

Failure Context::lose(Error error) {
  const std::lock_guard lock(reason_mutex_);
  if (!reason_) reason_ = error;
  is_lost_.store(true, std::memory_order_release);
  return fail(std::move(error));
}

Failure Context::failed(std::string_view what, VkResult result) {
  Failure failure = vulkan_failure(what, result);
  return result == VK_ERROR_DEVICE_LOST ? lose(std::move(failure.error)) : failure;
}

Status Context::lost() const {
  if (!is_lost()) return {};
  const std::lock_guard lock(reason_mutex_);
  return fail(reason_->code(),
              "vulkan: " + info.name + " was lost before and has to be opened anew (" + reason_->text() + ")");
}

Result<std::uint64_t> Context::submit(std::span<const VkCommandBuffer> commands) {
  const std::lock_guard lock(mutex_);
  WEFT_CHECK(lost());
  const std::uint64_t number = submitted_ + 1;
  auto values = structure<VkTimelineSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
  values.signalSemaphoreValueCount = 1;
  values.pSignalSemaphoreValues = &number;
  auto submit = structure<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO, &values);
  submit.commandBufferCount = static_cast<std::uint32_t>(commands.size());
  submit.pCommandBuffers = commands.data();
  submit.signalSemaphoreCount = 1;
  submit.pSignalSemaphores = &timeline_;
  if (strikes(DriverFault::validation_error)) instance->add_error();
  const VkResult result = strikes(DriverFault::lost_at_submit) ? VK_ERROR_DEVICE_LOST
                                                               : vk.vkQueueSubmit(queue_, 1, &submit, VK_NULL_HANDLE);
  if (result < VK_SUCCESS) return failed("submit to " + info.name, result);
  submitted_ = number;
  return number;
}

VkResult Context::wait_for(std::uint64_t number, std::chrono::nanoseconds most) const {
  auto wait = structure<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
  wait.semaphoreCount = 1;
  wait.pSemaphores = &timeline_;
  wait.pValues = &number;
  auto moved = Clock::now();
  std::uint64_t at = done();
  for (;;) {
    const VkResult result =
        vk.vkWaitSemaphores(device, &wait, static_cast<std::uint64_t>(std::min(most, kLook).count()));
    if (result != VK_TIMEOUT) return result;
    const auto now = Clock::now();
    if (const std::uint64_t reached = done(); reached != at) {
      at = reached;
      moved = now;
    } else if (now - moved >= most) {
      return VK_TIMEOUT;
    }
  }
}

Status Context::wait(std::uint64_t number) {
  WEFT_CHECK(lost());
  const VkResult result = strikes(DriverFault::hang)           ? VK_TIMEOUT
                          : strikes(DriverFault::lost_at_wait) ? VK_ERROR_DEVICE_LOST
                                                               : wait_for(number, options.timeout);
  if (result < VK_SUCCESS) return failed("wait for " + info.name, result);
  if (result != VK_TIMEOUT) return {};
  return lose(Error(Errc::timed_out, "vulkan: " + info.name + " hangs: while submission " + std::to_string(number) +
                                         " was waited for, it finished none for " +
                                         std::to_string(options.timeout.count()) + " ms (it is at " +
                                         std::to_string(done()) +
                                         "); see the driver's log, or allow more by DeviceOptions::timeout"));
}

bool Context::settle(std::uint64_t number) noexcept {
  if (is_abandoned()) return false;
  if (number == 0) return true;
  // One that hangs had its time already: a wait may have been unlucky, so it gets a little more.
  const std::chrono::nanoseconds most = options.timeout;
  if (wait_for(number, is_lost() ? std::min(most, kLook) : most) != VK_TIMEOUT) return true;
  const std::string text = "vulkan: " + info.name + " hangs; its memory is left alone until this process ends";
  log_error(text);
  static_cast<void>(lose(Error(Errc::timed_out, text)));
  is_abandoned_.store(true, std::memory_order_release);
  return false;
}

std::uint64_t Context::done() const {
  std::uint64_t value = 0;
  vk.vkGetSemaphoreCounterValue(device, timeline_, &value);
  return value;
}

}  // namespace weft::gpu
