// SPDX-License-Identifier: Apache-2.0

#include "learning/drift/detector.hpp"

#include "kernels/math.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace weft::learning {
namespace {

/// A window of what came last, kept as long as no two parts of it differ in their means. It is an exponential
/// histogram: buckets of 2^i values, at most five of a size.
///   cut where |mean0 - mean1| > sqrt(2 m v ln(2 ln(n) / delta)) + 2/3 m ln(2 ln(n) / delta)
///   m = 1 / (n0 - 4) + 1 / (n1 - 4);  v: variance of the window
/// @source Bifet and Gavalda 2007, "Learning from time-changing data with adaptive windowing", SDM, section 3.2
class Adwin final : public DriftDetector {
 public:
  explicit Adwin(const DetectorOptions& options)
      : DriftDetector(kHead + kRows * kRowSize),
        delta_(options.confidence != 0 ? options.confidence : 0.002),
        clock_(options.clock) {}

 private:
  static constexpr std::size_t kBuckets = 5, kRows = 48;  // 2^48 values: more than anyone sees
  static constexpr std::size_t kRowSize = 1 + 2 * (kBuckets + 1);
  static constexpr double kLeast = 5, kGrace = 10;
  // Of the whole window: values, their sum, squares about their mean. Behind them the rows, the smallest buckets first:
  // number of buckets, and of each, the oldest first, sum and squares.
  static constexpr std::size_t kCount = 0, kSum = 1, kSquares = 2, kHead = 3;
  struct Part {
    double count = 0, sum = 0, squares = 0;
  };
  using State = std::span<double>;

  static double* row(State s, std::size_t i) { return s.data() + kHead + i * kRowSize; }
  static double size_of(std::size_t i) { return static_cast<double>(std::uint64_t{1} << i); }

  /// Chan, Golub and LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample variances".
  static Part merged(const Part& a, const Part& b) {
    if (a.count == 0) return b;
    const double distance = a.sum / a.count - b.sum / b.count;
    return {a.count + b.count, a.sum + b.sum,
            a.squares + b.squares + distance * distance * a.count * b.count / (a.count + b.count)};
  }

  static void insert(State s, double value) {
    double* to = row(s, 0);
    const auto at = static_cast<std::size_t>(to[0]++);
    to[1 + 2 * at] = value;
    to[2 + 2 * at] = 0;
    for (std::size_t i = 0; i + 1 < kRows && row(s, i)[0] > kBuckets; ++i) {
      double *const from = row(s, i), *const next = row(s, i + 1);
      const Part two = merged({size_of(i), from[1], from[2]}, {size_of(i), from[3], from[4]});
      drop(from, 2);
      const auto end = static_cast<std::size_t>(next[0]++);
      next[1 + 2 * end] = two.sum;
      next[2 + 2 * end] = two.squares;
    }
  }

  /// The oldest buckets of a row go.
  static void drop(double* row, std::size_t count) {
    std::copy(row + 1 + 2 * count, row + kRowSize, row + 1);
    std::fill(row + kRowSize - 2 * count, row + kRowSize, 0.0);
    row[0] -= static_cast<double>(count);
  }

  /// Visits the buckets from the oldest on, until `visit` is content.
  template <class Visit>
  static void each_bucket(State s, Visit&& visit) {
    for (std::size_t i = kRows; i-- > 0;) {
      const double* const from = row(s, i);
      for (std::size_t b = 0; b < static_cast<std::size_t>(from[0]); ++b)
        if (visit(Part{size_of(i), from[1 + 2 * b], from[2 + 2 * b]})) return;
    }
  }

  static void sum_up(State s) {
    Part all;
    each_bucket(s, [&](const Part& bucket) {
      all = merged(all, bucket);
      return false;
    });
    s[kCount] = all.count, s[kSum] = all.sum, s[kSquares] = all.squares;
  }

  /// The newer part's mean less the older one's, where they differ; else 0.
  double cut(State s) const {
    const double n = s[kCount], variance = s[kSquares] / n;
    const double confidence = kernels::math::log_binary64(2.0 * kernels::math::log_binary64(n) / delta_);
    double n0 = 0, sum0 = 0;
    double found = 0;
    each_bucket(s, [&](const Part& bucket) {
      n0 += bucket.count, sum0 += bucket.sum;
      const double n1 = n - n0, sum1 = s[kSum] - sum0;
      if (n1 < kLeast) return true;
      if (n0 < kLeast) return false;
      const double m = 1.0 / (n0 - kLeast + 1) + 1.0 / (n1 - kLeast + 1);
      const double bound = std::sqrt(2.0 * m * variance * confidence) + 2.0 / 3.0 * m * confidence;
      const double rise = sum1 / n1 - sum0 / n0;
      if (std::fabs(rise) > bound) found = rise;
      return found != 0;
    });
    return found;
  }

  DriftLevel step(State s, double value, std::uint64_t n) noexcept override {
    insert(s, value);
    if ((n + 1) % clock_ != 0) return DriftLevel::none;
    sum_up(s);
    DriftLevel level = DriftLevel::none;
    while (s[kCount] > kGrace) {
      const double rise = cut(s);
      if (rise == 0) break;
      // Of several cuts one that rises counts.
      if (level != DriftLevel::change) level = rise > 0 ? DriftLevel::change : DriftLevel::improvement;
      std::size_t last = kRows - 1;
      while (row(s, last)[0] == 0) --last;
      drop(row(s, last), 1);
      sum_up(s);
    }
    return level;
  }

  bool is_possible(std::span<const double> s) const noexcept override {
    if (!is_count(s[kCount])) return false;
    for (std::size_t i = 0; i < kRows; ++i)
      if (!is_count(s[kHead + i * kRowSize], kBuckets)) return false;
    return true;
  }

  double delta_;
  std::uint32_t clock_;
};

}  // namespace

std::unique_ptr<DriftDetector> make_adwin(const DetectorOptions& options, std::uint64_t) {
  return std::make_unique<Adwin>(options);
}

}  // namespace weft::learning
