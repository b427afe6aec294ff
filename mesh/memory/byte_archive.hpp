// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/aligned_buffer.hpp"
#include "core/archive.hpp"
#include "core/assert.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace weft::mesh {

/// Bytes that a rule writes one after the other and reads back in the same order. The memory is reused.
class ByteArchive {
 public:
  void clear() noexcept { size_ = 0; }
  std::size_t size() const noexcept { return size_; }
  std::span<const std::byte> bytes() const noexcept { return {bytes_.data(), size_}; }

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
  /// Reserves this many bytes in all, so that later writes allocate nothing.
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

/// Counts the bytes that a visit comes to: those of its fields, and the capacity of its lists.
class SizeArchive final : public OutArchive {
 public:
  explicit SizeArchive(Scopes scopes) noexcept : OutArchive(scopes) {}
  std::size_t size() const noexcept { return fields_; }
  std::size_t size_with_lists() const noexcept { return fields_ + lists_; }

 protected:
  void put(const Field&, Element, std::span<const std::byte> bytes) override { fields_ += bytes.size(); }
  void put_list(const Field&, std::uint64_t, std::span<const std::byte>, std::size_t capacity) override {
    lists_ += sizeof(std::uint64_t) + capacity;
  }

 private:
  std::size_t fields_ = 0, lists_ = 0;
};

/// Writes fields one after the other.
class WriteArchive final : public OutArchive {
 public:
  WriteArchive(ByteArchive& to, Scopes scopes) noexcept : OutArchive(scopes), to_(to) {}

 protected:
  void put(const Field&, Element, std::span<const std::byte> bytes) override { to_.put(bytes); }

 private:
  ByteArchive& to_;
};

/// Reads what a WriteArchive of the same scopes wrote.
class ReadArchive : public InArchive {
 public:
  ReadArchive(std::span<const std::byte> from, Scopes scopes) noexcept : InArchive(scopes), left_(from) {}

 protected:
  bool get(const Field&, Element, std::span<std::byte> to) override {
    WEFT_ASSERT(to.size() <= left_.size(), "more is read of a state than was written");
    if (!to.empty()) std::memcpy(to.data(), left_.data(), to.size());
    left_ = left_.subspan(to.size());
    return true;
  }
  std::uint64_t left() const noexcept override { return left_.size(); }

 protected:
  std::span<const std::byte> left_;
};

/// The same, where most is as it was: only what differs is written.
class RestoreArchive final : public ReadArchive {
 public:
  using ReadArchive::ReadArchive;
  void pass_over(std::size_t bytes) noexcept { left_ = left_.subspan(bytes); }

 protected:
  bool get(const Field& field, Element element, std::span<std::byte> to) override {
    WEFT_ASSERT(to.size() <= left_.size(), "more is read of a state than was written");
    if (!to.empty() && std::memcmp(to.data(), left_.data(), to.size()) != 0)
      return ReadArchive::get(field, element, to);
    left_ = left_.subspan(to.size());
    return false;
  }
};

}  // namespace weft::mesh
