// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/options.hpp"
#include "learning/trace_signal.hpp"

#include "mesh/mesh.hpp"
#include "mesh/runtime/step_rule.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::learning {

class AnomalyWatch;
class DriftWatch;
class LayerMonitor;
class Optimizer;
struct DriftReaction;
struct LateSample;
struct LearnerParts;
struct WeightChanges;

/// No label: the sample is run and not learned from.
inline constexpr std::uint32_t kNoLabel = UINT32_MAX;

/// Target of one output, by the loss (LossTargets). labels: `labels` [samples][learners][tokens], one a token of an
/// output [tokens, classes], one of a vector; the loss is the mean over the tokens that have labels. head_labels:
/// `labels` [samples][learners][heads], and the mean over the heads that have labels. values: `values`
/// [samples][learners][width].
struct Target {
  std::string_view output;
  std::span<const std::uint32_t> labels{};
  std::span<const float> values{};
  /// Instead of either: the caller's own gradient of its loss by the output's values, [learners][width]. It has no
  /// loss of Weft's. Of `teach` alone.
  std::span<const float> gradient{};
  /// [samples][learners]: factors, >= 0, of the gradients; empty: 1. A sample with none above 0 is scored and not
  /// learned from. Of `teach`, and of `learn` where the option `weights` is on.
  std::span<const float> weights{};
  /// Beside a gradient, where `traces` is on: the step that the output's layers make. Of `teach` alone.
  std::optional<TraceSignal> signal{};
  /// Of several learners instead: [learners], the step of each by its own traces.
  std::span<const TraceSignal> signals{};
};

/// True when something is to be learned from the targets of one sample: one of a learner with a weight above 0.
bool teaches(std::span<const Target> targets, std::size_t learners) noexcept;

/// Number of a sample among all that entered, from 0.
using Ticket = std::uint64_t;

/// Samples that were observed, by their fates. The others are open.
struct LateCounts {
  std::uint64_t observed = 0, taught = 0, forgone = 0, expired = 0;
  std::uint64_t open() const noexcept { return observed - taught - forgone - expired; }
};

/// Prediction for one sample before it was learned from.
struct Score {
  std::uint64_t sample = 0;      // counted from the learner's first
  std::uint32_t learner = 0;     // session
  std::uint32_t prediction = 0;  // largest output, of labels
  std::uint32_t label = kNoLabel;
  float loss = 0.0f;
  std::uint32_t token = 0;  // of an output [tokens, classes]; or the head
  float anomaly = 0.0f;     // score of `anomaly`; 0 where that is off
};

/// Learning that runs inside the ticks. Errors travel as messages: each layer's reader writes its error for the layer
/// into a double-buffered message; the layer reads it one tick later, pairs it with its own past activation, moves its
/// weights, and writes on to its sources. Remote links and feedback are links like any other.
/// @thread one at a time; it drives the mesh it is attached to, which must outlive it
/// @exact  the same bits on every thread count, ISA, executor and number of sessions
class Learner final : public mesh::StepRule {
 public:
  /// @error invalid_argument, shape_mismatch: a network without outputs, an output no input reaches, more learners than
  ///        sessions
  static Result<std::unique_ptr<Learner>> build(mesh::Mesh& mesh, LearningOptions options);
  ~Learner() override;
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  /// Runs `samples` samples and learns. inputs [samples][input_rows(*this)][width] for every port that changes; with
  /// `replay` for every port.
  /// Targets by output; an output without one learns nothing from these samples. Scores wait in `scores`.
  /// @error shape_mismatch, out_of_range (a label), not_finite, halted
  Status learn(std::span<const mesh::RunInput> inputs, std::span<const Target> targets, std::uint64_t samples);
  /// Runs on, with the last input held, until every sample has been scored and learned from (pipelined; settle:
  /// nothing).
  Status drain();

