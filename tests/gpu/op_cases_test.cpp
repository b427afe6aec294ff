// SPDX-License-Identifier: Apache-2.0
// Every operation of the table (tests/kernels/op_cases.hpp) on the device: recorded, as a command graph and in place,
// the bits of the CPU's scalar path, and nothing written beside the operands.

#include "tests/gpu/gpu_testing.hpp"
#include "tests/thorough.hpp"

namespace weft::gpu::op_cases_test {
namespace {

using namespace testing_support;
class EveryOperation : public testing::TestWithParam<int> {};

/// The first row of an operation, and of the others those of this run's slice: a driver compiles shaders for most rows.
std::vector<Case> tried(std::vector<Case> all) {
  constexpr std::size_t kSlices = 12;
  if (all.empty() || is_thorough()) return all;
  std::vector<Case> some;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i == 0 || i % kSlices == test_slice(kSlices)) some.push_back(std::move(all[i]));
  return some;
}

TEST_P(EveryOperation, HasTheCpusBits) {
  const auto op = static_cast<kernels::OpId>(GetParam());
  const std::vector<Case> cases = tried(cases_of(op, kernels::testing_ops::Breadth::device));
  ASSERT_FALSE(cases.empty()) << name(op) << " has no rows: tests/kernels/op_cases_values.cpp and its neighbours";
  auto stream = device().make_stream();
  ASSERT_TRUE(stream) << stream.error().text();
  for (const Case& c : cases) {
    expect_cpus_bits(**stream, c, Form::recorded);
    if (c.as_graph) expect_cpus_bits(**stream, c, Form::graph);
    if (c.output != c.input) expect_cpus_bits(**stream, c, Form::in_place);
    if (HasFatalFailure()) return;
  }
}

// A device that is no CPU has its driver set shaders' constants (gpu/internal/pipelines.cpp): the same bits.
TEST(Everything, HasTheCpusBitsByTheDriversConstants) {
  DeviceOptions options;
  options.cache_folder = "-";
  options.driver_constants = true;
  const auto plain = Device::open(selector(), options);
  ASSERT_TRUE(plain) << plain.error().text();
  auto stream = (*plain)->make_stream();
  ASSERT_TRUE(stream) << stream.error().text();
  constexpr std::size_t kSlices = 6;  // of operations: lavapipe takes longest for these
  for (int id = 0; id < kernels::kOpCount; ++id) {
    const auto op = static_cast<kernels::OpId>(id);
    if (!is_thorough() && static_cast<std::size_t>(id) % kSlices != test_slice(kSlices)) continue;
    const std::vector<Case> cases = cases_of(op, kernels::testing_ops::Breadth::device);
    ASSERT_FALSE(cases.empty()) << name(op);
    expect_cpus_bits(**stream, cases.front(), Form::recorded, **plain);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, EveryOperation, testing::Range(0, kernels::kOpCount),
                         [](const auto& op) { return std::string(name(static_cast<kernels::OpId>(op.param))); });

}  // namespace
}  // namespace weft::gpu::op_cases_test
