// SPDX-License-Identifier: Apache-2.0

#include "cli/task_report.hpp"

#include <cstdio>
#include <optional>

namespace weft::cli {
namespace {

using learning::TaskMatrix;

constexpr std::size_t kMostTasks = 12;  // that fit a line

std::string number(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string points(const std::optional<double>& share) { return share ? number(100 * *share, 1) + " points" : "-"; }
Json maybe(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

std::string scenario_of(const learning::TaskOptions& options) {
  return options.kind == learning::TaskKind::turning ? "general" : std::string(name(options.scenario)) + "-incremental";
}

}  // namespace

std::string tasks_line(const learning::TaskOptions& options, const TaskMatrix& matrix) {
  return std::to_string(matrix.tasks()) + (matrix.tasks() == 1 ? " task, " : " tasks, ") +
         std::string(name(options.kind)) + ", " + scenario_of(options);
}

std::string task_figures(const TaskMatrix& matrix) {
  const auto accuracy = matrix.accuracy();
  std::string text = "ACC " + (accuracy ? number(100 * *accuracy, 1) + " %" : "-");
  if (matrix.tasks() < 2) return text;
  return text + ", BWT " + points(matrix.backward_transfer()) + ", FWT " + points(matrix.forward_transfer()) +
         ", forgetting " + points(matrix.forgetting());
}

std::vector<std::pair<std::string, std::string>> task_rows(const TaskMatrix& matrix) {
  std::vector<std::pair<std::string, std::string>> lines;
  if (matrix.tasks() > kMostTasks) return lines;
  for (std::size_t i = 0; i < matrix.rows().size(); ++i) {
    std::string text;
    for (const double accuracy : matrix.rows()[i]) {
      const std::string one = TaskMatrix::is_missing(accuracy) ? "-" : number(100 * accuracy, 1);
      text += std::string(one.size() < 6 ? 6 - one.size() : 1, ' ') + one;
    }
    lines.emplace_back("after " + std::to_string(i), text);
  }
  return lines;
}

Json tasks_json(const learning::TaskOptions& options, const TaskMatrix* matrix) {
  if (!matrix) return nullptr;
  Json rows = Json::array();
  for (const auto& row : matrix->rows()) {
    Json values = Json::array();
    for (const double accuracy : row) values.push_back(TaskMatrix::is_missing(accuracy) ? Json() : Json(accuracy));
    rows.push_back(std::move(values));
  }
  return {{"kind", name(options.kind)},
          {"scenario", scenario_of(options)},
          {"count", matrix->tasks()},
          {"accuracy", maybe(matrix->accuracy())},
          {"backward_transfer", maybe(matrix->backward_transfer())},
          {"forward_transfer", maybe(matrix->forward_transfer())},
          {"forgetting", maybe(matrix->forgetting())},
          {"matrix", std::move(rows)}};
}

std::string tasks_csv(const learning::TaskOptions& options, const TaskMatrix& matrix) {
  std::string text = "scenario,after";
  for (std::size_t task = 0; task < matrix.tasks(); ++task) text += ",task_" + std::to_string(task + 1);
  text += "\n";
  for (std::size_t i = 0; i < matrix.rows().size(); ++i) {
    text += scenario_of(options) + "," + std::to_string(i);
    for (const double accuracy : matrix.rows()[i])
      text += "," + (TaskMatrix::is_missing(accuracy) ? std::string() : number(accuracy, 6));
    text += "\n";
  }
  return text;
}

}  // namespace weft::cli
