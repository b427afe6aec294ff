// SPDX-License-Identifier: Apache-2.0

// Weights that several layers compute with: a container's `shared` layers and their owner elsewhere in the grid.

#include "learning/learner.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/weights/weight_store.hpp"

#include "../mesh/testing.hpp"
#include "networks.hpp"

namespace weft::learning::sharing_test {
namespace {

using mesh::testing_support::expect_error;
using mesh::testing_support::must;
using mesh::testing_support::noise;

// Two uses of the layer at [0,0,0,0] beside itself: one in a container a tick later, one nested, two ticks later.
constexpr const char* kNetwork = R"({"weft": 2, "seed": 3, "grid": {"z": 1, "y": 2, "x": 3}, "inputs": {"in": [6]},
 "layers": [
  {"at": [0,0,0,0], "type": "dense", "out": 6, "activation": "tanh", "from": ["in"]},
  {"at": [0,0,1,0], "type": "sequential", "layers": [{"type": "shared", "at": [0,0,0,0]}, {"type": "dense", "out": 5, "activation": "tanh"}]},
  {"at": [0,0,2,0], "type": "dense", "out": 6},
  {"at": [0,1,0,0], "type": "parallel", "merge": "add", "layers": [
     {"type": "sequential", "layers": [{"type": "shared", "at": [0,0,0,0]}, {"type": "shared", "at": [0,0,0,0]}]},
     {"type": "dense", "out": 6}]},
  {"at": [0,1,2,0], "type": "dense", "out": 4}],
 "outputs": {"y": [0,1,2,0]}})";

struct RunShape {
  std::size_t threads = 1, sessions = 1;
  mesh::ExecutorKind executor = mesh::ExecutorKind::tbb;
  Rule rule = Rule::backprop;
  Schedule schedule = Schedule::settle;
  bool at_once = true;
};

mesh::Mesh mesh_of(const mesh::NetworkSpec& spec, const RunShape& run) {
  mesh::MeshOptions options;
  options.threads = run.threads;
  options.sessions = run.sessions;
  options.executor = run.executor;
  options.grain_bytes = 0;
  return must(mesh::Mesh::build(spec, options));
}

std::string hash_of_run(const RunShape& run, std::uint64_t samples) {
  const auto spec = must(mesh::read_network(kNetwork, "sharing"));
  auto mesh = mesh_of(spec, run);
  LearningOptions options;
  options.rule = run.rule;
  options.schedule = run.schedule;
  options.optimizer.lr = 0.05f;
  options.learners = 1;
  const auto learner = must(Learner::build(mesh, options));
  std::vector<float> x(samples * run.sessions * 6);
  const std::vector<float> one = noise(samples * 6, 11);
  for (std::uint64_t s = 0; s < samples; ++s)
    for (std::size_t b = 0; b < run.sessions; ++b)
      std::copy_n(one.data() + s * 6, 6, x.data() + (s * run.sessions + b) * 6);
  std::vector<std::uint32_t> labels(samples);
  for (std::uint64_t s = 0; s < samples; ++s) labels[s] = static_cast<std::uint32_t>(s * 7 % 4);
  const std::uint64_t block = run.at_once ? samples : 1;
  for (std::uint64_t s = 0; s < samples; s += block) {
    const mesh::RunInput input{"in", std::span(x).subspan(s * run.sessions * 6, block * run.sessions * 6)};
    const Target target{"y", std::span(labels).subspan(s, block), {}};
    must(learner->learn({&input, 1}, {&target, 1}, block));
  }
  must(learner->drain());
  std::vector<float> weights;
  for (const auto& parameter : mesh::MeshAccess::weights(mesh).parameters())
    for (const float value : mesh::MeshAccess::weights(mesh).read(parameter)) weights.push_back(value);
  return to_string(hash_bytes(weights.data(), weights.size() * sizeof(float)));
}

TEST(SharedWeights, EndInOneStateOnEveryThreadCountExecutorAndBlock) {
  for (const Rule rule : {Rule::backprop, Rule::fw_dtp, Rule::dfa})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      RunShape run;
      run.rule = rule;
      run.schedule = schedule;
      const std::string first = hash_of_run(run, 60);
      for (const std::size_t threads : {2u, 7u}) {
        run.threads = threads;
        EXPECT_EQ(hash_of_run(run, 60), first) << threads << " threads";
      }
      run.executor = mesh::ExecutorKind::deterministic;
      EXPECT_EQ(hash_of_run(run, 60), first) << "deterministic";
      run = {2, 3, mesh::ExecutorKind::tbb, rule, schedule, false};
      EXPECT_EQ(hash_of_run(run, 60), first) << "three sessions, one by one";
    }
}

