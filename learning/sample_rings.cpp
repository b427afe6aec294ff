// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/sample_rings.hpp"

#include "learning/eligibility_traces.hpp"

#include "kernels/trace.hpp"

#include <algorithm>

namespace weft::learning {

SampleRings::SampleRings(const mesh::Graph& graph, const LearningOptions& options, std::uint64_t slots)
    : learners_(options.learners),
      given_(options.learners - options.replay.rows()),
      mask_(slots - 1),
      has_values_(targets_of(options.loss) == LossTargets::values),
      has_weights_(options.weights) {
  for (const mesh::NodeId node : graph.outputs()) {
    const mesh::Node& made = graph.nodes()[node];
    const auto starts = parts_of(made, options);
    OutputRing output{node, made.width, starts.size() - 1, starts};
    output.labels.assign(slots * places(output), kNoLabel);
    output.classes.assign(output.labels.size(), 0);
    output.predictions.assign(output.labels.size(), OutputRing::kNotScored);
    output.losses.assign(output.labels.size(), 0.0f);
    const bool is_late = options.late != Late::none;
    if (has_values_ || is_late) output.values.assign(slots * learners_ * output.width, 0.0f);
    if (is_late || options.replay.is_on() || has_weights_) output.weights.assign(slots * learners_, 1.0f);
    if (options.traces) output.signals.assign(slots * learners_ * kernels::kTraceSignal, 0.0f);
    if (has_guides(options)) {
      output.guides.assign(slots * learners_ * output.width, 0.0f);
      output.guide_scales.assign(slots, 0.0f);
      output.guide_work.assign(learners_ * output.width, 0.0f);
    }
    outputs_.push_back(std::move(output));
  }
}

std::uint64_t SampleRings::bytes_for(const mesh::Graph& graph, const LearningOptions& options, std::uint64_t slots) {
  const bool is_late = options.late != Late::none;
  std::uint64_t words = 0;
  for (const mesh::NodeId node : graph.outputs()) {
    const mesh::Node& made = graph.nodes()[node];
    words += 4 * (parts_of(made, options).size() - 1);  // labels, classes, predictions, losses
    if (is_late || targets_of(options.loss) == LossTargets::values) words += made.width;
    words += is_late || options.replay.is_on() || options.weights ? 1 : 0;
    words += has_guides(options) ? made.width : 0;
    words += options.traces ? kernels::kTraceSignal : 0;
  }
  return slots * options.learners * words * sizeof(float);
}

void OutputRing::set_classes(std::size_t first, std::size_t count) noexcept {
  for (std::size_t i = first; i < first + count; ++i) classes[i] = labels[i] >= kGradient ? 0 : labels[i];
}

void SampleRings::stage(const mesh::Graph& graph, std::span<const Target> targets, std::uint64_t first,
                        std::uint64_t samples, std::uint64_t sample) {
  const std::size_t n = learners_;
  for (OutputRing& output : outputs_) {
    const auto target = std::find_if(targets.begin(), targets.end(),
                                     [&](const Target& t) { return graph.find_output(t.output) == output.node; });
    for (std::uint64_t s = 0; s < samples; ++s) {
      const std::size_t at = slot(sample + s), each = places(output);
      std::uint32_t* labels = output.labels.data() + at * each;
      // A sample without a label is never scored, and must not show the result of the sample before it in its slot.
      std::fill_n(output.predictions.data() + at * each, each, OutputRing::kNotScored);
      const std::size_t own = given_ * output.tokens;
      std::fill_n(labels, each, kNoLabel);
      if (target != targets.end() && !has_values_) {
        std::copy_n(target->labels.data() + (first + s) * own, own, labels);
      } else if (target != targets.end()) {
        std::fill_n(labels, own, 0u);
        std::copy_n(target->values.data() + (first + s) * given_ * output.width, given_ * output.width,
                    output.values.data() + at * n * output.width);
      }
      output.set_classes(at * each, each);
      if (!output.weights.empty()) std::fill_n(output.weights.data() + at * n, n, 1.0f);
      if (target != targets.end() && !target->weights.empty())
        std::copy_n(target->weights.data() + (first + s) * given_, given_, output.weights.data() + at * n);
      if (!output.guides.empty()) output.guide_scales[at] = 0.0f;
    }
  }
}

void SampleRings::put(std::uint64_t sample, std::span<const TargetRow> target) {
  const std::size_t at = slot(sample);
  for (std::size_t o = 0; o < outputs_.size(); ++o) {
    OutputRing& output = outputs_[o];
    const std::size_t each = places(output);
    std::fill_n(output.predictions.data() + at * each, each, OutputRing::kNotScored);
    std::copy(target[o].labels.begin(), target[o].labels.end(), output.labels.data() + at * each);
    std::copy(target[o].values.begin(), target[o].values.end(), output.values.data() + at * learners_ * output.width);
    std::copy(target[o].weights.begin(), target[o].weights.end(), output.weights.data() + at * learners_);
    output.set_classes(at * each, each);
  }
}

void SampleRings::put_signals(const mesh::Graph& graph, std::span<const Target> targets,
                              std::uint64_t sample) noexcept {
  for (OutputRing& output : outputs_) {
    const auto target = std::find_if(targets.begin(), targets.end(),
                                     [&](const Target& t) { return graph.find_output(t.output) == output.node; });
    if (target == targets.end()) continue;
    const auto signals = target->signal ? std::span(&*target->signal, 1) : target->signals;
    float* to = output.signals.data() + slot(sample) * learners_ * kernels::kTraceSignal;
    for (const TraceSignal& signal : signals) {
      write_signal(signal, to);
      to += kernels::kTraceSignal;
    }
  }
}

const float* SampleRings::signals(std::size_t output, std::uint64_t sample) const noexcept {
  const OutputRing& ring = outputs_[output];
  if (ring.signals.empty() || labels(ring, sample)[0] != kGradient) return nullptr;
  return ring.signals.data() + slot(sample) * learners_ * kernels::kTraceSignal;
}

void SampleRings::forget() noexcept {
  for (OutputRing& output : outputs_) {
    std::fill(output.labels.begin(), output.labels.end(), kNoLabel);
    std::fill(output.classes.begin(), output.classes.end(), 0);
  }
}

Score SampleRings::score(const OutputRing& output, std::uint64_t sample, std::size_t place) const noexcept {
  const std::size_t at = slot(sample) * places(output) + place;
  Score score{sample, static_cast<std::uint32_t>(place / output.tokens)};
  score.token = static_cast<std::uint32_t>(place % output.tokens);
  if (output.predictions[at] == OutputRing::kNotScored) return score;
  score.prediction = output.predictions[at];
  score.label = output.labels[at] == kGradient ? kNoLabel : output.labels[at];
  score.loss = score.label == kNoLabel ? 0.0f : output.losses[at];
  return score;
}

}  // namespace weft::learning
