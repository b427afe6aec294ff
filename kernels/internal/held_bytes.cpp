// SPDX-License-Identifier: Apache-2.0

#include "kernels/internal/held_bytes.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>

namespace weft::kernels::detail {
namespace {

constexpr std::size_t kUnknown = std::size_t{512} << 10, kLeast = std::size_t{256} << 10, kMost = std::size_t{2} << 20;

std::size_t second_level_cache() noexcept {
#if defined(_SC_LEVEL2_CACHE_SIZE)
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
#else
  return 0;
#endif
}

std::atomic<std::size_t> of_test{0};  // alone: it orders nothing

}  // namespace

// Caches that cores share are larger than a core's part of them: no more than 2 MiB, of which a gain was measured.
std::size_t held_bytes_of(std::size_t second_level) noexcept {
  return second_level == 0 ? kUnknown : std::clamp(second_level, kLeast, kMost);
}

std::size_t held_bytes() noexcept {
  static const std::size_t of_machine = held_bytes_of(second_level_cache());
  const std::size_t asked = of_test.load(std::memory_order_relaxed);
  return asked ? held_bytes_of(asked) : of_machine;
}

void set_second_level_cache(std::size_t bytes) noexcept { of_test.store(bytes, std::memory_order_relaxed); }

}  // namespace weft::kernels::detail
