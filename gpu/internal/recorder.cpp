// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/recorder.hpp"

#include "gpu/internal/condition.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft::gpu {
namespace {

constexpr VkAccessFlags kAllAccess =
    VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
constexpr VkPipelineStageFlags kAllStages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;

}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::create(std::shared_ptr<Context> context, Heap& heap, Pipelines& pipelines) {
  std::unique_ptr<Recorder> recorder(new Recorder(std::move(context), heap, pipelines));
  WEFT_CHECK(recorder->initialise());
  return recorder;
}

Status Recorder::initialise() {
  WEFT_CHECK(commands_.initialise());
  return staging_.initialise(*context_);
}

Recorder::~Recorder() {
  if (!commands_.settle()) return;
  staging_.release(*context_);
  commands_.release();
}

void Recorder::fail_with(Error error) {
  if (failure_) return;
  failure_ = std::move(error);
  commands_.settle();
}

void Recorder::check_validation_errors() {
  if (failure_ || context_->instance->error_count() == validation_errors_) return;
  fail_with(Error(Errc::internal, "vulkan: the validation layers found an error while " + context_->info.name +
                                      " was used: " + context_->instance->errors(validation_errors_).front()));
}

Status Recorder::status() const { return failure_ ? Status(fail(*failure_)) : Status(); }

bool Recorder::open() {
  if (failure_) return false;
  if (commands_.is_open()) return true;
  if (auto begun = commands_.begin(); !begun) {
    fail_with(begun.error());
    return false;
  }
  bound_ = VK_NULL_HANDLE;
  // Writes of earlier submissions.
  barrier(kAllStages, kAllAccess);
  return true;
}

void Recorder::barrier(VkPipelineStageFlags to_stages, VkAccessFlags to_access) {
  const VkMemoryBarrier memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr,
                               VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                               to_access | (has_conditions_ && to_access == kAllAccess ? kConditionAccess : 0)};
  const VkPipelineStageFlags conditions = has_conditions_ ? kConditionStage : 0;
  context_->vk.vkCmdPipelineBarrier(commands_.current(), kAllStages | conditions,
                                    to_stages | (to_stages == kAllStages ? conditions : 0), 0, 1, &memory, 0, nullptr,
                                    0, nullptr);
  hazards_.clear();
  ++barriers_;
}

void Recorder::order(const Accesses& accesses) {
  if (hazards_.need_barrier_before(accesses)) barrier(kAllStages, kAllAccess);
  hazards_.remember(accesses);
}

void Recorder::record(const Shader& shader, const Constants& constants, std::span<const std::byte> operands,
                      Groups groups, const Accesses& accesses) {
  if (groups.x == 0 || groups.y == 0 || failure_) return;
  groups = groups.of_threads(context_->info.group_threads);
  const auto cut = [&](std::size_t wanted, int axis) {
    return static_cast<std::uint32_t>(
        std::min<std::size_t>(wanted, context_->info.max_groups[static_cast<std::size_t>(axis)]));
  };
  if (capture_)
    return capture_->add({&shader, constants, condition_},
                         {cut(groups.x, 0), cut(groups.y, 1), groups.shares, groups.pushes}, operands, accesses);
  const auto pipeline = pipelines_.get(shader, constants, {});
  if (!pipeline) return fail_with(pipeline.error());
  if (!open()) return;
  Place condition;
  if (condition_ != 0) {
    const auto found = heap_.find(condition_, sizeof(std::uint32_t));
    if (!found) return fail_with(found.error());
    condition = *found;
    // Barriers before the first condition did not make words visible to it.
    if (!std::exchange(has_conditions_, true)) barrier(kAllStages, kAllAccess);
    order({{condition_range(condition_)}, {}, {}});
  }
  order(accesses);
  const auto& vk = context_->vk;
  if (*pipeline != bound_) vk.vkCmdBindPipeline(commands_.current(), VK_PIPELINE_BIND_POINT_COMPUTE, *pipeline);
  bound_ = *pipeline;
  Pipelines::Push push;
  std::memcpy(push.operands.data(), operands.data(), operands.size());
  vk.vkCmdPushConstants(commands_.current(), pipelines_.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                        static_cast<std::uint32_t>(offsetof(Pipelines::Push, operands) + operands.size()), &push);
  gpu::dispatch(*context_, commands_.current(), condition, cut(groups.x, 0), cut(groups.y, 1), 1);
  ++dispatches_;
}

