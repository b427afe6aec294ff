// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/pipelines.hpp"

#include "gpu/internal/cache_file.hpp"
#include "gpu/internal/specialise.hpp"

#include "core/assert.hpp"
#include "core/log.hpp"

#include <algorithm>
#include <vector>

namespace weft::gpu {
namespace {
// ENTRIES of gpu/shaders/operands.glsl, and MOVING, SCATTERED behind it.
constexpr std::uint32_t kEntries = 8;
// Sizes of groups that shaders take from the device: threads, rows of 64 lanes, rows of 16 outputs.
constexpr std::uint32_t kGroupSizes = 12;
constexpr std::uint32_t kBehind = 15;  // the constants that find no place before kEntries

constexpr std::uint32_t id_of(std::uint32_t constant) noexcept {
  return constant + 1 < kEntries ? constant + 1 : constant + 1 - kEntries + kBehind;
}
}  // namespace

Constants::Constants(std::initializer_list<std::uint32_t> values) : size_(values.size()) {
  WEFT_ASSERT(values.size() <= kMost, "too many specialisation constants");
  std::copy(values.begin(), values.end(), values_.begin());
}

Result<std::unique_ptr<Pipelines>> Pipelines::create(std::shared_ptr<Context> context,
                                                     const std::string& cache_folder) {
  std::unique_ptr<Pipelines> pipelines(new Pipelines(std::move(context)));
  WEFT_CHECK(pipelines->initialise(cache_folder));
  return pipelines;
}

Status Pipelines::initialise(const std::string& cache_folder) {
  const VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0, kPushBytes};
  auto layout = structure<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &push;
  WEFT_VULKAN_CHECK("describe shader operands",
                    context_->vk.vkCreatePipelineLayout(context_->device, &layout, nullptr, &layout_));
  cache_file_ = cache_path(*context_, cache_folder);
  const std::vector<char> kept = read_cache(*context_, cache_file_);
  auto cache = structure<VkPipelineCacheCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO);
  cache.initialDataSize = kept.size();
  cache.pInitialData = kept.data();
  VkResult result = context_->vk.vkCreatePipelineCache(context_->device, &cache, nullptr, &cache_);
  if (result < VK_SUCCESS && !kept.empty()) {
    log_warn("vulkan: the driver refused the pipeline cache " + cache_file_ + "; starting with an empty one");
    cache.initialDataSize = 0;
    result = context_->vk.vkCreatePipelineCache(context_->device, &cache, nullptr, &cache_);
  }
  WEFT_VULKAN_CHECK("make a pipeline cache", result);
  return {};
}

Pipelines::~Pipelines() {
  if (context_->is_abandoned()) return;
  const auto& vk = context_->vk;
  if (cache_ && !cache_file_.empty() && !pipelines_.empty() && !context_->is_lost()) save();
  for (const auto& [key, pipeline] : pipelines_) vk.vkDestroyPipeline(context_->device, pipeline, nullptr);
  vk.vkDestroyPipelineCache(context_->device, cache_, nullptr);
  vk.vkDestroyPipelineLayout(context_->device, layout_, nullptr);
}

void Pipelines::save() const {
  std::size_t bytes = 0;
  if (context_->vk.vkGetPipelineCacheData(context_->device, cache_, &bytes, nullptr) != VK_SUCCESS) return;
  std::vector<char> data(bytes);
  if (context_->vk.vkGetPipelineCacheData(context_->device, cache_, &bytes, data.data()) != VK_SUCCESS) return;
  data.resize(bytes);
  write_cache(*context_, cache_file_, data);
}

Result<VkPipeline> Pipelines::get(const Shader& shader, const Constants& constants, const TableForm& table) {
  const std::lock_guard lock(mutex_);
  const Key key{&shader, constants, table};
  const auto found = pipelines_.find(key);
  if (found != pipelines_.end()) return found->second;
  return make(key);
}

Result<VkPipeline> Pipelines::make(const Key& key) {
  const Shader& shader = *key.shader;
  const Constants& constants = key.constants;
  std::map<std::uint32_t, std::uint32_t> values{{0, context_->variant.flush_in_code}};
  for (std::size_t i = 0; i < constants.size(); ++i) values[id_of(static_cast<std::uint32_t>(i))] = constants[i];
  std::uint32_t number = kEntries;
  const std::uint32_t is_pushed = key.table.is_pushed;
  for (const std::uint32_t value : {key.table.shares, key.table.moving, key.table.scattered, is_pushed})
    values[number++] = value;
  number = kGroupSizes;
  for (const std::uint32_t each : {1, 64, 16}) values[number++] = context_->info.group_threads / each;
  auto words =
      with_float_controls((context_->variant.emulated ? shader.emulated : shader.fused).words(), context_->controls);
  // A driver on a CPU inlines all calls before it looks at constants; NVIDIA's makes faster code of constants that it
  // sets itself (docs/decisions/0085).
  const bool is_set_here = context_->info.kind == "cpu" && !context_->options.driver_constants;
  if (is_set_here) words = specialised(words, values);
  std::vector<std::uint32_t> data;
  std::vector<VkSpecializationMapEntry> entries;
  for (const auto& [id, value] : values) {
    entries.push_back({id, static_cast<std::uint32_t>(data.size() * sizeof value), sizeof value});
    data.push_back(value);
  }
  const VkSpecializationInfo specialisation{static_cast<std::uint32_t>(entries.size()), entries.data(),
                                            data.size() * sizeof(std::uint32_t), data.data()};
  auto load = structure<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
  load.codeSize = words.size() * sizeof(std::uint32_t);
  load.pCode = words.data();
  VkShaderModule module = VK_NULL_HANDLE;
  WEFT_VULKAN_CHECK("load the shader " + std::string(shader.name),
                    context_->vk.vkCreateShaderModule(context_->device, &load, nullptr, &module));
  auto create = structure<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
  create.stage = structure<VkPipelineShaderStageCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO);
  create.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  create.stage.module = module;
  create.stage.pName = "main";
  if (!is_set_here) create.stage.pSpecializationInfo = &specialisation;
  create.layout = layout_;
  VkPipeline pipeline = VK_NULL_HANDLE;
  const VkResult result =
      context_->strikes(DriverFault::no_pipeline)
          ? VK_ERROR_OUT_OF_HOST_MEMORY
          : context_->vk.vkCreateComputePipelines(context_->device, cache_, 1, &create, nullptr, &pipeline);
  context_->vk.vkDestroyShaderModule(context_->device, module, nullptr);
  WEFT_VULKAN_CHECK("compile the shader " + std::string(shader.name), result);
  pipelines_[key] = pipeline;
  return pipeline;
}

}  // namespace weft::gpu
