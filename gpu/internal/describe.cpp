// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/context.hpp"
#include "gpu/internal/limits.hpp"

#include <algorithm>
#include <cstring>

namespace weft::gpu {
namespace {

std::string version(std::uint32_t v) {
  return std::to_string(VK_API_VERSION_MAJOR(v)) + "." + std::to_string(VK_API_VERSION_MINOR(v)) + "." +
         std::to_string(VK_API_VERSION_PATCH(v));
}

const char* kind(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return "discrete";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return "virtual";
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return "cpu";
    default:
      return "other";
  }
}

constexpr std::uint32_t kMatrixSharedBytes = 36 << 10;  // of gpu/shaders/linear_integer_matrix.comp

struct Extensions {
  explicit Extensions(VkPhysicalDevice physical) {
    std::uint32_t count = 0;
    vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, nullptr);
    all.resize(count);
    vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, all.data());
  }
  bool has(const char* name) const {
    return std::any_of(all.begin(), all.end(), [&](const auto& e) { return std::strcmp(e.extensionName, name) == 0; });
  }
  std::vector<VkExtensionProperties> all;
};

/// True when a subgroup multiplies matrices of signed bytes, 16 by 32 times 32 by 16, with sums of 32 bits.
bool multiplies_bytes(VkPhysicalDevice physical) {
  std::uint32_t count = 0;
  if (!vkGetPhysicalDeviceCooperativeMatrixPropertiesNV ||
      vkGetPhysicalDeviceCooperativeMatrixPropertiesNV(physical, &count, nullptr) != VK_SUCCESS)
    return false;
  std::vector<VkCooperativeMatrixPropertiesNV> all(
      count, structure<VkCooperativeMatrixPropertiesNV>(VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_NV));
  if (vkGetPhysicalDeviceCooperativeMatrixPropertiesNV(physical, &count, all.data()) < VK_SUCCESS) return false;
  return std::any_of(all.begin(), all.end(), [](const VkCooperativeMatrixPropertiesNV& m) {
    return m.MSize == 16 && m.NSize == 16 && m.KSize == 32 && m.AType == VK_COMPONENT_TYPE_SINT8_NV &&
           m.BType == VK_COMPONENT_TYPE_SINT8_NV && m.CType == VK_COMPONENT_TYPE_SINT32_NV &&
           m.DType == VK_COMPONENT_TYPE_SINT32_NV && m.scope == VK_SCOPE_SUBGROUP_NV;
  });
}

void describe_features(VkPhysicalDevice physical, DeviceInfo& info) {
  const Extensions extensions(physical);
  auto v12 = structure<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  auto v11 = structure<VkPhysicalDeviceVulkan11Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &v12);
  VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR dots{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR, &v11, VK_FALSE};
  const bool may_dot = extensions.has(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
  auto features = structure<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
  features.pNext = may_dot ? static_cast<void*>(&dots) : &v11;
  VkPhysicalDeviceCooperativeMatrixFeaturesNV matrices{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV,
                                                       features.pNext, VK_FALSE, VK_FALSE};
  const bool may_multiply = extensions.has(VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME);
  if (may_multiply) features.pNext = &matrices;
  VkPhysicalDeviceConditionalRenderingFeaturesEXT conditions{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_CONDITIONAL_RENDERING_FEATURES_EXT, features.pNext, VK_FALSE, VK_FALSE};
  if (extensions.has(VK_EXT_CONDITIONAL_RENDERING_EXTENSION_NAME)) features.pNext = &conditions;
  vkGetPhysicalDeviceFeatures2(physical, &features);
  info.conditional_dispatches = conditions.conditionalRendering;
  info.float64 = features.features.shaderFloat64;
  info.int16 = features.features.shaderInt16 && v11.storageBuffer16BitAccess;
  info.int8 = v12.shaderInt8 && v12.storageBuffer8BitAccess;
  info.float16 = v12.shaderFloat16 && v11.storageBuffer16BitAccess;
  info.dot_product = may_dot && dots.shaderIntegerDotProduct;
  // A matrix's elements are 8 of each of 32 threads; its shader is of the Vulkan memory model.
  info.matrix_units = may_multiply && matrices.cooperativeMatrix && info.dot_product && v12.shaderInt8 &&
                      v12.vulkanMemoryModel && info.subgroup == 32 && info.group_threads == kWideThreads &&
                      info.shared_bytes >= kMatrixSharedBytes && multiplies_bytes(physical);
  info.memory_budget = extensions.has(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  const auto need = [&](bool there, const std::string& what) {
    if (!there) info.missing += (info.missing.empty() ? "" : ", ") + what;
  };
  need(v12.bufferDeviceAddress, "buffer device addresses");
  need(v12.timelineSemaphore, "timeline semaphores");
  need(features.features.shaderInt64, "64-bit integers in shaders");
  need(info.max_group_threads >= kLeastThreads, "work groups of " + std::to_string(kLeastThreads) +
                                                    " threads (it has " + std::to_string(info.max_group_threads) + ")");
  need(info.shared_bytes >= kLeastSharedBytes, std::to_string(kLeastSharedBytes) + " bytes of shared memory (it has " +
                                                   std::to_string(info.shared_bytes) + ")");
}

}  // namespace

