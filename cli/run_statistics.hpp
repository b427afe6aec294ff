// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/clock_statistics.hpp"

#include "learning/sample_stream.hpp"

#include "core/json.hpp"
#include "core/option_row.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

/// Statistics of a run that `weft run` and `weft top` show; each is declared once, in run_statistics.cpp.
struct RunStatistics {
  std::uint64_t ticks = 0;
  double ticks_per_second = 0, samples_per_second = 0;
  learning::StreamProgress progress{};
  std::optional<ClockStatistics> clock = std::nullopt;  // of `--rate`
};

/// One member for each row, and `clock`: null without one.
Json to_json(const RunStatistics& statistics);
const std::vector<OptionRow>& statistics_rows();

/// "samples", "1,000 of 2,000 (4.21k/s)".
struct StatisticLine {
  std::string_view label;
  std::string text;
};
/// Statistics in words, the most important line first, of an object that `to_json` wrote, maybe another process's.
std::vector<StatisticLine> statistic_lines(const Json& statistics);
/// The same on one line: "accuracy 96.1 %, overall 95.0 %, loss 0.1180, samples 1,000 of 2,000 (4.21k/s), ...".
std::string statistics_text(const Json& statistics);
/// One statistic in words.
std::string statistic_text(const Json& statistics, std::string_view key);

}  // namespace weft::cli
