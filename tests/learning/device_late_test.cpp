// SPDX-License-Identifier: Apache-2.0
// Targets that come late, on a device and beside the host: the state and every score that the CPU has, to the bit.

#include "mesh/device/device_statistics.hpp"

#include <gtest/gtest.h>

#include "device_pair.hpp"
#include "late_script.hpp"
#include <string>

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
    if (is_mixed) EXPECT_GT(statistics.host_cells, 0u);
  }
};

TEST_P(DeviceLate, EndsInTheStateOfTheCpu) { compare(mixed_network(3), false); }
TEST_P(DeviceLate, EndsInTheStateOfTheCpuBesideTheHost) { compare(checkered(mixed_network(3), 1), true); }

INSTANTIATE_TEST_SUITE_P(Of, DeviceLate, ::testing::ValuesIn(late_cases()),
                         [](const auto& row) { return row.param.name(); });

}  // namespace
}  // namespace weft::learning::device_late_test
