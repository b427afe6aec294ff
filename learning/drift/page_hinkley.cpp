// SPDX-License-Identifier: Apache-2.0

#include "learning/drift/detector.hpp"

#include <algorithm>

namespace weft::learning {
namespace {

/// The sum of deviations from the mean so far, which forgets, against its least and its largest value.
///   up = fading up + (x - mean - tolerance);  down = fading down + (x - mean + tolerance)
///   change where up - least up > threshold, or largest down - down > threshold
/// @source Page 1954, "Continuous inspection schemes", Biometrika 41; Mouss et al. 2004, "Test of Page-Hinkley, an
///         approach for fault detection in an agro-alimentary production system", ASCC
class PageHinkley final : public DriftDetector {
 public:
  explicit PageHinkley(const DetectorOptions& options) : DriftDetector(kSize), options_(options) {}

 private:
  enum : std::size_t { kCount, kMean, kUp, kDown, kLeast, kMost, kSize };

  DriftLevel step(std::span<double> s, double x, std::uint64_t) noexcept override {
    const bool is_first = s[kCount] == 0;
    s[kCount] += 1;
    s[kMean] += (x - s[kMean]) / s[kCount];
    s[kUp] = options_.fading * s[kUp] + (x - s[kMean] - options_.tolerance);
    s[kDown] = options_.fading * s[kDown] + (x - s[kMean] + options_.tolerance);
    s[kLeast] = is_first ? s[kUp] : std::min(s[kLeast], s[kUp]);
    s[kMost] = is_first ? s[kDown] : std::max(s[kMost], s[kDown]);
    if (s[kCount] < options_.warm_up) return DriftLevel::none;
    const bool has_risen = s[kUp] - s[kLeast] > options_.threshold;
    if (!has_risen && s[kMost] - s[kDown] <= options_.threshold) return DriftLevel::none;
    std::fill(s.begin(), s.end(), 0.0);
    return has_risen ? DriftLevel::change : DriftLevel::improvement;
  }

  bool is_possible(std::span<const double> s) const noexcept override { return is_count(s[kCount]); }

  DetectorOptions options_;
};

}  // namespace

std::unique_ptr<DriftDetector> make_page_hinkley(const DetectorOptions& options, std::uint64_t) {
  return std::make_unique<PageHinkley>(options);
}

}  // namespace weft::learning
