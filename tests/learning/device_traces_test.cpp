// SPDX-License-Identifier: Apache-2.0
// Eligibility traces on a device, beside the host, and where it fails: the state that the CPU has, to the bit. Skipped
// (77) where there is no Vulkan device; WEFT_TEST_DEVICE names one.

#include "mesh/device/device_statistics.hpp"

#include <gtest/gtest.h>

#include "device_pair.hpp"
#include "tests/mesh/faulty_device.hpp"
#include "traced_steps.hpp"
#include <string>
#include <utility>
#include <vector>

namespace weft::learning::device_traces_test {
namespace {

using namespace mesh::testing_support;
using namespace test;
using namespace traced;

/// The same calls on the CPU and on a device.
struct TracedPair {
  std::size_t learners;
  LearningRun cpu, gpu;

  TracedPair(const mesh::NetworkSpec& spec, std::size_t count)
      : learners(count),
        cpu(spec, of_learners(count), shape_on("cpu", count)),
        gpu(spec, of_learners(count), shape_on(device_name(), count)) {}

  void run_both(std::uint64_t first, std::uint64_t count) {
    run_sessions(*cpu.learner, first, count, learners);
    run_sessions(*gpu.learner, first, count, learners);
    EXPECT_EQ(gpu.told(), cpu.told()) << "after " << first + count;
  }
  const mesh::DeviceStatistics& statistics() const { return *gpu.mesh->device_statistics(); }
  void expect_on_device() const { expect_all_on_device(statistics()); }
};

/// The actor's first layer moves at half the rate of the others.
mesh::NetworkSpec slower(mesh::NetworkSpec spec) {
  spec.layers[0].rate_scale = 0.3f;
  return spec;
}

class DeviceTraces : public FaultsTest {};

TEST_F(DeviceTraces, EndInTheStateOfTheCpu) {
  for (const std::size_t learners : {1, 3}) {
    SCOPED_TRACE(learners);
    TracedPair pair(network(), learners);
    for (std::uint64_t first = 0; first < 40; first += 10) pair.run_both(first, 10);
    pair.expect_on_device();
  }
}

TEST_F(DeviceTraces, OfStoredTypesEndInTheStateOfTheCpu) {
  const std::pair<Dtype, std::size_t> all[] = {
      {Dtype::bfloat16, 1}, {Dtype::int8, 1}, {Dtype::ternary, 1}, {Dtype::binary, 1}, {Dtype::int8, 3}};
  for (const auto& [dtype, learners] : all) {
    SCOPED_TRACE(std::string(name(dtype)) + " of " + std::to_string(learners));
    TracedPair pair(slower(in_type(network(), dtype, Activations::int8, true)), learners);
    pair.run_both(0, 12);
    pair.run_both(12, 8);
    pair.expect_on_device();
  }
}

TEST_F(DeviceTraces, OfFrozenLayersStay) {
  mesh::NetworkSpec spec = network();
  spec.layers[0].is_frozen = true;
  spec.layers[2].from = spec.layers[1].from;
  TracedPair pair(spec, 1);
  pair.run_both(0, 20);
  pair.expect_on_device();
}

TEST_F(DeviceTraces, EndInTheStateOfTheCpuBesideTheHost) {
  for (const std::uint32_t colour : {0, 1})
    for (const std::size_t learners : {1, 2}) {
      SCOPED_TRACE(std::to_string(colour) + ", " + std::to_string(learners));
      TracedPair pair(checkered(slower(network()), colour), learners);
      pair.run_both(0, 20);
      pair.run_both(20, 5);
      pair.expect_on_device();
      EXPECT_GT(pair.statistics().host_cells, 0u);
    }
}

TEST_F(DeviceTraces, ComeBackFromASnapshot) {
  TracedPair pair(network(), 2);
  pair.run_both(0, 7);
  mesh::Snapshot saved;
  pair.gpu.mesh->take_snapshot(saved);
  const std::string before = pair.gpu.told();
  run_sessions(*pair.gpu.learner, 7, 6, 2);
  must(pair.gpu.mesh->restore_snapshot(saved));
  EXPECT_EQ(pair.gpu.told(), before);
  pair.run_both(7, 10);
  pair.expect_on_device();
}

// A file of the one is read by the other, both ways.
TEST_F(DeviceTraces, GoOnElsewhere) {
  TracedPair pair(network(), 2);
  pair.run_both(0, 9);
  const ByteBuffer of_cpu = pair.cpu.file(), of_gpu = pair.gpu.file();
  LearningRun to_gpu(of_cpu, of_learners(2), shape_on(device_name(), 2)),
      to_cpu(of_gpu, of_learners(2), shape_on("cpu", 2));
  run_sessions(*to_gpu.learner, 9, 12, 2);
  run_sessions(*to_cpu.learner, 9, 12, 2);
  pair.run_both(9, 12);
  EXPECT_EQ(to_gpu.hash(), pair.cpu.hash());
  EXPECT_EQ(to_cpu.hash(), pair.cpu.hash());
}

// Gradients that are not finite, which the device finds out afterwards: the CPU's steps, fault and state.
TEST_F(DeviceTraces, StayWhereGradientsAreNotFinite) {
  for (const std::size_t learners : {1, 2}) {
    SCOPED_TRACE(learners);
    TracedPair pair(network(), learners);
    pair.run_both(0, 6);
    Steps step(6, learners);
    step.x[kIn * (learners - 1)] = 1e25f;
    step.critic[learners - 1] = 1e25f;
    const mesh::RunInput input{"x", step.x};
    const Target target{.output = "critic", .gradient = step.critic, .signals = step.of_critic};
    std::vector<std::string> told;
    for (LearningRun* const run : {&pair.cpu, &pair.gpu}) {
      const Status taught = run->learner->teach(must(run->learner->observe({&input, 1})), {&target, 1});
      told.push_back(taught ? "taught" : taught.error().text());
    }
    EXPECT_EQ(told[1], told[0]);
    EXPECT_EQ(pair.gpu.told(), pair.cpu.told());
    EXPECT_GT(pair.statistics().replays, 0u);
  }
}

class DeviceTracesFaults : public FaultsTest, public ::testing::WithParamInterface<DriverFault> {};

// A replay takes the signals of each step, not the last ones.
TEST_P(DeviceTracesFaults, LoseNothing) {
  const DriverFault fault = GetParam();
  if (fault == DriverFault::validation_error && !faulty().validates()) GTEST_SKIP() << "no validation layers";
  const bool is_slow = fault == DriverFault::lost_at_submit || fault == DriverFault::lost_at_wait;
  for (const std::size_t learners : {1, 2}) {
    SCOPED_TRACE(learners);
    const auto run_on = [&](const std::string& where) {
      LearningRun run(network(), of_learners(learners), shape_on(where, learners));
      run_sessions(*run.learner, 0, 7, learners);
      std::string all = run.told();
      run_sessions(*run.learner, 7, 6, learners);
      all += run.told();
      const Outcome outcome{all,
                            run.mesh->device_statistics() ? *run.mesh->device_statistics() : mesh::DeviceStatistics()};
      plan().clear();
      return outcome;
    };
    const int stride = is_thorough() ? (is_slow ? 5 : 3) : (is_slow ? 113 : 23);
    EXPECT_GT(expect_nothing_lost(fault, run_on, false, stride), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, DeviceTracesFaults,
                         ::testing::ValuesIn(in_slice<DriverFault>(
                             {DriverFault::no_room, DriverFault::lost_at_submit, DriverFault::no_commands,
                              DriverFault::validation_error, DriverFault::lost_at_wait},
                             2)),
                         [](const auto& row) { return std::string(mesh::testing_support::name(row.param)); });

// The host has what the device holds every 1,024 steps, and goes on from there.
TEST_F(DeviceTracesFaults, GoOnFromTheLastReadback) {
  TracedPair pair(network(), 2);
  pair.run_both(0, 1);
  run_sessions(*pair.cpu.learner, 1, 300, 2);
  run_sessions(*pair.gpu.learner, 1, 300, 2);
  EXPECT_GT(pair.statistics().downloads, 1u);
  plan().fail(DriverFault::lost_at_submit, 3);
  pair.run_both(301, 20);
  EXPECT_EQ(pair.statistics().faults, 1u);
}

}  // namespace
}  // namespace weft::learning::device_traces_test
