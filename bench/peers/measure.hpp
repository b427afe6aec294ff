// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace weft::bench {

/// Clock of a comparison. `thread` counts the calling thread's own time only, so that programs which share the machine
/// cost no more than the caches they take; `wall` is for contestants that use several threads.
enum class Clock { thread, wall };

/// One contestant: `run` does the same work each time.
struct Contestant {
  std::string name;
  std::function<void()> run;
};

/// Seconds per run of each contestant, round by round: [contestant][round]. Each round times every contestant once, in
/// turn, for about `slice_seconds`, so that a busy machine or a changing clock rate meets all of them and the ratios
/// hold.
std::vector<std::vector<double>> race_rounds(std::span<const Contestant> contestants, int rounds = 15,
                                             double slice_seconds = 2e-3, Clock clock = Clock::thread);
/// Their medians.
std::vector<double> race(std::span<const Contestant> contestants, int rounds = 15, double slice_seconds = 2e-3,
                         Clock clock = Clock::thread);

/// The middle one of what is not empty, the higher one of two.
double median(std::vector<double> values);
/// The one above a quarter of them. On machines that others use too, the median of several threads' times tells who
/// else was running.
double lower_quartile(std::vector<double> values);

/// Independent fmas on registers, as wide as the active instruction set has them; returns the flops done (an fma counts
/// two). Raced beside a kernel, it gives the peak at the clock rate of that moment.
double fma_burst();

/// The same of products of bytes, four to a 32-bit sum; 0 where the active instruction set is not
/// avx512_vnni: under amx it would be no peak.
double byte_burst();

/// Reads `floats` floats with the widest loads of the active instruction set and eight sums: the floor for any kernel
/// that must read them once. The result keeps the compiler from leaving the loop out.
float read_all(const float* data, std::size_t floats);
/// Adds `addend` to each float in place: the floor for a kernel that updates them once.
void update_all(float* data, std::size_t floats, float addend);

/// A zeroed array in huge pages where the kernel grants them, as weights of a mesh have.
class HugeArray {
 public:
  explicit HugeArray(std::size_t floats);
  ~HugeArray();
  HugeArray(const HugeArray&) = delete;
  HugeArray& operator=(const HugeArray&) = delete;
  float* data() noexcept { return data_; }
  std::size_t size() const noexcept { return floats_; }

 private:
  void* mapping_;
  std::size_t bytes_, floats_;
  float* data_;
};

}  // namespace weft::bench
