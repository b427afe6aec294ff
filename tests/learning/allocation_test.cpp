// SPDX-License-Identifier: Apache-2.0
// A program of its own: it replaces operator new.

// Steady-state ticks and learning allocate nothing: every way to get memory through C++ is counted here.

#include <gtest/gtest.h>

#include "../allocations.hpp"
#include "networks.hpp"

namespace weft::learning::allocation_test {
namespace {

using namespace mesh::testing_support;
using namespace test;
using weft::testing_support::allocations_during;
using weft::testing_support::bytes_kept_by;

class Allocation : public ::testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    if (!WEFT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer owns the allocator";
  }
};

TEST_P(Allocation, TicksAllocateNothing) {
  mesh::MeshOptions options;
  options.threads = GetParam();
  options.executor = mesh::ExecutorKind::resident;  // the graph's tasks take memory now and then
  options.grain_bytes = GetParam() == 1 ? options.grain_bytes : 0;
  for (const mesh::NetworkSpec& spec : {mixed_network(1), recurrent_network(1)}) {
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

/// Allocations of some batches, after others.
void expect_no_allocations(const mesh::NetworkSpec& spec, const LearningOptions& options, std::uint64_t samples,
                           std::size_t threads) {
  mesh::MeshOptions wanted = shape(threads, options.learners);
  if (threads == 1) wanted.grain_bytes = mesh::MeshOptions().grain_bytes;
  wanted.executor = mesh::ExecutorKind::resident;
  LearningRun run(spec, options, wanted);
  const Samples data(spec, options, samples, options.learners);
  const Samples::Batch batch = data.batch(0, samples);
  const auto learn = [&] {
    for (int i = 0; i < 4; ++i) {
      must(run.learner->learn(batch.inputs, batch.targets, samples));
      run.learner->clear_scores();
    }
  };
  learn();
  EXPECT_LE(allocations_during(learn), threads == 1 ? 0 : 4 * 8) << spec.name << " " << name(options.rule);
}

TEST_P(Allocation, LearningAllocatesNothing) {
  for (const Rule rule : test::all_rules())
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined})
      for (const mesh::NetworkSpec& spec : {mixed_network(1), recurrent_network(1)}) {
        LearningOptions options{.rule = rule, .schedule = schedule};
        options.optimizer.lr = 1e-3f;
        expect_no_allocations(spec, options, 60, GetParam());
      }
}

TEST_P(Allocation, LearningThroughEveryTypeAllocatesNothing) {
  for (int i = 0; i < kDtypeCount; ++i)
    for (const Activations activations : {Activations::int8, Activations::float32}) {
      SCOPED_TRACE(std::string(name(static_cast<Dtype>(i))) + " " + std::string(name(activations)));
      LearningOptions options;
      options.optimizer.lr = 1e-3f;
      options.learners = 3;
      expect_no_allocations(in_type(mixed_network(1), static_cast<Dtype>(i), activations, true), options, 50,
                            GetParam());
    }
}

/// A layer that carries the derivatives of its past along, and an output.
mesh::NetworkSpec forward_network(const std::string& type, const std::string& through_time) {
  return mesh::NetworkBuilder("forward", GridShape{1, 1, 2, 1})
      .input("x", 3)
      .layer({0, 0, 0, 0}, type, 32)
      .option("through_time", through_time)
      .dense({0, 0, 1, 0}, 2)
      .output("y", {0, 0, 1, 0})
      .spec();
}

TEST_P(Allocation, DerivativesOfThePastTakeNoMoreFrom64TicksTo20000) {
  constexpr std::uint64_t kBatch = 64, kTicks = 20000;
  LearningOptions options{.schedule = Schedule::pipelined};
  options.optimizer.lr = 1e-3f;
  for (const auto& [type, through_time] : {std::pair("diagonal", "forward"), {"gru", "snap1"}, {"lstm", "eprop"}}) {
    mesh::MeshOptions wanted = shape(GetParam());
    if (GetParam() == 1) wanted.grain_bytes = mesh::MeshOptions().grain_bytes;
    wanted.executor = mesh::ExecutorKind::resident;
    const mesh::NetworkSpec spec = forward_network(type, through_time);
    LearningRun run(spec, options, wanted);
    const Samples data(spec, options, kBatch);
    const Samples::Batch batch = data.batch(0, kBatch);
    const auto learn = [&] {
      must(run.learner->learn(batch.inputs, batch.targets, kBatch));
      run.learner->clear_scores();
    };
    const auto learn_all = [&] {
      for (std::uint64_t ticks = kBatch; ticks < kTicks; ticks += kBatch) learn();
    };
    learn();
    // With two threads, waking one may allocate at the start of a run.
    if (GetParam() == 1)
      EXPECT_EQ(allocations_during(learn_all), 0) << type;
    else
      EXPECT_LE(bytes_kept_by(learn_all), 4096) << type;
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, Allocation, ::testing::Values(1, 2));

}  // namespace
}  // namespace weft::learning::allocation_test
