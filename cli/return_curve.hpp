// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/terminal.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace weft::cli {

/// Returns of episodes as a curve of bounded memory: where there are many, a point is the mean of a power of two of
/// them.
/// @thread one at a time
class ReturnCurve {
 public:
  static constexpr std::size_t kMostPoints = 256;

  void add(double value) {
    sum_ += value;
    if (++taken_ < each_) return;
    points_.push_back(static_cast<float>(sum_ / static_cast<double>(each_)));
    sum_ = 0, taken_ = 0;
    if (points_.size() < kMostPoints) return;
    for (std::size_t i = 0; i < kMostPoints / 2; ++i) points_[i] = (points_[2 * i] + points_[2 * i + 1]) / 2;
    points_.resize(kMostPoints / 2);
    each_ *= 2;
  }
  /// From the lowest point to the highest; empty where there are fewer than two.
  std::string drawn(std::size_t columns, bool unicode) const {
    if (points_.size() < 2) return {};
    const auto [low, high] = std::minmax_element(points_.begin(), points_.end());
    std::vector<float> shares;
    for (const float point : points_) shares.push_back(*high > *low ? (point - *low) / (*high - *low) : 0.5f);
    return sparkline(shares, columns, unicode);
  }

 private:
  std::vector<float> points_;
  double sum_ = 0;
  std::size_t taken_ = 0, each_ = 1;
};

}  // namespace weft::cli
