// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <utility>

namespace weft::models::internal {

/// Pages that memory is taken by when it is written: 4 KiB, or 2 MiB where the system has them. The first write to a
/// page costs a fault whatever its size, 0.2 us on bare machines and up to 14 us in virtual ones.
enum class PageSize { small, huge };

/// Memory of zeros that takes none until it is written, a page at a time, and whose pages can be given back.
/// @thread any, on other parts
class ZeroedPages {
 public:
  ZeroedPages() = default;
  /// Throws std::bad_alloc where there is no room in the address space.
  explicit ZeroedPages(std::size_t bytes, PageSize pages = PageSize::small);
  ~ZeroedPages();
  ZeroedPages(ZeroedPages&& other) noexcept
      : mapping_(std::exchange(other.mapping_, nullptr)),
        mapped_(std::exchange(other.mapped_, 0)),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  ZeroedPages& operator=(ZeroedPages&& other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(mapped_, other.mapped_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  void* data() noexcept { return data_; }
  const void* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  /// Gives the whole pages among some of its bytes back; they are zeros then.
  static void release(void* first, std::size_t bytes) noexcept;

 private:
  void* mapping_ = nullptr;  // with what lies before a first huge page
  std::size_t mapped_ = 0;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace weft::models::internal
