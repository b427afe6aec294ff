// SPDX-License-Identifier: Apache-2.0

#include "scheduler/internal/core_watch.hpp"

#if defined(__linux__)
#include <sys/resource.h>

#include <time.h>
#endif

namespace weft::scheduler::internal {

ThreadTimes thread_times() noexcept {
  ThreadTimes times{now(), Nanoseconds(0), 0};
#if defined(__linux__)
  timespec cpu{};
  rusage usage{};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu) != 0 || getrusage(RUSAGE_THREAD, &usage) != 0) return times;
  times.cpu = std::chrono::seconds(cpu.tv_sec) + Nanoseconds(cpu.tv_nsec);
  times.switches = static_cast<std::uint64_t>(usage.ru_nivcsw);
#endif
  return times;
}

}  // namespace weft::scheduler::internal
