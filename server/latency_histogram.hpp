// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::server {

/// Times, counted by how long they took. @thread any
class LatencyHistogram {
 public:
  /// Upper bounds in seconds; what is longer counts in one more.
  using Bounds = std::array<double, 14>;
  static constexpr Bounds kOfRequests{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};
  static constexpr Bounds kOfTicks{1e-5,   2.5e-5, 5e-5, 1e-4,  2.5e-4, 5e-4, 1e-3,
                                   2.5e-3, 5e-3,   0.01, 0.025, 0.1,    0.25, 1};

  explicit LatencyHistogram(const Bounds& bounds = kOfRequests) noexcept : bounds_(bounds) {}

  /// `times`: so many took that long each.
  void add(double seconds, std::uint64_t times = 1) noexcept {
    std::size_t at = 0;
    while (at < bounds_.size() && seconds > bounds_[at]) ++at;
    counts_[at].fetch_add(times, std::memory_order_relaxed);
    nanoseconds_.fetch_add(static_cast<std::uint64_t>(seconds * 1e9 * static_cast<double>(times)),
                           std::memory_order_relaxed);
  }
  const Bounds& bounds() const noexcept { return bounds_; }
  std::uint64_t count(std::size_t bound) const noexcept { return counts_[bound].load(std::memory_order_relaxed); }
  double seconds() const noexcept { return static_cast<double>(nanoseconds_.load(std::memory_order_relaxed)) * 1e-9; }

 private:
  const Bounds bounds_;
  std::array<std::atomic<std::uint64_t>, std::tuple_size_v<Bounds> + 1> counts_{};
  std::atomic<std::uint64_t> nanoseconds_{0};
};

}  // namespace weft::server
