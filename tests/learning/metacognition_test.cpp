// SPDX-License-Identifier: Apache-2.0

// Metacognition over a layer that learns: gradient storms.

#include "mesh/layers/metacognition.hpp"

#include "learning/learner_snapshot.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/runtime/cell.hpp"

#include "networks.hpp"
#include <memory>
#include <string>
#include <vector>

namespace weft::learning::metacognition_test {
namespace {

using mesh::testing_support::must;

constexpr std::size_t kIn = 6, kOut = 3;
constexpr Coord kWatched{0, 0, 0, 0}, kWatching{0, 1, 0, 0};

mesh::NetworkSpec network() {
  return mesh::NetworkBuilder("stormy", GridShape{1, 2, 3, 1})
      .input("x", kIn)
      .dense(kWatched, 10, kernels::Activation::tanh)
      .dense({0, 0, 1, 0}, 10, kernels::Activation::tanh)
      .dense({0, 0, 2, 0}, kOut)
      .layer(kWatching, "metacognition")
      .from({kWatched})
      .option("statistic", std::string("gradient_storm"))
      .option("above", 8.0)
      .option("horizon", 40.0)
      .option("cooldown", 50.0)
      .option("action", std::string("morph"))
      .option("to", std::string("bfloat16"))
      .output("y", {0, 0, 2, 0})
      .seed(4)
      .spec();
}

struct LearningRun {
  LearningRun(Schedule schedule, std::size_t threads, const mesh::NetworkSpec& spec = network())
      : mesh(must(mesh::Mesh::build(spec, {.threads = threads, .pin = false, .grain_bytes = 0}))) {
    LearningOptions options;
    options.schedule = schedule;
    options.loss = Loss::mse;
    options.optimizer.kind = OptimizerKind::sgd;
    options.optimizer.lr = 0.001f;
    learner = must(Learner::build(mesh, options));
  }
  ~LearningRun() { learner.reset(); }
  /// Samples whose targets, and so whose errors, are of size `scale`.
  void learn(std::size_t samples, std::uint64_t seed, float scale) {
    const std::vector<float> x = mesh::testing_support::noise(samples * kIn, seed);
    const std::vector<float> wanted = mesh::testing_support::noise(samples * kOut, seed + 1, scale);
    const mesh::RunInput input{"x", x};
    const Target target{"y", {}, wanted};
    must(learner->learn({&input, 1}, {&target, 1}, samples));
  }
  std::uint64_t actions() const {
    for (const auto& cell : mesh::MeshAccess::cells(mesh))
      if (!cell->observers().empty())
        return dynamic_cast<const mesh::Watcher&>(*cell->observers()[0].observer).actions();
    return 0;
  }
  Dtype dtype() const { return mesh::MeshAccess::weights(mesh).encoding(*mesh.graph().find_layer(kWatched)).dtype; }
  std::string hash() const { return to_string(mesh.state_hash(0)); }

  mesh::Mesh mesh;
  std::unique_ptr<Learner> learner;
};

TEST(MetacognitionInLearning, ActsOnAGradientStormOnly) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    LearningRun run(schedule, 1);
    run.learn(400, 1, 0.5f);
    EXPECT_EQ(run.actions(), 0u);
    EXPECT_EQ(run.dtype(), Dtype::float32);
    run.learn(10, 3, 50.0f);
    EXPECT_GE(run.actions(), 1u);
    EXPECT_EQ(run.dtype(), Dtype::bfloat16);
  }
}

// The rms of all of the layer's gradients: the first step of sgd moves each weight by lr times its gradient.
TEST(MetacognitionInLearning, MeasuresTheGradientThatMovesTheWeights) {
  LearningRun run(Schedule::settle, 1);
  const mesh::NodeId node = *run.mesh.graph().find_layer(kWatched);
  std::vector<std::vector<float>> before;
  for (const auto& parameter : mesh::MeshAccess::weights(run.mesh).of(node))
    before.push_back(mesh::MeshAccess::weights(run.mesh).read(parameter));
  run.learn(1, 5, 40.0f);
  double squares = 0, count = 0;
  const float lr = run.learner->options().optimizer.lr;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::vector<float> after =
        mesh::MeshAccess::weights(run.mesh).read(mesh::MeshAccess::weights(run.mesh).of(node)[i]);
    for (std::size_t k = 0; k < after.size(); ++k, ++count)
      squares += std::pow((double{after[k]} - before[i][k]) / lr, 2);
  }
  const double size = static_cast<double>(run.learner->gradient_size(node, 0));
  EXPECT_GT(size, 0.0);
  EXPECT_NEAR(size, std::sqrt(squares / count), 1e-3 * size);
}

TEST(MetacognitionInLearning, DecidesTheSameEverywhereAndFromASnapshot) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    LearningRun one(schedule, 1);
    one.learn(300, 1, 0.5f), one.learn(3, 3, 50.0f);
    const std::string at_cut = one.hash();
    one.learn(200, 5, 20.0f);
    EXPECT_GE(one.actions(), 1u);
    for (const kernels::Isa isa : kernels::available_isas())
      for (const std::size_t threads : {1, 2, 4}) {
        const test::ForIsa active(isa);
        LearningRun other(schedule, threads);
        other.learn(300, 1, 0.5f), other.learn(3, 3, 50.0f);
        ASSERT_EQ(other.hash(), at_cut) << kernels::name(isa) << ", " << threads << " threads";
        const LearnerSnapshot blobs(*other.learner);
        const auto bytes = must(mesh::encode_mesh(other.mesh, true, {blobs.tensors(), "{}"}));
        const auto file = must(formats::decode_entity(ByteSpan(bytes), "test"));
        LearningRun resumed(schedule, threads, must(mesh::network_of(file)));
        must(mesh::restore_weights(resumed.mesh, file));
        must(mesh::restore_live(resumed.mesh, file));
        must(restore_learner(*resumed.learner, file));
        resumed.learn(200, 5, 20.0f);
        ASSERT_EQ(resumed.hash(), one.hash()) << kernels::name(isa) << ", " << threads << " threads";
      }
  }
}

}  // namespace
}  // namespace weft::learning::metacognition_test
