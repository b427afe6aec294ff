// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/measurement.hpp"
#include "learning/options.hpp"
#include "learning/table.hpp"
#include "learning/taught_outputs.hpp"

#include "mesh/network/graph.hpp"

#include "kernels/views.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace weft::learning {

/// Units of values to learn: the network learns (value - mean) / deviation.
/// @exact  in binary64, rounded once to a float
class TargetUnits {
 public:
  TargetUnits() = default;
  explicit TargetUnits(const TableOptions& options)
      : mean_(options.target_mean), deviation_(options.target_deviation) {}
  /// As the network learns it, of target `i`.
  float learned(float value, std::size_t i) const noexcept {
    return is_plain() ? value : static_cast<float>((value - mean(i)) / deviation(i));
  }
  /// In the table's units, of output `i`.
  double told(float output, std::size_t i) const noexcept {
    return is_plain() ? output : static_cast<double>(output) * deviation(i) + mean(i);
  }

 private:
  bool is_plain() const noexcept { return mean_.empty() && deviation_.empty(); }
  double mean(std::size_t i) const noexcept { return mean_.empty() ? 0.0 : mean_[i]; }
  double deviation(std::size_t i) const noexcept { return deviation_.empty() ? 1.0 : deviation_[i]; }
  std::vector<float> mean_, deviation_;
};

/// Errors of answers that are values.
/// @exact  binary64, in the order of the samples
class ValueErrors {
 public:
  void add(double answer, double target) noexcept;
  std::uint64_t samples() const noexcept { return samples_; }
  double mse() const noexcept;
  double mae() const noexcept;
  /// 1 - sum((target - answer)^2) / sum((target - mean of the targets)^2); nothing where all targets are equal.
  std::optional<double> r2() const noexcept;

  /// Upper bounds of the bins of relative errors, |answer - target| / |target|; a last bin has those above.
  static constexpr std::array<double, 6> kRelativeBounds{0.1, 0.2, 0.3, 0.4, 0.5, 1.0};
  using RelativeBins = std::array<std::uint64_t, kRelativeBounds.size() + 1>;
  /// Answers in each bin, its bound counted in. A target of 0 is met by 0 alone: any other answer is in the last bin.
  const RelativeBins& relative_bins() const noexcept { return relative_bins_; }
  /// The mean of max(0, 1 - relative error): 1 where all are exact.
  double relative_score() const noexcept;

 private:
  std::uint64_t samples_ = 0;
  RelativeBins relative_bins_{};
  double scores_ = 0;
  double squares_ = 0, distances_ = 0;
  double mean_ = 0, variation_ = 0;  // of the targets so far (Welford 1962)
};

/// Answers of a model beside what they should have been: of labels a Measurement for each set of classes, of values
/// their errors.
class Evaluation {
 public:
  Evaluation() = default;
  /// `classes`: of each label with classes of its own, or of all labels; none where values are learned.
  Evaluation(const TaughtOutputs& outputs, const LearningOptions& options, std::span<const std::uint32_t> classes,
             TargetUnits units);

  /// `outputs` [rows, width], those of several side by side; labels [rows][labels of a sample], kNoLabel where there is
  /// none.
  void add(const kernels::ConstMatrixView& outputs, std::span<const std::uint32_t> labels);
  /// values [rows][width], in the table's units.
  void add(const kernels::ConstMatrixView& outputs, std::span<const float> values);

  bool has_values() const noexcept { return !values_.empty(); }
  /// One, or one a head or output; empty where values are learned.
  const std::vector<Measurement>& heads() const noexcept { return heads_; }
  /// One a target.
  const std::vector<ValueErrors>& values() const noexcept { return values_; }
  std::uint64_t samples() const noexcept { return samples_; }
  /// Share of the labels of all heads that were answered.
  double accuracy() const noexcept;
  /// The loss that is learned by, its mean over the labels, or over the samples' values.
  double loss() const noexcept;

 private:
  void add_losses(const kernels::ConstMatrixView& outputs, std::span<const float> learned, std::size_t part);

  LearningOptions options_;
  TargetUnits units_;
  std::vector<std::size_t> starts_;  // TaughtOutputs::parts
  std::vector<Measurement> heads_;
  std::vector<ValueErrors> values_;
  std::uint64_t samples_ = 0;
  double losses_ = 0;  // of values
};

}  // namespace weft::learning
