// SPDX-License-Identifier: Apache-2.0

#include "cli/top_view.hpp"

#include "cli/run_statistics.hpp"
#include "cli/terminal.hpp"
#include "cli/text_format.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <utility>

namespace weft::cli {
namespace {

constexpr std::size_t kTopLabel = 12;

const Json& member(const Json& object, std::string_view key) {
  static const Json kNone;
  if (!object.is_object()) return kNone;
  const auto found = object.find(std::string(key));
  return found == object.end() ? kNone : *found;
}

double number(const Json& value) {
  const double given = value.is_number() ? value.get<double>() : 0.0;
  return std::isfinite(given) ? std::clamp(given, -9e15, 9e15) : 0.0;
}
double number(const Json& object, std::string_view key) { return number(member(object, key)); }
std::uint64_t count(const Json& object, std::string_view key) {
  return static_cast<std::uint64_t>(std::max(0.0, number(object, key)));
}

/// It comes from elsewhere, and a terminal obeys what it is sent.
std::string text(const Json& object, std::string_view key) {
  const Json& value = member(object, key);
  return value.is_string() ? escaped(value.text()) : std::string();
}

std::string place(const Json& cell) {
  std::string out = "[";
  for (const Json& each : cell.is_array() ? cell : Json::array())
    out += (out.size() > 1 ? "," : "") + std::to_string(static_cast<std::uint64_t>(std::max(0.0, number(each))));
  return out + "]";
}

std::string duration(double seconds) {
  char out[32];
  if (seconds < 0.9995)
    std::snprintf(out, sizeof out, "%.3g ms", seconds * 1e3);
  else if (seconds < 120)
    std::snprintf(out, sizeof out, "%.3g s", seconds);
  else if (seconds < 7200)
    std::snprintf(out, sizeof out, "%.0f min", seconds / 60);
  else if (seconds < 172800)
    std::snprintf(out, sizeof out, "%.1f h", seconds / 3600);
  else
    std::snprintf(out, sizeof out, "%.1f d", seconds / 86400);
  return out;
}

/// "3 threw, 1 update_not_finite": what is not zero; `none` when all is.
std::string not_zero(const Json& statistics, std::string_view none) {
  std::string out;
  if (!statistics.is_object()) return std::string(none);
  for (const auto& [key, value] : statistics.members())
    if (number(value) > 0)
      out += (out.empty() ? "" : ", ") + grouped(static_cast<std::uint64_t>(number(value))) + " " + escaped(key);
  return out.empty() ? std::string(none) : out;
}

class View {
 public:
  View(const Json& statistics, std::size_t columns, bool unicode)
      : f_(statistics), columns_(columns), unicode_(unicode) {}

  std::vector<std::string> lines() && {
    head();
    pace();
    last_error();
    busiest();
    layers();
    memory();
    late();
    durability();
    return std::move(lines_);
  }

 private:
  void line(const std::string& whole) { lines_.push_back(fit(whole, columns_, unicode_)); }
  void line(std::string_view label, const std::string& value) {
    std::string padded(label);
    // On a narrow terminal the label's column is narrow too.
    padded.resize(std::max(columns_ < 60 ? kTopLabel - 2 : kTopLabel, label.size() + 1), ' ');
    line(padded + value);
  }

  void head() {
    line(text(f_, "network") + "  " + text(f_, "phase") + "  pid " + std::to_string(count(f_, "pid")) + "  up " +
         duration(number(f_, "uptime_seconds")));
  }

  void pace() {
    if (member(f_, "episodes").is_number()) {
      line("steps", grouped(count(f_, "steps")) + " in " + grouped(count(f_, "episodes")) + " episodes (" +
                        short_number(number(f_, "steps_per_second")) + "/s)");
      line("return", two_digits(number(f_, "mean_return")) + ", mean of the last 100 episodes");
    }
    for (const StatisticLine& each : statistic_lines(f_)) line(each.label, each.text);
    if (const Json& clock = member(f_, "clock"); clock.is_object()) {
      line("clock", short_number(number(clock, "hertz")) + "/s  late " + duration(number(clock, "late_median")) +
                        "  p99.9 " + duration(number(clock, "late_p999")) + "  jitter " +
                        duration(number(clock, "jitter")));
      if (count(clock, "overruns"))
        line("", grouped(count(clock, "overruns")) + " overruns (" + text(clock, "overrun") + ")  " +
                     grouped(count(clock, "skipped")) + " skipped");
    }
    if (const std::uint64_t total = count(f_, "total"); total && columns_ >= 30) {
      const double share = static_cast<double>(count(f_, "samples")) / static_cast<double>(total);
      line("", bar(share, std::min<std::size_t>(columns_ - kTopLabel - 7, 50), unicode_) + " " + percent(share));
    }
  }

