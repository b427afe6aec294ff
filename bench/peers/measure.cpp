// SPDX-License-Identifier: Apache-2.0

#include "bench/peers/measure.hpp"

#include <sys/mman.h>

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

namespace weft::bench {
namespace {

double now(Clock clock) {
  timespec at{};
  clock_gettime(clock == Clock::thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &at);
  return double(at.tv_sec) + double(at.tv_nsec) * 1e-9;
}

double seconds(const std::function<void()>& run, std::size_t times, Clock clock) {
  const double start = now(clock);
  for (std::size_t i = 0; i < times; ++i) run();
  return now(clock) - start;
}

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

std::vector<std::vector<double>> race_rounds(std::span<const Contestant> contestants, int rounds, double slice_seconds,
                                             Clock clock) {
  std::vector<std::size_t> times;
  for (const auto& each : contestants) {
    each.run();  // caches, pages and lazily made state
    std::size_t n = 1;
    double slice = seconds(each.run, n, clock);
    while (slice < slice_seconds / 4 && n < std::size_t{1} << 30) slice = seconds(each.run, n *= 2, clock);
    times.push_back(std::max<std::size_t>(1, static_cast<std::size_t>(double(n) * slice_seconds / slice)));
  }
  std::vector<std::vector<double>> took(contestants.size());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < contestants.size(); ++i)
      took[i].push_back(seconds(contestants[i].run, times[i], clock) / double(times[i]));
  return took;
}

std::vector<double> race(std::span<const Contestant> contestants, int rounds, double slice_seconds, Clock clock) {
  std::vector<double> medians;
  for (auto& each : race_rounds(contestants, rounds, slice_seconds, clock)) medians.push_back(median(std::move(each)));
  return medians;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double lower_quartile(std::vector<double> values) {
  const auto quarter = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::nth_element(values.begin(), quarter, values.end());
  return *quarter;
}

HugeArray::HugeArray(std::size_t floats) : bytes_(floats * sizeof(float) + 2 * kHugePage), floats_(floats) {
  mapping_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  const auto start = (reinterpret_cast<std::uintptr_t>(mapping_) + kHugePage - 1) / kHugePage * kHugePage;
  data_ = reinterpret_cast<float*>(start);
  madvise(data_, (floats * sizeof(float) + kHugePage - 1) / kHugePage * kHugePage, MADV_HUGEPAGE);
  std::fill(data_, data_ + floats, 0.0f);
}

HugeArray::~HugeArray() { munmap(mapping_, bytes_); }

}  // namespace weft::bench
