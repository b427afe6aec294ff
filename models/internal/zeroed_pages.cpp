// SPDX-License-Identifier: Apache-2.0

#include "models/internal/zeroed_pages.hpp"

#include <sys/mman.h>

#include <unistd.h>

#include <cstdint>
#include <new>

namespace weft::models::internal {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t n, std::size_t to) noexcept { return (n + to - 1) / to * to; }

}  // namespace

ZeroedPages::ZeroedPages(std::size_t bytes, PageSize pages) : bytes_(bytes) {
  if (bytes == 0) return;
  const bool is_huge = pages == PageSize::huge;
  if (is_huge && bytes > SIZE_MAX - 2 * kHugePage) throw std::bad_alloc();
  const std::size_t whole = is_huge ? round_up(bytes, kHugePage) : bytes;
  mapped_ = is_huge ? whole + kHugePage : bytes;
  void* const memory =
      mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mapping_ = data_ = memory;
  if (!is_huge) return;
  data_ = reinterpret_cast<void*>(round_up(reinterpret_cast<std::uintptr_t>(memory), kHugePage));
#ifdef MADV_HUGEPAGE
  static_cast<void>(madvise(data_, whole, MADV_HUGEPAGE));  // small ones serve as well
#endif
}

ZeroedPages::~ZeroedPages() {
  if (mapping_) munmap(mapping_, mapped_);
}

void ZeroedPages::release(void* first, std::size_t bytes) noexcept {
  static const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<std::uintptr_t>(first), begin = round_up(at, kPage),
             end = (at + bytes) / kPage * kPage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace weft::models::internal
