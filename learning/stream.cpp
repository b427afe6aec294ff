// SPDX-License-Identifier: Apache-2.0

#include "learning/stream.hpp"

#include "learning/internal/shuffle.hpp"

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

std::string label_range(const Dataset& data) {
  if (data.class_names.empty()) return "labels up to " + std::to_string(data.classes - 1);
  return std::to_string(data.classes) + " classes";
}

/// True where a call's work is going to be undone, its scores too.
bool is_interrupted(const Status& status) { return !status && status.error().code() == Errc::interrupted; }

std::vector<std::uint32_t> iota(std::size_t n) {
  std::vector<std::uint32_t> items(n);
  std::iota(items.begin(), items.end(), 0u);
  return items;
}

}  // namespace

Result<Stream> Stream::build(Learner& learner, Dataset data, StreamOptions options) {
  const mesh::Graph& graph = learner.mesh().graph();
  const auto& spec = graph.spec();
  if (options.input.empty()) {
    if (spec.inputs.size() != 1)
      return fail(Errc::invalid_argument, "stream.input: the network has " + std::to_string(spec.inputs.size()) +
                                              " inputs; name the one that the samples go to");
    options.input = spec.inputs[0].name;
  }
  if (options.output.empty()) {
    if (spec.outputs.size() != 1)
      return fail(Errc::invalid_argument, "stream.output: the network has " + std::to_string(spec.outputs.size()) +
                                              " outputs; name the one that should give the label");
    options.output = spec.outputs[0].name;
  }
  const auto input = graph.find_port(options.input);
  const auto output = graph.find_output(options.output);
  if (!input) return fail(Errc::unknown_name, "stream.input: no input is named '" + options.input + "'");
  if (!output) return fail(Errc::unknown_name, "stream.output: no output is named '" + options.output + "'");
  if (learner.options().loss != Loss::cross_entropy)
    return fail(Errc::unsupported, "learning.loss: a stream has one label a sample, which needs cross_entropy, not " +
                                       std::string(name(learner.options().loss)) + "; " +
                                       (targets_of(learner.options().loss) == LossTargets::values
                                            ? "targets that are values go through Learner::learn"
                                            : "labels of several heads go through Learner::learn"));
  if (graph.nodes()[*input].width != data.features)
    return fail(Errc::shape_mismatch, "stream.csv: " + std::to_string(data.features) + " values a sample; input '" +
                                          options.input + "' takes " + std::to_string(graph.nodes()[*input].width));
  if (graph.nodes()[*output].width < data.classes)
    return fail(Errc::shape_mismatch, "stream.csv: " + label_range(data) + "; output '" + options.output + "' has " +
                                          std::to_string(graph.nodes()[*output].width) + " values");
  Stream stream(learner);
  stream.data_ = std::move(data);
  stream.options_ = std::move(options);
  Split split = split_rows(stream.data_, stream.options_.held_out, stream.options_.stratified,
                           stream.options_.split_seed.value_or(stream.options_.seed));
  WEFT_CHECK(fill_missing(stream.data_, split.train, stream.options_.table.fill));
  stream.train_ = std::move(split.train);
  stream.held_out_ = std::move(split.held_out);
  stream.draw();
  if (stream.train_.empty())
    return fail(Errc::invalid_argument,
                "stream.held_out: " + std::to_string(stream.options_.held_out) + " leaves no sample to learn from");
  stream.scores_.hits.assign(stream.options_.window, 0);
  stream.scores_.losses.assign(stream.options_.window, 0.0f);
  return stream;
}

