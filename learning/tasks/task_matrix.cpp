// SPDX-License-Identifier: Apache-2.0

#include "learning/tasks/task_matrix.hpp"

#include <algorithm>

namespace weft::learning {

std::optional<double> TaskMatrix::accuracy() const noexcept {
  if (!is_done() || !has(tasks_)) return std::nullopt;
  double sum = 0;
  for (const double each : rows_[tasks_]) sum += each;
  return sum / static_cast<double>(tasks_);
}

std::optional<double> TaskMatrix::backward_transfer() const noexcept {
  if (!is_done() || !has(tasks_) || tasks_ < 2) return std::nullopt;
  double sum = 0;
  for (std::size_t j = 0; j + 1 < tasks_; ++j) {
    if (!has(j + 1)) return std::nullopt;
    sum += rows_[tasks_][j] - rows_[j + 1][j];
  }
  return sum / static_cast<double>(tasks_ - 1);
}

std::optional<double> TaskMatrix::forward_transfer() const noexcept {
  if (!is_done() || tasks_ < 2 || !has(0)) return std::nullopt;
  double sum = 0;
  for (std::size_t j = 1; j < tasks_; ++j) {
    if (!has(j)) return std::nullopt;
    sum += rows_[j][j] - rows_[0][j];
  }
  return sum / static_cast<double>(tasks_ - 1);
}

std::optional<double> TaskMatrix::forgetting() const noexcept {
  if (!is_done() || !has(tasks_) || tasks_ < 2) return std::nullopt;
  double sum = 0;
  for (std::size_t j = 0; j + 1 < tasks_; ++j) {
    double best = -1.0;
    for (std::size_t i = 1; i < tasks_; ++i)
      if (has(i)) best = std::max(best, rows_[i][j]);
    if (best < 0.0) return std::nullopt;
    sum += best - rows_[tasks_][j];
  }
  return sum / static_cast<double>(tasks_ - 1);
}

Json TaskMatrix::save() const { return rows_; }

Status TaskMatrix::load(const JsonValue& value) {
  std::vector<std::vector<double>> loaded;
  WEFT_TRY(const auto rows, value.array(0, tasks_ + 1));
  for (const JsonValue& row : rows) {
    std::vector<double>& to = loaded.emplace_back();
    WEFT_TRY(const auto values, row.array(tasks_, tasks_));
    for (const JsonValue& each : values) {
      WEFT_TRY(to.emplace_back(), each.f64(-1.0, 1.0));
    }
  }
  rows_ = std::move(loaded);
  return {};
}

}  // namespace weft::learning
