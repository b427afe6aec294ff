// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json_reader.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft::learning {

/// Accuracies R[i][j] on task j after i tasks were learned; row 0: before the first.
/// @exact  binary64, in the order of the tasks
/// @source ACC, BWT, FWT: Lopez-Paz and Ranzato 2017, arXiv:1706.08840, equations 2 to 4, where the accuracy at random
///         is that before the first task; forgetting: Chaudhry et al. 2018, arXiv:1801.10112, equation 3
class TaskMatrix {
 public:
  TaskMatrix() = default;
  explicit TaskMatrix(std::size_t tasks) : tasks_(tasks) {}

  std::size_t tasks() const noexcept { return tasks_; }
  /// Measured so far.
  const std::vector<std::vector<double>>& rows() const noexcept { return rows_; }
  void add(std::vector<double> row) { rows_.push_back(std::move(row)); }
  /// A row that could not be measured when its time was.
  void skip() { rows_.emplace_back(tasks_, -1.0); }
  static bool is_missing(double accuracy) noexcept { return accuracy < 0.0; }
  bool is_done() const noexcept { return rows_.size() == tasks_ + 1; }

  /// Nothing where a row that they need is missing, or there is one task.
  std::optional<double> accuracy() const noexcept;
  std::optional<double> backward_transfer() const noexcept;
  std::optional<double> forward_transfer() const noexcept;
  std::optional<double> forgetting() const noexcept;

  Json save() const;
  Status load(const JsonValue& value);

 private:
  bool has(std::size_t row) const noexcept { return row < rows_.size() && !is_missing(rows_[row][0]); }

  std::size_t tasks_ = 0;
  std::vector<std::vector<double>> rows_;
};

}  // namespace weft::learning