  /// One sample of each session enters, of which the target comes later or never; computed as in use, without dropout.
  /// inputs [sessions][width] for every port that changes. settle: its answer is there at once; pipelined: `latency()`
  /// ticks later, each a call of observe, learn or drain.
  /// @error unsupported: `late` is none; as learn. A sample that a halt cut short is forgone
  Result<Ticket> observe(std::span<const mesh::RunInput> inputs);
  /// The answer to an open sample, as it left the mesh: [sessions][width].
  /// @error not_found: it is not there yet; unknown_name; as teach
  Result<std::span<const float>> answer(Ticket ticket, std::string_view output) const;
  /// The target of an open sample, at last: it is scored by its answer and learned from. Late::meet: at the activations
  /// of then, with the weights of now; settle at once, pipelined as the next tick's error. Late::again: it is shown
  /// anew, as by `learn`. Refused targets change nothing.
  /// @error out_of_range: no such sample, a label, a weight below 0; timed_out: the sample has expired;
  ///        invalid_argument: it is taught or forgone, a gradient where the rule has no use for one; not_finite;
  ///        shape_mismatch; unknown_name; halted
  Status teach(Ticket ticket, std::span<const Target> targets);
  /// No target will come. @error as teach
  Status forgo(Ticket ticket);
  LateCounts late_counts() const noexcept;
  /// The ticket of the sample that enters next.
  Ticket next_ticket() const noexcept;
  /// Samples that expired since scores were last cleared.
  std::span<const Ticket> expired() const noexcept;

  /// The mesh's answers to `rows` inputs as it is now: each held for `hold()` ticks by a copy that starts where
  /// `session` stands (none: at zero). Nothing is learned from them, nothing changes, no tick passes for the mesh.
  /// inputs [rows][width], outputs [rows][width]. @error unknown_name, shape_mismatch, not_finite, out_of_range
  Status predict(std::span<const mesh::RunInput> inputs, std::size_t rows, std::span<const mesh::RunOutput> outputs,
                 std::optional<std::size_t> session = std::nullopt) const;

  /// Scores of finished samples since they were last cleared: by sample, then output (network order), then learner.
  std::span<const Score> scores() const noexcept;
  void clear_scores() noexcept;

  /// Samples given so far, and how many of them have been scored.
  std::uint64_t samples() const noexcept;
  std::uint64_t scored() const noexcept;
  /// Ticks a sample is held (settle); how long evaluation holds one under either schedule.
  std::uint32_t hold() const noexcept;
  /// Ticks from one sample to the next.
  std::uint64_t ticks_per_sample() const noexcept;
  /// Ticks from a sample's input to the outputs.
  std::uint32_t latency() const noexcept;
  const LearningOptions& options() const noexcept;
  Optimizer& optimizer() noexcept;
  const Optimizer& optimizer() const noexcept;
  mesh::Mesh& mesh() noexcept;
  const mesh::Mesh& mesh() const noexcept;

  /// After its fields came out of a file: checks them, and makes what follows from them.
  /// @error corrupt; then the learner is to be thrown away
  Status finish_restore();

  bool fires(std::uint64_t step) const noexcept override;
  std::uint64_t fired_before(std::uint64_t step) const noexcept override;
  /// Of a settled sample: layers before which nothing has changed, or nothing new has come yet.
  bool keeps_value(mesh::NodeId node, std::uint64_t step) const noexcept override;
  void learn(mesh::StepContext& context, mesh::NodeId node) noexcept override;
  /// training: the learners' rows, where an error of a labelled sample will be paired with this firing; else none.
  /// Samples that are scored and learned from are thus computed as in training (with dropout); unlabelled samples, runs
  /// without a learner, passes and evaluated copies are not.
  /// samples: the learners' rows in one firing of each sample: settle, the first tick in which all that the layer reads
  /// is of the sample; pipelined, the tick in which it reads the sample. With a target or without; not when it is shown
  /// anew.
  mesh::FiringRows firing_rows(mesh::NodeId node, std::uint64_t step, std::uint64_t tick) const noexcept override;
  float gradient_size(mesh::NodeId node, std::uint64_t step) const noexcept override;
  std::vector<std::pair<mesh::NodeId, mesh::NodeId>> extra_links() const override;
  /// Counters, messages under way, labels and scores, those that wait in `scores` too; with weights, also update counts
  /// and the optimiser's arrays.
  mesh::RuleState* saved() noexcept override;
  mesh::RecordableRule* recordable() noexcept override;

