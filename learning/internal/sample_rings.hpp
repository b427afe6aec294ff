// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/learner.hpp"
#include "learning/options.hpp"

#include "mesh/network/graph.hpp"

#include "core/archive.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::learning {

/// First columns of the parts of an output that have a label each, and the end of the last: of [tokens, classes] the
/// tokens, with several heads these, else all of it.
inline std::vector<std::size_t> parts_of(const mesh::Node& output, const LearningOptions& options) {
  std::vector<std::size_t> starts{0};
  switch (targets_of(options.loss)) {
    case LossTargets::labels:
      for (std::size_t end = output.shape.back(); end <= output.width; end += output.shape.back())
        starts.push_back(end);
      break;
    case LossTargets::head_labels:
      for (const std::uint32_t width : options.heads) starts.push_back(starts.back() + width);
      break;
    case LossTargets::values:
      starts.push_back(output.width);
  }
  return starts;
}

/// In the place of labels: a sample has the caller's gradient of the output.
inline constexpr std::uint32_t kGradient = kNoLabel - 1;

/// Target of one sample at one output.
struct TargetRow {
  std::vector<std::uint32_t> labels;  // [learners][parts]: labels; 0 beside values; kGradient beside a gradient
  std::vector<float> values;          // [learners][width]: values or a gradient
  std::vector<float> weights;         // [learners]

  template <class Self, class Archive>
  static void visit(Self& self, Archive& archive) {
    archive.list(Field{"labels", Scope::control}, self.labels);
    archive.list(Field{"values", Scope::control}, self.values);
    archive.list(Field{"weights", Scope::control}, self.weights);
  }
};

/// Labels, targets and results of one output, in rings over samples: [sample & mask][learner][token].
struct OutputRing {
  static constexpr std::uint32_t kNotScored = UINT32_MAX;

  mesh::NodeId node = 0;
  std::size_t width = 0, tokens = 1;         // parts with a label each
  std::vector<std::size_t> starts{};         // of the parts, and the end of the last
  std::vector<std::uint32_t> labels{};       // of values: 0, or kNoLabel without a target
  std::vector<std::uint32_t> classes{};      // the label, or 0: an operand of the loss
  std::vector<std::uint32_t> predictions{};  // kNotScored until the sample is scored
  std::vector<float> losses{};
  std::vector<float> values{};   // ring [sample & mask][learner][width]; with Late also of gradients
  std::vector<float> weights{};  // ring [sample & mask][learner]; empty: all are 1
  std::vector<float> signals{};  // ring [sample & mask][learner][kTraceSignal], with traces
  // Answers of before that rows are to stay near to [sample & mask][learner][width], and by how much, of a sample;
  // 0: not at all. Of a settled sample alone, so that none is under way between two.
  std::vector<float> guides{}, guide_scales{}, guide_work{};

  /// The arrays of output number `i`.
  template <class Self, class Archive>
  static void visit(Self& self, std::uint32_t i, Archive& archive) {
    archive(Field{"labels", Scope::messages, i}, std::span(self.labels));
    archive(Field{"classes", Scope::results, i}, std::span(self.classes));
    archive(Field{"predictions", Scope::results, i}, std::span(self.predictions));
    archive(Field{"losses", Scope::results, i}, std::span(self.losses));
    archive(Field{"targets", Scope::messages, i}, std::span(self.values));
    archive(Field{"target_weights", Scope::messages, i}, std::span(self.weights));
    archive(Field{"signals", Scope::steps, i}, std::span(self.signals));
  }
  void set_classes(std::size_t first, std::size_t count) noexcept;
};

/// The rings of all outputs: samples under way, their targets and their results.
class SampleRings {
 public:
  SampleRings() = default;
  /// Rings of `slots` samples, a power of two.
  SampleRings(const mesh::Graph& graph, const LearningOptions& options, std::uint64_t slots);

  /// Bytes of so many slots.
  static std::uint64_t bytes_for(const mesh::Graph& graph, const LearningOptions& options, std::uint64_t slots);

  std::uint64_t slot(std::uint64_t sample) const noexcept { return sample & mask_; }
  std::vector<OutputRing>& outputs() noexcept { return outputs_; }
  const std::vector<OutputRing>& outputs() const noexcept { return outputs_; }
  /// Labels that a sample has for all learners.
  std::size_t places(const OutputRing& output) const noexcept { return learners_ * output.tokens; }
  std::span<const std::uint32_t> labels(const OutputRing& output, std::uint64_t sample) const noexcept {
    return {output.labels.data() + slot(sample) * places(output), places(output)};
  }
  bool is_labelled(std::uint64_t sample) const noexcept {
    return std::any_of(outputs_.begin(), outputs_.end(), [&](const OutputRing& output) {
      const auto all = labels(output, sample);
      return std::any_of(all.begin(), all.end(), [](std::uint32_t label) { return label != kNoLabel; });
    });
  }
  /// False for a labelled sample of which all weights are 0: it is scored, and not learned from.
  bool teaches(std::uint64_t sample) const noexcept {
    if (!has_weights_) return is_labelled(sample);
    return std::any_of(outputs_.begin(), outputs_.end(), [&](const OutputRing& output) {
      const auto all = labels(output, sample);
      for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i] != kNoLabel && output.weights[slot(sample) * learners_ + i / output.tokens] > 0.0f) return true;
      return false;
    });
  }
  /// Takes in targets [first, first + samples) of those given, for samples from `sample` on.
  void stage(const mesh::Graph& graph, std::span<const Target> targets, std::uint64_t first, std::uint64_t samples,
             std::uint64_t sample);
  /// Takes in the target of one sample, by output.
  void put(std::uint64_t sample, std::span<const TargetRow> target);
  /// Takes in the signals of its traces, by output. @pre each target has them
  void put_signals(const mesh::Graph& graph, std::span<const Target> targets, std::uint64_t sample) noexcept;
  /// Those of output number `output`, [learners][kTraceSignal]; null: it has no target of the sample.
  const float* signals(std::size_t output, std::uint64_t sample) const noexcept;
  /// Drops all labels, once all samples are learned.
  void forget() noexcept;
  Score score(const OutputRing& output, std::uint64_t sample, std::size_t place) const noexcept;

 private:
  std::vector<OutputRing> outputs_;
  std::size_t learners_ = 1, given_ = 1;  // given_: rows that targets are given for
  std::uint64_t mask_ = 0;
  bool has_values_ = false, has_weights_ = false;
};

}  // namespace weft::learning
