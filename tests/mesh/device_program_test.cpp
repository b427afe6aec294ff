// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/device_program.hpp"

#include "gpu/fault_injection.hpp"

#include "kernels/attention.hpp"
#include "kernels/cpu_stream.hpp"
#include "kernels/float_environment.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include "on_device.hpp"
#include "tests/kernels/comparing.hpp"
#include <algorithm>
#include <utility>
#include <vector>

namespace weft::mesh::device_program_test {
namespace {

using kernels::testing_support::expect_same_bits;

/// An attention over a ring that is updated in place, of two sessions, and a sum of what it answers so far.
struct Steps {
  static constexpr std::size_t kSessions = 2, kWidth = 24, kKeys = 12;
  kernels::AttentionShape shape{1, 4, 2, 6, 20, 0, true, 0.4f};
  std::vector<float> q = std::vector<float>(kSessions * kWidth), k = std::vector<float>(kSessions * kKeys),
                     v = std::vector<float>(kSessions * kKeys), y = std::vector<float>(kSessions * kWidth),
                     sum = std::vector<float>(kSessions * kWidth),
                     statistics = std::vector<float>(kSessions * kernels::attention_statistics_size(shape)),
                     state = std::vector<float>(kSessions * kernels::attention_state_size(shape)),
                     workspace = std::vector<float>(kernels::attention_workspace_size(shape));

  static kernels::MatrixView rows(std::vector<float>& of) {
    return {of.data(), kSessions, of.size() / kSessions, of.size() / kSessions};
  }
  void draw(RandomStream& random) {
    for (auto* const each : {&q, &k, &v})
      for (float& value : *each) value = random.next_normal();
  }
  void run(kernels::OpStream& stream) {
    stream.attention(
        {shape, {rows(q), rows(k), rows(v), rows(state)}, rows(y), rows(statistics), rows(state), workspace.data()});
    stream.binary({kernels::BinaryOp::add, rows(sum), rows(y), rows(sum)});
  }
  std::vector<DeviceRegion> regions() {
    std::vector<DeviceRegion> all;
    for (auto* const each : {&q, &k, &v, &state, &sum})
      all.push_back({each->data(), each->size() * sizeof(float), RegionUse::kept});
    for (auto* const each : {&y, &statistics})
      all.push_back({each->data(), each->size() * sizeof(float), RegionUse::own});
    all.push_back({workspace.data(), workspace.size() * sizeof(float), RegionUse::scratch});
    return all;
  }
};

Status upload(DeviceProgram& program, const std::vector<float>& values) {
  return program.upload(values.data(), values.size() * sizeof(float));
}
Status download(DeviceProgram& program, std::vector<float>& values) {
  return program.download(values.data(), values.size() * sizeof(float));
}

// The ring goes round twice; the program is recorded once. A part is cleared on the device in between.
TEST(DeviceProgram, RunsAgainWhatItRecordedToTheCpusBits) {
  const auto device = testing_support::open_device(testing_support::device_options());
  Steps there, here;
  auto program = DeviceProgram::make(device, there.regions());
  ASSERT_TRUE(program) << program.error().text();
  EXPECT_GT(program->bytes(), 0u);
  const kernels::FlushSubnormals exact;
  kernels::CpuStream cpu;
  RandomStream random(3, 0, RandomPurpose::test);
  int recorded = 0;
  for (int step = 0; step < 45; ++step) {
    here.draw(random);
    there.q = here.q, there.k = here.k, there.v = here.v;
    here.run(cpu);
    for (const auto* const each : {&there.q, &there.k, &there.v}) ASSERT_TRUE(upload(*program, *each));
    ASSERT_TRUE(program->run(7, [&](kernels::OpStream& stream) { ++recorded, there.run(stream); }));
    if (step == 20) {
      std::fill(here.sum.begin(), here.sum.end(), 0.5f);
      ASSERT_TRUE(program->run_once([&](kernels::OpStream& stream) { stream.fill({0.5f, Steps::rows(there.sum)}); }));
    }
  }
  EXPECT_EQ(recorded, 1);
  ASSERT_TRUE(download(*program, there.sum));
  ASSERT_TRUE(download(*program, there.state));
  expect_same_bits(there.sum, here.sum, "sum");
  expect_same_bits(there.state, here.state, "state");
}

TEST(DeviceProgram, RefusesMemoryOutsideOfItsRegions) {
  const auto device = testing_support::open_device(testing_support::device_options());
  Steps steps;
  std::vector<DeviceRegion> regions = steps.regions();
  regions.pop_back();
  std::erase_if(regions, [&](const DeviceRegion& region) { return region.host == steps.y.data(); });
  auto program = DeviceProgram::make(device, std::move(regions));
  ASSERT_TRUE(program) << program.error().text();
  const Status run = program->run(1, [&](kernels::OpStream& stream) { steps.run(stream); });
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code(), Errc::internal) << run.error().text();
}

TEST(DeviceProgram, TellsOfADeviceThatIsLost) {
  gpu::DeviceOptions options = testing_support::device_options();
  options.faults = std::make_shared<gpu::FaultInjection>();
  options.cache_folder = "-";
  auto opened = gpu::Device::open(testing_support::device_name(), options);
  if (!opened && testing_support::is_device_absent()) GTEST_SKIP() << opened.error().text();
  ASSERT_TRUE(opened) << opened.error().text();
  Steps steps;
  auto program = DeviceProgram::make(*opened, steps.regions());
  ASSERT_TRUE(program) << program.error().text();
  ASSERT_TRUE(program->run(1, [&](kernels::OpStream& stream) { steps.run(stream); }));
  options.faults->fail(gpu::DriverFault::lost_at_submit, 0);
  Status got = program->run(1, [&](kernels::OpStream& stream) { steps.run(stream); });
  if (got) got = download(*program, steps.sum);
  ASSERT_FALSE(got);
  EXPECT_FALSE(upload(*program, steps.sum) && download(*program, steps.sum)) << "a lost device answers";
}

}  // namespace
}  // namespace weft::mesh::device_program_test
