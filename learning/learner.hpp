// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/optimizer.hpp"
#include "learning/options.hpp"
#include "learning/waves.hpp"

#include "mesh/mesh.hpp"

#include "core/aligned_buffer.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::learning {

/// No label: the sample is lived through and not learned from.
inline constexpr std::uint32_t kNoLabel = UINT32_MAX;

/// What one output should say. cross_entropy: `labels` [samples][learners][tokens], of an output [tokens, classes] one
/// a token, of a vector one; its loss is the mean over the tokens that have labels. mse: `values`
/// [samples][learners][width].
struct Target {
  std::string_view output;
  std::span<const std::uint32_t> labels{};
  std::span<const float> values{};
};

/// What the mesh said to one sample before it learned from it.
struct Score {
  std::uint64_t sample = 0;      // counted from the learner's birth
  std::uint32_t learner = 0;     // session
  std::uint32_t prediction = 0;  // largest output (cross_entropy)
  std::uint32_t label = kNoLabel;
  float loss = 0.0f;
  std::uint32_t token = 0;  // of an output [tokens, classes]
};

/// Learning that runs inside the ticks. Errors travel as messages: each layer's reader writes what it wants of the
/// layer into a double-buffered box, the layer takes it up one tick later, meets it with its own past activation, moves
/// its weights, and writes on to its sources. Remote links and feedback are links like any other.
/// @thread one at a time; it drives the mesh it is attached to, which must outlive it
/// @exact  the same bits on every thread count, ISA, executor and number of sessions aboard
class Learner final : public mesh::StepHook {
 public:
  /// @error invalid_argument, shape_mismatch: a network without outputs, an output no input reaches, more learners than
  ///        sessions
  static Result<std::unique_ptr<Learner>> build(mesh::Mesh& mesh, LearningOptions options);
  ~Learner() override;
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  /// Lives through `samples` samples and learns. inputs [samples][sessions][width] for every port that changes.
  /// Targets by output; an output without one learns nothing from these samples. Scores wait in `scores`.
  /// @error shape_mismatch, out_of_range (a label), not_finite, halted
  Status learn(std::span<const mesh::RunInput> inputs, std::span<const Target> targets, std::uint64_t samples);
  /// Runs on, with the last input held, until every sample has been scored and learned from (pipelined; settle:
  /// nothing).
  Status drain();

  /// Scores of finished samples since they were last cleared: by sample, then output (network order), then learner.
  std::span<const Score> scores() const noexcept { return pending_scores_; }
  void clear_scores() noexcept { pending_scores_.clear(); }

  /// Samples given so far, and how many of them have been scored.
  std::uint64_t samples() const noexcept { return samples_; }
  std::uint64_t scored() const noexcept { return scored_; }
  /// Ticks a sample is held (settle); how long evaluation holds one under either schedule.
  std::uint32_t hold() const noexcept { return hold_; }
  /// Ticks from one sample to the next.
  std::uint64_t ticks_per_sample() const noexcept { return options_.schedule == Schedule::pipelined ? 1 : hold_; }
  /// Ticks from a sample's input to the outputs.
  std::uint32_t latency() const noexcept { return latency_; }
  const LearningOptions& options() const noexcept { return options_; }
  Optimizer& optimizer() noexcept;
  const Optimizer& optimizer() const noexcept;
  mesh::Mesh& mesh() noexcept { return mesh_; }

  /// Everything that ticks change besides mesh and optimiser (messages under way, counters, labels), and back.
  std::vector<std::uint32_t> save_flight() const;
  /// Into room that is used again.
  void save_flight(std::vector<std::uint32_t>& to) const;
  /// @error shape_mismatch, corrupt
  Status load_flight(std::span<const std::uint32_t> flight);

  bool fires(std::uint64_t step) const noexcept override;
  std::uint64_t fired_before(std::uint64_t step) const noexcept override;
  void learn(std::size_t region, mesh::NodeId node, std::uint64_t step, std::uint64_t tick) noexcept override;
  /// The learners' rows, where this firing is what an error of a labelled sample will speak of; else none. What is
  /// scored and learned from is thus computed as in training (with dropout); unlabelled samples, runs without a
  /// learner, passes and held copies are not.
  std::size_t training_rows(mesh::NodeId node, std::uint64_t step, std::uint64_t tick) const noexcept override;
  float gradient_size(mesh::NodeId node, std::uint64_t step) const noexcept override;
  void hash_layer(mesh::NodeId node, StateHasher& hasher) const override;
  void remember_layer(mesh::NodeId node, std::vector<float>& kept) const override;
  const float* restart_layer(mesh::NodeId node, const float* kept) noexcept override;
  /// Counters, messages under way, labels and scores, those that wait in `scores` too; with weights, also update counts
  /// and the optimiser's arrays.
  void save_state(mesh::ByteArchive& to, bool with_weights) const override;
  Status load_state(const mesh::ByteArchive& from, bool with_weights) override;
  std::vector<std::pair<mesh::NodeId, mesh::NodeId>> extra_links() const override;

