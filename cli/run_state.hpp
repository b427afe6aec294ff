// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/divergence.hpp"
#include "cli/feed.hpp"
#include "cli/plasticity_probe.hpp"
#include "cli/prolong.hpp"
#include "cli/samples.hpp"
#include "cli/setup.hpp"

#include "agent/agent.hpp"
#include "learning/layer_monitor.hpp"
#include "learning/learner.hpp"
#include "learning/plasticity.hpp"
#include "learning/sample_stream.hpp"

#include "mesh/mesh.hpp"
#include "mesh/persistence/snapshot.hpp"

#include "formats/entity/entity.hpp"

#include "core/bytes.hpp"
#include "core/json_reader.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::cli {

/// The accuracy of a run so far, at marks that depend on the sample number alone, so that a resumed run draws the same.
struct AccuracyCurve {
  std::vector<float> points;              // accuracy over the window
  std::optional<double> lowest_accuracy;  // of the window, after the drift
};

/// Reads what a run learns from. Choices made from the table are part of its network from then on.
Result<Samples> read_run_samples(const Model& model, RunSetup& setup);

/// Mesh, learner and stream of one run, and their snapshots; with a data directory, an agent that journals the run.
class RunState final : private agent::StateExtension {
 public:
  /// `read`: what `read_run_samples` gives for `setup`.
  static Result<std::unique_ptr<RunState>> open(const Model& model, RunSetup setup, Samples read);
  RunState(const RunState&) = delete;
  RunState& operator=(const RunState&) = delete;

  /// From now on a sample that takes many steps, the end of the stream and the measurement after it are given up once
  /// `flag` is not 0: `interrupted`. Then mesh and stream stand as they stood before the call.
  void stop_by(const std::atomic<int>& flag);
  /// Runs at most `samples` samples, no further than the next marker.
  Status advance(std::uint64_t samples);
  /// Learns what is under way; held-out accuracy is measured. After the last sample, once.
  Status finish();
  bool is_finished() const noexcept { return is_finished_; }

  /// Everything, so that `resume` goes on to the bit; to be streamed before anything changes.
  Result<ByteSource> snapshot();
  /// The same for a file kept elsewhere: its path to the data is made to fit `path`.
  Result<ByteSource> snapshot_for(const std::string& path);
  /// Puts a snapshot back. @error invalid_argument: another network, settings or data, naming the first difference;
  ///                             corrupt: the state is not the one that was saved
  Status resume(const formats::EntityFile& file);

  /// To look at and to save; what moves an agent's mesh goes through the agent.
  mesh::Mesh& mesh() noexcept { return learner_->mesh(); }
  /// Null without a data directory.
  agent::Agent* agent() noexcept { return agent_.get(); }
  /// State found when the agent was opened.
  const agent::Recovery& recovery() const noexcept { return recovery_; }
  learning::SampleStream& stream() noexcept { return *stream_; }
  const learning::Learner* learner() const noexcept { return learner_; }
  /// Runs one sample, and measures its layers as they learn.
  Status advance_measured(std::vector<learning::LayerDiagnostics>& measured);
  const RunSetup& setup() const noexcept { return setup_; }
  const AccuracyCurve& accuracy_curve() const noexcept { return accuracy_curve_; }
  const DataStatistics& data_statistics() const noexcept { return data_statistics_; }
  /// None before `finish`, and where nothing is held out.
  const std::optional<learning::Evaluation>& held_out() const noexcept { return measured_.held_out; }
  /// Of the samples to validate with; none before `finish`, and without such.
  const std::optional<learning::Evaluation>& validation() const noexcept { return measured_.validation; }
  /// None either where values are learned.
  std::optional<double> held_out_accuracy() const noexcept {
    return held_out() && !held_out()->has_values() ? std::optional(held_out()->accuracy()) : std::nullopt;
  }
  /// The layers as `--probe` measures them; none before `finish`, without it, and where all samples arrive.
  const std::vector<learning::LayerPlasticity>& plasticity() const noexcept { return measured_.plasticity; }
  /// The same while the run goes on, as of the last second or so.
  const std::vector<learning::LayerPlasticity>& plasticity_now() {
    return probe_.look([this] { return learning::measure_plasticity(*stream_, setup_.probe, true); });
  }
  /// Notes for the table's owner, a line each.
  const std::vector<std::string>& notes() const noexcept { return notes_; }
  /// Samples that arrive; null: they are a file's.
  Feed* feed() noexcept { return arriving_.feed ? &*arriving_.feed : nullptr; }
  /// The place in them.
  const FeedPlace& feed_place() const noexcept { return arriving_.place; }
  /// Marks stand at its multiples.
  std::uint64_t stride() const noexcept { return stride_; }