 private:
  friend class LayerMonitor;
  friend Status change_weights(Learner& learner, const DriftReaction& reaction);
  friend WeightChanges weight_changes(const Learner& learner) noexcept;
  friend const DriftWatch& drift_of(const Learner& learner) noexcept;
  friend const AnomalyWatch& anomaly_of(const Learner& learner) noexcept;
  friend std::vector<mesh::NodeId> inverse_nodes(const Learner& learner);
  friend std::vector<mesh::NodeId> states_without_errors(const Learner& learner);
  friend std::vector<mesh::NodeId> layers_without_errors(const Learner& learner);
  friend std::span<const std::uint64_t> stored_samples(const Learner& learner) noexcept;
  friend void number_from(Learner& learner, Ticket next) noexcept;
  friend std::size_t kept_ticks(const Learner& learner) noexcept;
  explicit Learner(std::unique_ptr<LearnerParts> parts);
  Status check(std::span<const mesh::RunInput> inputs, std::uint64_t samples) const;
  Status check(std::span<const Target> targets, std::uint64_t samples, bool is_late) const;
  Status run(std::span<const mesh::RunInput> inputs, std::uint64_t first, std::uint64_t samples, std::uint64_t steps);
  Status run_steps(std::uint64_t steps, std::uint64_t& done);
  void collect_scores();
  Status let_errors_move();
  Status make_room_for_errors();
  Status teach_settled(const LateSample& sample);
  Status learn_again(const LateSample& sample);
  void move_together(mesh::StepContext& context, mesh::NodeId node) noexcept;

  std::unique_ptr<LearnerParts> parts_;
};

/// Ticks of a mesh's past, back from the present one, that steps to come can read: a settled learner between two
/// samples reads the present one alone, where errors travel no further back than a sample's own ticks. 0: all that is
/// kept.
std::size_t kept_ticks(const Learner& learner) noexcept;

/// The detector of drift that takes a learner's scores (`drift`); its events are cleared with them.
DriftWatch& drift_of(Learner& learner) noexcept;
const DriftWatch& drift_of(const Learner& learner) noexcept;
/// Anomaly scores of a learner (`anomaly`); its events are cleared with the scores.
const AnomalyWatch& anomaly_of(const Learner& learner) noexcept;
/// Layers with a learned inverse (dtp, sdtp), ascending.
std::vector<mesh::NodeId> inverse_nodes(const Learner& learner);
/// Layers that learn and whose hidden state could pass errors to the tick before, but gets none: the rule sends none
/// there, or `horizon` ends before. They learn from each tick by itself. Ascending.
std::vector<mesh::NodeId> states_without_errors(const Learner& learner);
/// Layers with weights that no error reaches, since a stated `horizon` ends before: they learn nothing. Ascending.
std::vector<mesh::NodeId> layers_without_errors(const Learner& learner);
/// Numbers of the samples that `replay` has stored, among those that came, by place.
std::span<const std::uint64_t> stored_samples(const Learner& learner) noexcept;
/// Numbers the samples of a learner into which none has entered from `next` on; those before have expired.
void number_from(Learner& learner, Ticket next) noexcept;
/// Learner::predict of a row for each of these sessions. inputs [sessions.size()][width], outputs the same
Status predict_sessions(const Learner& learner, std::span<const mesh::RunInput> inputs,
                        std::span<const std::size_t> sessions, std::span<const mesh::RunOutput> outputs);
/// Bytes that stored samples take, once there are as many as there may be.
std::uint64_t stored_sample_bytes(const Learner& learner) noexcept;
/// Rows of a sample's inputs: one a session, without those where stored samples are.
std::size_t input_rows(const Learner& learner) noexcept;

}  // namespace weft::learning
