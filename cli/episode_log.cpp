// SPDX-License-Identifier: Apache-2.0

#include "cli/episode_log.hpp"

#include "cli/plasticity_probe.hpp"

#include "learning/drift/stream_event.hpp"

#include "core/log.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace weft::cli {

std::uint64_t steps_of_a_turn(const agent::EnvironmentOptions& options) noexcept {
  using Kind = agent::EnvironmentKind;
  return options.kind == Kind::turns || options.kind == Kind::chase ? options.every : 0;
}

std::vector<std::string> EpisodeLog::tags(bool has_plasticity) const {
  std::vector<std::string> tags{"return", "length"};
  if (has_plasticity) tags.insert(tags.end(), std::begin(kPlasticityScalars), std::end(kPlasticityScalars));
  if (columns_.events) tags.insert(tags.end(), learning::kStreamEventNames.begin(), learning::kStreamEventNames.end());
  return tags;
}

Status EpisodeLog::open_log(const std::string& directory, bool resumes) {
  WEFT_TRY(ScalarLog log, ScalarLog::open(storage::real_file_system(), directory, "step", tags(columns_.plasticity)));
  take(std::move(log), columns_.plasticity, resumes);
  return {};
}

void EpisodeLog::open_kept(const std::string& directory, bool resumes, std::uint64_t step) {
  auto log = ScalarLog::open_kept(storage::real_file_system(), directory, "step", tags(false), step);
  if (log)
    take(*std::move(log), false, resumes);
  else
    log_warn(log.error().text() + "; the data directory keeps no table of this run's episodes");
}

void EpisodeLog::take(ScalarLog log, bool has_plasticity, bool resumes) {
  Table table{std::move(log), has_plasticity};
  table.last = resumes ? table.log.found_step().value_or(0) : 0;
  if (resumes) {
    table.found[0] = table.log.steps_of("return");
    for (std::size_t kind = 0; columns_.events && kind < learning::kStreamEventNames.size(); ++kind)
      table.found[kind + 1] = table.log.steps_of(learning::kStreamEventNames[kind]);
  }
  tables_.push_back(std::move(table));
}

void EpisodeLog::add(std::span<const agent::Episode> episodes, std::span<const learning::DriftEvent> events,
                     std::span<const std::uint64_t> changes) {
  if (tables_.empty()) return;
  using Kind = learning::StreamEventKind;
  const auto number = [](Kind kind) { return static_cast<std::size_t>(kind) + 1; };
  std::vector<Line> lines;
  for (const agent::Episode& episode : episodes)
    lines.push_back({episode.last_step, 0, episode.sum, static_cast<double>(episode.steps)});
  if (columns_.events) {
    for (const std::uint64_t step : changes) lines.push_back({step, number(Kind::change)});
    for (const learning::DriftEvent& event : events) {
      const bool warns = event.level == static_cast<std::uint64_t>(learning::DriftLevel::warning);
      lines.push_back({event.sample, number(warns ? Kind::warning : Kind::alarm)});
    }
  }
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.step < b.step; });
  for (Table& table : tables_)
    for (const Line& line : lines) {
      if (line.step > table.last) {
        write(table, line);
        continue;
      }
      std::vector<std::uint64_t>& found = table.found[line.kind];
      const auto known = std::find(found.begin(), found.end(), line.step);
      if (known != found.end())
        found.erase(known);
      else if (line.step == table.last)
        write(table, line);
    }
}

void EpisodeLog::write(Table& table, const Line& line) const {
  const std::size_t events = columns_.events ? learning::kStreamEventNames.size() : 0;
  const std::size_t before = 2 + (table.has_plasticity ? std::size(kPlasticityScalars) : 0);
  std::vector<std::optional<double>> values(before + events);
  if (line.kind == 0) {
    values[0] = line.sum;
    values[1] = line.length;
  } else {
    values[before + line.kind - 1] = 1.0;
  }
  table.log.add(line.step, values);
}

void EpisodeLog::add_plasticity(std::uint64_t step, const std::array<double, 3>& values) {
  for (Table& table : tables_) {
    if (!table.has_plasticity) continue;
    std::vector<std::optional<double>> all(tags(true).size());
    std::copy(values.begin(), values.end(), all.begin() + 2);
    table.log.add(step, all);
  }
}

}  // namespace weft::cli
