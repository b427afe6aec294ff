// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/tasks/task_matrix.hpp"
#include "learning/tasks/task_options.hpp"

#include "core/json.hpp"

#include <string>
#include <utility>
#include <vector>

namespace weft::cli {

/// "5 tasks, split, class-incremental".
std::string tasks_line(const learning::TaskOptions& options, const learning::TaskMatrix& matrix);
/// "ACC 87.1 %, BWT -9.8 points, FWT 0.2 points, forgetting 10.0 points"; "-" where a figure is not known.
std::string task_figures(const learning::TaskMatrix& matrix);
/// The matrix as lines of a table: "after 0" and its accuracies in percent; of more than 12 tasks none.
std::vector<std::pair<std::string, std::string>> task_rows(const learning::TaskMatrix& matrix);
/// Null without tasks.
Json tasks_json(const learning::TaskOptions& options, const learning::TaskMatrix* matrix);
/// "scenario,after,task_1,task_2,...", and a line a row; an empty field: not measured.
std::string tasks_csv(const learning::TaskOptions& options, const learning::TaskMatrix& matrix);

}  // namespace weft::cli
