// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/drift/stream_event.hpp"

#include "core/result.hpp"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace weft::cli {

/// Points of one column of one file, by ascending x.
struct Curve {
  std::vector<double> x, y;
};

/// One line of a picture: the curves of a column, of each file that has it.
struct CurveGroup {
  std::string name;
  std::vector<Curve> curves;
};

/// Accuracies on each task after each, the mean of the files (cli/task_report.hpp); nothing: not measured.
struct TaskGrid {
  std::string scenario;
  std::size_t files = 0;
  std::vector<std::vector<std::optional<double>>> rows;
};

/// Content of a picture: a grid, or lines.
struct PlotData {
  std::optional<TaskGrid> grid;
  std::string x_name;
  std::vector<CurveGroup> groups;
  /// Places along x by learning::StreamEventKind, of the first file that has some of the kind; in order, each once.
  std::array<std::vector<double>, learning::kStreamEventNames.size()> marks;
  std::size_t files = 0;
};

/// Reads tables, and what `weft run --json` and `weft live --json` print. A directory stands for its files, in the
/// order of their names. Several files are runs that differ in their seeds.
/// `columns` are those of tables that are shown. Empty: of a table with a column `prequential_accuracy` all that end in
/// `accuracy`, of layers (`weft top --csv`) `dormant`, of others all.
/// @error storage, parse_failed, unsupported: tables of several kinds, or nothing to show; naming the file;
///        unknown_name: a table lacks a column of `columns`
Result<PlotData> read_plot(const std::vector<std::string>& paths, const std::vector<std::string>& columns = {});

}  // namespace weft::cli
