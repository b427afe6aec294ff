// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/stream_tasks.hpp"

#include "learning/evaluation.hpp"
#include "learning/losses.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace weft::learning {

Status StreamTasks::make(SampleStream& stream) {
  const StreamOptions& options = stream.options_;
  if (stream.is_fed_)
    return fail(Errc::unsupported, "stream.tasks: are made of the rows of a file, and these samples arrive");
  if (options.drift != Drift::none)
    return fail(Errc::invalid_argument, "stream.tasks.kind: '" + std::string(name(options.tasks.kind)) +
                                            "' with stream.drift.kind '" + std::string(name(options.drift)) +
                                            "', which changes one task; give one of the two");
  if (stream.held_out_.empty())
    return fail(Errc::invalid_argument,
                "stream.tasks: each task is measured with held-out samples, and there are none; give stream.test or "
                "stream.held_out");
  WEFT_TRY(TaskSequence sequence, TaskSequence::build(stream.data_, stream.train_, stream.held_out_, options.tasks,
                                                      options.seed, options.epochs, stream.at_once()));
  stream.tasks_ = SampleStream::Tasks{std::move(sequence), {}};
  return check_targets(stream);
}

/// The labels of the tasks against the output and its loss.
Status StreamTasks::check_targets(const SampleStream& stream) {
  const TaskSequence& sequence = stream.tasks_->sequence;
  const TaughtOutputs& outputs = stream.outputs_;
  const Loss loss = stream.learner_->options().loss;
  const Scenario scenario = stream.options_.tasks.scenario;
  const std::string object = "stream.tasks.scenario: '" + std::string(name(scenario)) + "' ";
  if (outputs.has_several()) return fail(Errc::unsupported, object + "with several outputs; name one in stream.output");
  const LossTargets wanted = scenario == Scenario::task ? LossTargets::head_labels : LossTargets::labels;
  if (targets_of(loss) != wanted)
    return fail(Errc::invalid_argument, object + "with learning.loss '" + std::string(name(loss)) + "'; give " +
                                            loss_words(wanted) +
                                            (scenario == Scenario::task ? ", with a head for each task" : ""));
  if (sequence.labels() != outputs.targets())
    return fail(Errc::shape_mismatch, object + "of " + std::to_string(sequence.labels()) + " tasks takes " +
                                          std::to_string(sequence.labels()) + " labels a sample, and " +
                                          outputs.text() + " has " + std::to_string(outputs.targets()));
  for (std::size_t i = 0; i + 1 < outputs.parts().size(); ++i)
    if (const std::size_t width = outputs.parts()[i + 1] - outputs.parts()[i]; width < sequence.classes())
      return fail(Errc::shape_mismatch,
                  object + "takes " + std::to_string(sequence.classes()) + " values, and " +
                      (scenario == Scenario::task ? "head " + std::to_string(i + 1) : outputs.text()) + " has " +
                      std::to_string(width));
  return {};
}

Status StreamTasks::measure_due(SampleStream& stream) {
  if (!stream.tasks_) return {};
  const TaskSequence& sequence = stream.tasks_->sequence;
  TaskMatrix& matrix = stream.tasks_->matrix;
  const std::uint32_t ended = sequence.ended(stream.next_);
  // Samples that were replayed in one record with others.
  while (matrix.rows().size() < ended) matrix.skip();
  if (matrix.rows().size() != ended || !sequence.is_bound(stream.next_)) return {};
  std::vector<double> row;
  for (std::uint32_t task = 0; task < sequence.tasks(); ++task) {
    WEFT_TRY(const Evaluation evaluation, stream.measure(sequence.tests(task)));
    row.push_back(evaluation.accuracy());
  }
  matrix.add(std::move(row));
  return {};
}

bool StreamTasks::changes_at(const SampleStream& stream, std::uint64_t score) noexcept {
  const StreamOptions& options = stream.options_;
  if (options.drift != Drift::none && score == stream.drift_sample_) return true;
  if (score == 0) return false;
  return (options.change_every != 0 && score % options.change_every == 0) ||
         (stream.tasks_ && stream.tasks_->sequence.is_bound(score));
}

std::size_t StreamTasks::labels(const SampleStream& stream) noexcept {
  return stream.tasks_ ? stream.tasks_->sequence.labels() : stream.data_.targets;
}

std::vector<std::uint32_t> StreamTasks::classes(const SampleStream& stream) {
  if (stream.tasks_) return std::vector<std::uint32_t>(labels(stream), stream.tasks_->sequence.classes());
  std::vector<std::uint32_t> classes;
  for (std::size_t i = 0; i < std::max<std::size_t>(stream.data_.heads.size(), 1); ++i)
    classes.push_back(stream.data_.classes_of(i).count);
  return classes;
}

std::vector<TaskSequence::Place> StreamTasks::places(const SampleStream& stream,
                                                     const std::vector<std::uint32_t>& rows) {
  if (stream.tasks_) return stream.tasks_->sequence.held_out(stream.tasks_->sequence.task_before(stream.next_));
  std::vector<TaskSequence::Place> places;
  for (const std::uint32_t row : rows) places.push_back({0, row});
  return places;
}

Result<std::vector<LayerPlasticity>> StreamTasks::measure_plasticity(const SampleStream& stream, std::size_t rows,
                                                                     bool with_ranks) {
  std::vector<TaskSequence::Place> shown = places(stream, stream.held_out_.empty() ? stream.train_ : stream.held_out_);
  shown.resize(std::min(rows, shown.size()));
  if (shown.empty()) return std::vector<LayerPlasticity>();
  std::vector<float> inputs(shown.size() * stream.data_.features);
  for (std::size_t i = 0; i < shown.size(); ++i)
    stream.put_inputs(stream.next_ ? stream.next_ - 1 : 0, shown[i], inputs.data() + i * stream.data_.features);
  const mesh::RunInput input{stream.options_.input, inputs};
  return learning::measure_plasticity(*stream.learner_, {&input, 1}, shown.size(), with_ranks);
}

Result<std::vector<LayerPlasticity>> measure_plasticity(const SampleStream& stream, std::size_t rows, bool with_ranks) {
  return StreamTasks::measure_plasticity(stream, rows, with_ranks);
}

const TaskMatrix* tasks_of(const SampleStream& stream) noexcept {
  return stream.tasks_ ? &stream.tasks_->matrix : nullptr;
}

}  // namespace weft::learning
