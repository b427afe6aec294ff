// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <utility>

namespace weft::models::internal {

/// Memory of zeros that takes none until it is written, a page at a time, and whose pages can be given back.
/// @thread any, on other parts
class ZeroedPages {
 public:
  ZeroedPages() = default;
  /// Throws std::bad_alloc where there is no room in the address space.
  explicit ZeroedPages(std::size_t bytes);
  ~ZeroedPages();
  ZeroedPages(ZeroedPages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  ZeroedPages& operator=(ZeroedPages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  void* data() noexcept { return data_; }
  const void* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  /// Gives the whole pages among some bytes back; they are zeros then.
  void release(std::size_t first, std::size_t bytes) noexcept;

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace weft::models::internal
