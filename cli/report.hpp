// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/dataset.hpp"
#include "learning/evaluation.hpp"

#include "core/json.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace weft::cli {

/// Names of what a model answers. Empty lists: classes by number, targets and labels as "1", "2".
struct AnswerNames {
  std::vector<std::vector<std::string>> classes;  // of each set of classes
  std::vector<std::string> targets;               // of each label or target
  static AnswerNames of(const learning::Dataset& data);
  const std::vector<std::string>& classes_of(std::size_t head) const;
  std::string target(std::size_t i) const { return i < targets.size() ? targets[i] : std::to_string(i + 1); }
};

/// Statistics of each class and the confusion matrix as tables, for a page of `columns` (0: no bound): the matrix where
/// it fits, else the most frequent mistakes; of more than 20 classes those with the lowest F1. Ends with a line break.
/// With several sets of classes one after the other. Of values their errors.
std::string evaluation_report(const learning::Evaluation& evaluation, const AnswerNames& names, std::size_t columns,
                              bool unicode);

/// The same as JSON: samples and loss; of classes accuracy, classes with their statistics, and the matrix where there
/// is one, under `heads` where there are several sets of them; of values `targets` with their errors.
Json evaluation_json(const learning::Evaluation& evaluation, const AnswerNames& names);

/// "96.1 % of 359", or "R2 0.731, mean error 3.2 of 89".
std::string evaluation_line(const learning::Evaluation& evaluation);

/// "0.0812".
std::string loss_text(double loss);

}  // namespace weft::cli
