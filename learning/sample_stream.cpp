// SPDX-License-Identifier: Apache-2.0

#include "learning/sample_stream.hpp"

#include "learning/column_statistics.hpp"
#include "learning/internal/sample_rings.hpp"
#include "learning/internal/shuffle.hpp"
#include "learning/internal/stream_tasks.hpp"
#include "learning/split.hpp"

#include "mesh/mesh_access.hpp"

#include "core/json_reader.hpp"
#include "core/philox.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace weft::learning {
namespace {

/// Samples put together for one call of the learner.
constexpr std::uint64_t kBlock = 256;
/// The window counts as recovered at this share of the accuracy before the drift.
constexpr double kRecovered = 0.95;

// Random streams of the data: places no grid reaches, so that they share no numbers with weights.
constexpr std::uint64_t kDriftPlace = (std::uint64_t{1} << 35) + 1, kEpochPlace = kDriftPlace + 1;

// Held-out samples shown at once: bounds the memory that measuring takes.
constexpr std::size_t kShown = 4096;

std::string label_range(const ClassSet& classes) {
  if (classes.names.empty()) return "labels up to " + std::to_string(classes.count - 1);
  return std::to_string(classes.count) + " classes";
}

/// True where a call's work is going to be undone, its scores too.
bool is_interrupted(const Status& status) { return !status && status.error().code() == Errc::interrupted; }

/// Number of a score's sample in a stream that begins at the learner's sample `first`.
std::uint64_t place_of(const Score& score, std::uint64_t first, std::uint64_t at_once) {
  return (score.sample - std::min(score.sample, first)) * at_once + score.learner;
}

std::vector<std::uint32_t> iota(std::size_t n) {
  std::vector<std::uint32_t> items(n);
  std::iota(items.begin(), items.end(), 0u);
  return items;
}

}  // namespace

Result<SampleStream> SampleStream::build(Learner& learner, Dataset data, StreamOptions options) {
  return make(learner, std::move(data), std::move(options), false);
}

Result<SampleStream> SampleStream::build_fed(Learner& learner, Dataset data, StreamOptions options) {
  if (options.drift != Drift::none)
    return fail(Errc::unsupported, "stream.drift: its place is a share of the stream, which has no end that is known");
  return make(learner, std::move(data), std::move(options), true);
}

Result<SampleStream> SampleStream::make(Learner& learner, Dataset data, StreamOptions options, bool is_fed) {
  const mesh::Graph& graph = learner.mesh().graph();
  const auto& spec = graph.spec();
  if (options.input.empty()) {
    if (spec.inputs.size() != 1)
      return fail(Errc::invalid_argument, "stream.input: the network has " + std::to_string(spec.inputs.size()) +
                                              " inputs; name the one that the samples go to");
    options.input = spec.inputs[0].name;
  }
  WEFT_TRY(TaughtOutputs outputs, TaughtOutputs::of(graph, options, learner.options()));
  if (!outputs.has_several()) options.output = outputs.all()[0].name, options.outputs.clear();
  const auto input = graph.find_port(options.input);
  if (!input) return fail(Errc::unknown_name, "stream.input: no input is named '" + options.input + "'");
  if (graph.nodes()[*input].width != data.features)
    return fail(Errc::shape_mismatch, "stream.csv: " + std::to_string(data.features) + " values a sample; input '" +
                                          options.input + "' takes " + std::to_string(graph.nodes()[*input].width));
  SampleStream stream(learner);
  stream.is_fed_ = is_fed;
  stream.data_ = std::move(data);
  stream.options_ = std::move(options);
  stream.outputs_ = std::move(outputs);
  if (!stream.options_.tasks.is_on()) WEFT_CHECK(stream.check_targets());
  stream.units_ = TargetUnits(stream.options_.table);
  Split split = split_rows(stream.data_, stream.options_.held_out, stream.options_.stratified,
                           stream.options_.split_seed.value_or(stream.options_.seed));
  WEFT_CHECK(fill_missing(stream.data_, split.train, stream.options_.table.fill));
  stream.train_ = std::move(split.train);
  stream.held_out_ = std::move(split.held_out);
  stream.validation_ = std::move(split.validation);
  if (stream.options_.tasks.is_on()) WEFT_CHECK(StreamTasks::make(stream));
  stream.draw();
  if (stream.train_.empty() && !is_fed)
    return fail(Errc::invalid_argument,
                "stream.held_out: " + std::to_string(stream.options_.held_out) + " leaves no sample to learn from");
  if (stream.total_ == 0 && !is_fed)
    return fail(Errc::invalid_argument,
                "learning.learners: " + std::to_string(stream.at_once()) +
                    " learners take a sample each, more than the stream has; give fewer learners, or more epochs");
  stream.begin_anew();
  return stream;
}

