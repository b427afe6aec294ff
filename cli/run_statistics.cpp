// SPDX-License-Identifier: Apache-2.0

#include "cli/run_statistics.hpp"

#include "cli/report.hpp"
#include "cli/text_format.hpp"

#include "core/option_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace weft::cli {
namespace {

/// Lines of text, the most important first. A statistic names its line and the words before its value there.
constexpr std::array<std::string_view, 4> kLines{"accuracy", "loss", "samples", "ticks"};

struct StatisticShown {
  std::string_view key, unit, line, before;
};

/// Statistics of one struct. A statistic is an option that is only written.
template <class Section>
struct Statistics {
  std::vector<typename OptionTable<Section>::Field> fields;
  std::vector<StatisticShown> shown;

  template <class T>
  void add(std::string_view key, T Section::*member, std::string_view unit, std::string_view meaning,
           std::string_view line = {}, std::string_view before = {}) {
    fields.push_back(option(key, member, {.is_always_written = true, .unit = unit, .meaning = meaning}));
    if (!line.empty()) shown.push_back({key, unit, line, before});
  }
};

Statistics<learning::StreamProgress> progress_statistics() {
  using S = learning::StreamProgress;
  Statistics<S> all;
  all.add("samples", &S::samples, "samples", "seen so far", "samples");
  all.add("total", &S::total, "samples", "of the whole stream; 0: its end is not known", "samples", " of ");
  all.add("epoch", &S::epoch, "epochs", "finished");
  all.add("prequential_accuracy", &S::prequential_accuracy, "share", "of hits in the last `window` samples",
          "accuracy");
  all.add("overall_accuracy", &S::overall_accuracy, "share", "of hits in all samples", "accuracy", ", overall ");
  all.add("mean_loss", &S::mean_loss, "nats", "mean over the last `window` samples", "loss");
  return all;
}

struct RunTable {
  OptionTable<RunStatistics> table;
  std::vector<StatisticShown> shown;  // rates last
};

const RunTable& run_table() {
  using S = RunStatistics;
  static const RunTable made = [] {
    static const Statistics<learning::StreamProgress> progress = progress_statistics();
    static const OptionTable<learning::StreamProgress> progress_table(progress.fields);
    Statistics<S> all;
    all.add("ticks", &S::ticks, "ticks", "committed", "ticks");
    all.add("ticks_per_second", &S::ticks_per_second, "1/s", "of ticks, with all that is done beside them", "ticks");
    all.add("samples_per_second", &S::samples_per_second, "1/s", "of samples", "samples");
    append_options(all.fields, &S::progress, progress_table);
    all.shown.insert(all.shown.end(), progress.shown.begin(), progress.shown.end());
    std::stable_partition(all.shown.begin(), all.shown.end(),
                          [](const StatisticShown& each) { return each.unit != "1/s"; });
    return RunTable{OptionTable<S>(std::move(all.fields)), std::move(all.shown)};
  }();
  return made;
}

/// The number, where there is one; bounded, since another process may have written it, unless it is not finite.
std::optional<double> value_of(const Json& statistics, std::string_view key) {
  if (!statistics.is_object()) return std::nullopt;
  const auto found = statistics.find(std::string(key));
  if (found == statistics.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return std::isfinite(value) ? std::clamp(value, -9e15, 9e15) : value;
}

std::string words(const StatisticShown& shown, double value) {
  if (!std::isfinite(value)) return "not finite";
  if (shown.unit == "share") return percent(value);
  if (shown.unit == "nats") return loss_text(value);
  if (shown.unit == "1/s") return " (" + short_number(value) + "/s)";
  return grouped(static_cast<std::uint64_t>(std::max(0.0, value)));
}

}  // namespace

Json to_json(const RunStatistics& statistics) {
  Json out = run_table().table.write(statistics);
  if (!statistics.progress.has_accuracy) out["prequential_accuracy"] = out["overall_accuracy"] = nullptr;
  out["clock"] = statistics.clock ? to_json(*statistics.clock) : Json();
  return out;
}
const std::vector<OptionRow>& statistics_rows() { return run_table().table.rows(); }

std::vector<StatisticLine> statistic_lines(const Json& statistics) {
  std::vector<StatisticLine> lines;
  for (const std::string_view label : kLines) {
    std::string text;
    for (const StatisticShown& shown : run_table().shown) {
      const std::optional<double> value = shown.line == label ? value_of(statistics, shown.key) : std::nullopt;
      // "1,000 of 1,000" says no more than "1,000".
      if (!value || (shown.key == "total" && (*value == 0 || *value == value_of(statistics, "samples")))) continue;
      text.append(text.empty() ? "" : shown.before).append(words(shown, *value));
    }
    if (!text.empty()) lines.push_back({label, std::move(text)});
  }
  return lines;
}

std::string statistics_text(const Json& statistics) {
  std::string text;
  for (const StatisticLine& line : statistic_lines(statistics))
    text.append(text.empty() ? "" : ", ").append(line.label).append(" ").append(line.text);
  return text;
}

std::string statistic_text(const Json& statistics, std::string_view key) {
  const auto& all = run_table().shown;
  const auto shown = std::find_if(all.begin(), all.end(), [&](const StatisticShown& each) { return each.key == key; });
  const std::optional<double> value = value_of(statistics, key);
  return shown == all.end() || !value ? std::string() : words(*shown, *value);
}

}  // namespace weft::cli
