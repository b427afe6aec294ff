// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/weight_swap.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "core/assert.hpp"
#include "core/philox.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::learning {
namespace {

using mesh::MeshAccess;

std::size_t size_of(const mesh::ParameterSpec& spec) noexcept {
  return spec.is_matrix() ? spec.out * spec.in : spec.out;
}

/// Row-major values of all parameters of a network.
std::size_t weights_of(const mesh::Graph& graph) {
  std::size_t values = 0;
  for (const mesh::Node& node : graph.nodes())
    if (!node.is_port())
      for (const mesh::ParameterSpec& spec : node.layer->parameters()) values += size_of(spec);
  return values;
}

/// use(parameter, its values) of every layer.
template <class Weights, class Values, class Use>
void each_parameter(Weights& weights, Values* values, const Use& use) {
  for (auto& parameter : weights.parameters()) {
    use(parameter, std::span(values, size_of(*parameter.spec)));
    values += size_of(*parameter.spec);
  }
}

}  // namespace

WeightSwap::WeightSwap(const mesh::Mesh& mesh, const LearningOptions& options)
    : options_(options.drift), learners_(options.learners) {
  if (!compares()) return;
  const mesh::Graph& graph = mesh.graph();
  size_ = weights_of(graph);
  weights_.assign((kFirstKept + options_.swap_weights) * size_, 0.0f);
  std::size_t inputs = 0;
  for (mesh::NodeId port = 0; port < graph.port_count(); ++port) {
    ports_.push_back({graph.nodes()[port].width, inputs});
    inputs += graph.nodes()[port].width;
  }
  for (const mesh::NodeId output : graph.outputs())
    sample_labels_ += parts_of(graph.nodes()[output], options).size() - 1;
  inputs_.assign(options_.swap_samples * inputs, 0.0f);
  labels_.assign(options_.swap_samples * sample_labels_, kNoLabel);
}

std::uint64_t WeightSwap::bytes_for(const mesh::Graph& graph, const LearningOptions& options) {
  const DriftOptions& drift = options.drift;
  if (!drift.swaps() || drift.swap != Swap::best) return 0;
  std::uint64_t sample = 0;
  for (mesh::NodeId port = 0; port < graph.port_count(); ++port) sample += graph.nodes()[port].width;
  for (const mesh::NodeId output : graph.outputs()) sample += parts_of(graph.nodes()[output], options).size() - 1;
  // Two more are made while they are compared.
  const std::uint64_t copies = kFirstKept + drift.swap_weights + 2;
  return (copies * weights_of(graph) + drift.swap_samples * sample) * sizeof(float);
}

void WeightSwap::copy_present(const mesh::Mesh& mesh, float* to) const {
  const mesh::WeightStore& weights = MeshAccess::weights(mesh);
  each_parameter(weights, to, [&](const mesh::WeightStore::Parameter& parameter, std::span<float> values) {
    const std::vector<float> now = weights.read(parameter);
    std::copy(now.begin(), now.end(), values.begin());
  });
}

void WeightSwap::draw_initial(const mesh::Mesh& mesh, float* to) const {
  const mesh::WeightStore& weights = MeshAccess::weights(mesh);
  each_parameter(weights, to, [&](const mesh::WeightStore::Parameter& parameter, std::span<float> values) {
    const auto drawn = weights.draw(mesh.graph(), parameter, mesh.spec().seed, RandomPurpose::init);
    std::copy(drawn.begin(), drawn.end(), values.begin());
  });
}

/// Of layers that learn; the others stay.
void WeightSwap::install(mesh::Mesh& mesh, const float* from) const {
  mesh::WeightStore& weights = MeshAccess::weights(mesh);
  each_parameter(weights, from, [&](mesh::WeightStore::Parameter& parameter, std::span<const float> values) {
    if (!parameter.data || mesh.graph().nodes()[parameter.node].freezes(*parameter.spec)) return;
    const Status written = weights.write(parameter, values, "learning.drift.swap");
    // Weights of learning are finite, and `fits` has seen those of a file.
    WEFT_ASSERT(written, written.error().text());
  });
}

void WeightSwap::after(const mesh::Mesh& mesh, std::span<const mesh::RunInput> inputs, std::uint64_t first,
                       std::uint64_t count, std::size_t rows, const SampleRings& rings, std::uint64_t sample,
                       std::uint64_t samples) {
  for (std::uint64_t i = 0; i < count; ++i)
    for (std::size_t learner = 0; learner < learners_; ++learner) {
      const std::size_t at = counts_.seen % options_.swap_samples;
      std::uint32_t* to = labels_.data() + at * sample_labels_;
      bool is_labelled = false;
      for (const OutputRing& output : rings.outputs()) {
        const auto labels = rings.labels(output, sample + i).subspan(learner * output.tokens, output.tokens);
        for (const std::uint32_t label : labels) is_labelled |= label != kNoLabel;
        to = std::copy(labels.begin(), labels.end(), to);
      }
      if (!is_labelled) continue;  // the next one takes its place
      for (const mesh::RunInput& input : inputs) {
        const Port& port = ports_[*mesh.graph().find_port(input.port)];
        std::copy_n(input.values.data() + ((first + i) * rows + learner) * port.width, port.width,
                    inputs_.data() + port.first * options_.swap_samples + at * port.width);
      }
      ++counts_.seen;
    }
  if (count == 0 || samples % options_.swap_every != 0) return;
  std::copy_n(place(kLast), size_, place(kBefore));
  copy_present(mesh, place(kLast));
  counts_.copies = std::min<std::uint64_t>(counts_.copies + 1, 2);
}

