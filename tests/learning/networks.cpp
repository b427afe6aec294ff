// SPDX-License-Identifier: Apache-2.0

#include "networks.hpp"

#include "learning/learner_snapshot.hpp"
#include "learning/optimizer.hpp"

#include "mesh/network/graph.hpp"
#include "mesh/persistence/entity_model.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <utility>

namespace weft::learning::test {
namespace {

using mesh::testing_support::must;

std::size_t values_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

/// Labels or values of one learner and sample at an output.
void draw_target(Samples::Port& port, const Shape& shape, const LearningOptions& options, RandomStream& random,
                 bool is_silent) {
  const auto classes = static_cast<std::uint32_t>(shape.back());
  const std::size_t tokens = port.width / classes;
  switch (targets_of(options.loss)) {
    case LossTargets::labels:
      for (std::size_t i = 0; i < tokens; ++i) port.labels.push_back(is_silent ? kNoLabel : random.next_below(classes));
      break;
    case LossTargets::head_labels:
      for (const std::uint32_t width : options.heads) port.labels.push_back(random.next_below(width));
      break;
    case LossTargets::values:
      for (std::size_t i = 0; i < port.width; ++i)
        port.values.push_back(options.loss == Loss::binary_cross_entropy ? random.next_uniform()
                                                                         : random.next_normal());
  }
}

}  // namespace

Samples::Samples(const mesh::NetworkSpec& spec, const LearningOptions& options, std::uint64_t samples,
                 std::size_t session_count, std::uint64_t seed, bool finds_largest)
    : count(samples), sessions(session_count), learners(options.learners) {
  const auto graph = must(mesh::Graph::build(spec));
  std::vector<Shape> shapes;
  for (const mesh::PortSpec& input : spec.inputs) inputs.push_back({input.name, values_of(input.shape), {}, {}});
  for (const mesh::OutputSpec& output : spec.outputs) {
    shapes.push_back(graph.nodes()[*graph.find_layer(output.at)].layer->out_shape());
    targets.push_back({output.name, values_of(shapes.back()), {}, {}});
  }
  for (std::uint64_t s = 0; s < samples; ++s) {
    for (std::size_t b = 0; b < sessions; ++b) {
      RandomStream random(seed, s * 64 + b, RandomPurpose::test);
      for (Port& port : inputs)
        for (std::size_t i = 0; i < port.width; ++i) port.values.push_back(random.next_normal());
      if (b >= learners) continue;
      RandomStream labels(seed + 1, s * 64 + b, RandomPurpose::test);
      const float* const x = inputs[0].values.data() + inputs[0].values.size() - inputs[0].width;
      if (finds_largest)
        targets[0].labels.push_back(static_cast<std::uint32_t>(std::max_element(x, x + targets[0].width) - x));
      else
        for (std::size_t o = 0; o < targets.size(); ++o)
          draw_target(targets[o], shapes[o], options, labels, o == 0 ? s % 11 == 5 : s % 7 == 3);
    }
  }
}

Samples::Batch Samples::batch(std::uint64_t first, std::uint64_t n) const {
  const auto part = [&](const auto& all) {
    const std::size_t each = all.size() / count;
    return std::span(all).subspan(first * each, n * each);
  };
  Batch made;
  for (const Port& port : inputs) made.inputs.push_back({port.name, part(port.values)});
  for (const Port& port : targets) made.targets.push_back({port.name, part(port.labels), part(port.values)});
  return made;
}

Status Samples::try_to_train(Learner& learner, std::uint64_t first, std::uint64_t n) const {
  const Batch given = batch(first, n);
  return learner.learn(given.inputs, given.targets, n);
}

LearningRun::LearningRun(const ByteBuffer& bytes, const LearningOptions& options, mesh::MeshOptions wanted) {
  const auto read = must(formats::decode_entity(ByteSpan(bytes), "test"));
  wanted.sessions = mesh::sessions_of(read);
  mesh = std::make_unique<mesh::Mesh>(must(mesh::Mesh::build(must(mesh::network_of(read)), wanted)));
  learner = must(Learner::build(*mesh, options));
  must(mesh::restore_weights(*mesh, read));
  must(mesh::restore_live(*mesh, read));
  must(restore_learner(*learner, read));
}

void LearningRun::train(const std::vector<float>& x, const std::vector<std::uint32_t>& labels,
                        const std::vector<float>& values, std::uint64_t samples) {
  const mesh::NetworkSpec& spec = mesh->spec();
  const mesh::RunInput input{spec.inputs[0].name, x};
  const Target target{spec.outputs[0].name, labels, values};
  must(learner->learn({&input, 1}, {&target, 1}, samples));
}

ByteBuffer LearningRun::file() const {
  const LearnerSnapshot blobs(*learner);
  return must(mesh::encode_mesh(*mesh, true, {.tensors = blobs.tensors(), .kept_ticks = kept_ticks(*learner)}));
}

std::string LearningRun::told() const {
  std::string all;
  for (std::size_t b = 0; b < mesh->sessions(); ++b) all += hash(b) + " ";
  for (const Score& s : learner->scores())
    for (const std::uint64_t word :
         {s.sample, std::uint64_t{s.learner}, std::uint64_t{s.prediction}, std::uint64_t{s.label},
          std::uint64_t{std::bit_cast<std::uint32_t>(s.loss)}, std::uint64_t{s.token}})
      all += std::to_string(word) + " ";
  for (const std::uint64_t updates : std::as_const(*learner).optimizer().updates())
    all += std::to_string(updates) + " ";
  return all;
}

std::vector<std::vector<double>> LearningRun::weights() const {
  std::vector<std::vector<double>> all;
  for (const auto& parameter : store().parameters()) {
    const auto values = store().read(parameter);
    all.emplace_back(values.begin(), values.end());
  }
  return all;
}

std::vector<std::vector<float>> LearningRun::weights(Coord at) const {
  std::vector<std::vector<float>> all;
  for (const auto& parameter : store().of(node(at))) all.push_back(store().read(parameter));
  return all;
}

}  // namespace weft::learning::test
