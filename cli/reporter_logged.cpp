// SPDX-License-Identifier: Apache-2.0

#include "cli/reporter.hpp"

#include "core/json.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace weft::cli {
namespace {

constexpr std::uint64_t kProgressLines = 40;  // of a whole run, and one a second besides

/// Measured once, at the end.
constexpr const char *kHeldOut = "held_out_accuracy", *kValidation = "validation_accuracy";

/// Names of the statistics that are logged at each step.
std::vector<std::string> running() {
  std::vector<std::string> names;
  for (const OptionRow& row : statistics_rows())
    if (row.key != "samples" && row.key != "total") names.emplace_back(row.key);
  return names;
}

class LoggedReporter final : public Reporter {
 public:
  LoggedReporter(std::unique_ptr<Reporter> inner, ScalarLog log, const LoggedColumns& columns)
      : inner_(std::move(inner)), log_(std::move(log)), columns_(columns) {}

  void started(RunState& state, std::optional<std::uint64_t> resumed_at) override {
    times_.begin(resumed_at.value_or(0));
    if (resumed_at && columns_.events)
      for (std::size_t kind = 0; kind < logged_.size(); ++kind)
        logged_[kind] = log_.steps_of(learning::kStreamEventNames[kind]);
    // Of samples that were replayed: a kill may have come between their record and their line.
    if (resumed_at)
      for (const learning::StreamEvent& event : take_stream_events(state.stream())) write(event);
    inner_->started(state, resumed_at);
  }
  void marked(RunState& state, const learning::StreamEvent& event) override {
    write(event);
    inner_->marked(state, event);
  }
  void progressed(RunState& state, const Pace& pace) override {
    if (times_.is_due(state, pace)) add(state, pace, false);
    inner_->progressed(state, pace);
  }
  void drift_seen(RunState& state, const learning::DriftEvent& event) override { inner_->drift_seen(state, event); }
  void anomaly_seen(const learning::AnomalyEvent& event) override { inner_->anomaly_seen(event); }
  void expired(std::uint64_t more, const learning::LateCounts& counts) override { inner_->expired(more, counts); }
  void drifted(RunState& state) override { inner_->drifted(state); }
  void saved(std::uint64_t samples, std::string_view path) override { inner_->saved(samples, path); }
  void found(RunState& state) override { inner_->found(state); }
  void kept(const agent::CheckpointStatistics& checkpoint, std::string_view path) override {
    inner_->kept(checkpoint, path);
  }
  void acknowledged(std::uint64_t rows) override { inner_->acknowledged(rows); }
  void done(RunState& state, const Pace& pace) override {
    add(state, pace, true);
    inner_->done(state, pace);
  }
  void interrupt() override { inner_->interrupt(); }

 private:
  void write(const learning::StreamEvent& event) {
    const auto kind = static_cast<std::size_t>(event.kind);
    const std::vector<std::uint64_t>& known = logged_[kind];
    if (!columns_.events || std::find(known.begin(), known.end(), event.sample) != known.end()) return;
    std::vector<std::optional<double>> values(logged_scalars(columns_).size());
    values[values.size() - learning::kStreamEventNames.size() + kind] = 1.0;
    log_.add(event.sample, values);
  }
  void add(RunState& state, const Pace& pace, bool is_end) {
    const RunStatistics statistics = statistics_of(state, pace);
    const Json now = to_json(statistics);
    std::vector<std::optional<double>> values;
    for (const std::string& name : names_) {
      const auto found = now.find(name);
      const bool is_number = found != now.end() && found->is_number();
      values.push_back(is_number ? std::optional(found->get<double>()) : std::nullopt);
    }
    values.push_back(is_end ? state.held_out_accuracy() : std::nullopt);
    const auto& validation = state.validation();
    const bool is_measured = is_end && validation && !validation->has_values();
    values.push_back(is_measured ? std::optional(validation->accuracy()) : std::nullopt);
    if (state.setup().probe) {
      const auto& layers = is_end ? state.plasticity() : state.plasticity_now();
      const NetworkPlasticity all = network_plasticity(layers);
      for (const double value : {all.dormant, all.effective_rank, all.weight_norm})
        values.push_back(layers.empty() ? std::nullopt : std::optional(value));
    }
    if (columns_.events) values.resize(values.size() + learning::kStreamEventNames.size());
    log_.add(statistics.progress.samples, values);
  }

  std::unique_ptr<Reporter> inner_;
  ScalarLog log_;
  const LoggedColumns columns_;
  /// Samples of events that the table of a resumed run has, by kind.
  std::array<std::vector<std::uint64_t>, learning::kStreamEventNames.size()> logged_;
  ProgressTimes times_;
  const std::vector<std::string> names_ = running();
};

}  // namespace

// An accuracy drop is over within a few windows: there every block is told, however fast the run goes.
bool ProgressTimes::is_due(RunState& state, const Pace& pace) {
  const learning::StreamProgress p = state.stream().progress();
  const auto& stream = state.stream();
  const std::uint64_t step = p.total / kProgressLines + 1;
  const bool is_in_drop =
      p.before_drift && p.samples < stream.drift_sample() + 4 * std::uint64_t{stream.options().window};
  const bool is_due = is_in_drop || (p.total && p.samples == p.total) || pace.seconds >= last_seconds_ + 1 ||
                      (p.total && p.samples / step != last_samples_ / step);
  if (!is_due || p.samples == last_samples_) return false;
  last_samples_ = p.samples;
  last_seconds_ = pace.seconds;
  return true;
}

std::vector<std::string> logged_scalars(const LoggedColumns& columns) {
  std::vector<std::string> names = running();
  names.insert(names.end(), {kHeldOut, kValidation});
  if (columns.plasticity) names.insert(names.end(), std::begin(kPlasticityScalars), std::end(kPlasticityScalars));
  if (columns.events) names.insert(names.end(), learning::kStreamEventNames.begin(), learning::kStreamEventNames.end());
  return names;
}

std::unique_ptr<Reporter> make_logged_reporter(std::unique_ptr<Reporter> inner, ScalarLog log,
                                               const LoggedColumns& columns) {
  return std::make_unique<LoggedReporter>(std::move(inner), std::move(log), columns);
}

}  // namespace weft::cli
