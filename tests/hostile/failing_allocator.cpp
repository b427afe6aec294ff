// SPDX-License-Identifier: Apache-2.0
// Preloaded before a program (LD_PRELOAD): its allocation number FAIL_AT, counted from 0 among those of at least
// FAIL_SIZE bytes, gets no memory; with FAIL_ALL, nor do those after it. With FAIL_COUNT it says how many there were.

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

std::atomic<long> count{0};
std::atomic<bool> is_ready{false};
long fail_at = -1, fail_size = 0;
bool fails_all = false;

long number_of(const char* name, long otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::atol(text) : otherwise;
}

bool fails(std::size_t size) {
  if (!is_ready.exchange(true)) {
    fail_at = number_of("FAIL_AT", -1);
    fail_size = number_of("FAIL_SIZE", 0);
    fails_all = std::getenv("FAIL_ALL") != nullptr;
  }
  if (fail_at < 0 || static_cast<long>(size) < fail_size) return false;
  const long number = count.fetch_add(1);
  const bool is_it = fails_all ? number >= fail_at : number == fail_at;
  if (is_it) errno = ENOMEM;
  return is_it;
}

__attribute__((destructor)) void say_count() {
  if (std::getenv("FAIL_COUNT")) dprintf(STDERR_FILENO, "allocations %ld\n", count.load());
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
void* malloc(std::size_t size) { return fails(size) ? nullptr : __libc_malloc(size); }
void* calloc(std::size_t number, std::size_t size) {
  return fails(number * size) ? nullptr : __libc_calloc(number, size);
}
void* realloc(void* old, std::size_t size) { return fails(size) ? nullptr : __libc_realloc(old, size); }
void* memalign(std::size_t alignment, std::size_t size) {
  return fails(size) ? nullptr : __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return fails(size) ? nullptr : __libc_memalign(alignment, size);
}
int posix_memalign(void** to, std::size_t alignment, std::size_t size) {
  *to = fails(size) ? nullptr : __libc_memalign(alignment, size);
  return *to ? 0 : ENOMEM;
}
}
#pragma GCC visibility pop
