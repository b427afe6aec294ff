// SPDX-License-Identifier: Apache-2.0

#include "learning/drift/detector.hpp"

#include "kernels/math.hpp"

#include <algorithm>
#include <cmath>

namespace weft::learning {
namespace {

/// Exponential means of errors, up to the cut and since then, by McDiarmid's bound. The cut is where
/// mean + sqrt(w ln(1/a) / 2) is least; w, the sum of the squares of a mean's weights, is moved with it.
///   alarm where mean(since) - mean(cut) > sqrt((w(since) + w(cut)) ln(1/a) / 2)
/// @source Frias-Blanco et al. 2015, "Online and non-parametric drift detection methods based on Hoeffding's bounds",
///         IEEE TKDE 27, the W-test for errors that become more
class HddmW final : public DriftDetector {
 public:
  explicit HddmW(const DetectorOptions& options)
      : DriftDetector(kSize),
        change_(options.confidence != 0 ? options.confidence : 0.001),
        warning_(options.warning_confidence),
        share_(options.share) {}

 private:
  // Means and their weights; a weight of 0: of no error yet.
  enum : std::size_t { kAll, kAllWeight, kCut, kCutWeight, kSince, kSinceWeight, kLeast, kSize };

  void move(double& mean, double& weight, double error) const noexcept {
    const double keep = 1 - share_;
    mean = weight == 0 ? error : share_ * error + keep * mean;
    weight = weight == 0 ? 1.0 : share_ * share_ + keep * keep * weight;
  }

  DriftLevel step(std::span<double> s, double error, std::uint64_t) noexcept override {
    move(s[kAll], s[kAllWeight], error);
    const auto bound = [](double weight, double a) {
      return std::sqrt(weight * kernels::math::log_binary64(1 / a) / 2);
    };
    const double end = s[kAll] + bound(s[kAllWeight], change_);
    if (s[kCutWeight] == 0 || end < s[kLeast]) {
      s[kLeast] = end;
      s[kCut] = s[kAll], s[kCutWeight] = s[kAllWeight];
      s[kSince] = s[kSinceWeight] = 0;
      return DriftLevel::none;
    }
    move(s[kSince], s[kSinceWeight], error);
    const double rise = s[kSince] - s[kCut], weight = s[kSinceWeight] + s[kCutWeight];
    if (rise > bound(weight, change_)) {
      std::fill(s.begin(), s.end(), 0.0);
      return DriftLevel::change;
    }
    return rise > bound(weight, warning_) ? DriftLevel::warning : DriftLevel::none;
  }

  bool is_possible(std::span<const double> s) const noexcept override {
    return s[kAllWeight] >= 0 && s[kCutWeight] >= 0 && s[kSinceWeight] >= 0;
  }

  double change_, warning_, share_;
};

}  // namespace

std::unique_ptr<DriftDetector> make_hddm_w(const DetectorOptions& options, std::uint64_t) {
  return std::make_unique<HddmW>(options);
}

}  // namespace weft::learning