void Recorder::close() {
  if (auto closed = commands_.close(); !closed) fail_with(closed.error());
}

Result<std::uint64_t> Recorder::flush() {
  WEFT_CHECK(status());
  const std::uint64_t before = commands_.last_submission();
  const auto number = commands_.submit();
  if (!number) {
    fail_with(number.error());
    return fail(number.error());
  }
  if (*number == before) return before;
  for (Held& each : held_)
    if (each.number == 0) each.number = *number;
  forget();
  return *number;
}

bool Recorder::is_capturing(const char* what) {
  if (capture_)
    fail_with(
        Error(Errc::internal, std::string("vulkan: ") + what +
                                  " while a command graph is captured; it must come before begin_capture or after "
                                  "end_capture"));
  return capture_ != nullptr;
}

Result<std::uint64_t> Recorder::submit() {
  if (is_capturing("submit")) return fail(*failure_);
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

Result<std::size_t> Recorder::reserve(std::size_t bytes) {
  if (!staging_.has_room(bytes)) {
    WEFT_TRY(const std::uint64_t number, submit());
    WEFT_CHECK(wait(staging_.turn(number)));
    if (!open()) return fail(*failure_);
  }
  return staging_.take(bytes);
}

std::uint64_t Recorder::parameters(const void* data, std::size_t bytes) {
  if (capture_ && !failure_) {
    const auto at = capture_->parameters({static_cast<const std::byte*>(data), bytes});
    return at ? *at : (fail_with(at.error()), 0);
  }
  if (!open()) return 0;
  const auto at = reserve(bytes);
  if (!at) return fail_with(at.error()), 0;
  std::memcpy(staging_.half().mapped + *at, data, bytes);
  return staging_.half().address + *at;
}

Status Recorder::stage(const std::byte* from, std::size_t bytes, std::uint64_t to) {
  WEFT_TRY(const Place place, heap_.find(to, bytes));
  WEFT_TRY(const std::size_t at, reserve(bytes));
  std::memcpy(staging_.half().mapped + at, from, bytes);
  order({{}, {{to, to + bytes}}, {}});
  const VkBufferCopy copy{at, place.offset, bytes};
  context_->vk.vkCmdCopyBuffer(commands_.current(), staging_.half().buffer, place.buffer, 1, &copy);
  return {};
}

void Recorder::upload(const void* from, std::size_t bytes, void* to) {
  if (is_capturing("upload")) return;
  for (std::size_t at = 0; at < bytes && open(); at += Staging::kBytes)
    if (auto staged =
            stage(static_cast<const std::byte*>(from) + at, std::min(Staging::kBytes, bytes - at), address(to) + at);
        !staged)
      fail_with(staged.error());
}

void Recorder::transfer(const void* from, std::size_t bytes, void* to) {
  if (is_capturing("transfer") || bytes == 0 || failure_) return;
  const auto source = heap_.find(address(from), bytes), target = heap_.find(address(to), bytes);
  if (!source || !target) return fail_with(source ? target.error() : source.error());
  if (!open()) return;
  order({{range(from, bytes)}, {range(to, bytes)}, {}});
  const VkBufferCopy copy{source->offset, target->offset, bytes};
  context_->vk.vkCmdCopyBuffer(commands_.current(), source->buffer, target->buffer, 1, &copy);
}

Result<std::uint64_t> Recorder::fetch(std::uint64_t from, std::size_t bytes, std::size_t to) {
  WEFT_TRY(const Place place, heap_.find(from, bytes));
  if (!open()) return fail(*failure_);
  order({{{from, from + bytes}}, {}, {}});
  const VkBufferCopy copy{place.offset, to, bytes};
  context_->vk.vkCmdCopyBuffer(commands_.current(), place.buffer, staging_.downloads().buffer, 1, &copy);
  barrier(VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
  return submit();
}

Status Recorder::download(const void* from, std::size_t bytes, void* to) {
  if (is_capturing("download") || bytes == 0) return status();
  // A part crosses the bus while the one before it is copied on.
  constexpr std::size_t kPart = Staging::kBytes / 2;
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
    std::memcpy(static_cast<std::byte*>(to) + at, staging_.downloads().mapped + place_of(at),
                std::min(kPart, bytes - at));
  }
  return status();
}

}  // namespace weft::gpu
