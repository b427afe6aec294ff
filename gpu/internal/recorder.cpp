// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/recorder.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft::gpu {
namespace {

constexpr std::size_t kStaging = std::size_t{8} << 20;
// Ranges that are remembered before a barrier forgets them all: comparing must stay cheaper than the barrier.
constexpr std::size_t kRemembered = 64;
constexpr VkAccessFlags kAllAccess =
    VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
constexpr VkPipelineStageFlags kAllStages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;

bool touches(const std::vector<Range>& some, std::initializer_list<Range> others) noexcept {
  for (const Range& a : some)
    for (const Range& b : others)
      if (a.begin < b.end && b.begin < a.end) return true;
  return false;
}

}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::create(std::shared_ptr<Context> context, Heap& heap, Pipelines& pipelines) {
  std::unique_ptr<Recorder> recorder(new Recorder(std::move(context), heap, pipelines));
  WEFT_CHECK(recorder->initialise());
  return recorder;
}

Status Recorder::initialise() {
  auto pool = structure<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool.queueFamilyIndex = context_->queue_family;
  WEFT_VULKAN_CHECK("make a command pool", context_->vk.vkCreateCommandPool(context_->device, &pool, nullptr, &pool_));
  for (Half& half : halves_) {
    WEFT_TRY(half.piece, make_allocation(*context_, kStaging, Use::upload, "staging memory"));
  }
  WEFT_TRY(fetched_, make_allocation(*context_, kStaging, Use::download, "staging memory"));
  return {};
}

Recorder::~Recorder() {
  if (!context_->settle(last_)) return;
  for (const Half& half : halves_) destroy(*context_, half.piece);
  destroy(*context_, fetched_);
  context_->vk.vkDestroyCommandPool(context_->device, pool_, nullptr);
}

void Recorder::fail_with(Error error) {
  if (failure_) return;
  failure_ = std::move(error);
  context_->settle(last_);
}

void Recorder::check_validation_errors() {
  if (failure_ || context_->instance->error_count() == validation_errors_) return;
  fail_with(Error(Errc::internal, "vulkan: the validation layers found an error while " + context_->info.name +
                                      " was used: " + context_->instance->errors(validation_errors_).front()));
}

Status Recorder::status() const { return failure_ ? Status(fail(*failure_)) : Status(); }

Status Recorder::begin() {
  if (!submitted_.empty() && submitted_.front().number <= context_->done()) {
    open_ = submitted_.front();
    submitted_.pop_front();
  } else {
    auto allocate = structure<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
    allocate.commandPool = pool_;
    allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    allocate.commandBufferCount = 1;
    WEFT_VULKAN_CHECK("make a command buffer",
                      context_->vk.vkAllocateCommandBuffers(context_->device, &allocate, &open_.buffer));
  }
  auto begin = structure<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  WEFT_VULKAN_CHECK("begin commands", context_->strikes(DriverFault::no_commands)
                                          ? VK_ERROR_OUT_OF_HOST_MEMORY
                                          : context_->vk.vkBeginCommandBuffer(open_.buffer, &begin));
  is_open_ = true;
  bound_ = VK_NULL_HANDLE;
  // Writes of earlier submissions.
  barrier(kAllStages, kAllAccess);
  return {};
}

bool Recorder::open() {
  if (failure_) return false;
  if (is_open_) return true;
  if (auto status = begin(); !status) fail_with(status.error());
  return !failure_;
}

void Recorder::barrier(VkPipelineStageFlags to_stages, VkAccessFlags to_access) {
  const VkMemoryBarrier memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr,
                               VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, to_access};
  context_->vk.vkCmdPipelineBarrier(open_.buffer, kAllStages, to_stages, 0, 1, &memory, 0, nullptr, 0, nullptr);
  reads_.clear();
  writes_.clear();
  notes_.clear();
  ++barriers_;
}

