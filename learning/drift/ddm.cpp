// SPDX-License-Identifier: Apache-2.0

#include "learning/drift/detector.hpp"

#include <algorithm>
#include <cmath>

namespace weft::learning {
namespace {

/// The share of errors p and its deviation s = sqrt(p (1 - p) / n), against those at the least p + s.
///   warning where p + s > p_min + 2 s_min, change where p + s > p_min + 3 s_min
/// @source Gama, Medas, Castillo and Rodrigues 2004, "Learning with drift detection", SBIA
class Ddm final : public DriftDetector {
 public:
  explicit Ddm(const DetectorOptions& options) : DriftDetector(kSize), options_(options) {}

 private:
  enum : std::size_t { kCount, kErrors, kShare, kDeviation, kSize };

  DriftLevel step(std::span<double> s, double error, std::uint64_t) noexcept override {
    s[kCount] += 1;
    s[kErrors] += error;
    if (s[kCount] <= options_.warm_up) return DriftLevel::none;
    const double p = s[kErrors] / s[kCount], deviation = std::sqrt(std::max(p * (1 - p), 0.0) / s[kCount]);
    if (s[kCount] == options_.warm_up + 1 || p + deviation <= s[kShare] + s[kDeviation])
      s[kShare] = p, s[kDeviation] = deviation;
    if (p + deviation > s[kShare] + options_.change_level * s[kDeviation]) {
      std::fill(s.begin(), s.end(), 0.0);
      return DriftLevel::change;
    }
    return p + deviation > s[kShare] + options_.warning_level * s[kDeviation] ? DriftLevel::warning : DriftLevel::none;
  }

  bool is_possible(std::span<const double> s) const noexcept override {
    return is_count(s[kCount]) && s[kErrors] >= 0 && s[kErrors] <= s[kCount];
  }

  DetectorOptions options_;
};

}  // namespace

std::unique_ptr<DriftDetector> make_ddm(const DetectorOptions& options, std::uint64_t) {
  return std::make_unique<Ddm>(options);
}

}  // namespace weft::learning
