// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/learner.hpp"
#include "learning/sample_stream.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/weights/weight_store.hpp"

#include "storage/file_system.hpp"

#include "tests/mesh/testing.hpp"
#include "tests/support/source_path.hpp"
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft::learning::test {

using mesh::testing_support::ForIsa;

/// Every rule, and all but backprop.
inline std::vector<Rule> all_rules() {
  std::vector<Rule> rules;
  for (std::size_t i = 0; i < rule_names().size(); ++i) rules.push_back(static_cast<Rule>(i));
  return rules;
}
inline std::vector<Rule> target_rules() {
  auto rules = all_rules();
  rules.erase(rules.begin());
  return rules;
}

/// The network of examples/digits.json: 64-64-64-10 with a cell that feeds back.
inline mesh::NetworkSpec digits_network(std::uint64_t seed,
                                        kernels::Activation activation = kernels::Activation::tanh) {
  return mesh::NetworkBuilder("digits", GridShape{1, 2, 2, 1})
      .input("pixels", 64)
      .dense({0, 0, 0, 0}, 64, activation)
      .from({"pixels", Coord{0, 1, 1, 0}})
      .dense({0, 0, 1, 0}, 64, activation)
      .dense({0, 1, 0, 0}, 10)
      .dense({0, 1, 1, 0}, 16, activation)
      .from({Coord{0, 0, 1, 0}})
      .output("digit", {0, 1, 0, 0})
      .seed(seed)
      .spec();
}

/// One of everything that learns: silu, which needs its pre-activation, a link to itself and two outputs among it.
inline mesh::NetworkSpec mixed_network(std::uint64_t seed) { return mesh::testing_support::mixed_network(seed).spec(); }

/// Layers with gates and hidden states, a link back to the first one, and the ports and outputs of `mixed_network`.
inline mesh::NetworkSpec recurrent_network(std::uint64_t seed) {
  return mesh::NetworkBuilder("recurrent", GridShape{1, 2, 3, 1})
      .input("a", 7)
      .input("b", 5)
      .layer({0, 0, 0, 0}, "lstm", 19)
      .from({"a", "b", Coord{0, 1, 0, 0}})
      .layer({0, 0, 1, 0}, "gru", 17)
      .layer({0, 0, 2, 0}, "swiglu", 18)
      .option("hidden", 33.0)
      .layer({0, 1, 0, 0}, "rnn", 11)
      .dense({0, 1, 1, 0}, 4)
      .dense({0, 1, 2, 0}, 3)
      .from({Coord{0, 1, 0, 0}, Coord{0, 0, 1, 0}})
      .output("left", {0, 1, 1, 0})
      .output("right", {0, 1, 2, 0})
      .seed(seed)
      .spec();
}

/// Uses of the dense layer at [0,0,0,0] beside itself: one in a container a tick later, one nested, two ticks later.
inline mesh::NetworkSpec shared_network() {
  return mesh::testing_support::must(mesh::read_network(R"({"weft": 2, "seed": 3, "grid": {"y": 2, "x": 3},
 "inputs": {"in": [6]}, "layers": [
  {"at": [0,0,0,0], "type": "dense", "out": 6, "activation": "tanh", "from": ["in"]},
  {"at": [0,0,1,0], "type": "sequential", "layers": [
     {"type": "shared", "at": [0,0,0,0]}, {"type": "dense", "out": 5, "activation": "tanh"}]},
  {"at": [0,0,2,0], "type": "dense", "out": 6},
  {"at": [0,1,0,0], "type": "parallel", "merge": "add", "layers": [
     {"type": "sequential", "layers": [{"type": "shared", "at": [0,0,0,0]}, {"type": "shared", "at": [0,0,0,0]}]},
     {"type": "dense", "out": 6}]},
  {"at": [0,1,2,0], "type": "dense", "out": 4}], "outputs": {"y": [0,1,2,0]}})",
                                                        "sharing"));
}