void Recorder::order(const Accesses& accesses) {
  const auto& [reads, writes, notes] = accesses;
  if (touches(writes_, reads) || touches(writes_, writes) || touches(writes_, notes) || touches(reads_, writes) ||
      touches(reads_, notes) || touches(notes_, reads) || touches(notes_, writes) ||
      reads_.size() + writes_.size() + notes_.size() > kRemembered)
    barrier(kAllStages, kAllAccess);
  const auto remember = [](std::vector<Range>& to, std::initializer_list<Range> from) {
    for (const Range& each : from)
      if (each.begin < each.end) to.push_back(each);
  };
  remember(reads_, reads);
  remember(writes_, writes);
  remember(notes_, notes);
}

void Recorder::record(const Shader& shader, const Constants& constants, std::span<const std::byte> operands,
                      Groups groups, const Accesses& accesses) {
  if (groups.x == 0 || groups.y == 0 || failure_) return;
  const auto cut = [&](std::size_t wanted, int axis) {
    return static_cast<std::uint32_t>(
        std::min<std::size_t>(wanted, context_->info.max_groups[static_cast<std::size_t>(axis)]));
  };
  if (collector_)
    return collector_->add({&shader, constants}, {cut(groups.x, 0), cut(groups.y, 1), groups.shares, groups.pushes},
                           operands, accesses);
  const auto pipeline = pipelines_.get(shader, constants, {});
  if (!pipeline) return fail_with(pipeline.error());
  if (!open()) return;
  order(accesses);
  const auto& vk = context_->vk;
  if (*pipeline != bound_) vk.vkCmdBindPipeline(open_.buffer, VK_PIPELINE_BIND_POINT_COMPUTE, *pipeline);
  bound_ = *pipeline;
  Pipelines::Push push;
  std::memcpy(push.operands.data(), operands.data(), operands.size());
  vk.vkCmdPushConstants(open_.buffer, pipelines_.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                        static_cast<std::uint32_t>(offsetof(Pipelines::Push, operands) + operands.size()), &push);
  vk.vkCmdDispatch(open_.buffer, cut(groups.x, 0), cut(groups.y, 1), 1);
  ++dispatches_;
}

void Recorder::close() {
  if (!is_open_) return;
  is_open_ = false;
  if (const VkResult result = context_->vk.vkEndCommandBuffer(open_.buffer); result != VK_SUCCESS)
    return fail_with(vulkan_failure("end commands", result).error);
  closed_.push_back(open_);
  waiting_.push_back(open_.buffer);
}

Result<std::uint64_t> Recorder::flush() {
  WEFT_CHECK(status());
  if (waiting_.empty()) return last_;
  auto number = context_->submit(waiting_);
  if (!number) {
    fail_with(number.error());
    return number;
  }
  last_ = *number;
  waiting_.clear();
  waiting_runs_ = 0;
  for (Commands& each : closed_) {
    each.number = last_;
    submitted_.push_back(each);
  }
  closed_.clear();
  for (Held& each : held_)
    if (each.number == 0) each.number = last_;
  forget();
  return last_;
}

bool Recorder::is_collecting(const char* what) {
  if (collector_)
    fail_with(Error(Errc::internal, std::string("vulkan: ") + what +
                                        " while a program is collected; it must come before begin_program or after "
                                        "end_program"));
  return collector_ != nullptr;
}

Result<std::uint64_t> Recorder::submit() {
  if (is_collecting("submit")) return fail(*failure_);
  close();
  return flush();
}

Status Recorder::wait(std::uint64_t number) {
  WEFT_CHECK(status());
  if (number == 0) return {};
  if (auto waited = context_->wait(number); !waited) fail_with(waited.error());
  check_validation_errors();
  forget();
  return status();
}

