// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

// Every way to get memory through C++ is counted. It replaces operators, so one file of a program includes it.

// Sanitizers bring operators of their own, which a program must not replace.
#ifdef WEFT_SANITIZED
#define WEFT_COUNTS_ALLOCATIONS 0
#else
#define WEFT_COUNTS_ALLOCATIONS 1
#endif

namespace {
std::atomic<long> allocations{0}, bytes_in_use{0};
#if WEFT_COUNTS_ALLOCATIONS
void* counted(std::size_t size, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = nullptr;
  if (alignment <= alignof(std::max_align_t))
    memory = std::malloc(size);
  else if (posix_memalign(&memory, alignment, size) != 0)
    memory = nullptr;
  if (!memory) throw std::bad_alloc();
  bytes_in_use.fetch_add(static_cast<long>(malloc_usable_size(memory)), std::memory_order_relaxed);
  return memory;
}
void* counted_or_null(std::size_t size) noexcept {
  try {
    return counted(size, 0);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void uncounted(void* memory) noexcept {
  bytes_in_use.fetch_sub(static_cast<long>(malloc_usable_size(memory)), std::memory_order_relaxed);
  std::free(memory);
}
#endif
}  // namespace

#if WEFT_COUNTS_ALLOCATIONS
void* operator new(std::size_t size) { return counted(size, 0); }
void* operator new[](std::size_t size) { return counted(size, 0); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return counted_or_null(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return counted_or_null(size); }
void* operator new(std::size_t size, std::align_val_t alignment) { return counted(size, std::size_t(alignment)); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return counted(size, std::size_t(alignment)); }
void operator delete(void* memory) noexcept { uncounted(memory); }
void operator delete[](void* memory) noexcept { uncounted(memory); }
void operator delete(void* memory, std::size_t) noexcept { uncounted(memory); }
void operator delete[](void* memory, std::size_t) noexcept { uncounted(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { uncounted(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { uncounted(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { uncounted(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { uncounted(memory); }
#endif

namespace weft::testing_support {

template <class Work>
long allocations_during(Work&& work) {
  const long before = allocations.load();
  work();
  return allocations.load() - before;
}

/// Bytes that some work took and did not give back.
template <class Work>
long bytes_kept_by(Work&& work) {
  const long before = bytes_in_use.load();
  work();
  return bytes_in_use.load() - before;
}

}  // namespace weft::testing_support
