// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/context.hpp"
#include "gpu/memory.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace weft::gpu {

/// Bytes of the driver: one VkBuffer bound to one allocation. `mapped` where the CPU may touch it.
struct Allocation {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  std::uint64_t address = 0;
  std::size_t bytes = 0;
  std::byte* mapped = nullptr;
  std::uint32_t heap = 0;   // of the driver, that it comes from
  std::uint64_t taken = 0;  // of that heap's budget
};
/// Use of an allocation: by the device alone, or by the CPU too, which writes it (upload) or reads it (download).
enum class Use { device, upload, download };
/// @error  too_large: past what one buffer holds, or with what is held already past the budget of the heap it is from
Result<Allocation> make_allocation(Context& context, std::size_t bytes, Use use, std::string_view what);
/// Unless the device is abandoned.
void destroy(Context& context, const Allocation& allocation) noexcept;
/// The driver's heap that allocations for this use come from.
std::uint32_t heap_for(const Context& context, Use use);

/// Buffer and offset of an address, for commands that take buffers.
struct Place {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceSize offset = 0;
};

/// Memory as blocks of kBlock bytes from the driver, cut by first fit; free neighbours become one again. What is larger
/// than half a block gets its own allocation.
class Heap final : public Memory {
 public:
  static constexpr std::size_t kBlock = std::size_t{64} << 20;
  /// Bytes behind all buffers of a block that shaders may read: they fetch whole steps, and leave out what is too much
  /// (gpu/shaders/linear_large.comp). At most four chunks of a panel's inputs and two steps (linear_chunks.comp).
  static constexpr std::size_t kReadBeyond = std::size_t{32} << 10;

  explicit Heap(std::shared_ptr<Context> context)
      : context_(std::move(context)), drivers_(heap_for(*context_, Use::device)) {}
  ~Heap() override;
  MemoryUse use() const override;
  void trim() override;
  /// @error  invalid_argument: [address, address + bytes) is not inside one buffer's block
  Result<Place> find(std::uint64_t address, std::size_t bytes) const;

 protected:
  Result<std::uint64_t> reserve(std::size_t bytes, std::string_view what) override;
  void release(std::uint64_t address) noexcept override;

 private:
  struct Block {
    Allocation allocation;
    std::map<std::uint64_t, std::size_t> free, taken;  // by address
    bool is_whole = false;                             // made for one buffer
  };
  Result<Block*> add_block(std::size_t bytes, bool is_whole, std::string_view what);
  std::uint64_t take(Block& block, std::size_t bytes) noexcept;
  void drop(std::map<std::uint64_t, Block>::iterator block) noexcept;

  std::shared_ptr<Context> context_;
  std::uint32_t drivers_;  // heap that blocks come from
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Block> blocks_;  // by address
  std::uint64_t allocated_ = 0;
};

}  // namespace weft::gpu
