// SPDX-License-Identifier: Apache-2.0

#include "models/internal/zeroed_pages.hpp"

#include <sys/mman.h>

#include <unistd.h>

#include <new>

namespace weft::models::internal {

ZeroedPages::ZeroedPages(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  data_ = memory;
}

ZeroedPages::~ZeroedPages() {
  if (data_) munmap(data_, bytes_);
}

void ZeroedPages::release(std::size_t first, std::size_t bytes) noexcept {
  static const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t begin = (first + kPage - 1) / kPage * kPage, end = (first + bytes) / kPage * kPage;
  if (begin < end) madvise(static_cast<char*>(data_) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace weft::models::internal
