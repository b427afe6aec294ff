// SPDX-License-Identifier: Apache-2.0
// A program of its own: it replaces operator new.

// Steady-state ticks and learning allocate nothing: every way to get memory through C++ is counted here.

#include <gtest/gtest.h>

#include "../allocations.hpp"
#include "networks.hpp"

namespace weft::learning::allocation_test {
namespace {

using weft::testing_support::allocations_during;

class Allocation : public ::testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    if (!WEFT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer owns the allocator";
  }
};

TEST_P(Allocation, TicksAllocateNothing) {
  mesh::MeshOptions options;
  options.threads = GetParam();
  options.grain_bytes = GetParam() == 1 ? options.grain_bytes : 0;
  for (const mesh::NetworkSpec& spec : {test::mixed_network(1), test::recurrent_network(1)}) {
    auto mesh = mesh::Mesh::build(spec, options);
    ASSERT_TRUE(mesh);
    ASSERT_TRUE(mesh->tick(1000));  // warm: scratch of the kernels, the workers
    const long for_100 = allocations_during([&] { ASSERT_TRUE(mesh->tick(100)); });
    const long for_2000 = allocations_during([&] { ASSERT_TRUE(mesh->tick(2000)); });
    // Starting a run may wake workers, which may allocate; ticks within it may not.
    EXPECT_LE(for_2000, GetParam() == 1 ? 0 : for_100 + 8) << spec.name;
    if (GetParam() == 1) {
      EXPECT_EQ(for_100, 0) << spec.name;
    }
  }
}

TEST_P(Allocation, LearningAllocatesNothing) {
  for (const Rule rule : {Rule::backprop, Rule::gap, Rule::chain, Rule::fw_dtp, Rule::dfa})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined})
      for (const mesh::NetworkSpec& spec : {test::mixed_network(1), test::recurrent_network(1)}) {
        mesh::MeshOptions shape;
        shape.threads = GetParam();
        shape.grain_bytes = GetParam() == 1 ? shape.grain_bytes : 0;
        auto mesh = mesh::Mesh::build(spec, shape);
        LearningOptions options;
        options.rule = rule;
        options.schedule = schedule;
        options.optimizer.lr = 1e-3f;
        auto learner = *Learner::build(*mesh, options);
        const test::Samples data(200, 1, 3);
        const mesh::RunInput inputs[] = {{"a", data.a}, {"b", data.b}};
        const Target targets[] = {{"left", data.left, {}}, {"right", data.right, {}}};
        const auto learn = [&] {
          const Status learned = learner->learn(inputs, targets, 200);
          WEFT_ASSERT(learned, learned.error().text());
          learner->clear_scores();
        };
        for (int i = 0; i < 3; ++i) learn();
        const long made = allocations_during([&] {
          for (int i = 0; i < 5; ++i) learn();
        });
        EXPECT_LE(made, GetParam() == 1 ? 0 : 5 * 8) << spec.name << " " << name(rule) << " " << name(schedule);
      }
}

TEST_P(Allocation, LearningThroughEveryTypeAllocatesNothing) {
  for (int i = 0; i < kDtypeCount; ++i)
    for (const Activations activations : {Activations::int8, Activations::float32}) {
      mesh::MeshOptions shape;
      shape.threads = GetParam();
      shape.grain_bytes = GetParam() == 1 ? shape.grain_bytes : 0;
      shape.sessions = 3;
      mesh::NetworkSpec spec = test::mixed_network(1);
      for (mesh::LayerSpec& layer : spec.layers) {
        if (layer.type != "dense") continue;
        layer.dtype = static_cast<Dtype>(i);
        layer.activations = activations;
        layer.quantization_aware = true;
      }
      auto mesh = mesh::Mesh::build(spec, shape);
      LearningOptions options;
      options.optimizer.lr = 1e-3f;
      options.learners = 3;
      auto learner = *Learner::build(*mesh, options);
      const test::Samples data(50, 3, 3);
      const mesh::RunInput inputs[] = {{"a", data.a}, {"b", data.b}};
      const std::vector<std::uint32_t> left(150, 1), right(150, 2);
      const Target targets[] = {{"left", left, {}}, {"right", right, {}}};
      const auto learn = [&] {
        const Status learned = learner->learn(inputs, targets, 50);
        WEFT_ASSERT(learned, learned.error().text());
        learner->clear_scores();
      };
      for (int n = 0; n < 3; ++n) learn();
      const long made = allocations_during([&] {
        for (int n = 0; n < 3; ++n) learn();
      });
      EXPECT_LE(made, GetParam() == 1 ? 0 : 3 * 8) << name(static_cast<Dtype>(i)) << " " << name(activations);
    }
}

INSTANTIATE_TEST_SUITE_P(Threads, Allocation, ::testing::Values(1, 2));

}  // namespace
}  // namespace weft::learning::allocation_test
