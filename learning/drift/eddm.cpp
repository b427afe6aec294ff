// SPDX-License-Identifier: Apache-2.0

#include "learning/drift/detector.hpp"

#include <algorithm>
#include <cmath>

namespace weft::learning {
namespace {

/// The distance from one error to the next: its mean and deviation, mean + 2 s, against the largest so far.
///   warning where the ratio is below 0.95, change below 0.9
/// @source Baena-Garcia et al. 2006, "Early drift detection method", 4th workshop on knowledge discovery from data
///         streams
class Eddm final : public DriftDetector {
 public:
  explicit Eddm(const DetectorOptions& options) : DriftDetector(kSize), options_(options) {}

 private:
  enum : std::size_t { kCount, kErrors, kLast, kMean, kSquares, kMost, kSize };

  DriftLevel step(std::span<double> s, double error, std::uint64_t) noexcept override {
    s[kCount] += 1;
    if (error == 0) return DriftLevel::none;
    const double distance = s[kCount] - s[kLast], before = distance - s[kMean];
    s[kLast] = s[kCount];
    s[kErrors] += 1;
    s[kMean] += before / s[kErrors];
    s[kSquares] += before * (distance - s[kMean]);
    if (s[kCount] < options_.warm_up) return DriftLevel::none;
    const double variance = s[kErrors] > 1 ? s[kSquares] / (s[kErrors] - 1) : 0.0;
    const double end = s[kMean] + 2 * std::sqrt(std::max(variance, 0.0));
    s[kMost] = std::max(s[kMost], end);
    if (s[kErrors] < options_.warm_up) return DriftLevel::none;
    const double ratio = end / s[kMost];
    if (ratio < options_.change_ratio) {
      std::fill(s.begin(), s.end(), 0.0);
      return DriftLevel::change;
    }
    return ratio < options_.warning_ratio ? DriftLevel::warning : DriftLevel::none;
  }

  bool is_possible(std::span<const double> s) const noexcept override {
    return is_count(s[kCount]) && is_count(s[kErrors], s[kCount]) && is_count(s[kLast], s[kCount]);
  }

  DetectorOptions options_;
};

}  // namespace

std::unique_ptr<DriftDetector> make_eddm(const DetectorOptions& options, std::uint64_t) {
  return std::make_unique<Eddm>(options);
}

}  // namespace weft::learning