Result<std::size_t> Recorder::room(std::size_t bytes) {
  if (halves_[half_].used + bytes > kStaging) {
    WEFT_TRY(halves_[half_].number, submit());
    half_ = 1 - half_;
    WEFT_CHECK(wait(halves_[half_].number));
    halves_[half_].used = 0;
    if (!open()) return fail(*failure_);
  }
  const std::size_t at = halves_[half_].used;
  halves_[half_].used += (bytes + 15) / 16 * 16;
  return at;
}

std::uint64_t Recorder::parameters(const void* data, std::size_t bytes) {
  if (collector_ && !failure_) {
    const auto at = collector_->parameters({static_cast<const std::byte*>(data), bytes});
    return at ? *at : (fail_with(at.error()), 0);
  }
  if (!open()) return 0;
  const auto at = room(bytes);
  if (!at) return fail_with(at.error()), 0;
  std::memcpy(halves_[half_].piece.mapped + *at, data, bytes);
  return halves_[half_].piece.address + *at;
}

Status Recorder::stage(const std::byte* from, std::size_t bytes, std::uint64_t to) {
  WEFT_TRY(const Place place, heap_.find(to, bytes));
  WEFT_TRY(const std::size_t at, room(bytes));
  std::memcpy(halves_[half_].piece.mapped + at, from, bytes);
  order({{}, {{to, to + bytes}}, {}});
  const VkBufferCopy copy{at, place.offset, bytes};
  context_->vk.vkCmdCopyBuffer(open_.buffer, halves_[half_].piece.buffer, place.buffer, 1, &copy);
  return {};
}

void Recorder::upload(const void* from, std::size_t bytes, void* to) {
  if (is_collecting("upload")) return;
  for (std::size_t at = 0; at < bytes && open(); at += kStaging)
    if (auto staged = stage(static_cast<const std::byte*>(from) + at, std::min(kStaging, bytes - at), address(to) + at);
        !staged)
      fail_with(staged.error());
}

void Recorder::transfer(const void* from, std::size_t bytes, void* to) {
  if (is_collecting("transfer") || bytes == 0 || failure_) return;
  const auto source = heap_.find(address(from), bytes), target = heap_.find(address(to), bytes);
  if (!source || !target) return fail_with(source ? target.error() : source.error());
  if (!open()) return;
  order({{range(from, bytes)}, {range(to, bytes)}, {}});
  const VkBufferCopy copy{source->offset, target->offset, bytes};
  context_->vk.vkCmdCopyBuffer(open_.buffer, source->buffer, target->buffer, 1, &copy);
}

Result<std::uint64_t> Recorder::fetch(std::uint64_t from, std::size_t bytes, std::size_t to) {
  WEFT_TRY(const Place place, heap_.find(from, bytes));
  if (!open()) return fail(*failure_);
  order({{{from, from + bytes}}, {}, {}});
  const VkBufferCopy copy{place.offset, to, bytes};
  context_->vk.vkCmdCopyBuffer(open_.buffer, place.buffer, fetched_.buffer, 1, &copy);
  barrier(VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
  return submit();
}

Status Recorder::download(const void* from, std::size_t bytes, void* to) {
  if (is_collecting("download") || bytes == 0) return status();
  // A part crosses the bus while the one before it is copied on.
  constexpr std::size_t kPart = kStaging / 2;
  const auto place_of = [](std::size_t at) { return at / kPart % 2 * kPart; };
  const auto begin = [&](std::size_t at) {
    return fetch(address(from) + at, std::min(kPart, bytes - at), place_of(at));
  };
  WEFT_TRY(std::uint64_t number, begin(0));
  for (std::size_t at = 0; at < bytes; at += kPart) {
    const std::uint64_t of_this = number;
    if (at + kPart < bytes) {
      WEFT_TRY(number, begin(at + kPart));
    }
    WEFT_CHECK(wait(of_this));
    std::memcpy(static_cast<std::byte*>(to) + at, fetched_.mapped + place_of(at), std::min(kPart, bytes - at));
  }
  return status();
}

}  // namespace weft::gpu
