// SPDX-License-Identifier: Apache-2.0

#include "learning/measurement.hpp"

#include "kernels/loss.hpp"

#include <algorithm>

namespace weft::learning {
namespace {

constexpr std::uint32_t kMaxMatrix = 1024;

double share(std::uint64_t part, std::uint64_t whole) noexcept {
  return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

}  // namespace

Measurement::Measurement(std::uint32_t classes)
    : classes_(classes), totals_(classes), counts_(classes <= kMaxMatrix ? std::size_t{classes} * classes : 0, 0) {}

std::uint32_t largest(std::span<const float> values) noexcept {
  return static_cast<std::uint32_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

void Measurement::add(const kernels::ConstMatrixView& outputs, std::span<const std::uint32_t> labels) {
  std::vector<float> losses(outputs.rows), slopes(outputs.rows * outputs.cols);
  kernels::cross_entropy(outputs, labels.data(), losses.data(),
                         {slopes.data(), outputs.rows, outputs.cols, outputs.cols});
  for (std::size_t i = 0; i < outputs.rows; ++i) {
    const std::uint32_t answer = largest({outputs.row(i), outputs.cols});
    ++totals_[labels[i]].samples;
    if (answer < classes_) {
      ++totals_[answer].answers;
      if (has_matrix()) ++counts_[std::size_t{labels[i]} * classes_ + answer];
    }
    totals_[labels[i]].right += answer == labels[i];
    right_ += answer == labels[i];
    losses_ += static_cast<double>(losses[i]);
  }
  samples_ += outputs.rows;
}

double Measurement::accuracy() const noexcept { return share(right_, samples_); }
double Measurement::loss() const noexcept { return samples_ ? losses_ / static_cast<double>(samples_) : 0.0; }

Measurement::Class Measurement::of_class(std::uint32_t label) const noexcept {
  const Totals& totals = totals_[label];
  Class c{totals.samples, totals.answers, totals.right};
  c.precision = share(c.right, c.answers);
  c.recall = share(c.right, c.samples);
  c.f1 = share(2 * c.right, c.answers + c.samples);
  return c;
}

}  // namespace weft::learning
