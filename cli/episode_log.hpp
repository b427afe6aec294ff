// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/scalar_log.hpp"

#include "agent/environment_loop.hpp"
#include "learning/drift/drift_watch.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft::cli {

/// Steps of each turn of an environment that tells its changes beforehand; 0: it does not.
std::uint64_t steps_of_a_turn(const agent::EnvironmentOptions& options) noexcept;

/// Tables of an agent that acts: a line an episode, and where the environment changes by turns or a detector watches,
/// a line a change, warning or alarm, with a 1 in the column of its kind. That of --logdir, that of the data directory,
/// or both, in the order of the steps.
/// @thread one at a time
class EpisodeLog {
 public:
  /// Columns `change`, `warning` and `alarm`; those of --probe, in --logdir alone.
  struct Columns {
    bool events = false, plasticity = false;
  };

  explicit EpisodeLog(const Columns& columns) : columns_(columns) {}

  /// `resumes`: lines that the table has are not written again. @error as ScalarLog::open
  Status open_log(const std::string& directory, bool resumes);
  /// Table of a data directory, gone on with at step `step`. What fails is told, and there is no table then.
  void open_kept(const std::string& directory, bool resumes, std::uint64_t step);

  /// Writes what came since the last call: `changes` are steps after which the environment changed.
  void add(std::span<const agent::Episode> episodes, std::span<const learning::DriftEvent> events,
           std::span<const std::uint64_t> changes);
  /// Writes numbers of the layers at a step.
  void add_plasticity(std::uint64_t step, const std::array<double, 3>& values);

 private:
  /// Columns: return, length, those of --probe, those of events.
  struct Line {
    std::uint64_t step = 0;
    std::size_t kind = 0;  // 0: an episode; 1 and more: learning::StreamEventKind
    double sum = 0, length = 0;
  };
  struct Table {
    ScalarLog log;
    bool has_plasticity = false;
    std::uint64_t last = 0;                             // step of the lines that were found
    std::array<std::vector<std::uint64_t>, 4> found{};  // steps of those of each kind, not yet met
  };
  std::vector<std::string> tags(bool has_plasticity) const;
  void take(ScalarLog log, bool has_plasticity, bool resumes);
  void write(Table& table, const Line& line) const;

  Columns columns_;
  std::vector<Table> tables_;
};

}  // namespace weft::cli
