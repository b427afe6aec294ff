// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace weft {

/// A zeroed array aligned to a cache line, so vector loads never split one.
/// Elements are trivially copyable; throws std::bad_alloc like any container.
template <class T>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static constexpr std::size_t kAlignment = 64;

  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t size) : data_(allocate(size)), size_(size) {}
  AlignedBuffer(const AlignedBuffer& other) : AlignedBuffer(other.size_) {
    if (size_) std::memcpy(static_cast<void*>(data_), other.data_, size_ * sizeof(T));
  }
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~AlignedBuffer() { ::operator delete (data_, std::align_val_t{kAlignment}); }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T& operator[](std::size_t i) noexcept { return data_[i]; }
  const T& operator[](std::size_t i) const noexcept { return data_[i]; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }
  operator std::span<T>() noexcept { return {data_, size_}; }
  operator std::span<const T>() const noexcept { return {data_, size_}; }

 private:
  static T* allocate(std::size_t size) {
    if (size == 0) return nullptr;
    if (size > PTRDIFF_MAX / sizeof(T) - kAlignment) throw std::bad_alloc();
    // Rounded up so that a full vector read at the last element stays inside the allocation.
    const std::size_t bytes = (size * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    void* memory = ::operator new (bytes, std::align_val_t{kAlignment});
    std::memset(memory, 0, bytes);
    return static_cast<T*>(memory);
  }
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace weft
