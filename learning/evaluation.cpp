// SPDX-License-Identifier: Apache-2.0

#include "learning/evaluation.hpp"

#include "learning/learner.hpp"

#include "kernels/loss.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::learning {

void ValueErrors::add(double answer, double target) noexcept {
  const double error = answer - target, from_mean = target - mean_;
  ++samples_;
  squares_ += error * error;
  distances_ += std::abs(error);
  mean_ += from_mean / static_cast<double>(samples_);
  variation_ += from_mean * (target - mean_);
  const double distance = std::abs(error), size = std::abs(target);
  std::size_t bin = 0;
  // By a product: a quotient of 0 by 0 is no number.
  while (bin < kRelativeBounds.size() && !(distance <= kRelativeBounds[bin] * size)) ++bin;
  ++relative_bins_[bin];
  if (distance < size || distance == 0) scores_ += distance == 0 ? 1.0 : 1.0 - distance / size;
}

double ValueErrors::mse() const noexcept { return samples_ ? squares_ / static_cast<double>(samples_) : 0.0; }
double ValueErrors::mae() const noexcept { return samples_ ? distances_ / static_cast<double>(samples_) : 0.0; }
double ValueErrors::relative_score() const noexcept { return samples_ ? scores_ / static_cast<double>(samples_) : 0.0; }
std::optional<double> ValueErrors::r2() const noexcept {
  if (!(variation_ > 0)) return std::nullopt;
  return 1 - squares_ / variation_;
}

Evaluation::Evaluation(const TaughtOutputs& outputs, const LearningOptions& options,
                       std::span<const std::uint32_t> classes, TargetUnits units)
    : options_(options), units_(std::move(units)), starts_(outputs.parts()) {
  if (targets_of(options.loss) == LossTargets::values)
    values_.resize(outputs.width());
  else
    for (const std::uint32_t count : classes) heads_.emplace_back(count);
}

void Evaluation::add(const kernels::ConstMatrixView& outputs, std::span<const std::uint32_t> labels) {
  const std::size_t parts = starts_.size() - 1;
  samples_ += outputs.rows;
  if (parts == 1 && std::find(labels.begin(), labels.end(), kNoLabel) == labels.end())
    return heads_[0].add(outputs, labels);
  std::vector<float> values;
  std::vector<std::uint32_t> known;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t first = starts_[part], width = starts_[part + 1] - first;
    values.clear();
    known.clear();
    for (std::size_t i = 0; i < outputs.rows; ++i) {
      if (labels[i * parts + part] == kNoLabel) continue;
      known.push_back(labels[i * parts + part]);
      values.insert(values.end(), outputs.row(i) + first, outputs.row(i) + first + width);
    }
    heads_[heads_.size() == 1 ? 0 : part].add({values.data(), known.size(), width, width}, known);
  }
}

void Evaluation::add(const kernels::ConstMatrixView& outputs, std::span<const float> values) {
  const std::size_t width = outputs.cols;
  std::vector<float> learned(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    learned[i] = units_.learned(values[i], i % width);
    values_[i % width].add(units_.told(outputs.row(i / width)[i % width], i % width), values[i]);
  }
  for (std::size_t part = 0; part + 1 < starts_.size(); ++part) add_losses(outputs, learned, part);
  samples_ += outputs.rows;
}

/// Of one of the outputs, whose losses count alike.
void Evaluation::add_losses(const kernels::ConstMatrixView& outputs, std::span<const float> learned, std::size_t part) {
  const std::size_t first = starts_[part], width = starts_[part + 1] - first;
  std::vector<float> losses(outputs.rows), slopes(outputs.rows * width);
  kernels::value_loss(options_.loss, options_.delta, {outputs.data + first, outputs.rows, width, outputs.stride},
                      {learned.data() + first, outputs.rows, width, outputs.cols}, losses.data(),
                      {slopes.data(), outputs.rows, width, width});
  for (const float loss : losses) losses_ += static_cast<double>(loss) / static_cast<double>(starts_.size() - 1);
}

double Evaluation::accuracy() const noexcept {
  std::uint64_t right = 0, labels = 0;
  for (const Measurement& head : heads_) right += head.right(), labels += head.samples();
  return labels ? static_cast<double>(right) / static_cast<double>(labels) : 0.0;
}

double Evaluation::loss() const noexcept {
  if (has_values()) return samples_ ? losses_ / static_cast<double>(samples_) : 0.0;
  double losses = 0;
  std::uint64_t labels = 0;
  for (const Measurement& head : heads_) {
    losses += head.loss() * static_cast<double>(head.samples());
    labels += head.samples();
  }
  return labels ? losses / static_cast<double>(labels) : 0.0;
}

}  // namespace weft::learning
