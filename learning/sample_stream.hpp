// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/dataset.hpp"
#include "learning/drift/adaptation.hpp"
#include "learning/drift/drift_watch.hpp"
#include "learning/drift/stream_event.hpp"
#include "learning/evaluation.hpp"
#include "learning/learner.hpp"
#include "learning/stream_options.hpp"
#include "learning/tasks/task_matrix.hpp"
#include "learning/tasks/task_sequence.hpp"
#include "learning/taught_outputs.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::learning {

/// Prequential accuracy over a sliding window, and the recovery from a drift. With several labels a sample, each counts
/// for itself; of values there is the loss alone.
/// @source Gama, Sebastiao and Rodrigues 2013, "On evaluating stream learning algorithms", section 3.2 (sliding
/// windows)
struct StreamProgress {
  std::uint64_t samples = 0, total = 0;  // so far; of the whole stream, 0: its end is not known
  std::uint64_t epoch = 0;
  bool has_accuracy = true;            // false: values are learned
  double prequential_accuracy = 0;     // over the last `window` scored samples
  double overall_accuracy = 0;         // over all scored samples
  double mean_loss = 0;                // over the window
  std::optional<double> before_drift;  // windowed accuracy when the task changed
  /// Samples after the drift until the window, filled anew, is back at 95 % of `before_drift`; nothing while it is not.
  std::optional<std::uint64_t> recovery_samples;
};

/// Receiver of a stream's samples in place of the learner: an agent, which journals them too.
struct Training {
  std::function<Status(std::span<const mesh::RunInput>, std::span<const Target>, std::uint64_t)> learn;
  std::function<Status()> drain;
};

/// Counts of scores, of all samples and of the last ones.
struct ScoreWindow {
  std::vector<std::uint8_t> hits;  // ring over scored samples
  std::vector<float> losses;
  std::uint64_t scored = 0, all_hits = 0, hit_count = 0;
  std::optional<double> before_drift;
  std::optional<std::uint64_t> recovery_samples;
  AdaptationTracker adaptation;
  StreamEventLog events;
  std::uint64_t first_sample = 0;        // of the learner's, the stream's first
  std::vector<DriftEvent> drift_events;  // not taken yet
  std::vector<AnomalyEvent> anomalies;   // likewise
  static constexpr std::size_t kMostEvents = 1024;
};

/// Feeds a data set to a learner: every sample is predicted, scored, then learned. Split, order of each epoch
/// and drift are functions of the seed, so a stream resumed at sample n goes on as if it had never stopped.
/// With several learners each has a sample of its own: an update is of as many samples as there are learners, taken
/// one after the other. Sessions that do not learn are shown the samples of those that do, over again.
/// @thread one at a time
class SampleStream {
 public:
  /// @error shape_mismatch: features or classes that do not fit the network; unknown_name; invalid_argument
  static Result<SampleStream> build(Learner& learner, Dataset data, StreamOptions options);
  /// A stream of samples that arrive: its owner hands them to the learner and says so by `arrive`. `data` has no rows
  /// but those of files to measure with. @error the same; unsupported: a drift, whose place is a share of the whole
  static Result<SampleStream> build_fed(Learner& learner, Dataset data, StreamOptions options);
  bool is_fed() const noexcept { return is_fed_; }
  /// So many samples are handed to the learner; they are counted before, and taken back where it refuses them.
  void arrive(std::uint64_t samples) noexcept { next_ += samples; }
  void take_back(std::uint64_t samples) noexcept { next_ -= samples; }
  /// Scores that wait in the learner are counted.
  void score_waiting() { take_scores(); }
  std::uint64_t samples() const noexcept { return next_; }
  /// No more will arrive.
  void end() noexcept { total_ = next_; }
  /// Another stream of the same shape follows.
  void begin_anew();
  const TargetUnits& units() const noexcept { return units_; }
  /// Outputs that it teaches.
  const TaughtOutputs& outputs() const noexcept { return outputs_; }

  /// Sends samples through `training` from now on, which must hand them to the same learner.
  void go_through(Training training) { training_ = std::move(training); }
  /// The learner has replayed the next `steps` samples of each learner from a record of them.
  void replayed(std::uint64_t steps);

  /// Changes of the task that the stream made (`drift`, `tasks`) or knows of (`change_every`), or that a detector saw,
  /// and how the learner adapted. None of values.
  const AdaptationTracker& adaptation() const noexcept { return scores_.adaptation; }
  /// Events of the learner's detector of drift since this was last called; the latest. `sample` is the number in this
  /// stream, in which the learners' samples stand one after the other.
  std::vector<DriftEvent> take_drift_events() { return std::exchange(scores_.drift_events, {}); }

