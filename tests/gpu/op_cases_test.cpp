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

INSTANTIATE_TEST_SUITE_P(Table, EveryOperation, testing::Range(0, kernels::kOpCount),
                         [](const auto& op) { return std::string(name(static_cast<kernels::OpId>(op.param))); });

}  // namespace
}  // namespace weft::gpu::op_cases_test
