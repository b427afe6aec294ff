// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/aligned_buffer.hpp"
#include "core/assert.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

namespace weft::mesh {

/// Bytes that a rule writes one after the other and reads back in the same order. The room is used again.
class ByteArchive {
 public:
  void clear() noexcept { size_ = 0; }
  std::size_t size() const noexcept { return size_; }

  template <class T>
  void put(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    reserve(size_ + values.size_bytes());
    if (!values.empty()) std::memcpy(bytes_.data() + size_, values.data(), values.size_bytes());
    size_ += values.size_bytes();
  }
  template <class T>
  void put(const T& value) {
    put(std::span<const T>(&value, 1));
  }
  /// Room for so many bytes in all, so that what comes by then allocates nothing.
  void reserve(std::size_t size) {
    if (size <= bytes_.size()) return;
    AlignedBuffer<std::byte> larger(std::max(size, bytes_.size() * 3 / 2));
    if (size_) std::memcpy(larger.data(), bytes_.data(), size_);
    bytes_ = std::move(larger);
  }

  /// Reads from the beginning.
  class Reader {
   public:
    explicit Reader(const ByteArchive& from) noexcept : left_(from.bytes_.data(), from.size_) {}
    std::size_t left() const noexcept { return left_.size(); }
    template <class T>
    void get(std::span<T> to) noexcept {
      WEFT_ASSERT(to.size_bytes() <= left_.size(), "more is read of a state than was written");
      if (!to.empty()) std::memcpy(to.data(), left_.data(), to.size_bytes());
      left_ = left_.subspan(to.size_bytes());
    }
    template <class T>
    T get() noexcept {
      T value;
      get(std::span<T>(&value, 1));
      return value;
    }

   private:
    std::span<const std::byte> left_;
  };

 private:
  AlignedBuffer<std::byte> bytes_;
  std::size_t size_ = 0;
};

}  // namespace weft::mesh