DeviceInfo describe(VkPhysicalDevice physical, std::size_t index, const Limits& most) {
  auto floats =
      structure<VkPhysicalDeviceFloatControlsProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES);
  auto driver =
      structure<VkPhysicalDeviceDriverProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES, &floats);
  auto maintenance = structure<VkPhysicalDeviceMaintenance3Properties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES, &driver);
  auto buffers = structure<VkPhysicalDeviceMaintenance4Properties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES, &maintenance);
  auto subgroup =
      structure<VkPhysicalDeviceSubgroupProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, &buffers);
  auto properties = structure<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
  VkPhysicalDeviceProperties plain{};
  vkGetPhysicalDeviceProperties(physical, &plain);
  DeviceInfo info;
  info.index = index;
  info.name = plain.deviceName;
  info.kind = kind(plain.deviceType);
  info.api = version(plain.apiVersion);
  if (plain.apiVersion < VK_API_VERSION_1_2) {
    info.missing = "Vulkan 1.2";
    return info;
  }
  // Its own structure came with 1.3.
  if (plain.apiVersion < VK_API_VERSION_1_3) subgroup.pNext = &maintenance;
  properties.pNext = &subgroup;
  vkGetPhysicalDeviceProperties2(physical, &properties);
  const VkPhysicalDeviceLimits& limits = properties.properties.limits;
  info.driver = std::string(driver.driverName) + " " + driver.driverInfo;
  info.max_allocation_bytes = maintenance.maxMemoryAllocationSize;
  info.max_buffer_bytes = buffers.maxBufferSize;
  info.max_storage_range = limits.maxStorageBufferRange;
  for (std::size_t i = 0; i < 3; ++i) info.max_groups[i] = limits.maxComputeWorkGroupCount[i];
  info.max_group_threads =
      std::min({limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0], most.threads});
  info.shared_bytes = std::min(limits.maxComputeSharedMemorySize, most.shared_bytes);
  const bool is_wide = info.max_group_threads >= kWideThreads && info.shared_bytes >= kWideSharedBytes;
  info.group_threads = is_wide ? kWideThreads : kLeastThreads;
  info.push_bytes = limits.maxPushConstantsSize;
  info.subgroup = subgroup.subgroupSize;
  info.flush_control = floats.shaderDenormFlushToZeroFloat32;
  info.special_values_control = floats.shaderSignedZeroInfNanPreserveFloat32;
  VkPhysicalDeviceMemoryProperties memory{};
  vkGetPhysicalDeviceMemoryProperties(physical, &memory);
  for (std::uint32_t i = 0; i < memory.memoryHeapCount; ++i)
    if (memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
      info.memory_bytes = std::max<std::uint64_t>(info.memory_bytes, memory.memoryHeaps[i].size);
  describe_features(physical, info);
  return info;
}

Result<std::vector<VkPhysicalDevice>> physical_devices(const Instance& instance) {
  std::uint32_t count = 0;
  WEFT_VULKAN_CHECK("list devices", vkEnumeratePhysicalDevices(instance.handle(), &count, nullptr));
  std::vector<VkPhysicalDevice> all(count);
  WEFT_VULKAN_CHECK("list devices", vkEnumeratePhysicalDevices(instance.handle(), &count, all.data()));
  all.resize(count);
  return all;
}

}  // namespace weft::gpu
