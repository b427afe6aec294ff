// SPDX-License-Identifier: Apache-2.0
// Targets that come late, on a device and beside the host: the state and every score that the CPU has, to the bit.

#include "mesh/device/device_statistics.hpp"

#include <gtest/gtest.h>

#include "device_pair.hpp"
#include "late_script.hpp"
#include "tests/thorough.hpp"
#include <string>
#include <vector>

namespace weft::learning::device_late_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

class DeviceLate : public ::testing::TestWithParam<LateCase> {
 protected:
  void SetUp() override { need_device(); }
  void compare(const mesh::NetworkSpec& spec, bool is_mixed) {
    LearningOptions options = GetParam().options();
    options.learners = 2;
    LearningRun cpu(spec, options, shape_on("cpu", 2)), gpu(spec, options, shape_on(device_name(), 2));
    LateScript here(spec, options, 40, 2), there(spec, options, 40, 2);
    for (std::uint64_t first = 0; first < 40; first += 10) {
      here.run(*cpu.learner, first, 10);
      there.run(*gpu.learner, first, 10);
      EXPECT_EQ(gpu.told(), cpu.told()) << "after " << first + 10;
    }
    must(cpu.learner->drain());
    must(gpu.learner->drain());
    EXPECT_EQ(gpu.told(), cpu.told());
    const mesh::DeviceStatistics& statistics = *gpu.mesh->device_statistics();
    EXPECT_EQ(statistics.why_host, "");
    EXPECT_EQ(statistics.host_steps, 0u);
    EXPECT_GT(statistics.device_steps, 0u);
    if (is_mixed) {
      EXPECT_GT(statistics.host_cells, 0u);
    }
  }
};

TEST_P(DeviceLate, EndsInTheStateOfTheCpu) { compare(mixed_network(3), false); }
TEST_P(DeviceLate, EndsInTheStateOfTheCpuBesideTheHost) { compare(checkered(mixed_network(3), 1), true); }

INSTANTIATE_TEST_SUITE_P(Of, DeviceLate, ::testing::ValuesIn(in_slice(late_cases(), 12)),
                         [](const auto& row) { return row.param.name(); });

// Tickets that calls before a fault told stay, though the steps are gone back to and run again.
TEST(DeviceLateFaults, LeaveTheTicketsThatExpired) {
  need_device();
  LearningOptions options{.schedule = Schedule::settle, .late = Late::meet, .patience = 3};
  const auto spec = mixed_network(3);
  LearningRun cpu(spec, options, shape_on("cpu", 1)), gpu(spec, options, shape_on(device_name(), 1));
  const Samples data(spec, options, 30);
  for (LearningRun* const run : {&cpu, &gpu}) {
    for (std::uint64_t s = 0; s < 8; ++s) must(run->learner->observe(data.batch(s, 1).inputs));
    ASSERT_GT(run->learner->expired().size(), 1u);
    const mesh::NodeId node = run->mesh->graph().outputs()[0];
    const auto& parameter = run->store().of(node)[0];
    must(run->store().write(run->store().parameters()[run->store().first(node)],
                            std::vector<float>(parameter.spec->out * parameter.spec->in, 3e38f), "large"));
    for (std::uint64_t s = 8; s < 20; ++s)
      if (!data.try_to_train(*run->learner, s, 1)) break;
  }
  EXPECT_EQ(gpu.told(), cpu.told());
  EXPECT_GT(gpu.mesh->device_statistics()->replays, 0u);
  const auto here = cpu.learner->expired(), there = gpu.learner->expired();
  EXPECT_EQ(std::vector<Ticket>(there.begin(), there.end()), std::vector<Ticket>(here.begin(), here.end()));
}

}  // namespace
}  // namespace weft::learning::device_late_test
