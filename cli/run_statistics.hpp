// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/clock_statistics.hpp"

#include "learning/stream.hpp"

#include "core/json.hpp"
#include "core/option_row.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace weft::cli {

/// Statistics of a run that `weft run --json` and `weft top` both show; each is declared in run_statistics.cpp.
struct RunStatistics {
  std::uint64_t ticks = 0;
  double ticks_per_second = 0, samples_per_second = 0;
  learning::StreamProgress progress{};
  std::optional<ClockStatistics> clock = std::nullopt;  // of `--rate`
};

/// One member for each row, and `clock`: null without one.
Json to_json(const RunStatistics& statistics);
const std::vector<OptionRow>& statistics_rows();

}  // namespace weft::cli
