// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/fwd.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace weft::gpu {

/// Device memory, given back when it dies (after the device finished what was submitted with it: the
/// stream's `wait` tells). Its pointers are addresses on the device: pass them on, never read through them.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  std::uint64_t address() const noexcept { return address_; }
  std::size_t bytes() const noexcept { return bytes_; }
  template <class T = float>
  T* data() const noexcept {
    return reinterpret_cast<T*>(static_cast<std::uintptr_t>(address_));
  }

 private:
  friend class Memory;
  Buffer(Memory* home, std::uint64_t address, std::size_t bytes) noexcept
      : home_(home), address_(address), bytes_(bytes) {}
  Memory* home_ = nullptr;
  std::uint64_t address_ = 0;
  std::size_t bytes_ = 0;
};

struct MemoryUse {
  std::uint64_t allocated = 0;  // handed out, rounded up
  std::uint64_t reserved = 0;   // held from the driver's heap for it, what streams stage in the same one counted in
  std::uint64_t budget = 0;     // what the driver would let this process hold of it; its size where it does not say
  std::size_t blocks = 0, buffers = 0;
};

/// Device memory: large blocks from the driver, cut into buffers.
/// @thread any
class Memory {
 public:
  /// Every buffer begins at a multiple of this.
  static constexpr std::size_t kAlignment = 256;

  virtual ~Memory() = default;
  /// `what` is named in errors. Contents are undefined. Of no bytes: a valid buffer of kAlignment.
  /// @error  too_large: past what the device gives at once, or past its budget, with both numbers
  Result<Buffer> allocate(std::size_t bytes, std::string_view what);
  virtual MemoryUse use() const = 0;
  /// Gives blocks that hold no buffer back to the driver.
  virtual void trim() = 0;

 protected:
  virtual Result<std::uint64_t> reserve(std::size_t bytes, std::string_view what) = 0;
  virtual void release(std::uint64_t address) noexcept = 0;

 private:
  friend class Buffer;
};

}  // namespace weft::gpu
