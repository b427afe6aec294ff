// SPDX-License-Identifier: Apache-2.0
// A program of its own: it replaces operator new.
// Steps allocate nothing: malloc of this program counts, TBB's and hwloc's calls included.

#include "scheduler/executor.hpp"

#include "topology/machine.hpp"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#if defined(WEFT_SANITIZED) || !defined(__GLIBC__)
#define WEFT_CANNOT_COUNT 1
#endif

namespace {
std::atomic<std::uint64_t> allocations{0};
}

#ifndef WEFT_CANNOT_COUNT
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void* malloc(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(old, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }
int posix_memalign(void** result, std::size_t alignment, std::size_t size) {
  *result = memalign(alignment, size);
  return *result ? 0 : 12;
}
// oneTBB without its own allocator, which would not be counted.
__attribute__((visibility("default"))) void* dlopen(const char* name, int flags) {
  if (name && std::strstr(name, "tbbmalloc")) return nullptr;
  static const auto next = reinterpret_cast<void* (*)(const char*, int)>(dlsym(RTLD_NEXT, "dlopen"));
  return next(name, flags);
}
}
#endif

namespace weft::scheduler::allocation_test {
namespace {

// Notes the count of allocations at two of its steps.
class Watched final : public TickProgram {
 public:
  Watched(std::size_t regions, std::uint64_t from, std::uint64_t to) : regions_(regions), from_(from), to_(to) {
    for (std::uint32_t r = 0; r < regions; ++r) {
      links_[r] = {static_cast<std::uint32_t>((r + regions - 1) % regions),
                   static_cast<std::uint32_t>((r + 1) % regions)};
    }
  }
  std::size_t region_count() const noexcept override { return regions_; }
  std::span<const std::uint32_t> neighbours(std::size_t r) const noexcept override {
    return {links_[r].data(), regions_ == 1 ? std::size_t{0} : regions_ == 2 ? std::size_t{1} : std::size_t{2}};
  }
  void run_interior(std::size_t, std::uint64_t) noexcept override {}
  void run_boundary(std::size_t r, std::uint64_t step) noexcept override {
    if (r != 0) return;
    if (step == from_) before = allocations.load();
    if (step == to_) after = allocations.load();
  }
  std::uint64_t before = 0, after = 0;

 private:
  std::size_t regions_;
  std::uint64_t from_, to_;
  std::array<std::array<std::uint32_t, 2>, 16> links_{};
};

TEST(Allocation, StepsAllocateNothing) {
#ifdef WEFT_CANNOT_COUNT
  GTEST_SKIP() << "malloc belongs to the sanitizer";
#endif
  const auto machine = topology::Machine::discover().value();
  const std::uint64_t start = allocations.load();
  ::operator delete(::operator new(10));
  ASSERT_GT(allocations.load(), start) << "nothing is counted";
  for (const std::size_t threads : {1, 2, 7}) {
    ExecutorOptions options;
    options.kind = ExecutorKind::resident;
    options.threads = threads;
    options.alone_below = std::chrono::nanoseconds(0);
    const auto executor = std::move(make_executor(machine, options)).value();
    for (const std::size_t regions : {1, 2, 16}) {
      // A worker that arrives late, on a busy machine, allocates once; steps that allocate would do so every time.
      std::uint64_t least = ~std::uint64_t{0};
      for (int attempt = 0; attempt < 20 && least != 0; ++attempt) {
        Watched program(regions, 3000, 5999);
        EXPECT_EQ(executor->run(program, 6000), 6000u);
        least = std::min(least, program.after - program.before);
      }
      EXPECT_EQ(least, 0u) << threads << " threads, " << regions << " regions";
    }
  }
}

// Messages of the graph are tasks of oneTBB, which takes memory for one when the thread that sets it off has none of
// its own left. It keeps what it took.
TEST(Allocation, StepsOfTheGraphAllocateNowAndThen) {
#ifdef WEFT_CANNOT_COUNT
  GTEST_SKIP() << "malloc belongs to the sanitizer";
#endif
  const auto machine = topology::Machine::discover().value();
  for (const std::size_t regions : {2, 16}) {
    ExecutorOptions options;
    options.kind = ExecutorKind::graph;
    options.threads = 2;
    options.alone_below = std::chrono::nanoseconds(0);
    const auto executor = std::move(make_executor(machine, options)).value();
    std::uint64_t least = ~std::uint64_t{0}, most = 0;
    for (int attempt = 0; attempt < 10; ++attempt) {
      Watched program(regions, 3000, 5999);
      EXPECT_EQ(executor->run(program, 6000), 6000u);
      least = std::min(least, program.after - program.before);
      most = std::max(most, program.after - program.before);
    }
    std::printf("%zu regions: %llu to %llu allocations in 2,999 steps\n", regions,
                static_cast<unsigned long long>(least), static_cast<unsigned long long>(most));
    EXPECT_LT(least, 2999u) << "less than one a step";
  }
}

TEST(Allocation, RunsOnTheCallerAllocateNothing) {
#ifdef WEFT_CANNOT_COUNT
  GTEST_SKIP() << "malloc belongs to the sanitizer";
#endif
  const auto executor = std::move(make_executor(topology::Machine::discover().value(), {})).value();
  const auto deterministic = make_deterministic_executor();
  Watched program(2, 1, 2);
  for (Executor* each : {executor.get(), deterministic.get()}) {
    for (int i = 0; i < 100; ++i) each->run(program, 1);
    const std::uint64_t before = allocations.load();
    for (int i = 0; i < 100; ++i) each->run(program, 1);
    EXPECT_EQ(allocations.load(), before) << each->name();
  }
}

}  // namespace
}  // namespace weft::scheduler::allocation_test
