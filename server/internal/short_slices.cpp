// SPDX-License-Identifier: Apache-2.0

#include "server/internal/short_slices.hpp"

#include <sys/resource.h>
#include <sys/syscall.h>

#include <sched.h>
#include <unistd.h>

#include <cstdint>

namespace weft::server::internal {

void take_short_slices() noexcept {
  // struct sched_attr as the first Linux that had it; glibc 2.36 has none.
  struct {
    std::uint32_t size = 48, policy = SCHED_OTHER;
    std::uint64_t flags = 0;
    std::int32_t nice = 0;
    std::uint32_t priority = 0;
    std::uint64_t runtime = 100'000, deadline = 0, period = 0;  // ns; the least that Linux takes
  } wanted;
  static_assert(sizeof wanted == 48);
  if (sched_getscheduler(0) != SCHED_OTHER) return;
  wanted.nice = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
  (void)syscall(SYS_sched_setattr, 0, &wanted, 0);
}

}  // namespace weft::server::internal
