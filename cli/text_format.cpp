// SPDX-License-Identifier: Apache-2.0

#include "cli/text_format.hpp"

#include "core/option_row.hpp"

#include <charconv>
#include <cstdio>

namespace weft::cli {
namespace {
std::string print(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}
}  // namespace

std::string default_text(const OptionRow& row) {
  if (row.is_needed) return "needed";
  return row.fallback.empty() ? std::string(row.fallback_words) : row.fallback;
}

std::string two_digits(double value) {
  char text[400];  // the largest number has 309 digits before the point
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string short_number(double value) {
  const char* unit = "";
  if (value >= 999.5) {
    for (const char* next : {"k", "M", "G", "T"}) {
      value /= 1000;
      unit = next;
      if (value < 999.5) break;
    }
  } else if (value == static_cast<double>(static_cast<long>(value))) {
    return print("%.0f", value);
  }
  return print(value < 9.995 ? "%.2f" : value < 99.95 ? "%.1f" : "%.0f", value) + unit;
}

std::string percent(double share) { return print("%.1f %%", share * 100); }

std::string milliseconds(std::chrono::nanoseconds length) {
  const double ms = std::chrono::duration<double, std::milli>(length).count();
  if (ms >= 100) return grouped(static_cast<std::uint64_t>(ms)) + " ms";
  char text[32];
  std::snprintf(text, sizeof text, ms >= 1 ? "%.1f ms" : "%.2f ms", ms);
  return text;
}

std::string why_on_cpu(const mesh::DeviceStatistics& statistics) {
  if (!statistics.why_host.empty()) return statistics.why_host;
  if (statistics.host_steps == 0) return {};
  if (statistics.faults)
    return "the device failed " + (statistics.faults == 1 ? "once" : grouped(statistics.faults) + " times") + " (" +
           statistics.last_fault + ")";
  return statistics.replays ? "a value was not finite, so a cell's supervision had to see it"
                            : "cells had commands to execute, watched others or were not enabled";
}

std::string where_it_ran(const mesh::DeviceStatistics* statistics) {
  if (!statistics) return "cpu";
  const std::string why = why_on_cpu(*statistics);
  if (statistics->device_steps == 0 && !why.empty()) return "cpu: " + why;
  std::string where = statistics->device;
  if (statistics->host_cells)
    where += " and " + grouped(statistics->host_cells) + (statistics->host_cells == 1 ? " cell" : " cells") +
             " on the CPU (" + statistics->why_host_cells + ")";
  if (statistics->host_steps == 0) return where;
  return where + ", " + grouped(statistics->host_steps) + " of " +
         grouped(statistics->device_steps + statistics->host_steps) + " steps on the CPU: " + why;
}

std::string grouped(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t place = digits.size(); place > 3; place -= 3) digits.insert(place - 3, ",");
  return digits;
}

}  // namespace weft::cli
