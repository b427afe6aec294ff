// SPDX-License-Identifier: Apache-2.0

#include "gpu/memory.hpp"

#include <utility>

namespace weft::gpu {

Buffer::Buffer(Buffer&& other) noexcept
    : home_(std::exchange(other.home_, nullptr)), address_(other.address_), bytes_(other.bytes_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(home_, other.home_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Buffer::~Buffer() {
  if (home_) home_->release(address_);
}

Result<Buffer> Memory::allocate(std::size_t bytes, std::string_view what) {
  WEFT_TRY(const std::uint64_t address, reserve(bytes, what));
  return Buffer(this, address, bytes);
}

}  // namespace weft::gpu