void SampleStream::begin_anew() {
  next_ = 0;
  if (tasks_) tasks_->matrix = TaskMatrix(tasks_->sequence.tasks());
  if (is_fed_) total_ = options_.max_samples ? options_.max_samples - options_.max_samples % at_once() : UINT64_MAX;
  scores_ = {};
  scores_.hits.assign(options_.window, 0);
  scores_.losses.assign(options_.window, 0.0f);
  scores_.adaptation = AdaptationTracker(options_.window);
  scores_.first_sample = learner_->samples();
}

/// The data's labels or values against the output and its loss.
Status SampleStream::check_targets() const {
  const LearningOptions& learning = learner_->options();
  const LossTargets kind = targets_of(learning.loss);
  if (data_.has_values() != (kind == LossTargets::values))
    return fail(Errc::unsupported, "learning.loss: " + std::string(name(learning.loss)) + " learns " +
                                       (data_.has_values() ? "classes, and the table's targets are values"
                                                           : "values, and the table's targets are classes"));
  if (!options_.table.weight.empty() && !learning.weights)
    return fail(Errc::invalid_argument,
                "stream.weight: '" + options_.table.weight + "', and learning.weights is false; samples have none");
  if (data_.targets != outputs_.targets())
    return fail(Errc::shape_mismatch, "stream.csv: " + std::to_string(data_.targets) +
                                          (data_.has_values() ? " values" : " labels") + " to learn a sample; " +
                                          outputs_.text() + (outputs_.has_several() ? " take " : " takes ") +
                                          std::to_string(outputs_.targets()));
  if (options_.drift != Drift::none && (data_.targets != 1 || data_.has_values()))
    return fail(Errc::unsupported, "stream.drift: is measured by the accuracy of one label a sample");
  if (options_.stratified && (data_.targets != 1 || data_.has_values()))
    return fail(Errc::unsupported, "stream.stratified: needs one label a sample");
  if (data_.has_values()) return {};
  for (std::size_t i = 0; i < data_.heads.size(); ++i)
    if (const std::uint32_t most = outputs_.own_classes()[i]; data_.heads[i].count > most)
      return fail(
          Errc::shape_mismatch,
          "stream.csv: " + label_range(data_.heads[i]) + " of label " + std::to_string(i + 1) + "; " +
              (outputs_.has_several() ? "output '" + outputs_.of_target(i).name + "' has " + std::to_string(most)
                                      : "learning.heads gives it " + std::to_string(most)) +
              " values");
  if (const std::size_t width = outputs_.parts()[1]; data_.heads.empty() && width < data_.classes)
    return fail(Errc::shape_mismatch, "stream.csv: " + label_range(data_.classes_of(0)) + "; " + outputs_.text() +
                                          " has " + std::to_string(width) + " values");
  return {};
}

