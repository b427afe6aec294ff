// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/reservoir.hpp"

#include "learning/options.hpp"

#include "core/assert.hpp"
#include "core/philox.hpp"

#include <algorithm>
#include <cmath>

namespace weft::learning {
namespace {

/// A random stream for each sample that comes, and one for each update that draws.
RandomStream stream_of(std::uint64_t seed, std::uint64_t number, bool is_draw) {
  return {seed, number << 1 | (is_draw ? 1 : 0), RandomPurpose::replay};
}

/// Uniform in [0, bound), off by less than bound / 2^64.
std::uint64_t below(RandomStream& random, std::uint64_t bound) {
  const std::uint64_t high = random.next_u32();
  return (high << 32 | random.next_u32()) % bound;
}

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

}  // namespace

Reservoir::Reservoir(const mesh::Mesh& mesh, const LearningOptions& options)
    : options_(options.replay), seed_(mesh.spec().seed), learners_(options.learners) {
  if (!is_on()) return;
  const mesh::Graph& graph = mesh.graph();
  for (mesh::NodeId port = 0; port < graph.port_count(); ++port) {
    const std::size_t width = graph.nodes()[port].width;
    ports_.push_back({mesh.spec().inputs[port].name, width, sizes_.inputs});
    sizes_.inputs += width;
    rows_.emplace_back(mesh.sessions() * width, 0.0f);
  }
  mixed_.resize(ports_.size());
  for (const mesh::NodeId output : graph.outputs()) {
    sizes_.labels += parts_of(graph.nodes()[output], options).size() - 1;
    width_ += graph.nodes()[output].width;
  }
  has_targets_ = targets_of(options.loss) == LossTargets::values;
  sizes_.values = (has_targets_ ? width_ : 0) + (options_.has_answers() ? width_ : 0);
  numbers_.assign(options_.capacity, 0);
  inputs_.assign(options_.capacity * sizes_.inputs, 0.0f);
  labels_.assign(options_.capacity * sizes_.labels, kNoLabel);
  values_.assign(options_.capacity * sizes_.values, 0.0f);
  digests_.assign(options_.capacity, {});
}

std::uint64_t Reservoir::bytes_for(const mesh::Graph& graph, const LearningOptions& options) {
  if (!options.replay.is_on()) return 0;
  std::uint64_t words = 6;  // number and digest
  for (mesh::NodeId port = 0; port < graph.port_count(); ++port) words += graph.nodes()[port].width;
  const bool has_targets = targets_of(options.loss) == LossTargets::values;
  for (const mesh::NodeId output : graph.outputs()) {
    const mesh::Node& node = graph.nodes()[output];
    words += parts_of(node, options).size() - 1;
    words += node.width * ((has_targets ? 1u : 0u) + (options.replay.has_answers() ? 1u : 0u));
  }
  return words * sizeof(float) * options.replay.capacity;
}

void Reservoir::draw() {
  drawn_.clear();
  const auto stored_now = static_cast<std::uint32_t>(stored());
  if (stored_now == 0) return;
  const auto wanted = static_cast<std::uint32_t>(options_.samples);
  RandomStream random = stream_of(seed_, counts_.draws++, true);
  if (stored_now <= wanted) {
    for (std::uint32_t i = 0; i < wanted; ++i) drawn_.push_back(i % stored_now);
    return;
  }
  // Each set of places alike: Floyd's algorithm (Bentley and Floyd 1987, "A sample of brilliance").
  for (std::uint32_t last = stored_now - wanted; last < stored_now; ++last) {
    const auto place = static_cast<std::uint32_t>(below(random, std::uint64_t{last} + 1));
    const bool is_there = std::find(drawn_.begin(), drawn_.end(), place) != drawn_.end();
    drawn_.push_back(is_there ? last : place);
  }
}

void Reservoir::show(SampleRings& rings, std::uint64_t sample) const {
  const std::size_t n = learners_, slot = rings.slot(sample);
  std::size_t label = 0, value = 0;
  for (OutputRing& output : rings.outputs()) {
    for (std::size_t i = 0; i < drawn_.size(); ++i) {
      const std::size_t row = slot * n + given() + i, place = drawn_[i];
      std::copy_n(labels_.data() + place * sizes_.labels + label, output.tokens,
                  output.labels.data() + row * output.tokens);
      const float* const values = values_.data() + place * sizes_.values + value;
      if (has_targets_) std::copy_n(values, output.width, output.values.data() + row * output.width);
      if (options_.has_answers())
        std::copy_n(values + (has_targets_ ? width_ : 0), output.width, output.guides.data() + row * output.width);
      output.weights[row] = options_.beta;
    }
    output.set_classes((slot * n + given()) * output.tokens, drawn_.size() * output.tokens);
    if (options_.has_answers())
      output.guide_scales[slot] = drawn_.empty() ? 0.0f : 2.0f * options_.alpha / static_cast<float>(output.width);
    label += output.tokens;
    value += output.width;
  }
}

std::span<const mesh::RunInput> Reservoir::mix(const mesh::Mesh& mesh, std::span<const mesh::RunInput> inputs,
                                               std::uint64_t first, SampleRings& rings, std::uint64_t sample) {
  // A sample without a label moves nothing, and neither do those beside it.
  drawn_.clear();
  if (rings.is_labelled(sample)) draw();
  show(rings, sample);
  const std::size_t replayed = options_.samples, rows = mesh.sessions() - replayed;
  for (std::size_t p = 0; p < ports_.size(); ++p) {
    const Port& port = ports_[p];
    const auto input =
        std::find_if(inputs.begin(), inputs.end(), [&](const mesh::RunInput& each) { return each.port == port.name; });
    const float* const from = input->values.data() + first * rows * port.width;
    rows_[p].resize(mesh.sessions() * port.width);
    mixed_[p] = {port.name, rows_[p]};
    float* to = std::copy_n(from, given() * port.width, rows_[p].data());
    for (std::size_t i = 0; i < replayed; ++i)
      if (i < drawn_.size())
        to = std::copy_n(inputs_.data() + drawn_[i] * sizes_.inputs + port.first, port.width, to);
      else
        to = std::fill_n(to, port.width, 0.0f);
    std::copy_n(from + given() * port.width, (rows - given()) * port.width, to);
  }
  return mixed_;
}

void Reservoir::offer(const mesh::Mesh& mesh, const SampleRings& rings, std::uint64_t sample) {
  for (std::size_t row = 0; row < given(); ++row) {
    const bool is_labelled = std::any_of(rings.outputs().begin(), rings.outputs().end(), [&](const OutputRing& output) {
      const auto labels = rings.labels(output, sample).subspan(row * output.tokens, output.tokens);
      return std::any_of(labels.begin(), labels.end(), [](std::uint32_t label) { return label != kNoLabel; });
    });
    if (!is_labelled) continue;
    std::uint64_t place = counts_.seen;
    if (place >= options_.capacity) {
      RandomStream random = stream_of(seed_, counts_.seen, false);
      place = below(random, counts_.seen + 1);
    }
    if (place < options_.capacity) keep(place, row, mesh, rings, sample);
    ++counts_.seen;
  }
}

void Reservoir::keep(std::size_t place, std::size_t row, const mesh::Mesh& mesh, const SampleRings& rings,
                     std::uint64_t sample) {
  numbers_[place] = counts_.seen;
  for (std::size_t p = 0; p < ports_.size(); ++p)
    std::copy_n(rows_[p].data() + row * ports_[p].width, ports_[p].width,
                inputs_.data() + place * sizes_.inputs + ports_[p].first);
  std::uint32_t* labels = labels_.data() + place * sizes_.labels;
  float* values = values_.data() + place * sizes_.values;
  const std::size_t at = rings.slot(sample) * learners_ + row;
  for (const OutputRing& output : rings.outputs()) {
    labels = std::copy_n(output.labels.data() + at * output.tokens, output.tokens, labels);
    if (has_targets_) values = std::copy_n(output.values.data() + at * output.width, output.width, values);
  }
  for (std::size_t o = 0; o < rings.outputs().size() && options_.has_answers(); ++o) {
    const auto answer = mesh.output(mesh.spec().outputs[o].name, row);
    WEFT_ASSERT(answer, "an output of the graph is one of the mesh");
    values = std::copy(answer->begin(), answer->end(), values);
  }
  digests_[place] = digest_of(place);
}

Hash128 Reservoir::digest_of(std::size_t place) const {
  StateHasher hasher;
  hasher.add(std::span(inputs_).subspan(place * sizes_.inputs, sizes_.inputs));
  hasher.add(std::span(labels_).subspan(place * sizes_.labels, sizes_.labels));
  hasher.add(std::span(values_).subspan(place * sizes_.values, sizes_.values));
  return hasher.digest();
}

void Reservoir::visit_hash(OutArchive& archive) const {
  archive(Field{"replay_counts", Scope::control}, counts_);
  archive(Field{"replay_numbers", Scope::control}, std::span(numbers_));
  archive(Field{"replay_digests", Scope::control}, std::span(digests_));
}

void Reservoir::make_digests() {
  for (std::size_t place = 0; place < options_.capacity; ++place)
    digests_[place] = place < stored() ? digest_of(place) : Hash128{};
}

bool Reservoir::fits(const SampleRings& rings) const {
  if (!is_on()) return true;
  if (!all_finite(inputs_) || !all_finite(values_) || counts_.draws > counts_.seen) return false;
  for (std::size_t place = 0; place < stored(); ++place) {
    if (numbers_[place] >= counts_.seen) return false;
    const std::uint32_t* label = labels_.data() + place * sizes_.labels;
    for (const OutputRing& output : rings.outputs())
      for (std::size_t part = 0; part < output.tokens; ++part, ++label)
        if (*label != kNoLabel && *label >= output.starts[part + 1] - output.starts[part]) return false;
  }
  return true;
}

}  // namespace weft::learning