  std::string why_not_recorded() const override { return {}; }
  void each_piece(const std::function<void(const mesh::DeviceRegion&)>& visit) const override;
  std::uint64_t period() const noexcept override { return steps_per_sample(); }
  std::pair<std::uint64_t, std::uint64_t> samples_of(std::uint64_t step, std::uint64_t tick,
                                                     std::uint64_t count) const override;
  std::optional<Hash128> record_key(std::uint64_t step, std::uint64_t tick, std::uint64_t count) const override;
  std::span<const std::uint64_t> update_counts() const noexcept override { return optimizer_.updates(); }
  /// Who shares weights moves with others.
  bool may_skip(mesh::NodeId node) const noexcept override { return layers_[node].sharings.empty(); }
  void add_updates(mesh::NodeId node, std::uint64_t updates) noexcept override;
  void save_host(mesh::ByteArchive& to) const override;
  void load_host(const mesh::ByteArchive& from) override;

 private:
  static constexpr std::uint32_t kNoBox = UINT32_MAX;
  static constexpr std::int64_t kNoSample = -1;
  static constexpr std::uint32_t kNotScored = UINT32_MAX;

  /// One message place: written by the reader of a link in step s, read by its source in step s + 1.
  struct Box {
    std::size_t offset = 0;  // floats into boxes_, the first of two halves
    std::size_t width = 0, stride = 0;
  };
  /// What a layer does for errors from `distance` links away.
  struct Wave {
    std::uint32_t distance = 0;
    std::vector<std::uint32_t> inbox;                     // boxes to add up, in reader order
    std::vector<std::uint32_t> outbox;                    // by source position; kNoBox: that source has no use for it
    std::uint32_t state_in = kNoBox, state_out = kNoBox;  // the layer's own hidden state
    bool sends = false;
  };
  struct LayerPlan {
    std::int32_t output = -1;  // index among the network's outputs
    std::vector<Wave> waves;
    std::size_t feedback = 0;             // floats into feedback_
    std::vector<std::uint32_t> sharings;  // that it takes part in
    std::uint32_t reach = 0;              // ticks that it, or who shares its weights, looks back
    bool has_feedback = false;
  };
  /// Layers that compute with the weights of one of them: their gradients add up, and the weights move once, after the
  /// last of them.
  struct Sharing {
    mesh::NodeId owner = 0;
    std::vector<mesh::NodeId> users;  // that learn, ascending
    std::uint32_t reach = 0;          // the deepest wave of a user
    std::uint32_t pending = 0;        // users of this sample (settle) or step (pipelined) that are still to come
    bool is_used = false, has_failed = false;
  };
  struct Scratch {
    std::uint64_t parity = 0;  // half of the boxes that the region's current step writes
    AlignedBuffer<float> delta, work, target, dx, split;
    AlignedBuffer<float> own;  // what a layer's backward wants for itself
    AlignedBuffer<float> factors;
  };
  struct OutputPlan {
    mesh::NodeId node = 0;
    std::size_t width = 0, tokens = 1;
    // Rings over samples [sample & mask][learner][token]. A label with mse: 0, or kNoLabel without a target.
    std::vector<std::uint32_t> labels;
    std::vector<std::uint32_t> classes;      // the label, or 0: what the loss is asked for
    std::vector<std::uint32_t> predictions;  // kNotScored until the sample is scored
    std::vector<float> losses;
    std::vector<float> values;  // ring [sample & mask][learner][width]
  };

  Learner(mesh::Mesh& mesh, LearningOptions options) : mesh_(mesh), options_(options) {}
  Status plan();
  void plan_wave(const Waves& waves, mesh::NodeId node, std::uint32_t distance);
  void make_feedback();
  void make_scratch();
  std::uint32_t add_box(std::size_t width);
  Status check(std::span<const mesh::RunInput> inputs, std::span<const Target> targets, std::uint64_t samples) const;
  void stage(std::span<const Target> targets, std::uint64_t first, std::uint64_t samples);
  static void set_classes(OutputPlan& output, std::size_t first, std::size_t count) noexcept;
  void collect_scores();
  Score score(const OutputPlan& output, std::uint64_t sample, std::size_t place) const noexcept;
  Status run(std::uint64_t steps);
  std::uint64_t steps_per_sample() const noexcept;
  /// Every array that goes into a state in memory.
  template <class Visit>
  void each_array(bool with_weights, Visit&& visit);
  /// Those of them that the host writes while a device runs the steps.
  template <class Visit>
  void each_host_array(Visit&& visit);

