// SPDX-License-Identifier: Apache-2.0

#include "cli/clock_statistics.hpp"

#include <chrono>
#include <cstdint>

namespace weft::cli {

double availability(const ClockStatistics& clock) noexcept {
  const scheduler::ClockReport& r = clock.report;
  const auto [due, met] = scheduler::due_between({}, {r.ticks, r.missed, r.skipped});
  return due == 0 ? 1.0 : static_cast<double>(met) / static_cast<double>(due);
}

Json to_json(const ClockStatistics& clock) {
  const auto seconds = [](std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); };
  const scheduler::ClockReport& r = clock.report;
  return {{"hertz", clock.hertz},
          {"overrun", scheduler::name(clock.overrun)},
          {"overruns", r.overruns},
          {"skipped", r.skipped},
          {"availability", availability(clock)},
          {"late_median", seconds(r.late_median)},
          {"late_p99", seconds(r.late_p99)},
          {"late_p999", seconds(r.late_p999)},
          {"late_worst", seconds(r.worst_start)},
          {"jitter", seconds(r.jitter)},
          {"latency_median", seconds(r.median)},
          {"latency_p999", seconds(r.p999)},
          {"latency_worst", seconds(r.worst)}};
}

}  // namespace weft::cli
