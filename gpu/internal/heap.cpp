// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/heap.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <utility>

namespace weft::gpu {
namespace {
std::size_t rounded_up(std::size_t bytes) noexcept {
  return std::max<std::size_t>(bytes + Memory::kAlignment - 1, Memory::kAlignment) / Memory::kAlignment *
         Memory::kAlignment;
}
}  // namespace

Heap::~Heap() {
  for (const auto& [address, block] : blocks_) destroy(*context_, block.allocation);
}

Result<Heap::Block*> Heap::add_block(std::size_t bytes, bool is_whole, std::string_view what) {
  WEFT_TRY(const Allocation allocation, make_allocation(*context_, bytes + kReadBeyond, Use::device, what));
  WEFT_ASSERT(allocation.address % kAlignment == 0, "a block's address is not aligned");
  Block& block = blocks_[allocation.address];
  block.allocation = allocation;
  block.free[allocation.address] = bytes;
  block.is_whole = is_whole;
  return &block;
}

std::uint64_t Heap::take(Block& block, std::size_t bytes) noexcept {
  const auto fits =
      std::find_if(block.free.begin(), block.free.end(), [&](const auto& f) { return f.second >= bytes; });
  if (fits == block.free.end()) return 0;
  const auto [address, size] = *fits;
  block.free.erase(fits);
  if (size > bytes) block.free[address + bytes] = size - bytes;
  block.taken[address] = bytes;
  allocated_ += bytes;
  return address;
}

Result<std::uint64_t> Heap::reserve(std::size_t bytes, std::string_view what) {
  WEFT_CHECK(context_->lost());
  if (context_->strikes(DriverFault::no_room))
    return vulkan_failure(
        "allocate " + std::string(what) + ": " + std::to_string(bytes) + " bytes on " + context_->info.name,
        VK_ERROR_OUT_OF_DEVICE_MEMORY);
  const std::lock_guard lock(mutex_);
  const std::size_t size = rounded_up(bytes);
  if (size < bytes) return fail(Errc::too_large, std::string(what) + ": more bytes than an address can count");
  if (size > kBlock / 2) {
    WEFT_TRY(Block* const block, add_block(size, true, what));
    return take(*block, size);
  }
  for (auto& [address, block] : blocks_)
    if (!block.is_whole)
      if (const std::uint64_t at = take(block, size)) return at;
  // A device without memory for a whole block may have enough for this buffer.
  const bool small = context_->budget.held(drivers_) + kBlock > context_->budget.limit(drivers_);
  WEFT_TRY(Block* const block, add_block(small ? size : kBlock, small, what));
  return take(*block, size);
}

void Heap::drop(std::map<std::uint64_t, Block>::iterator block) noexcept {
  destroy(*context_, block->second.allocation);
  blocks_.erase(block);
}

void Heap::release(std::uint64_t address) noexcept {
  const std::lock_guard lock(mutex_);
  const auto home = std::prev(blocks_.upper_bound(address));
  Block& block = home->second;
  const auto taken = block.taken.find(address);
  WEFT_ASSERT(taken != block.taken.end(), "a buffer is given back that was never handed out");
  std::size_t size = taken->second;
  allocated_ -= size;
  block.taken.erase(taken);
  auto next = block.free.lower_bound(address);
  if (next != block.free.end() && next->first == address + size) {
    size += next->second;
    next = block.free.erase(next);
  }
  if (next != block.free.begin()) {
    if (const auto before = std::prev(next); before->first + before->second == address) {
      address = before->first;
      size += before->second;
      block.free.erase(before);
    }
  }
  block.free[address] = size;
  if (block.is_whole) drop(home);
}

void Heap::trim() {
  const std::lock_guard lock(mutex_);
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const auto each = block++;
    if (each->second.taken.empty()) drop(each);
  }
}

MemoryUse Heap::use() const {
  const std::lock_guard lock(mutex_);
  MemoryUse use{.allocated = allocated_,
                .reserved = context_->budget.held(drivers_),
                .budget = context_->budget.limit(drivers_),
                .blocks = blocks_.size()};
  for (const auto& [address, block] : blocks_) use.buffers += block.taken.size();
  return use;
}

Result<Place> Heap::find(std::uint64_t address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  auto block = blocks_.upper_bound(address);
  if (block != blocks_.begin()) {
    --block;
    const Allocation& allocation = block->second.allocation;
    if (address - allocation.address <= allocation.bytes && bytes <= allocation.bytes - (address - allocation.address))
      return Place{allocation.buffer, address - allocation.address};
  }
  return fail(Errc::invalid_argument, "vulkan: " + std::to_string(bytes) + " bytes at address " +
                                          std::to_string(address) + " are not in the memory of " + context_->info.name);
}

}  // namespace weft::gpu
