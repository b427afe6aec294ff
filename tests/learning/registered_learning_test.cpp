// SPDX-License-Identifier: Apache-2.0
// Learning in meshes with layers of a registered type beside a device: the state and every score that the CPU has, to
// the bit. Skipped (77) where there is no Vulkan device; WEFT_TEST_DEVICE names one.

#include "learning/optimizer.hpp"

#include "mesh/persistence/snapshot.hpp"

#include <gtest/gtest.h>

#include "device_pair.hpp"
#include "tests/mesh/raw_layer.hpp"
#include <string>
#include <tuple>

namespace weft::learning::registered_learning_test {
namespace {

using test::Batch;
using test::Pair;

class RegisteredLearning : public ::testing::TestWithParam<std::tuple<Rule, Schedule>> {
 protected:
  void SetUp() override {
    mesh::testing_support::need_device();
    mesh::testing_support::register_raw();
  }
};

/// The raw cell stands between two that the device runs, and reads one that its reader feeds back to.
mesh::NetworkSpec network() {
  return mesh::NetworkBuilder("registered", GridShape{1, 2, 2, 1})
      .input("pixels", 64)
      .dense({0, 0, 0, 0}, 24, kernels::Activation::tanh)
      .from({"pixels", Coord{0, 1, 1, 0}})
      .layer({0, 0, 1, 0}, "raw")
      .dense({0, 1, 0, 0}, 10)
      .dense({0, 1, 1, 0}, 16, kernels::Activation::tanh)
      .from({Coord{0, 0, 1, 0}})
      .output("digit", {0, 1, 0, 0})
      .seed(12)
      .spec();
}

TEST_P(RegisteredLearning, EndsWhereTheCpuDoesWithTheSameScores) {
  const auto [rule, schedule] = GetParam();
  LearningOptions options{.rule = rule, .schedule = schedule};
  options.learners = 2;
  if (rule == Rule::chain) options.optimizer.kind = OptimizerKind::adamw;
  Pair pair(network(), with_defaults(options), 3);
  std::uint64_t first = 0;
  const auto train = [&](std::uint64_t count, std::uint64_t skip) {
    const Batch batch(test::all_digits(), first, count, 3, 2, skip);
    pair.both([&](test::LearningRun& run) { batch.train(run, count); });
    first += count;
  };
  for (const std::uint64_t count : {1, 2, 20}) train(count, 5);
  pair.expect_equal("on the way");
  mesh::Snapshot saved[2];
  pair.cpu().mesh->take_snapshot(saved[0]);
  pair.gpu().mesh->take_snapshot(saved[1]);
  train(9, 0);
  const Hash128 after = pair.gpu().mesh->state_hash();
  pair.expect_equal("further");
  test::must(pair.cpu().mesh->restore_snapshot(saved[0]));
  test::must(pair.gpu().mesh->restore_snapshot(saved[1]));
  first -= 9;
  train(9, 0);
  EXPECT_EQ(pair.gpu().mesh->state_hash(), after);
  pair.both([](test::LearningRun& run) { test::must(run.learner->drain()); });
  pair.expect_equal("drained");
  pair.expect_on_device();
  EXPECT_EQ(pair.statistics().host_cells, 1u);
  EXPECT_GT(pair.statistics().exchanged_bytes, 0u);
  const auto updates = std::as_const(*pair.cpu().learner).optimizer().updates();
  EXPECT_GT(updates[*pair.cpu().mesh->graph().find_layer({0, 0, 1, 0})], 0u) << "the raw layer learns too";
}

INSTANTIATE_TEST_SUITE_P(Rules, RegisteredLearning,
                         ::testing::Combine(::testing::Values(Rule::backprop, Rule::chain, Rule::gap),
                                            ::testing::Values(Schedule::settle, Schedule::pipelined)),
                         [](const auto& row) {
                           return std::string(name(std::get<0>(row.param))) + "_" +
                                  std::string(name(std::get<1>(row.param)));
                         });

}  // namespace
}  // namespace weft::learning::registered_learning_test
