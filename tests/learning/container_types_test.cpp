// SPDX-License-Identifier: Apache-2.0

// Layers inside containers learn as they say: `qat`, `rate_scale`, `freeze` of each, beside the same layers in cells of
// the grid.

#include "learning/learner.hpp"
#include "learning/optimizer.hpp"

#include "mesh/network/network_json.hpp"
#include "mesh/weights/weight_store.hpp"

#include "../mesh/testing.hpp"
#include "networks.hpp"

namespace weft::learning::container_types_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

/// Two dense layers with keys of their own, in a container or a cell each, and a head.
struct Pair {
  LearningRun container, cells;

  Pair(const std::string& first, const std::string& second, const LearningOptions& options,
       const std::string& keys = "")
      : container(network(R"({"type": "sequential", )" + keys + R"("layers": [)" + dense(7, first) + "," +
                          dense(5, second) + "]}"),
                  options),
        cells(network(dense(7, first) + "," + dense(5, second)), options) {
    mesh::WeightStore &from = container.store(), &to = cells.store();
    for (std::size_t i = 0; i < to.parameters().size(); ++i)
      must(to.write(to.parameters()[i], from.read(from.parameters()[i]), "w"));
  }
  static std::string dense(int out, const std::string& keys) {
    return R"({"type": "dense", "out": )" + std::to_string(out) + R"(, "activation": "tanh")" + keys + "}";
  }
  static mesh::NetworkSpec network(const std::string& layers) {
    return must(mesh::read_network(
        R"({"weft": 2, "seed": 4, "inputs": {"x": [6]}, "chain": [)" + layers + R"(, {"type": "dense", "out": 3}]})",
        "pair"));
  }
  /// Trains both, and expects the same bits of all weights.
  void train(std::uint64_t samples) {
    for (std::uint64_t s = 0; s < samples; ++s) {
      const std::vector<float> x = noise(6, 40 + s);
      for (LearningRun* run : {&container, &cells}) run->train(x, {static_cast<std::uint32_t>(s % 3)});
    }
    for (std::size_t i = 0; i < cells.store().parameters().size(); ++i)
      EXPECT_EQ(one(container, i), one(cells, i)) << i;
  }
  static std::vector<float> one(const LearningRun& run, std::size_t i) {
    return run.store().read(run.store().parameters()[i]);
  }
};

LearningOptions settled(OptimizerKind kind, float lr) {
  LearningOptions options;
  options.schedule = Schedule::settle;
  options.optimizer = kernels::default_options(kind);
  options.optimizer.lr = lr;
  return options;
}

TEST(ContainerTypes, LearnAsInCellsOfTheirOwn) {
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adamw}) {
    SCOPED_TRACE(name(kind));
    Pair(R"(, "dtype": "ternary", "qat": true, "activations": "int8_row")", R"(, "dtype": "int8")",
         settled(kind, 0.02f))
        .train(12);
    Pair(R"(, "dtype": "bfloat16")", R"(, "rate_scale": 0.25)", settled(kind, 0.02f)).train(12);
    Pair(R"(, "freeze": true)", R"(, "dtype": "binary", "qat": true)", settled(kind, 0.02f)).train(12);
  }
}

// 0.25 is a power of two: lr times it is the same number in whatever order factors are multiplied. Of three in the
// container a layer inside that says 0.5 has 1.5.
TEST(ContainerTypes, MultiplyTheContainersRate) {
  const LearningOptions options = settled(OptimizerKind::sgd, 0.25f);
  Pair pair(R"(, "rate_scale": 0.5)", "", options, R"("rate_scale": 3, )");
  LearningRun plain(Pair::network(R"({"type": "sequential", "rate_scale": 1.5, "layers": [)" + Pair::dense(7, "") +
                                  "," + Pair::dense(5, "") + "]}"),
                    options);
  pair.container.train(noise(6, 1), {1});
  plain.train(noise(6, 1), {1});
  EXPECT_EQ(Pair::one(pair.container, 0), Pair::one(plain, 0));
  EXPECT_NE(Pair::one(pair.container, 2), Pair::one(plain, 2));
}

// A norm of all gradients leaves out what is frozen, and nothing is kept beside it.
TEST(ContainerTypes, KeepNothingBesideFrozenLayers) {
  LearningOptions options = settled(OptimizerKind::adamw, 0.01f);
  options.optimizer.clip = Clip::global_norm;
  options.optimizer.clip_limit = 0.05f;
  Pair pair(R"(, "freeze": true)", "", options);
  const auto before = Pair::one(pair.container, 0);
  pair.train(8);
  EXPECT_EQ(Pair::one(pair.container, 0), before);
  const Optimizer& optimizer = pair.container.learner->optimizer();
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(optimizer.slot(0, i) == nullptr, i < 2) << i;
    EXPECT_EQ(optimizer.moves(i), i >= 2) << i;
  }
  const ByteBuffer file = pair.container.file();
  LearningRun again(file, options);
  EXPECT_EQ(again.hash(), pair.container.hash());
}

}  // namespace
}  // namespace weft::learning::container_types_test
