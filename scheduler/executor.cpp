// SPDX-License-Identifier: Apache-2.0

#include "scheduler/executor.hpp"

#include "scheduler/internal/alone.hpp"

#include <algorithm>

namespace weft::scheduler {

Executor::~Executor() = default;

namespace internal {

std::uint64_t run_alone(TickProgram& program, std::uint64_t n, std::uint64_t first) noexcept {
  const std::size_t regions = program.region_count();
  const std::uint64_t block = program.block();
  if (regions == 0) return n;
  std::uint64_t step = first;
  while (step < n) {
    const std::uint64_t end = block == 0 ? n : step + std::min(block, n - step);
    if (regions == 1) {
      for (; step < end; ++step) {
        program.run_interior(0, step);
        program.run_boundary(0, step);
      }
    } else {
      for (; step < end; ++step) {
        for (std::size_t r = 0; r < regions; ++r) {
          program.run_interior(r, step);
          program.run_boundary(r, step);
        }
      }
    }
    if (step < n && program.should_stop(step)) break;
  }
  return step;
}

}  // namespace internal
}  // namespace weft::scheduler