  /// Samples that enter together, one of each learner.
  std::uint64_t at_once() const noexcept;

  /// Runs the next `samples` samples: as many as enter together at least, and a multiple of those; fewer at the end.
  Status advance(std::uint64_t samples);
  /// Learns what is still under way; after the last sample.
  Status finish();
  bool is_done() const noexcept { return next_ == total_; }
  /// A multiple of the samples that enter together: a rest of the last epoch is left out.
  std::uint64_t total() const noexcept { return total_; }
  std::uint64_t train_size() const noexcept { return train_.size(); }
  std::uint64_t held_out_size() const noexcept { return held_out_.size(); }
  StreamProgress progress() const noexcept;
  /// The first sample of the changed task; UINT64_MAX without a drift.
  std::uint64_t drift_sample() const noexcept { return drift_sample_; }
  const StreamOptions& options() const noexcept { return options_; }

  /// Answers to the held-out samples: each is shown, until settled, to a copy of session 0; the task is the
  /// one of the stream's last sample. Touches neither mesh nor stream.
  Result<Evaluation> measure_held_out() const;
  /// The same of the samples to validate with.
  Result<Evaluation> measure_validation() const;
  std::size_t validation_size() const noexcept { return validation_.size(); }
  Result<double> held_out_accuracy() const;
  /// Names of classes and targets; its rows are the stream's own matter.
  const Dataset& data() const noexcept { return data_; }

  /// Position of the stream as JSON, and back; without a drift also of a shorter or longer stream of the same rows.
  /// @error corrupt, parse_failed; invalid_argument: it stands beyond this one's end
  std::string save_cursor() const;
  Status load_cursor(std::string_view json);

 private:
  friend class StreamTasks;
  friend const TaskMatrix* tasks_of(const SampleStream& stream) noexcept;
  friend std::vector<AnomalyEvent> take_anomalies(SampleStream& stream);
  friend std::vector<StreamEvent> take_stream_events(SampleStream& stream);
  explicit SampleStream(Learner& learner) : learner_(&learner) {}
  static Result<SampleStream> make(Learner& learner, Dataset data, StreamOptions options, bool is_fed);
  void draw();
  void shuffle_epoch(std::uint64_t epoch);
  bool has_drifted(std::uint64_t sample) const noexcept {
    return options_.drift != Drift::none && sample >= drift_sample_;
  }
  void put_inputs(std::uint64_t sample, const TaskSequence::Place& place, float* to) const;
  void put_labels(std::uint64_t sample, const TaskSequence::Place& place, std::uint32_t* to) const;
  void put_values(std::size_t row, float* to) const;
  void put_steps(std::uint64_t steps);
  Status check_targets() const;
  Result<Evaluation> measure(std::span<const TaskSequence::Place> places) const;
  void score(const Score& score);
  void take_scores();

  Learner* learner_;
  bool is_fed_ = false;
  Training training_;  // empty: the learner's own
  Dataset data_;
  StreamOptions options_;
  std::vector<std::uint32_t> train_, held_out_, validation_;  // rows of the data set
  std::vector<std::uint32_t> order_;                          // of the current epoch
  std::uint64_t order_epoch_ = UINT64_MAX;
  std::vector<std::uint32_t> label_map_, pixel_map_;
  std::uint64_t next_ = 0, total_ = 0, drift_sample_ = UINT64_MAX;

  ScoreWindow scores_;
  TargetUnits units_;
  TaughtOutputs outputs_;
  /// Several tasks, one after the other.
  struct Tasks {
    TaskSequence sequence;
    TaskMatrix matrix;
  };
  std::optional<Tasks> tasks_;
  /// Samples put together for one call of the learner.
  struct Block {
    std::vector<float> inputs, values, weights;
    std::vector<std::uint32_t> labels;
  } block_;
};

/// Anomalies of a stream's learner since this was last called; the latest.
std::vector<AnomalyEvent> take_anomalies(SampleStream& stream);
/// Changes of a stream's task, and alarms of its detector, since this was last called; the latest. They are saved with
/// its cursor too, under `events`.
std::vector<StreamEvent> take_stream_events(SampleStream& stream);
/// True where there can be such: a task that changes, or a detector.
bool has_stream_events(const StreamOptions& stream, const LearningOptions& learning) noexcept;
/// Accuracies on each of the tasks of a stream; null: it has none.
const TaskMatrix* tasks_of(const SampleStream& stream) noexcept;

}  // namespace weft::learning
