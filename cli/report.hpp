// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/dataset.hpp"
#include "learning/evaluation.hpp"
#include "learning/plasticity.hpp"
#include "learning/taught_outputs.hpp"

#include "core/json.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace weft::cli {

/// Names of what a model answers. Empty lists: classes by number, targets and labels as "1", "2".
struct AnswerNames {
  std::vector<std::vector<std::string>> classes;  // of each set of classes
  std::vector<std::string> targets;               // of each label or target
  std::vector<std::string> outputs;               // by label or target, where there are several outputs
  static AnswerNames of(const learning::Dataset& data, const learning::TaughtOutputs& of);
  /// Notes the names of several outputs, which are those of their targets where the table's columns have none.
  void take_outputs(const learning::TaughtOutputs& of);
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

/// The layers as `--probe` measured them, as JSON; and a line of text each.
Json plasticity_json(const std::vector<learning::LayerPlasticity>& layers);
std::vector<std::string> plasticity_lines(const std::vector<learning::LayerPlasticity>& layers);

/// "96.1 % of 359", or "R2 0.731, mean error 3.2 of 89".
std::string evaluation_line(const learning::Evaluation& evaluation);

/// Adds one answer to `line`: of one output `class` or `classes`, and `values`; of several the same of each, by its
/// name under `outputs`. `classes`: of each label; `values`: of a joined row; either may be empty.
void add_answer(Json& line, const learning::TaughtOutputs& outputs, std::span<const std::string> classes,
                std::span<const float> values);

/// "0.0812".
std::string loss_text(double loss);

}  // namespace weft::cli