  void last_error() {
    line("cells", not_zero(member(f_, "cells"), "none"));
    line("faults", not_zero(member(f_, "faults"), "none"));
    const Json& decisions = member(f_, "decisions");
    if (const std::string made = not_zero(decisions, ""); !made.empty())
      line("decisions",
           made + (count(f_, "escalations") ? ", " + grouped(count(f_, "escalations")) + " escalated" : ""));
    const Json& hanging = member(f_, "hanging");
    for (const Json& hang : hanging.is_array() ? hanging : Json::array())
      line("HANGS", place(member(hang, "cell")) + " at tick " + grouped(count(hang, "tick")) + " for " +
                        duration(number(hang, "seconds")));
    if (count(f_, "hangs") && (!hanging.is_array() || hanging.empty())) line("hangs", grouped(count(f_, "hangs")));
    const Json& degraded = member(f_, "degraded");
    std::size_t left = 6;
    for (const Json& cell : degraded.is_array() ? degraded : Json::array()) {
      if (left-- == 0) break;
      line("  " + place(member(cell, "cell")) + " " + text(cell, "status") + ", " + grouped(count(cell, "faults")) +
           " faults, last at tick " + grouped(count(cell, "last_fault_tick")));
    }
  }

  void busiest() {
    const Json& cells = member(f_, "busiest");
    if (!cells.is_array() || cells.empty()) return;
    line("busiest", "cell and its share of the threads' time");
    for (const Json& cell : cells) {
      const double share = std::clamp(number(cell, "share"), 0.0, 1.0);
      std::string each = "  " + place(member(cell, "cell"));
      each.resize(std::max<std::size_t>(each.size() + 1, 16), ' ');
      std::string shown = percent(share);
      if (shown.size() < 7) shown.insert(0, 7 - shown.size(), ' ');
      each += shown + " ";
      const std::size_t width = columns_ > each.size() + 4 ? std::min<std::size_t>(columns_ - each.size(), 40) : 0;
      line(each + (width ? bar(share, width, unicode_) : ""));
    }
  }

  void layers() {
    const Json& all = member(f_, "layers");
    if (!all.is_array() || all.empty()) return;
    line("layers", "error, budget, share of the weights moved, share of dormant units, age of the error");
    std::size_t left = 8;
    for (const Json& layer : all) {
      if (left-- == 0) break;
      std::string each = "  " + place(member(layer, "layer"));
      each.resize(std::max<std::size_t>(each.size() + 1, 16), ' ');
      const Json &budget = member(layer, "budget"), &dormant = member(layer, "dormant");
      const auto shown = [](double value) {
        char text[32];
        std::snprintf(text, sizeof text, "%.3g  ", value);
        return std::string(text);
      };
      line(each + shown(number(layer, "error")) + (budget.is_number() ? shown(number(budget)) : "-  ") +
           shown(number(layer, "relative_update")) + (dormant.is_number() ? shown(number(dormant)) : "-  ") +
           grouped(count(layer, "error_age")) + " ticks");
    }
    if (all.size() > 8) line("", "and " + grouped(all.size() - 8) + " more; --json and --csv have them all");
  }

  void memory() {
    const Json& bytes = member(f_, "memory");
    line("memory", byte_size(count(bytes, "resident")) + "  weights " + byte_size(count(bytes, "weights")) +
                       "  state " + byte_size(count(bytes, "state")));
  }

  void late() {
    const Json& late = member(f_, "late");
    if (late.is_object())
      line("late", grouped(count(late, "open")) + " open  " + grouped(count(late, "taught")) + " taught  " +
                       grouped(count(late, "forgone")) + " forgone  " + grouped(count(late, "expired")) + " expired");
  }

  void durability() {
    const Json& saved = member(f_, "checkpoint");
    const std::string failed =
        count(f_, "failed_checkpoints") ? "  " + grouped(count(f_, "failed_checkpoints")) + " failed" : "";
    if (saved.is_object())
      line("checkpoint", duration(number(saved, "age_seconds")) + " ago  tick " + grouped(count(saved, "ticks")) +
                             "  pause " + duration(number(saved, "pause_seconds")) + failed);
    else
      line("checkpoint", "none" + failed);
    const Json& journal = member(f_, "journal");
    if (!journal.is_object()) return;
    const std::string error = text(journal, "error");
    line("journal", "tick " + grouped(count(journal, "acknowledged")) + " safe  " + grouped(count(journal, "waiting")) +
                        " waiting  " + byte_size(count(journal, "bytes")) + (error.empty() ? "" : "  " + error));
  }

  const Json& f_;
  std::size_t columns_;
  bool unicode_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> top_view(const Json& statistics, std::size_t columns, std::size_t rows, bool unicode) {
  auto lines = View(statistics, columns, unicode).lines();
  if (lines.size() > rows) lines.resize(rows);
  return lines;
}

}  // namespace weft::cli