/// All weights in one type; `is_aware`: those of dense layers, which learn through it.
inline mesh::NetworkSpec in_type(mesh::NetworkSpec spec, Dtype dtype, Activations activations, bool is_aware) {
  for (mesh::LayerSpec& layer : spec.layers) {
    if (is_aware && layer.type != "dense") continue;
    layer.dtype = dtype;
    layer.activations = activations;
    layer.quantization_aware = is_aware;
  }
  return spec;
}

inline mesh::NetworkSpec deep_network() {
  using mesh::testing_support::must;
  const std::string path = source_path("tests/data/deep.json");
  return must(mesh::read_network(as_text(must(storage::real_file_system().read(path, 1 << 20))), path));
}

/// Inputs and targets of a network, drawn from a seed. What session 0 gets does not depend on how many there are.
struct Samples {
  struct Port {
    std::string name;
    std::size_t width;  // of a session, or of a learner
    std::vector<float> values;
    std::vector<std::uint32_t> labels;
  };
  std::vector<Port> inputs, targets;
  std::uint64_t count;
  std::size_t sessions, learners;

  /// `finds_largest`: a label is the place of the largest input; else they are drawn, and some are missing.
  Samples(const mesh::NetworkSpec& spec, const LearningOptions& options, std::uint64_t samples,
          std::size_t session_count = 1, std::uint64_t seed = 11, bool finds_largest = false);

  struct Batch {
    std::vector<mesh::RunInput> inputs;
    std::vector<Target> targets;
  };
  /// Samples [first, first + n), as a learner takes them.
  Batch batch(std::uint64_t first, std::uint64_t n) const;
  /// The same, by one call or a call each.
  Status try_to_train(Learner& learner, std::uint64_t first, std::uint64_t n) const;
  void train(Learner& learner, std::uint64_t first, std::uint64_t n, bool at_once = true) const {
    for (std::uint64_t s = 0; s < n; s += at_once ? n : 1)
      mesh::testing_support::must(try_to_train(learner, first + s, at_once ? n : 1));
  }
};

/// A mesh for tests: as many regions as threads, however small it is.
inline mesh::MeshOptions shape(std::size_t threads = 1, std::size_t sessions = 1) {
  mesh::MeshOptions options;
  options.threads = threads;
  options.sessions = sessions;
  options.grain_bytes = 0;
  options.pin = false;
  return options;
}

/// A mesh and its learner.
struct LearningRun {
  std::unique_ptr<mesh::Mesh> mesh;
  std::unique_ptr<Learner> learner;

  LearningRun(const mesh::NetworkSpec& spec, const LearningOptions& options, const mesh::MeshOptions& wanted = shape())
      : mesh(std::make_unique<mesh::Mesh>(mesh::testing_support::must(mesh::Mesh::build(spec, wanted)))),
        learner(mesh::testing_support::must(Learner::build(*mesh, options))) {}
  /// From a file, as it was when that was written.
  LearningRun(const ByteBuffer& bytes, const LearningOptions& options, mesh::MeshOptions wanted = shape());

  /// Samples of networks with one input and one output: labels, or values.
  void train(const std::vector<float>& x, const std::vector<std::uint32_t>& labels,
             const std::vector<float>& values = {}, std::uint64_t samples = 1);
  ByteBuffer file() const;
  std::string hash(std::size_t session = 0) const { return to_string(mesh->state_hash(session)); }
  /// Hashes of all sessions, scores, and counts of updates.
  std::string told() const;
  /// Weights of all layers, or of one.
  std::vector<std::vector<double>> weights() const;
  std::vector<std::vector<float>> weights(Coord at) const;
  mesh::WeightStore& store() const { return mesh::MeshAccess::weights(*mesh); }
  mesh::NodeId node(Coord at) const { return *mesh->graph().find_layer(at); }
};

inline Dataset digits() {
  auto data = read_dataset(storage::real_file_system(), source_path("examples/data/digits.csv.gz"), {.scale = 0.0625f});
  WEFT_ASSERT(data, data.error().text());
  return *std::move(data);
}

}  // namespace weft::learning::test
