// SPDX-License-Identifier: Apache-2.0

#include "cli/adaptation_report.hpp"
#include "cli/device_report.hpp"
#include "cli/drift_json.hpp"
#include "cli/json_line.hpp"
#include "cli/live_statistics.hpp"
#include "cli/report.hpp"
#include "cli/reporter.hpp"
#include "cli/run_statistics.hpp"
#include "cli/task_report.hpp"
#include "cli/text_format.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/isa.hpp"

#include "core/json.hpp"

#include <chrono>
#include <cstdio>

namespace weft::cli {
namespace {

template <class T>
Json maybe(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

/// Fates of samples whose targets come later; null: none can.
Json late_of(RunState& state) {
  const auto counts = late_counts_of(state.learner());
  return counts ? to_json(*counts) : Json();
}

/// Of anomaly scores; null: there are none.
Json anomaly_json(RunState& state) {
  const learning::AnomalyWatch& anomaly = learning::anomaly_of(*state.learner());
  if (!anomaly.is_on()) return nullptr;
  return {{"score", name(state.learner()->options().anomaly.score)},
          {"scores", anomaly.scores()},
          {"anomalies", anomaly.anomalies()},
          {"mean_loss", anomaly.mean()},
          {"loss_deviation", anomaly.deviation()}};
}

class JsonReporter final : public Reporter {
 public:
  void started(RunState& state, std::optional<std::uint64_t> resumed_at) override {
    const auto& setup = state.setup();
    const auto& mesh = state.mesh();
    print_json({{"event", "start"},
                {"network", setup.spec.name},
                {"rule", name(setup.learning.rule)},
                {"schedule", name(setup.learning.schedule)},
                {"lr", as_written(setup.learning.optimizer.lr)},
                {"seed", setup.spec.seed},
                {"samples", state.stream().progress().total},
                {"training_set", state.stream().train_size()},
                {"held_out", state.stream().held_out_size()},
                {"weights", mesh::MeshAccess::weights(mesh).count()},
                {"executor", mesh::MeshAccess::executor(state.mesh()).name()},
                {"threads", mesh::MeshAccess::executor(state.mesh()).concurrency()},
                {"isa", name(kernels::active_isa())},
                {"resumed_at", maybe(resumed_at)}});
    for (const std::string& note : state.notes()) print_json({{"event", "note"}, {"text", note}});
    times_.begin(resumed_at.value_or(0));
  }

  void progressed(RunState& state, const Pace& pace) override {
    if (!times_.is_due(state, pace)) return;
    Json line{{"event", "progress"}};
    line.update(to_json(statistics_of(state, pace)));
    if (state.setup().probe) line["plasticity"] = plasticity_json(state.plasticity_now());
    if (state.agent()) line["acknowledged_tick"] = state.agent()->statistics().acknowledged.tick;
    print_json(line);
  }

  void drifted(RunState& state) override {
    const learning::StreamProgress p = state.stream().progress();
    const auto& o = state.stream().options();
    print_json({{"event", "drift"},
                {"kind", name(o.drift)},
                {"sample", state.stream().drift_sample()},
                {"samples", p.samples},
                {"prequential_accuracy", maybe(p.before_drift)}});
  }

  void drift_seen(RunState& state, const learning::DriftEvent& event) override {
    print_json({{"event", "drift_seen"},
                {"level", name(static_cast<learning::DriftLevel>(event.level))},
                {"detector", name(state.learner()->options().drift.detector.kind)},
                {"sample", event.sample},
                {"score", event.score}});
  }

  // Alarms are told by `drift_seen`, the change of `stream.drift` by `drifted`.
  void marked(RunState& state, const learning::StreamEvent& event) override {
    const bool is_told =
        state.stream().options().drift != learning::Drift::none && event.sample == state.stream().drift_sample();
    if (event.kind != learning::StreamEventKind::change || is_told) return;
    const bool has_accuracy = state.stream().progress().has_accuracy;
    print_json({{"event", "change"},
                {"sample", event.sample},
                {"prequential_accuracy", has_accuracy ? Json(event.accuracy) : Json()}});
  }

  void anomaly_seen(const learning::AnomalyEvent& event) override {
    print_json({{"event", "anomaly_seen"},
                {"sample", event.sample},
                {"score", as_written(event.score)},
                {"loss", as_written(event.loss)}});
  }

  void expired(std::uint64_t more, const learning::LateCounts& counts) override {
    Json line{{"event", "expired"}, {"count", more}};
    line["late"] = to_json(counts);
    print_json(line);
  }

  void saved(std::uint64_t samples, std::string_view path) override {
    print_json({{"event", "checkpoint"}, {"samples", samples}, {"path", path}});
  }

  void found(RunState& state) override {
    const agent::Recovery& r = state.recovery();
    Json line({{"event", "found"},
               {"state", state.agent()->directory()},
               {"is_new", r.is_new},
               {"is_finished", state.is_finished()},
               {"checkpoint_tick", r.checkpoint},
               {"records", r.records},
               {"torn_bytes", r.torn_bytes},
               {"passed_over", r.passed_over},
               {"damages", r.damages},
               {"tick", r.at.tick},
               {"samples", state.stream().progress().samples},
               {"state_hash", to_string(r.hash)},
               {"seconds", in_seconds(r.took)}});
    if (state.feed()) {
      const std::string& file = state.feed_place().file();
      line.update({{"rows", state.feed_place().rows()}, {"file", file.empty() ? Json() : Json(file)}});
    }
    print_json(line);
  }

  void kept(const agent::CheckpointStatistics& checkpoint, std::string_view path) override {
    print_json({{"event", "checkpoint"},
                {"tick", checkpoint.at.tick},
                {"path", path},
                {"pause_seconds", in_seconds(checkpoint.pause)},
                {"writing_seconds", in_seconds(checkpoint.writing)},
                {"bytes", checkpoint.bytes}});
  }

  void acknowledged(std::uint64_t rows) override {
    if (rows == acknowledged_rows_) return;
    acknowledged_rows_ = rows;
    print_json({{"event", "acknowledged"}, {"rows", rows}});
  }

  void done(RunState& state, const Pace& pace) override {
    const auto &held_out = state.held_out(), &validation = state.validation();
    const Json statistics = to_json(statistics_of(state, pace));
    Json line({{"event", "done"},
               {"rule", name(state.setup().learning.rule)},
               {"held_out_accuracy", maybe(state.held_out_accuracy())},
               {"held_out", held_out ? evaluation_json(*held_out, names_of(state)) : Json()},
               {"validation", validation ? evaluation_json(*validation, names_of(state)) : Json()},
               {"prequential_accuracy", statistics["prequential_accuracy"]},
               {"mean_loss", statistics["mean_loss"]},
               {"state_hash", to_string(state.mesh().state_hash())},
               {"ticks", statistics["ticks"]},
               {"ticks_per_second", statistics["ticks_per_second"]},
               {"samples", statistics["samples"]},
               {"recovery_samples", maybe(state.stream().progress().recovery_samples)},
               {"clock", statistics["clock"]},
               {"drift", drift_json(*state.learner())},
               {"anomaly", anomaly_json(state)},
               {"adaptation", adaptation_json(state.stream().adaptation(), deadline_of(pace))},
               {"tasks", tasks_json(state.stream().options().tasks, tasks_of(state.stream()))},
               {"device", device_json(state.mesh().device_statistics())}});
    if (state.setup().probe) line["plasticity"] = plasticity_json(state.plasticity());
    if (const auto flushed = kernels::take_flushed_results()) line["flushed_results"] = *flushed;
    if (state.feed())
      line.update({{"rows", state.feed_place().rows()},
                   {"skipped_rows", state.feed_place().skipped()},
                   {"late", late_of(state)}});
    print_json(line);
  }

 private:
  ProgressTimes times_;
  std::uint64_t acknowledged_rows_ = 0;
};

}  // namespace

std::unique_ptr<Reporter> make_json_reporter() { return std::make_unique<JsonReporter>(); }

}  // namespace weft::cli