Result<std::uint64_t> WeightSwap::hits(const mesh::Mesh& mesh, const SampleRings& rings, std::uint64_t ticks) const {
  const auto rows = static_cast<std::size_t>(std::min<std::uint64_t>(counts_.seen, options_.swap_samples));
  std::vector<mesh::RunInput> inputs;
  for (std::size_t p = 0; p < ports_.size(); ++p)
    inputs.push_back({mesh.spec().inputs[p].name,
                      std::span(inputs_).subspan(ports_[p].first * options_.swap_samples, rows * ports_[p].width)});
  std::vector<std::vector<float>> answers;
  std::vector<mesh::RunOutput> outputs;
  for (const OutputRing& output : rings.outputs()) answers.emplace_back(rows * output.width);
  for (std::size_t o = 0; o < answers.size(); ++o) outputs.push_back({mesh.spec().outputs[o].name, answers[o]});
  if (Status asked = MeshAccess::evaluate_copies(mesh, std::nullopt, inputs, rows, ticks, outputs); !asked) {
    // Weights whose answers are not finite are right about nothing.
    const Errc code = asked.error().code();
    if (code == Errc::not_finite || code == Errc::halted) return std::uint64_t{0};
    return fail(asked.error());
  }
  std::uint64_t right = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::uint32_t* label = labels_.data() + row * sample_labels_;
    for (std::size_t o = 0; o < answers.size(); ++o) {
      const OutputRing& output = rings.outputs()[o];
      const float* const y = answers[o].data() + row * output.width;
      for (std::size_t part = 0; part < output.tokens; ++part, ++label) {
        if (*label == kNoLabel) continue;
        const float *const begin = y + output.starts[part], *const end = y + output.starts[part + 1];
        right += static_cast<std::uint64_t>(std::max_element(begin, end) - begin) == *label;
      }
    }
  }
  return right;
}

/// Keeps the copy of before the change, in the place of the earlier weights number `won`, or of none of them.
void WeightSwap::keep(std::uint64_t won) {
  if (won < counts_.kept) {
    std::copy(place(kFirstKept + won + 1), place(kFirstKept + counts_.kept), place(kFirstKept + won));
    --counts_.kept;
  }
  if (counts_.copies == 2) {
    if (counts_.kept == options_.swap_weights) {
      std::copy(place(kFirstKept + 1), place(kFirstKept + counts_.kept), place(kFirstKept));
      --counts_.kept;
    }
    std::copy_n(place(kBefore), size_, place(kFirstKept + counts_.kept++));
  }
  counts_.copies = 0;
}

Status WeightSwap::swap(mesh::Mesh& mesh, Optimizer& optimizer, const SampleRings& rings, std::uint64_t ticks) {
  const auto begin_with = [&](const float* from) {
    install(mesh, from);
    for (std::size_t slot = 0; slot < optimizer.slots(); ++slot)
      for (std::size_t i = 0; i < MeshAccess::weights(mesh).parameters().size(); ++i)
        if (float* const array = optimizer.slot(slot, i)) std::fill_n(array, optimizer.slot_size(slot, i), 0.0f);
    ++counts_.swaps;
  };
  if (!compares()) {
    std::vector<float> initial(weights_of(mesh.graph()));
    draw_initial(mesh, initial.data());
    begin_with(initial.data());
    return {};
  }
  std::vector<float> present(size_), initial(size_);
  copy_present(mesh, present.data());
  draw_initial(mesh, initial.data());
  const float* best = present.data();
  std::uint64_t won = counts_.kept;  // none of the earlier ones
  WEFT_TRY(std::uint64_t most, hits(mesh, rings, ticks));
  const auto compare = [&](const float* with, std::uint64_t number) -> Status {
    install(mesh, with);
    const auto right = hits(mesh, rings, ticks);
    if (!right) {
      install(mesh, present.data());
      return fail(right.error());
    }
    if (*right <= most) return {};
    most = *right;
    best = with;
    won = number;
    return {};
  };
  for (std::uint64_t i = counts_.kept; i-- > 0;) WEFT_CHECK(compare(place(kFirstKept + i), i));
  WEFT_CHECK(compare(initial.data(), counts_.kept));
  if (best == present.data())
    install(mesh, best);
  else
    begin_with(best);
  keep(won);
  return {};
}

void WeightSwap::visit_hash(OutArchive& archive) const {
  archive(Field{"swap_counts", Scope::control}, counts_);
  archive(Field{"swap_weights", Scope::control}, std::span(weights_));
  archive(Field{"swap_inputs", Scope::control}, std::span(inputs_));
  archive(Field{"swap_labels", Scope::control}, std::span(labels_));
}

bool WeightSwap::fits(const SampleRings& rings) const {
  const auto is_finite = [](float value) { return std::isfinite(value); };
  if (counts_.copies > 2 || counts_.kept > options_.swap_weights ||
      !std::all_of(weights_.begin(), weights_.end(), is_finite) ||
      !std::all_of(inputs_.begin(), inputs_.end(), is_finite))
    return false;
  for (std::size_t i = 0; i < labels_.size();)
    for (const OutputRing& output : rings.outputs())
      for (std::size_t part = 0; part < output.tokens; ++part, ++i)
        if (labels_[i] != kNoLabel && labels_[i] >= output.starts[part + 1] - output.starts[part]) return false;
  return true;
}

}  // namespace weft::learning
