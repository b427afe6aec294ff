// SPDX-License-Identifier: Apache-2.0

// Meshes whose work sits in one layer: threads help inside its operations, and no bit shows it.

#include "mesh/mesh_access.hpp"
#include "mesh/runtime/engine.hpp"

#include "topology/plan.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"

namespace weft::learning::wide_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

#ifdef WEFT_SANITIZED
constexpr std::uint64_t kSamples = 3;
#else
constexpr std::uint64_t kSamples = 12;
#endif
constexpr std::size_t kSessions = 5;  // parts of different sizes on every thread count

struct Case {
  std::string name;
  mesh::NetworkSpec spec;
};

mesh::NetworkSpec one_layer(const std::string& type, std::size_t out, Shape in, mesh::Options options) {
  mesh::NetworkBuilder b(type, {1, 1, 2, 1});
  b.input("x", in).layer({0, 0, 0, 0}, type, out).from({"x"});
  for (auto& [key, value] : options) b.option(key, value);
  const std::size_t width =
      mesh::Graph::build(mesh::NetworkBuilder(b).output("y", {0, 0, 0, 0}).spec())->nodes()[1].width;
  b.dense({0, 0, 1, 0}, 4).view(Shape{width});
  return b.output("y", {0, 0, 1, 0}).seed(3).spec();
}

std::vector<Case> cases() {
  const mesh::Options window{{"kernel", 3.0}, {"padding", 1.0}, {"activation", std::string("tanh")}};
  return {
      {"dense", one_layer("dense", 719, {811}, {{"activation", std::string("gelu")}})},
      {"conv2d", one_layer("conv2d", 35, {9, 17, 19}, window)},
      {"conv_transposed2d", one_layer("conv_transposed2d", 18, {20, 13, 11}, window)},
      {"lstm", one_layer("lstm", 67, {21, 70}, {})},
      {"gru", one_layer("gru", 60, {21, 70}, {{"output", std::string("last")}})},
      {"attention", one_layer("attention", 64, {37, 64},
                              {{"heads", 4.0}, {"kv_heads", 2.0}, {"rope", std::string("half")}, {"context", 50.0}})},
      {"swiglu", one_layer("swiglu", 96, {11, 96}, {})}};
}

struct End {
  std::vector<std::string> hashes;
  std::size_t width = 0, regions = 0;
  std::uint64_t parallel_operations = 0;
};

End train(const mesh::NetworkSpec& spec, OptimizerKind optimizer, std::size_t threads,
          mesh::ExecutorKind executor = mesh::ExecutorKind::resident, std::optional<bool> wide = std::nullopt) {
  mesh::MeshOptions wanted;
  wanted.threads = threads;
  wanted.sessions = kSessions;
  wanted.executor = executor;
  wanted.executor_seed = 5 * threads;
  wanted.wide = wide;
  wanted.pin = false;
  LearningOptions options{.schedule = Schedule::pipelined, .learners = kSessions};
  options.optimizer.kind = optimizer;
  options.optimizer.lr = 0.01f;
  LearningRun run(spec, options, wanted);
  Samples(spec, options, kSamples, kSessions).train(*run.learner, 0, kSamples);
  must(run.learner->drain());
  End end{{},
          run.mesh->width(),
          run.mesh->plan().regions.size(),
          mesh::MeshAccess::engine(*run.mesh).parallel_operations()};
  for (std::size_t b = 0; b < kSessions; ++b) end.hashes.push_back(run.hash(b));
  return end;
}

TEST(Wide, AHeavyLayerIsCutUpAndEndsInTheSameState) {
  for (const Case& each : cases())
    for (std::size_t row = 0; row < kernels::optimizer_names().size(); ++row) {
      const auto optimizer = static_cast<OptimizerKind>(row);
      const End alone = train(each.spec, optimizer, 1);
      EXPECT_EQ(alone.parallel_operations, 0u);
      for (const std::size_t threads : {2, 7})
        for (const auto executor : {mesh::ExecutorKind::resident, mesh::ExecutorKind::deterministic}) {
          const End wide = train(each.spec, optimizer, threads, executor);
          EXPECT_EQ(wide.width, threads) << each.name;
          EXPECT_EQ(wide.regions, 1u) << each.name;
          EXPECT_GE(wide.parallel_operations, 3 * kSamples)
              << each.name << ": forward, weight gradients and errors of every sample";
          EXPECT_EQ(wide.hashes, alone.hashes) << each.name << ", " << threads << " threads";
        }
    }
}

TEST(Wide, RegionsOfTheSameMeshEndInThatStateToo) {
  const Case each = cases()[1];
  const End cut = train(each.spec, OptimizerKind::sgd, 2, mesh::ExecutorKind::resident, false);
  EXPECT_EQ(cut.regions, 2u);
  EXPECT_EQ(cut.parallel_operations, 0u);
  EXPECT_EQ(cut.hashes, train(each.spec, OptimizerKind::sgd, 1).hashes);
}

TEST(Wide, MeshesOfEvenOrLittleWorkStayCutIntoRegions) {
  mesh::MeshOptions options;
  options.threads = 2;
  options.machine = std::nullopt;
  auto small = mesh::Mesh::build(digits_network(1), options);
  EXPECT_EQ(small->width(), 1u);
  mesh::NetworkBuilder even("even", {1, 1, 4, 1});
  even.input("x", 1024);
  for (std::uint32_t x = 0; x < 4; ++x) {
    even.dense({0, 0, x, 0}, 1024);
    if (x == 0) even.from({"x"});
  }
  auto balanced = mesh::Mesh::build(even.output("y", {0, 0, 3, 0}).spec(), options);
  EXPECT_EQ(balanced->width(), 1u);
  EXPECT_EQ(balanced->plan().regions.size(), 2u) << "one a thread where there are two";
  options.executor = mesh::ExecutorKind::graph;
  EXPECT_EQ(mesh::Mesh::build(even.spec(), options)->plan().regions.size(), 4u) << "up to four a thread, a cell each";
  options.executor = mesh::ExecutorKind::resident;
  EXPECT_EQ(mesh::Mesh::build(even.spec(), options)->plan().regions.size(), 2u);
}

}  // namespace
}  // namespace weft::learning::wide_test
