// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::learning {

/// Answers of a classifier beside the labels: loss, confusion matrix, statistics of each class.
class Measurement {
 public:
  Measurement() = default;
  explicit Measurement(std::uint32_t classes);

  /// `outputs` [rows, width >= classes]: the class of the largest value, the first of equal ones, is the answer. An
  /// answer beyond the classes counts as wrong and stands in no column. The loss is the cross entropy.
  void add(const kernels::ConstMatrixView& outputs, std::span<const std::uint32_t> labels);

  std::uint32_t classes() const noexcept { return classes_; }
  std::uint64_t samples() const noexcept { return samples_; }
  std::uint64_t right() const noexcept { return right_; }
  double accuracy() const noexcept;
  /// Mean over the samples, in nats.
  double loss() const noexcept;
  /// True with at most 1,024 classes.
  bool has_matrix() const noexcept { return !counts_.empty(); }
  /// Samples of class `label` that were answered by `answer`.
  std::uint64_t count(std::uint32_t label, std::uint32_t answer) const noexcept {
    return counts_[std::size_t{label} * classes_ + answer];
  }

  /// @source Manning, Raghavan and Schuetze 2008, "Introduction to Information Retrieval", section 8.3
  struct Class {
    std::uint64_t samples = 0, answers = 0, right = 0;
    double precision = 0, recall = 0, f1 = 0;  // 0 where there is nothing to divide by
  };
  Class of_class(std::uint32_t label) const noexcept;

 private:
  std::uint32_t classes_ = 0;
  std::uint64_t samples_ = 0, right_ = 0;
  double losses_ = 0;
  struct Totals {
    std::uint64_t samples = 0, answers = 0, right = 0;
  };
  std::vector<Totals> totals_;         // [class]
  std::vector<std::uint64_t> counts_;  // [label][answer]
};

/// Index of the largest value, the first of equal ones.
std::uint32_t largest(std::span<const float> values) noexcept;

}  // namespace weft::learning
