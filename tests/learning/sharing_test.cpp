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

using namespace mesh::testing_support;
using namespace test;

// The gradient of a shared weight is the sum over its uses: finite differences of the loss that one sample has.
TEST(SharedWeights, LearnFromAllTheirUses) {
  LearningRun run(shared_network(), {.optimizer = {.kind = OptimizerKind::sgd, .lr = 1e-3f}});
  const std::vector<float> x = noise(6, 21);
  const auto loss = [&] {
    std::vector<float> y(4);
    const mesh::RunInput input{"in", x};
    const mesh::RunOutput output{"y", y};
    must(run.mesh->forward({&input, 1}, 1, {&output, 1}));
    double sum = 0;
    for (const float v : y) sum += std::exp(double{v});
    return std::log(sum) - y[2];
  };
  const auto before = run.weights({0, 0, 0, 0})[0];
  const auto write = [&](const std::vector<float>& values) {
    must(run.store().write(run.store().of(run.node({0, 0, 0, 0}))[0], values, "w"));
  };
  constexpr float kStep = 2e-3f;
  std::vector<double> slopes;
  for (std::size_t i = 0; i < before.size(); ++i) {
    auto moved = before;
    moved[i] = before[i] + kStep;
    write(moved);
    const double above = loss();
    moved[i] = before[i] - kStep;
    write(moved);
    slopes.push_back((above - loss()) / (2.0 * kStep));
  }
  write(before);
  // The mesh's first samples are too young for the deepest wave.
  for (const std::uint32_t label : {kNoLabel, kNoLabel, 2u}) run.train(x, {label});
  const auto after = run.weights({0, 0, 0, 0})[0];
  double scale = 0;
  for (const double slope : slopes) scale = std::max(scale, std::fabs(slope));
  ASSERT_GT(scale, 0.01);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_NEAR((before[i] - after[i]) / run.learner->options().optimizer.lr, slopes[i], 4e-3 * scale) << i;
}

// Loom lost remote links on save.
TEST(SharedWeights, SurviveAFileAndFollowTheirOwnersMorph) {
  const auto again = must(mesh::read_network(must(mesh::write_network(shared_network())), "again"));
  ASSERT_EQ(again.layers[1].layers[0].type, "shared");
  EXPECT_EQ(again.layers[1].layers[0].at, (Coord{0, 0, 0, 0}));
  auto mesh = must(mesh::Mesh::build(again, {}));
  mesh::WeightStore& weights = mesh::MeshAccess::weights(mesh);
  EXPECT_EQ(weights.of(2).size(), 2u) << "the container owns the dense layer's weights only";
  EXPECT_EQ(weights.slots(2).size(), 4u);
  EXPECT_EQ(weights.view(2).matrix(0).codes, weights.view(1).matrix(0).codes);
  must(weights.morph(1, "owner", Encoding(Dtype::int4)));
  EXPECT_EQ(weights.view(2).matrix(0).codes, weights.view(1).matrix(0).codes);
  EXPECT_EQ(weights.view(4).matrix(2).encoding().dtype, Dtype::int4);
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