  /// The sample that the outputs of `output_tick` answer (pipelined); kNoSample before the first and after the last.
  std::int64_t sample_at(std::uint64_t output_tick) const noexcept;
  bool is_labelled(std::uint64_t sample) const noexcept;
  kernels::Rows box(std::uint32_t index, std::uint64_t parity) const noexcept;
  kernels::Rows scratch_rows(AlignedBuffer<float>& buffer, std::size_t width) const noexcept;
  /// One wave of one layer; `activation_tick` is when the layer published what the error speaks of.
  /// True when the layer's gradients were added to.
  /// `process`, where nothing that fails reaches another cell: its messages are dropped and `tick` has a fault.
  bool attempt(std::size_t region, mesh::NodeId node, const Wave& wave, std::uint64_t activation_tick,
               std::uint64_t sample, std::uint64_t tick) noexcept;
  bool are_messages_finite(std::size_t region, mesh::NodeId node, const Wave& wave) noexcept;
  void drop_wave(std::size_t region, mesh::NodeId node, const Wave& wave) noexcept;
  bool process(std::size_t region, mesh::NodeId node, const Wave& wave, std::uint64_t activation_tick,
               std::uint64_t sample);
  void measure_gradient(std::size_t region, mesh::NodeId node) noexcept;
  bool process_gradient(std::size_t region, mesh::NodeId node, const Wave& wave, std::uint64_t tick,
                        kernels::Rows delta);
  bool process_target(std::size_t region, mesh::NodeId node, const Wave& wave, std::uint64_t tick,
                      kernels::Rows displacement);
  void output_gradient(std::size_t region, mesh::NodeId node, std::uint64_t tick, std::uint64_t sample,
                       kernels::Rows gradient) noexcept;
  /// Scores of rows of one label each, and the slopes of their losses; a row without a label has none.
  void score_rows(std::size_t region, const kernels::Rows& y, OutputPlan& output, std::size_t place,
                  const kernels::ConstRows& values, const kernels::Rows& gradient) noexcept;
  void output_target(std::size_t region, mesh::NodeId node, std::uint64_t tick, std::uint64_t sample,
                     kernels::Rows displacement) noexcept;
  void gather(std::size_t region, mesh::NodeId node, const Wave& wave, kernels::Rows sum) noexcept;
  void gather_direct(std::size_t region, mesh::NodeId node, kernels::Rows sum) noexcept;
  void propagate_target(std::size_t region, mesh::NodeId node, std::uint64_t tick, kernels::Rows displacement,
                        kernels::Rows dx);
  void send(std::size_t region, mesh::NodeId node, const Wave& wave, std::uint64_t tick, kernels::Rows dx) noexcept;
  void plan_sharing();
  /// Makes room for the gradients of the weights that `node` computes with.
  void begin_update(std::size_t region, mesh::NodeId node) noexcept;
  /// Moves the weights of `node`, and those it shares once their last user has come; `is_used`: it added gradients.
  void end_update(std::size_t region, mesh::NodeId node, bool is_used, std::uint64_t tick) noexcept;
  void move_weights(std::size_t region, mesh::NodeId node, std::uint64_t tick) noexcept;
  mesh::BackwardArgs past(std::size_t region, mesh::NodeId node, std::uint64_t tick) noexcept;
  kernels::Rows learner_rows(kernels::Rows rows) const noexcept {
    return {rows.data, options_.learners, rows.cols, rows.stride};
  }

  mesh::Mesh& mesh_;
  LearningOptions options_;
  Optimizer optimizer_;
  std::vector<LayerPlan> layers_;
  std::vector<Sharing> sharings_;
  std::vector<OutputPlan> outputs_;
  std::vector<Box> box_table_;
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> edge_boxes_;  // edge -> (reader's distance, box)
  std::vector<std::uint32_t> error_boxes_;                                        // dfa: by output, its error
  AlignedBuffer<float> boxes_;
  /// By node, for those that a metacognition layer watches for storms: the rms of the last gradient, double-buffered as
  /// boxes are.
  std::vector<std::array<float, 2>> gradient_sizes_;
  std::vector<float> gradient_squares_;   // the operation's result
  std::vector<std::uint8_t> has_failed_;  // by node: a fault in the update under way
  std::vector<bool> is_measured_;
  AlignedBuffer<float> feedback_;
  std::vector<Scratch> scratch_;  // by region
  std::size_t box_half_ = 0;      // floats of one parity
  std::uint32_t latency_ = 0, depth_ = 0, deepest_ = 0, hold_ = 0;
  std::uint64_t chunk_ = 0;       // samples of a run, at most
  std::uint64_t ring_mask_ = 0;   // samples at hand for labels and scores
  std::uint64_t birth_tick_ = 0;  // tick at which sample 0 stood in the ports (pipelined)
  std::uint64_t samples_ = 0, scored_ = 0;
  std::vector<Score> pending_scores_;
  std::uint64_t steps_ = 0;  // steps of all runs before this one; with the step's own number, its parity says which
                             // half of a box is written
  std::uint64_t block_first_ = 0;  // sample of the block's first step (settle)
};

}  // namespace weft::learning
