// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/adaptation_report.hpp"
#include "cli/report.hpp"
#include "cli/run_state.hpp"
#include "cli/run_statistics.hpp"
#include "cli/scalar_log.hpp"
#include "cli/terminal.hpp"

#include "learning/drift/stream_event.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

/// Rates of a run since it started or was resumed.
struct Pace {
  double seconds = 0;  // spent learning
  std::uint64_t samples = 0, ticks = 0;
  std::optional<ClockStatistics> clock = std::nullopt;
  const learning::ChangeAvailability* answers = nullptr;  // in time; null: without a clock
  double samples_per_second() const noexcept { return seconds > 0 ? static_cast<double>(samples) / seconds : 0.0; }
  double ticks_per_second() const noexcept { return seconds > 0 ? static_cast<double>(ticks) / seconds : 0.0; }
};

/// Of an answer; without a clock none.
inline Deadline deadline_of(const Pace& pace) {
  return pace.clock && pace.answers ? Deadline{1.0 / pace.clock->hertz, pace.answers} : Deadline{};
}

inline RunStatistics statistics_of(RunState& state, const Pace& pace) {
  return {state.mesh().ticks(), pace.ticks_per_second(), pace.samples_per_second(), state.stream().progress(),
          pace.clock};
}

/// Names of what a run's model answers. Classes of tasks are no classes of the table, unless each task has its own.
inline AnswerNames names_of(RunState& state) {
  AnswerNames names = AnswerNames::of(state.stream().data(), state.stream().outputs());
  const learning::TaskOptions& tasks = state.stream().options().tasks;
  const bool has_own = tasks.kind == learning::TaskKind::split && tasks.scenario == learning::Scenario::klass;
  if (tasks.is_on() && !has_own) names.classes.clear();
  return names;
}

/// Output of `weft run` while it works and at its end.
class Reporter {
 public:
  virtual ~Reporter() = default;
  virtual void started(RunState& state, std::optional<std::uint64_t> resumed_at) = 0;
  /// Called often; shows as much of it as suits its reader.
  virtual void progressed(RunState& state, const Pace& pace) = 0;
  /// The detector of drift saw a warning or a change.
  virtual void drift_seen(RunState& state, const learning::DriftEvent& event) = 0;
  /// The task changed, or the detector raised a warning or an alarm: what a curve is marked with.
  virtual void marked(RunState&, const learning::StreamEvent&) {}
  /// A sample was an anomaly.
  virtual void anomaly_seen(const learning::AnomalyEvent& event) = 0;
  /// `more` samples have expired since the last call: their targets never came, or come too late from now on.
  virtual void expired(std::uint64_t more, const learning::LateCounts& counts) = 0;
  /// The task has just changed.
  virtual void drifted(RunState& state) = 0;
  virtual void saved(std::uint64_t samples, std::string_view path) = 0;
  /// Reports the state found in the data directory, before anything else.
  virtual void found(RunState& state) = 0;
  /// A checkpoint of an agent has been written.
  virtual void kept(const agent::CheckpointStatistics& checkpoint, std::string_view path) = 0;
  /// Rows that arrived and that neither a crash nor a power cut can lose; told where it has grown.
  virtual void acknowledged(std::uint64_t) {}
  virtual void done(RunState& state, const Pace& pace) = 0;
  /// Before something else is printed: leaves no half line behind.
  virtual void interrupt() {}
};

/// Times at which the progress of a run is written down: some forty in all, once a second, and each block while the
/// accuracy drops after a change of the task.
class ProgressTimes {
 public:
  void begin(std::uint64_t samples) noexcept { last_samples_ = samples; }
  /// True: now; then it is taken to be written.
  bool is_due(RunState& state, const Pace& pace);

 private:
  std::uint64_t last_samples_ = 0;
  double last_seconds_ = 0;
};

/// JSON, an object a line, on stdout.
std::unique_ptr<Reporter> make_json_reporter();
/// Columns of a log that not every run has: of `--probe`, and of changes of the task and alarms.
struct LoggedColumns {
  bool plasticity = false, events = false;
};
/// Tells all to `inner`, and writes the run's numbers to `log`, whose columns are those of `logged_scalars(columns)`.
/// An event is a line by itself, with a 1 in the column of its kind.
std::unique_ptr<Reporter> make_logged_reporter(std::unique_ptr<Reporter> inner, ScalarLog log,
                                               const LoggedColumns& columns);
/// Columns of such a log, beside that of the samples.
std::vector<std::string> logged_scalars(const LoggedColumns& columns);
/// Progress on stderr (a redrawn line on a terminal, a line now and then elsewhere), the result on stdout.
std::unique_ptr<Reporter> make_text_reporter(bool quiet);

/// The redrawn line: at most `columns` wide.
std::string progress_line(const RunStatistics& statistics, const AccuracyCurve& curve, std::size_t columns,
                          bool unicode);

}  // namespace weft::cli