void SampleStream::draw() {
  total_ = tasks_ ? tasks_->sequence.total() : options_.epochs * train_.size();
  if (options_.max_samples) total_ = std::min(total_, options_.max_samples);
  total_ -= total_ % at_once();
  if (options_.drift != Drift::none)
    drift_sample_ = static_cast<std::uint64_t>(std::llround(options_.drift_at * static_cast<double>(total_)));
  const RandomStream random(options_.seed, kDriftPlace, RandomPurpose::shuffle);
  label_map_ = iota(data_.targets == 1 && !data_.has_values() ? data_.classes_of(0).count : data_.classes);
  pixel_map_ = iota(data_.features);
  // A turn by one along a shuffled cycle leaves none of its members in place.
  const auto turn = [&](std::vector<std::uint32_t>& map) {
    auto cycle = iota(map.size());
    shuffle(cycle, random);
    const auto wanted = static_cast<std::size_t>(std::llround(options_.drift_share * static_cast<double>(map.size())));
    cycle.resize(std::clamp<std::size_t>(wanted, std::min<std::size_t>(2, map.size()), map.size()));
    for (std::size_t i = 0; i < cycle.size(); ++i) map[cycle[i]] = cycle[(i + 1) % cycle.size()];
  };
  if (options_.drift == Drift::labels) turn(label_map_);
  if (options_.drift == Drift::pixels) turn(pixel_map_);
}

void SampleStream::shuffle_epoch(std::uint64_t epoch) {
  if (order_epoch_ == epoch) return;
  order_ = train_;
  shuffle(order_, RandomStream(options_.seed, kEpochPlace + epoch, RandomPurpose::shuffle));
  order_epoch_ = epoch;
}

void SampleStream::put_inputs(std::uint64_t sample, const TaskSequence::Place& place, float* to) const {
  if (tasks_) return tasks_->sequence.put_inputs(data_, place, to);
  const float* values = data_.row(place.row);
  const bool drifted = has_drifted(sample);
  for (std::size_t j = 0; j < data_.features; ++j) to[j] = values[drifted ? pixel_map_[j] : j];
}

void SampleStream::put_labels(std::uint64_t sample, const TaskSequence::Place& place, std::uint32_t* to) const {
  if (tasks_) return tasks_->sequence.put_labels(data_, place, to);
  for (std::size_t j = 0; j < data_.targets; ++j) {
    const std::uint32_t label = data_.labels[place.row * data_.targets + j];
    to[j] = has_drifted(sample) ? label_map_[label] : label;
  }
}

void SampleStream::put_values(std::size_t row, float* to) const {
  for (std::size_t j = 0; j < data_.targets; ++j) to[j] = units_.learned(data_.values[row * data_.targets + j], j);
}

std::uint64_t SampleStream::at_once() const noexcept {
  return std::max<std::uint64_t>(learner_->options().learners, 1);
}

/// Puts the samples of the next `steps` updates together: [steps][sessions] inputs, [steps][learners] targets.
void SampleStream::put_steps(std::uint64_t steps) {
  const std::size_t sessions = input_rows(*learner_), learners = at_once(), targets = StreamTasks::labels(*this);
  block_.inputs.resize(steps * sessions * data_.features);
  (data_.has_values() ? block_.values.resize(steps * learners * targets)
                      : block_.labels.resize(steps * learners * targets));
  block_.weights.clear();
  for (std::uint64_t i = 0; i < steps * learners; ++i) {
    const std::uint64_t sample = next_ + i;
    if (!tasks_) shuffle_epoch(sample / train_.size());
    const TaskSequence::Place place =
        tasks_ ? tasks_->sequence.place(sample) : TaskSequence::Place{0, order_[sample % train_.size()]};
    put_inputs(sample, place, block_.inputs.data() + (i / learners * sessions + i % learners) * data_.features);
    if (!data_.weights.empty()) block_.weights.push_back(data_.weights[place.row]);
    if (data_.has_values())
      put_values(place.row, block_.values.data() + i * targets);
    else
      put_labels(sample, place, block_.labels.data() + i * targets);
  }
  // The others look on.
  for (std::uint64_t step = 0; step < steps; ++step) {
    float* const first = block_.inputs.data() + step * sessions * data_.features;
    for (std::size_t b = learners; b < sessions; ++b)
      std::copy_n(first + b % learners * data_.features, data_.features, first + b * data_.features);
  }
}

