// SPDX-License-Identifier: Apache-2.0

#include "learning/drift/detector.hpp"

#include "kernels/math.hpp"

#include "core/philox.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace weft::learning {
namespace {

/// The latest r values against r that are drawn from those before them: the Kolmogorov-Smirnov distance of the two.
///   change where distance > sqrt(-ln(alpha) / r); the latest stay
/// @source Raab, Heusinger and Schleif 2020, "Reactive soft prototype computing for concept drift streams",
///         Neurocomputing 416, section 3.2
class Kswin final : public DriftDetector {
 public:
  Kswin(const DetectorOptions& options, std::uint64_t seed)
      : DriftDetector(1 + options.window),
        window_(options.window),
        recent_(options.recent),
        bound_(std::sqrt(-kernels::math::log_binary64(options.confidence != 0 ? options.confidence : 0.005) /
                         static_cast<double>(options.recent))),
        seed_(seed),
        drawn_(recent_),
        latest_(recent_) {}

 private:
  DriftLevel step(std::span<double> s, double value, std::uint64_t n) noexcept override {
    auto count = static_cast<std::size_t>(s[0]);
    double* const values = s.data() + 1;
    if (count == window_) {
      std::copy(values + 1, values + count, values);
      --count;
    }
    values[count++] = value;
    s[0] = static_cast<double>(count);
    if (count < window_) return DriftLevel::none;
    draw({values, count - recent_}, n);
    std::copy(values + count - recent_, values + count, latest_.begin());
    if (distance() <= bound_) return DriftLevel::none;
    std::copy(values + count - recent_, values + count, values);
    std::fill(values + recent_, values + window_, 0.0);
    s[0] = static_cast<double>(recent_);
    double rise = 0;
    for (std::size_t i = 0; i < recent_; ++i) rise += latest_[i] - drawn_[i];
    return rise > 0 ? DriftLevel::change : DriftLevel::improvement;
  }

  /// `recent_` of the values, each at most once. @source Knuth, TAOCP volume 2, 3.4.2, algorithm S
  void draw(std::span<const double> from, std::uint64_t n) noexcept {
    RandomStream random(seed_, n, RandomPurpose::drift);
    std::size_t taken = 0;
    for (std::size_t i = 0; taken < recent_; ++i)
      if (random.next_below(static_cast<std::uint32_t>(from.size() - i)) < recent_ - taken) drawn_[taken++] = from[i];
  }

  double distance() noexcept {
    std::sort(drawn_.begin(), drawn_.end());
    std::sort(latest_.begin(), latest_.end());
    std::size_t a = 0, b = 0, most = 0;
    while (a < recent_ && b < recent_) {
      const double at = std::min(drawn_[a], latest_[b]);
      while (a < recent_ && drawn_[a] == at) ++a;
      while (b < recent_ && latest_[b] == at) ++b;
      most = std::max(most, a > b ? a - b : b - a);
    }
    return static_cast<double>(most) / static_cast<double>(recent_);
  }

  bool is_possible(std::span<const double> s) const noexcept override {
    return is_count(s[0], static_cast<double>(window_));
  }

  std::size_t window_, recent_;
  double bound_;
  std::uint64_t seed_;
  std::vector<double> drawn_, latest_;  // of the step under way
};

}  // namespace

std::unique_ptr<DriftDetector> make_kswin(const DetectorOptions& options, std::uint64_t seed) {
  return std::make_unique<Kswin>(options, seed);
}

}  // namespace weft::learning
