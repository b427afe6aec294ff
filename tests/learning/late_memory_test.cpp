// SPDX-License-Identifier: Apache-2.0
// A program of its own: it replaces operator new.

// Samples that wait for their targets take the memory that a learner was told to take before any of it was allocated.

#include "learning/internal/late_samples.hpp"
#include "learning/memory_estimate.hpp"

#include <gtest/gtest.h>

#include "../allocations.hpp"
#include "networks.hpp"
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weft::learning::late_memory_test {
namespace {

using namespace mesh::testing_support;
using namespace test;
using weft::testing_support::bytes_kept_by;

constexpr std::size_t kIn = 300, kOut = 200, kSessions = 3;

mesh::NetworkSpec wide_network() {
  return mesh::NetworkBuilder("wide", {1, 1, 2, 1})
      .input("x", kIn)
      .dense({0, 0, 0, 0}, 4, kernels::Activation::tanh)
      .dense({0, 0, 1, 0}, kOut)
      .output("y", {0, 0, 1, 0})
      .seed(1)
      .spec();
}

struct Row {
  Loss loss;
  Schedule schedule;
  Late late;
  std::string name() const {
    return std::string(kernels::name(loss)) + "_" + std::string(learning::name(schedule)) + "_" +
           std::string(learning::name(late));
  }
};

class LateMemory : public ::testing::TestWithParam<Row> {
 protected:
  static std::uint64_t told(const mesh::Graph& graph, const LearningOptions& options, std::string_view wanted) {
    const auto estimate = must(estimate_memory(graph, with_defaults(options), kSessions, UINT64_MAX));
    for (const auto& [name, bytes] : estimate.parts)
      if (name == wanted) return bytes;
    return 0;
  }
};

TEST_P(LateMemory, IsWhatIsTaken) {
  if (!WEFT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer owns the allocator";
  const auto [loss, schedule, late] = GetParam();
  LearningOptions options{.schedule = schedule, .loss = loss, .late = late, .patience = 100};
  options.learners = 2;
  mesh::Mesh mesh = must(mesh::Mesh::build(wide_network(), shape(1, kSessions)));
  const auto plan = must(LearningPlan::build(mesh.graph(), kSessions, options));
  std::optional<SampleRings> rings;
  std::optional<LateSamples> samples;
  long taken = bytes_kept_by([&] {
    rings.emplace(mesh.graph(), options, plan.ring);
    samples.emplace(mesh.graph(), plan, options);
  });
  rings.reset();
  samples.reset();
  if (late != Late::none) {
    const auto learner = must(Learner::build(mesh, options));
    const std::vector<float> x(kIn * kSessions, 0.25f), gradient(kOut * 2, 0.01f), weights(2, 1.0f);
    const mesh::RunInput input{"x", x};
    const Target target{.output = "y", .gradient = gradient, .weights = weights};
    // Every place of a sample has had its answer and its target.
    taken += bytes_kept_by([&] {
      for (int i = 0; i < 300; ++i) {
        must(learner->teach(must(learner->observe({&input, 1})), {&target, 1}));
        learner->clear_scores();
      }
    });
  }
  const auto expected = static_cast<double>(told(mesh.graph(), options, "samples"));
  EXPECT_GT(static_cast<double>(taken), 0.97 * expected);
  EXPECT_LT(static_cast<double>(taken), 1.03 * expected + 4096);
}

INSTANTIATE_TEST_SUITE_P(Of, LateMemory,
                         ::testing::Values(Row{Loss::cross_entropy, Schedule::settle, Late::none},
                                           Row{Loss::mse, Schedule::pipelined, Late::none},
                                           Row{Loss::cross_entropy, Schedule::settle, Late::meet},
                                           Row{Loss::cross_entropy, Schedule::pipelined, Late::meet},
                                           Row{Loss::mse, Schedule::settle, Late::again},
                                           Row{Loss::cross_entropy, Schedule::pipelined, Late::again}),
                         [](const auto& row) { return row.param.name(); });

// Patience that was 5 GB and more, and was said to fit.
TEST(LateMemoryBound, IsRefusedBeforeItIsTaken) {
  mesh::NetworkSpec spec = wide_network();
  spec.layers[1].out = 10000;
  mesh::MeshOptions small = shape();
  small.max_memory = std::uint64_t{1} << 30;
  mesh::Mesh mesh = must(mesh::Mesh::build(spec, small));
  LearningOptions options{.late = Late::again, .patience = 65536};
  expect_error(Learner::build(mesh, options), Errc::too_large, {"learning on network 'wide'", "samples"});
  options.patience = 32;
  must(Learner::build(mesh, options));
}

}  // namespace
}  // namespace weft::learning::late_memory_test