Status SampleStream::advance(std::uint64_t samples) {
  const std::uint64_t together = at_once(), block = std::max<std::uint64_t>(kBlock / together, 1);
  samples = std::max(samples - samples % together, samples > 0 ? together : 0);
  while (samples > 0 && !is_done()) {
    WEFT_CHECK(StreamTasks::measure_due(*this));
    const std::uint64_t end = tasks_ ? std::min(tasks_->sequence.end_of(next_), total_) : total_;
    const std::uint64_t steps = std::min({block, samples / together, (end - next_) / together});
    const std::uint64_t now = steps * together;
    put_steps(steps);
    const mesh::RunInput input{options_.input, block_.inputs};
    // Counted before: an agent may take a checkpoint with the record of the samples.
    next_ += now;
    const Status learned = outputs_.teach(block_.labels, block_.values, block_.weights, [&](auto targets) {
      return training_.learn ? training_.learn({&input, 1}, targets, steps)
                             : learner_->learn({&input, 1}, targets, steps);
    });
    if (!learned) next_ -= now;
    if (!is_interrupted(learned)) take_scores();
    WEFT_CHECK(learned);
    samples -= now;
  }
  return StreamTasks::measure_due(*this);
}

Status SampleStream::finish() {
  const Status drained = training_.drain ? training_.drain() : learner_->drain();
  if (!is_interrupted(drained)) take_scores();
  return drained;
}

namespace {
template <class Event>
void keep_latest(std::vector<Event>& kept, std::span<const Event> events) {
  kept.insert(kept.end(), events.begin(), events.end());
  if (kept.size() > ScoreWindow::kMostEvents)
    kept.erase(kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(ScoreWindow::kMostEvents));
}
}  // namespace

std::vector<AnomalyEvent> take_anomalies(SampleStream& stream) { return std::exchange(stream.scores_.anomalies, {}); }
std::vector<StreamEvent> take_stream_events(SampleStream& stream) { return stream.scores_.events.take(); }

bool has_stream_events(const StreamOptions& stream, const LearningOptions& learning) noexcept {
  return stream.drift != Drift::none || stream.change_every != 0 || stream.tasks.is_on() || learning.drift.is_on();
}

void SampleStream::replayed(std::uint64_t steps) {
  take_scores();
  next_ = std::min(next_ + steps * at_once(), total_);
  // A row that cannot be measured is missing.
  if (const Status measured = StreamTasks::measure_due(*this); !measured) return;
}

void SampleStream::take_scores() {
  const DriftWatch& drift = drift_of(*learner_);
  std::vector<DriftEvent> events(drift.events().begin(), drift.events().end());
  std::uint64_t number = drift.scores();
  if (!events.empty())
    for (const Score& s : learner_->scores()) number -= s.label != kNoLabel;
  auto next = events.begin();
  for (const Score& s : learner_->scores()) {
    score(s);
    if (next == events.end() || s.label == kNoLabel) continue;
    if (next->score == number++) {
      const double accuracy = progress().prequential_accuracy;
      const auto level = static_cast<DriftLevel>(next->level);
      next->sample = place_of(s, scores_.first_sample, at_once());
      if (level == DriftLevel::change && !data_.has_values()) scores_.adaptation.detect(accuracy);
      scores_.events.add(
          {level == DriftLevel::warning ? StreamEventKind::warning : StreamEventKind::alarm, next->sample, accuracy});
    }
    if (next->score < number) ++next;
  }
  keep_latest(scores_.drift_events, std::span<const DriftEvent>(events));
  keep_latest(scores_.anomalies, anomaly_of(*learner_).events());
  learner_->clear_scores();
}

