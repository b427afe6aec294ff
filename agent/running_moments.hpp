// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/archive.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weft::agent {

/// Means and variances so far of numbers that come one after the other.
///   mean += (x - mean) / n;  squares += (x - mean before) (x - mean after);  variance = squares / (n - 1)
/// @exact  binary64, nothing fused
/// @source Welford 1962, "Note on a method for calculating corrected sums of squares and products"
class RunningMoments {
 public:
  explicit RunningMoments(std::size_t width) : mean_(width), squares_(width) {}

  void add(std::span<const double> values) noexcept {
    ++count_;
    for (std::size_t i = 0; i < mean_.size(); ++i) {
      const double before = values[i] - mean_[i];
      mean_[i] += before / static_cast<double>(count_);
      squares_[i] += before * (values[i] - mean_[i]);
    }
  }
  double mean(std::size_t i) const noexcept { return mean_[i]; }
  /// 1 while there are fewer than two values.
  double deviation(std::size_t i) const noexcept {
    return count_ < 2 ? 1.0 : std::sqrt(squares_[i] / static_cast<double>(count_ - 1) + kEpsilon);
  }
  std::uint64_t count() const noexcept { return count_; }

  template <class Self, class Archive>
  static void visit(Self& self, Archive& archive, std::string_view name) {
    archive(Field{name, Scope::control, 0}, self.count_);
    archive(Field{name, Scope::control, 1}, std::span(self.mean_));
    archive(Field{name, Scope::control, 2}, std::span(self.squares_));
  }

 private:
  static constexpr double kEpsilon = 1e-8;  // of the variance

  std::uint64_t count_ = 0;
  std::vector<double> mean_, squares_;
};

}  // namespace weft::agent
