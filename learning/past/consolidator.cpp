// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/consolidator.hpp"

#include "learning/options.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/softmax.hpp"

#include <algorithm>
#include <utility>

namespace weft::learning {
namespace {

using mesh::MeshAccess;

// Sums stay finite, and so does what is made of them.
constexpr float kMost = 1e30f;

float bounded(float value) noexcept { return std::clamp(value, -kMost, kMost); }

/// Arrays of one parameter, as its weights are laid out.
struct Arrays {
  std::size_t size;
  float *w, *importance, *anchor, *sum;
  const float *gradient, *before;
};

void add_squares(const Arrays& of, float learners) noexcept {
  for (std::size_t i = 0; i < of.size; ++i) {
    const float square = bounded(of.gradient[i]) * bounded(of.gradient[i]);
    of.sum[i] = std::min(of.sum[i] + std::min(learners * square, kMost), kMost);
  }
}

void add_ways(const Arrays& of) noexcept {
  for (std::size_t i = 0; i < of.size; ++i)
    of.sum[i] = bounded(of.sum[i] + bounded(-of.gradient[i] * (of.w[i] - of.before[i])));
}

void hold(const Arrays& of, float strength) noexcept {
  for (std::size_t i = 0; i < of.size; ++i) {
    const float t = std::min(strength * of.importance[i], kMost);
    of.w[i] -= (of.w[i] - of.anchor[i]) * (t / (1.0f + t));
  }
}

void consolidate(const Arrays& of, const ConsolidationOptions& options) noexcept {
  for (std::size_t i = 0; i < of.size; ++i) {
    const float way = of.w[i] - of.anchor[i];
    const float own = options.method == Consolidation::ewc
                          ? of.sum[i] / static_cast<float>(options.every)
                          : std::max(of.sum[i], 0.0f) / std::min(way * way + options.damping, kMost);
    const float old = options.method == Consolidation::ewc ? options.decay * of.importance[i] : of.importance[i];
    of.importance[i] = std::min(old + own, kMost);
    of.sum[i] = 0.0f;
    of.anchor[i] = of.w[i];
  }
}

}  // namespace

Consolidator::Consolidator(const mesh::Mesh& mesh, const LearningOptions& options, std::uint32_t ticks)
    : options_(options.consolidation),
      lr_(options.optimizer.lr),
      learners_(static_cast<float>(options.learners)),
      ticks_(ticks) {
  if (!is_on()) return;
  const mesh::WeightStore& weights = MeshAccess::weights(mesh);
  updates_.assign(weights.node_count(), 0);
  for (const auto& parameter : weights.parameters())
    before_.emplace_back(options_.method == Consolidation::si ? parameter.spec->stored_size() : 0);
  if (!options_.guides()) return;
  answers_.resize(mesh.graph().outputs().size());
}

/// use(parameter, its number in the store): of layers that may move.
template <class Use>
void Consolidator::each_parameter(mesh::Mesh& mesh, Optimizer& optimizer, const Use& use) {
  mesh::WeightStore& weights = MeshAccess::weights(mesh);
  for (std::size_t i = 0; i < weights.parameters().size(); ++i) {
    mesh::WeightStore::Parameter& parameter = weights.parameters()[i];
    if (!parameter.data || !optimizer.moves(i) || weights.rates.of(parameter.node) == 0.0f) continue;
    use(parameter, i);
  }
}

Status Consolidator::before(mesh::Mesh& mesh, Optimizer& optimizer, std::uint64_t updates, SampleRings& rings,
                            std::uint64_t sample, std::span<const mesh::RunInput> inputs, std::uint64_t first) {
  const auto counts = std::as_const(optimizer).updates();
  updates_.assign(counts.begin(), counts.end());
  if (options_.guides())
    return updates >= options_.every ? guide(mesh, optimizer, rings, sample, inputs, first) : Status();
  each_parameter(mesh, optimizer, [&](const mesh::WeightStore::Parameter& parameter, std::size_t i) {
    if (options_.method == Consolidation::si)
      std::copy_n(parameter.data, parameter.spec->stored_size(), before_[i].data());
    if (updates == 0) std::copy_n(parameter.data, parameter.spec->stored_size(), optimizer.past(1, i));
  });
  return {};
}

void Consolidator::after(mesh::Mesh& mesh, Optimizer& optimizer, std::uint64_t updates) {
  const kernels::FlushSubnormals exact;
  const bool is_due = options_.is_due(updates);
  if (options_.guides()) {
    if (is_due)
      each_parameter(mesh, optimizer, [&](const mesh::WeightStore::Parameter& parameter, std::size_t i) {
        std::copy_n(parameter.data, parameter.spec->stored_size(), optimizer.past(0, i));
      });
    return;
  }
  mesh::WeightStore& weights = MeshAccess::weights(mesh);
  const auto counts = std::as_const(optimizer).updates();
  each_parameter(mesh, optimizer, [&](mesh::WeightStore::Parameter& parameter, std::size_t i) {
    const Arrays of{parameter.spec->stored_size(), parameter.data,        optimizer.past(0, i), optimizer.past(1, i),
                    optimizer.past(2, i),          optimizer.gradient(i), before_[i].data()};
    if (counts[parameter.node] != updates_[parameter.node]) {
      options_.method == Consolidation::ewc ? add_squares(of, learners_) : add_ways(of);
      if (updates > options_.every) {
        hold(of, lr_ * weights.rates.of(parameter.node) * parameter.spec->own.rate_scale * options_.strength);
        ++parameter.version;
      }
    }
    if (is_due) consolidate(of, options_);
  });
  if (updates <= options_.every) return;
  for (mesh::NodeId node = 0; node < weights.node_count(); ++node)
    if (counts[node] != updates_[node]) weights.refresh(node);
}

/// The weights of now for those of then, or back.
void Consolidator::exchange(mesh::Mesh& mesh, Optimizer& optimizer) {
  mesh::WeightStore& weights = MeshAccess::weights(mesh);
  each_parameter(mesh, optimizer, [&](mesh::WeightStore::Parameter& parameter, std::size_t i) {
    std::swap_ranges(parameter.data, parameter.data + parameter.spec->stored_size(), optimizer.past(0, i));
    ++parameter.version;
  });
  for (mesh::NodeId node = 0; node < weights.node_count(); ++node) weights.refresh(node);
}

Status Consolidator::guide(mesh::Mesh& mesh, Optimizer& optimizer, SampleRings& rings, std::uint64_t sample,
                           std::span<const mesh::RunInput> inputs, std::uint64_t first) {
  const std::size_t sessions = mesh.sessions(), learners = static_cast<std::size_t>(learners_);
  std::vector<mesh::RunInput> rows;
  for (const mesh::RunInput& input : inputs) {
    const std::size_t row = sessions * mesh.graph().nodes()[*mesh.graph().find_port(input.port)].width;
    rows.push_back({input.port, input.values.subspan(first * row, row)});
  }
  std::vector<mesh::RunOutput> outputs;
  for (std::size_t o = 0; o < answers_.size(); ++o) {
    answers_[o].resize(sessions * rings.outputs()[o].width);
    outputs.push_back({mesh.spec().outputs[o].name, answers_[o]});
  }
  exchange(mesh, optimizer);
  const Status answered = MeshAccess::evaluate_copies(mesh, std::nullopt, rows, sessions, ticks_, outputs);
  exchange(mesh, optimizer);
  WEFT_CHECK(answered);
  const kernels::FlushSubnormals exact;
  for (std::size_t o = 0; o < answers_.size(); ++o) {
    OutputRing& output = rings.outputs()[o];
    const std::size_t slot = rings.slot(sample), classes = output.width / output.tokens;
    float* const to = output.guides.data() + slot * learners * output.width;
    const std::size_t parts = learners * output.tokens;
    kernels::softmax({answers_[o].data(), parts, classes, classes}, options_.temperature,
                     {to, parts, classes, classes});
    output.guide_scales[slot] = options_.strength * options_.temperature;
  }
  return {};
}

}  // namespace weft::learning