// The gradient of a shared weight is the sum over its uses: finite differences of the loss that one sample has.
TEST(SharedWeights, LearnFromAllTheirUses) {
  const auto spec = must(mesh::read_network(kNetwork, "sharing"));
  const std::vector<float> x = noise(6, 21);
  const auto loss_of = [&](mesh::Mesh& mesh) {
    std::vector<float> y(4);
    const mesh::RunInput input{"in", x};
    const mesh::RunOutput output{"y", y};
    must(mesh.forward({&input, 1}, 1, {&output, 1}));
    double sum = 0;
    for (const float v : y) sum += std::exp(double{v});
    return std::log(sum) - y[2];
  };
  RunShape run;
  auto mesh = mesh_of(spec, run);
  const auto before =
      mesh::MeshAccess::weights(mesh).read(mesh::MeshAccess::weights(mesh).of(1)[0]);  // node 0 is the port
  constexpr float kStep = 2e-3f;
  std::vector<double> slopes;
  for (std::size_t i = 0; i < before.size(); ++i) {
    auto moved = before;
    moved[i] = before[i] + kStep;
    must(mesh::MeshAccess::weights(mesh).write(mesh::MeshAccess::weights(mesh).of(1)[0], moved, "w"));
    const double above = loss_of(mesh);
    moved[i] = before[i] - kStep;
    must(mesh::MeshAccess::weights(mesh).write(mesh::MeshAccess::weights(mesh).of(1)[0], moved, "w"));
    slopes.push_back((above - loss_of(mesh)) / (2.0 * kStep));
  }
  must(mesh::MeshAccess::weights(mesh).write(mesh::MeshAccess::weights(mesh).of(1)[0], before, "w"));
  LearningOptions options;
  options.rule = Rule::backprop;
  options.optimizer.kind = OptimizerKind::sgd;
  options.optimizer.lr = 1e-3f;
  const auto learner = must(Learner::build(mesh, options));
  const mesh::RunInput input{"in", x};
  const std::vector<std::uint32_t> label{2};
  const Target target{"y", label, {}};
  // The mesh's first sample is too young for the deepest wave; it is given unlabelled.
  const std::vector<std::uint32_t> none{kNoLabel};
  const Target silent{"y", none, {}};
  must(learner->learn({&input, 1}, {&silent, 1}, 1));
  must(learner->learn({&input, 1}, {&silent, 1}, 1));
  must(learner->learn({&input, 1}, {&target, 1}, 1));
  const auto after = mesh::MeshAccess::weights(mesh).read(mesh::MeshAccess::weights(mesh).of(1)[0]);
  double scale = 0;
  for (const double slope : slopes) scale = std::max(scale, std::fabs(slope));
  ASSERT_GT(scale, 0.01);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_NEAR((before[i] - after[i]) / options.optimizer.lr, slopes[i], 4e-3 * scale) << i;
}

// The original lost remote links on save.
TEST(SharedWeights, SurviveAFileAndFollowTheirOwnersMorph) {
  const auto spec = must(mesh::read_network(kNetwork, "sharing"));
  const auto again = must(mesh::read_network(must(mesh::write_network(spec)), "again"));
  ASSERT_EQ(again.layers[1].layers[0].type, "shared");
  EXPECT_EQ(again.layers[1].layers[0].at, (Coord{0, 0, 0, 0}));
  RunShape run;
  auto mesh = mesh_of(again, run);
  EXPECT_EQ(mesh::MeshAccess::weights(mesh).of(2).size(), 2u) << "the container owns the dense layer's weights only";
  EXPECT_EQ(mesh::MeshAccess::weights(mesh).slots(2).size(), 4u);
  EXPECT_EQ(mesh::MeshAccess::weights(mesh).view(2).matrix(0).codes,
            mesh::MeshAccess::weights(mesh).view(1).matrix(0).codes);
  must(mesh::MeshAccess::weights(mesh).morph(1, "owner", Encoding(Dtype::int4)));
  EXPECT_EQ(mesh::MeshAccess::weights(mesh).view(2).matrix(0).codes,
            mesh::MeshAccess::weights(mesh).view(1).matrix(0).codes);
  EXPECT_EQ(mesh::MeshAccess::weights(mesh).view(4).matrix(2).encoding().dtype, Dtype::int4);
}

TEST(SharedWeights, AreRefusedWhereTheyCannotBe) {
  const auto with = [](const std::string& inside) {
    std::string text = R"({"weft": 2, "grid": {"x": 2, "layers": 2}, "inputs": {"in": [6]}, "layers": [
      {"at": [0,0,0,0], "type": "dense", "out": 6, "from": ["in"]},
      {"at": [0,0,0,1], "type": "activation"},
      {"at": [0,0,1,0], "type": "sequential", "layers": [)" +
                       inside + "]}]}";
    return mesh::Graph::build(must(mesh::read_network(text, "bad")));
  };
  EXPECT_TRUE(with(R"({"type": "shared", "at": [0,0,0,0]})").has_value());
  expect_error(with(R"({"type": "shared", "at": [0,0,0,1]})"), Errc::unsupported,
               {"layers[2].layers[0].at", "no weights"});
  expect_error(with(R"({"type": "shared", "at": [0,0,1,1]})"), Errc::unknown_name,
               {"layers[2].layers[0].at", "no layer"});
  expect_error(with(R"({"type": "shared", "at": [0,0,9,0]})"), Errc::out_of_range, {"layers[2].layers[0].at", "grid"});
  expect_error(with(R"({"type": "shared", "at": [0,0,1,0]})"), Errc::shape_mismatch, {"layers[2]", "share"});
  expect_error(with(R"({"type": "dense", "out": 3}, {"type": "shared", "at": [0,0,0,0]})"), Errc::shape_mismatch,
               {"layers[2].layers[1].at", "[6]", "[3]"});
  expect_error(with(R"({"type": "shared", "at": [0,0,0,0], "bias": true})"), Errc::unknown_name,
               {"layers[2].layers[0]"});
}

}  // namespace
}  // namespace weft::learning::sharing_test
