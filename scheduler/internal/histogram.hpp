// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace weft::scheduler::internal {

/// Counts durations in buckets of an eighth of an octave; one writer, any readers.
class Histogram {
 public:
  void record(std::chrono::nanoseconds duration, std::uint64_t count = 1) noexcept {
    const std::uint64_t value = duration.count() < 0 ? 0 : static_cast<std::uint64_t>(duration.count());
    buckets_[bucket(value)].fetch_add(count, std::memory_order_relaxed);
  }

  /// The least bucket bound that at least `share` of all durations stay within; 0 when there are none.
  std::chrono::nanoseconds quantile(double share) const noexcept {
    std::uint64_t total = 0;
    for (const auto& count : buckets_) total += count.load(std::memory_order_relaxed);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      seen += buckets_[i].load(std::memory_order_relaxed);
      if (seen > 0 && static_cast<double>(seen) >= share * static_cast<double>(total)) {
        return std::chrono::nanoseconds(static_cast<std::int64_t>(upper_bound(i)));
      }
    }
    return std::chrono::nanoseconds(0);
  }

 private:
  static constexpr unsigned kBits = 3;  // eight buckets an octave
  static constexpr std::size_t kBuckets = (64 - kBits + 1) << kBits;

  // Values below 8 have a bucket each; above, the leading bit and the three after it name the bucket.
  static std::size_t bucket(std::uint64_t value) noexcept {
    if (value < (1u << kBits)) return static_cast<std::size_t>(value);
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - kBits - 1;
    return (std::size_t{shift} << kBits) + static_cast<std::size_t>(value >> shift);
  }
  static std::uint64_t upper_bound(std::size_t bucket) noexcept {
    if (bucket < (2u << kBits)) return bucket;
    const std::size_t shift = (bucket >> kBits) - 1;
    const std::uint64_t leading = (bucket & ((1u << kBits) - 1)) + (1u << kBits);
    return ((leading + 1) << shift) - 1;
  }
  std::array<std::atomic<std::uint64_t>, kBuckets> buckets_{};
};

}  // namespace weft::scheduler::internal