void SampleStream::score(const Score& score) {
  // Other outputs have no labels here.
  if (score.label == kNoLabel) return;
  if (StreamTasks::changes_at(*this, scores_.scored)) {
    const double accuracy = progress().prequential_accuracy;
    if (scores_.scored == drift_sample_) scores_.before_drift = accuracy;
    if (!data_.has_values()) scores_.adaptation.declare(accuracy);
    scores_.events.add({StreamEventKind::change, place_of(score, scores_.first_sample, at_once()), accuracy});
  }
  const std::size_t slot = scores_.scored % options_.window;
  const std::uint8_t hit = score.prediction == score.label;
  scores_.hit_count += hit;
  scores_.hit_count -= scores_.hits[slot];
  scores_.hits[slot] = hit;
  scores_.losses[slot] = score.loss;
  scores_.all_hits += hit;
  ++scores_.scored;
  const auto filled = static_cast<double>(std::min<std::uint64_t>(scores_.scored, options_.window));
  if (!data_.has_values()) scores_.adaptation.add(hit != 0, static_cast<double>(scores_.hit_count) / filled);
  if (!scores_.before_drift || scores_.recovery_samples || scores_.scored < drift_sample_ + options_.window) return;
  if (static_cast<double>(scores_.hit_count) >= kRecovered * *scores_.before_drift * options_.window)
    scores_.recovery_samples = scores_.scored - drift_sample_;
}

StreamProgress SampleStream::progress() const noexcept {
  StreamProgress p;
  p.samples = next_;
  p.has_accuracy = !data_.has_values();
  p.total = total_ == UINT64_MAX ? 0 : total_;
  p.epoch = is_fed_ ? 0 : next_ / std::max<std::uint64_t>(train_.size(), 1);
  const auto filled =
      static_cast<double>(std::max<std::uint64_t>(1, std::min<std::uint64_t>(scores_.scored, options_.window)));
  p.prequential_accuracy = static_cast<double>(scores_.hit_count) / filled;
  p.overall_accuracy =
      static_cast<double>(scores_.all_hits) / static_cast<double>(std::max<std::uint64_t>(1, scores_.scored));
  p.mean_loss = std::accumulate(scores_.losses.begin(), scores_.losses.end(), 0.0) / filled;
  p.before_drift = scores_.before_drift;
  p.recovery_samples = scores_.recovery_samples;
  return p;
}

Result<Evaluation> SampleStream::measure_held_out() const {
  if (held_out_.empty()) return fail(Errc::invalid_argument, "stream.held_out: no sample is held out to measure with");
  return measure(StreamTasks::places(*this, held_out_));
}

Result<Evaluation> SampleStream::measure_validation() const { return measure(StreamTasks::places(*this, validation_)); }

Result<Evaluation> SampleStream::measure(std::span<const TaskSequence::Place> rows) const {
  const std::uint64_t sample = next_ ? next_ - 1 : 0;
  const std::size_t width = outputs_.width();
  Evaluation evaluation(outputs_, learner_->options(), StreamTasks::classes(*this), units_);
  std::vector<float> inputs, outputs, values;
  std::vector<std::uint32_t> labels;
  for (std::size_t first = 0; first < rows.size(); first += kShown) {
    const std::size_t n = std::min(kShown, rows.size() - first);
    inputs.resize(n * data_.features);
    outputs.resize(n * width);
    for (std::size_t i = 0; i < n; ++i) put_inputs(sample, rows[first + i], inputs.data() + i * data_.features);
    const mesh::RunInput input{options_.input, inputs};
    WEFT_CHECK(outputs_.ask(n, outputs, [&](std::span<const mesh::RunOutput> to) {
      return mesh::MeshAccess::evaluate_copies(learner_->mesh(), 0, {&input, 1}, n, learner_->hold(), to);
    }));
    const kernels::ConstMatrixView answers{outputs.data(), n, width, width};
    if (data_.has_values()) {
      values.clear();
      for (std::size_t i = 0; i < n; ++i) {
        const float* const from = data_.values.data() + rows[first + i].row * data_.targets;
        values.insert(values.end(), from, from + data_.targets);
      }
      evaluation.add(answers, std::span<const float>(values));
    } else {
      const std::size_t each = StreamTasks::labels(*this);
      labels.resize(n * each);
      for (std::size_t i = 0; i < n; ++i) put_labels(sample, rows[first + i], labels.data() + i * each);
      evaluation.add(answers, std::span<const std::uint32_t>(labels));
    }
  }
  return evaluation;
}

