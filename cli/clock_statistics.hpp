// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/clock.hpp"

#include "core/json.hpp"

namespace weft::cli {

/// Pace that `weft run --rate` was asked for, and how it was kept.
struct ClockStatistics {
  double hertz = 0;  // samples a second
  scheduler::Overrun overrun = scheduler::Overrun::skip;
  scheduler::ClockReport report{};
};

/// Share of the samples that were due which were answered before the next one was.
double availability(const ClockStatistics& clock) noexcept;

/// Times in seconds. `late`: from the time when a sample is due to its begin; `latency`: to its end.
Json to_json(const ClockStatistics& clock);

}  // namespace weft::cli