 private:
  Result<ByteSource> snapshot(std::optional<std::string> stream);
  explicit RunState(RunSetup setup) : setup_(std::move(setup)) {}
  Status measure_held_out();
  void measure_dormant(std::vector<learning::LayerDiagnostics>& measured) const;
  /// A run whose stream has been given more epochs, or that came to the end of it and is given another one.
  Status prolong();
  StreamPlace place() const;
  /// Does `work`, and undoes it where it was interrupted.
  template <class Work>
  Status or_undo(Work&& work);
  /// True where the sample number is a mark.
  bool mark();
  /// State of the run besides mesh and learner, as a JSON object, and back.
  std::string text() const;
  Status load_run(JsonReader& run);

  Status begin(agent::ReplayableMesh& replayable) override;
  std::string save() const override { return text(); }
  Status load(std::string_view json) override;
  Status replayed(const agent::Record& record) override;

  RunSetup setup_;
  std::string data_digest_;
  DataStatistics data_statistics_;
  std::optional<learning::Dataset> data_;            // until the stream has it
  std::optional<agent::ReplayableMesh> replayable_;  // without a data directory
  std::unique_ptr<agent::Agent> agent_;              // with one
  agent::Recovery recovery_;
  learning::Learner* learner_ = nullptr;
  std::optional<learning::SampleStream> stream_;
  /// Samples that arrive.
  struct Arriving {
    FeedPlace place;
    std::optional<Feed> feed;
  } arriving_;
  AccuracyCurve accuracy_curve_;
  std::uint64_t stride_ = 1;
  bool is_finished_ = false;
  std::optional<StreamPlace> left_;  // the stream of a run that goes on with another one
  bool is_prolonged_ = false;
  /// At the end.
  struct Measured {
    std::optional<learning::Evaluation> held_out, validation;
    std::vector<learning::LayerPlasticity> plasticity;
  } measured_;
  PlasticityProbe probe_;  // of --probe
  std::vector<std::string> notes_;
  /// The state before a call that may be interrupted.
  struct Undo {
    bool is_kept = false;
    mesh::Snapshot before;
  } undo_;
  std::optional<learning::LayerMonitor> watch_;  // once somebody has looked
};

/// A section `stream` for a file at `path`: its relative paths to data, `written` in it and `found` from here, are made
/// to fit. Nothing where all fit as they are.
Result<std::optional<std::string>> fit_data_paths(const std::string& stream, const learning::StreamOptions& written,
                                                  const SamplePaths& found, const std::string& path);
/// The same of a model that was read.
Result<std::optional<std::string>> fit_data_paths(const Model& model, const std::string& path);

/// A mesh with all that `file` holds: weights, and live state with a learner where there is one. For looking at, not
/// for running.
struct Loaded {
  std::unique_ptr<mesh::Mesh> mesh;
  std::unique_ptr<learning::Learner> learner;  // after the mesh: it goes first
  bool is_live = false;
};
Result<Loaded> load(const Model& model, mesh::MeshOptions options);
/// Content of a changed model for a file at `path`; `live`: with state, learner and annotations.
Result<ByteSource> encode(Loaded& loaded, const Model& model, bool live, const std::string& path);

}  // namespace weft::cli