Result<double> SampleStream::held_out_accuracy() const {
  WEFT_TRY(const Evaluation evaluation, measure_held_out());
  return evaluation.accuracy();
}

std::string SampleStream::save_cursor() const {
  Json out{{"next", next_},
           {"scored", scores_.scored},
           {"hits", scores_.all_hits},
           {"window_hits", scores_.hits},
           {"window_losses", scores_.losses},
           {"total", total_}};
  if (scores_.before_drift) out["before_drift"] = *scores_.before_drift;
  if (scores_.recovery_samples) out["recovery_samples"] = *scores_.recovery_samples;
  if (tasks_) out["tasks"] = tasks_->matrix.save();
  if (!scores_.adaptation.changes().empty()) out["adaptation"] = scores_.adaptation.save();
  if (!scores_.events.is_empty()) out["events"] = scores_.events.save();
  if (scores_.first_sample != 0) out["first_sample"] = scores_.first_sample;
  return out.dump();
}

Status SampleStream::load_cursor(std::string_view text) {
  WEFT_TRY(const auto document, parse_json(text, "stream cursor"));
  WEFT_TRY(JsonReader reader, JsonReader::open(document, "cursor"));
  WEFT_TRY(const std::uint64_t total, reader.u64("total"));
  if (total != total_ && (options_.drift != Drift::none || tasks_))
    return fail(Errc::shape_mismatch, "cursor.total: the checkpoint's stream has " + std::to_string(total) +
                                          " samples, this one " + std::to_string(total_) +
                                          "; resume with the same data, epochs, held-out share and bound");
  WEFT_TRY(const std::uint64_t next, reader.u64("next", 0, total));
  if (next > total_)
    return fail(Errc::invalid_argument, "cursor.next: the stream stands at sample " + std::to_string(next) +
                                            ", and this one ends at " + std::to_string(total_) +
                                            "; give more epochs, or the same data");
  next_ = next;
  const std::uint64_t labels = data_.has_values() ? outputs_.all().size() : StreamTasks::labels(*this);
  WEFT_TRY(scores_.scored, reader.u64("scored", 0, next_ * labels));
  WEFT_TRY(scores_.all_hits, reader.u64("hits", 0, scores_.scored));
  WEFT_TRY(const auto hits, reader.array("window_hits", options_.window, options_.window));
  WEFT_TRY(const auto losses, reader.array("window_losses", options_.window, options_.window));
  scores_.hit_count = 0;
  for (std::size_t i = 0; i < options_.window; ++i) {
    WEFT_TRY(const std::uint32_t hit, hits[i].u32(0, 1));
    scores_.hits[i] = static_cast<std::uint8_t>(hit);
    scores_.hit_count += hit;
    WEFT_TRY(scores_.losses[i], losses[i].f32());
  }
  scores_.before_drift.reset();
  scores_.recovery_samples.reset();
  if (const auto before = reader.find("before_drift")) {
    WEFT_TRY(scores_.before_drift, before->f64(0.0, 1.0));
  }
  if (const auto recovery = reader.find("recovery_samples")) {
    WEFT_TRY(scores_.recovery_samples, recovery->u64());
  }
  scores_.adaptation = AdaptationTracker(options_.window);
  scores_.adaptation.stand_at(scores_.scored);
  if (const auto adaptation = reader.find("adaptation")) WEFT_CHECK(scores_.adaptation.load(*adaptation));
  scores_.events = {};
  if (const auto events = reader.find("events")) WEFT_CHECK(scores_.events.load(*events));
  scores_.first_sample = 0;
  if (const auto first = reader.find("first_sample")) {
    WEFT_TRY(scores_.first_sample, first->u64());
  }
  if (const auto tasks = reader.find("tasks"); tasks && tasks_) WEFT_CHECK(tasks_->matrix.load(*tasks));
  WEFT_CHECK(reader.finish());
  return StreamTasks::measure_due(*this);
}

}  // namespace weft::learning