void Stream::draw() {
  total_ = options_.epochs * train_.size();
  if (options_.max_samples) total_ = std::min(total_, options_.max_samples);
  if (options_.drift != Drift::none)
    drift_sample_ = static_cast<std::uint64_t>(std::llround(options_.drift_at * static_cast<double>(total_)));
  const RandomStream random(options_.seed, kDriftPlace, RandomPurpose::shuffle);
  label_map_ = iota(data_.classes);
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

void Stream::shuffle_epoch(std::uint64_t epoch) {
  if (order_epoch_ == epoch) return;
  order_ = train_;
  shuffle(order_, RandomStream(options_.seed, kEpochPlace + epoch, RandomPurpose::shuffle));
  order_epoch_ = epoch;
}

void Stream::put_sample(std::uint64_t sample, std::size_t row, float* input, std::uint32_t* label) const {
  const float* values = data_.row(row);
  const bool drifted = has_drifted(sample);
  for (std::size_t j = 0; j < data_.features; ++j) input[j] = values[drifted ? pixel_map_[j] : j];
  *label = drifted ? label_map_[data_.labels[row]] : data_.labels[row];
}

Status Stream::advance(std::uint64_t samples) {
  const std::size_t sessions = learner_->mesh().sessions(), learners = learner_->options().learners;
  while (samples > 0 && !is_done()) {
    const std::uint64_t now = std::min({kBlock, samples, total_ - next_});
    inputs_.resize(now * sessions * data_.features);
    labels_.resize(now * learners);
    for (std::uint64_t i = 0; i < now; ++i) {
      const std::uint64_t sample = next_ + i;
      shuffle_epoch(sample / train_.size());
      std::uint32_t label;
      float* first = inputs_.data() + i * sessions * data_.features;
      put_sample(sample, order_[sample % train_.size()], first, &label);
      for (std::size_t b = 1; b < sessions; ++b) std::copy_n(first, data_.features, first + b * data_.features);
      std::fill_n(labels_.begin() + static_cast<std::ptrdiff_t>(i * learners), learners, label);
    }
    const mesh::RunInput input{options_.input, inputs_};
    const Target target{options_.output, labels_, {}};
    const Status learned = training_.learn ? training_.learn({&input, 1}, {&target, 1}, now)
                                           : learner_->learn({&input, 1}, {&target, 1}, now);
    if (!is_interrupted(learned)) take_scores();
    WEFT_CHECK(learned);
    next_ += now;
    samples -= now;
  }
  return {};
}

Status Stream::finish() {
  const Status drained = training_.drain ? training_.drain() : learner_->drain();
  if (!is_interrupted(drained)) take_scores();
  return drained;
}

void Stream::replayed(std::uint64_t samples) {
  take_scores();
  next_ = std::min(next_ + samples, total_);
}

void Stream::take_scores() {
  for (const Score& s : learner_->scores()) score(s);
  learner_->clear_scores();
}

void Stream::score(const Score& score) {
  // Sessions live the same stream; the first one is the one watched. Other outputs have no labels here.
  if (score.learner != 0 || score.label == kNoLabel) return;
  if (options_.drift != Drift::none && scores_.scored == drift_sample_)
    scores_.before_drift = progress().prequential_accuracy;
  const std::size_t slot = scores_.scored % options_.window;
  const std::uint8_t hit = score.prediction == score.label;
  scores_.hit_count += hit;
  scores_.hit_count -= scores_.hits[slot];
  scores_.hits[slot] = hit;
  scores_.losses[slot] = score.loss;
  scores_.all_hits += hit;
  ++scores_.scored;
  if (!scores_.before_drift || scores_.recovery_samples || scores_.scored < drift_sample_ + options_.window) return;
  if (static_cast<double>(scores_.hit_count) >= kRecovered * *scores_.before_drift * options_.window)
    scores_.recovery_samples = scores_.scored - drift_sample_;
}

StreamProgress Stream::progress() const noexcept {
  StreamProgress p;
  p.samples = next_;
  p.total = total_;
  p.epoch = next_ / std::max<std::uint64_t>(train_.size(), 1);
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

Result<Measurement> Stream::measure_held_out() const {
  if (held_out_.empty()) return fail(Errc::invalid_argument, "stream.held_out: no sample is held out to measure with");
  const std::size_t n = held_out_.size();
  std::vector<float> inputs(n * data_.features);
  std::vector<std::uint32_t> labels(n);
  const std::uint64_t sample = next_ ? next_ - 1 : 0;
  for (std::size_t i = 0; i < n; ++i) put_sample(sample, held_out_[i], inputs.data() + i * data_.features, &labels[i]);
  const mesh::Graph& graph = learner_->mesh().graph();
  const std::size_t width = graph.nodes()[*graph.find_output(options_.output)].width;
  std::vector<float> outputs(n * width);
  const mesh::RunInput input{options_.input, inputs};
  const mesh::RunOutput output{options_.output, outputs};
  WEFT_CHECK(mesh::MeshAccess::evaluate_copies(learner_->mesh(), 0, {&input, 1}, n, learner_->hold(), {&output, 1}));
  Measurement measurement(data_.classes);
  measurement.add({outputs.data(), n, width, width}, labels);
  return measurement;
}

Result<double> Stream::held_out_accuracy() const {
  WEFT_TRY(const Measurement measurement, measure_held_out());
  return measurement.accuracy();
}

std::string Stream::save_cursor() const {
  Json out{{"next", next_},
           {"scored", scores_.scored},
           {"hits", scores_.all_hits},
           {"window_hits", scores_.hits},
           {"window_losses", scores_.losses},
           {"total", total_}};
  if (scores_.before_drift) out["before_drift"] = *scores_.before_drift;
  if (scores_.recovery_samples) out["recovery_samples"] = *scores_.recovery_samples;
  return out.dump();
}

Status Stream::load_cursor(std::string_view text) {
  WEFT_TRY(const auto document, parse_json(text, "stream cursor"));
  WEFT_TRY(JsonReader reader, JsonReader::open(document, "cursor"));
  WEFT_TRY(const std::uint64_t total, reader.u64("total"));
  if (total != total_)
    return fail(Errc::shape_mismatch, "cursor.total: the checkpoint's stream has " + std::to_string(total) +
                                          " samples, this one " + std::to_string(total_) +
                                          "; resume with the same data, epochs, held-out share and bound");
  WEFT_TRY(next_, reader.u64("next", 0, total_));
  WEFT_TRY(scores_.scored, reader.u64("scored", 0, next_));
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
  return reader.finish();
}

}  // namespace weft::learning
