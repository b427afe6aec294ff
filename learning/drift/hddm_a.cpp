// SPDX-License-Identifier: Apache-2.0

#include "learning/drift/detector.hpp"

#include "kernels/math.hpp"

#include <algorithm>
#include <cmath>

namespace weft::learning {
namespace {

/// The mean of all errors against that up to the cut, by Hoeffding's bound. The cut is where mean + sqrt(ln(1/a) / 2n)
/// is least.
///   alarm where mean - mean(cut) >= sqrt(m / 2 ln(2/a)),  m = (n - n(cut)) / (n n(cut))
/// @source Frias-Blanco et al. 2015, "Online and non-parametric drift detection methods based on Hoeffding's bounds",
///         IEEE TKDE 27, the A-test for errors that become more
class HddmA final : public DriftDetector {
 public:
  explicit HddmA(const DetectorOptions& options)
      : DriftDetector(kSize),
        change_(options.confidence != 0 ? options.confidence : 0.001),
        warning_(options.warning_confidence) {}

 private:
  enum : std::size_t { kCount, kSum, kCutCount, kCutSum, kSize };

  DriftLevel step(std::span<double> s, double error, std::uint64_t) noexcept override {
    s[kCount] += 1;
    s[kSum] += error;
    const double logarithm = kernels::math::log_binary64(1 / change_);
    const auto end = [&](double sum, double n) { return sum / n + std::sqrt(logarithm / (2 * n)); };
    if (s[kCutCount] == 0 || end(s[kSum], s[kCount]) <= end(s[kCutSum], s[kCutCount]))
      s[kCutCount] = s[kCount], s[kCutSum] = s[kSum];
    if (s[kCutCount] == s[kCount]) return DriftLevel::none;
    const double rise = s[kSum] / s[kCount] - s[kCutSum] / s[kCutCount];
    const double m = (s[kCount] - s[kCutCount]) / (s[kCutCount] * s[kCount]);
    const auto is_beyond = [&](double a) { return rise >= std::sqrt(m / 2 * kernels::math::log_binary64(2 / a)); };
    if (is_beyond(change_)) {
      std::fill(s.begin(), s.end(), 0.0);
      return DriftLevel::change;
    }
    return is_beyond(warning_) ? DriftLevel::warning : DriftLevel::none;
  }

  bool is_possible(std::span<const double> s) const noexcept override {
    return is_count(s[kCount]) && is_count(s[kCutCount], s[kCount]);
  }

  double change_, warning_;
};

}  // namespace

std::unique_ptr<DriftDetector> make_hddm_a(const DetectorOptions& options, std::uint64_t) {
  return std::make_unique<HddmA>(options);
}

}  // namespace weft::learning
