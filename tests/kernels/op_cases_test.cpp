// SPDX-License-Identifier: Apache-2.0
// Every operation of the table, on every instruction set, on one thread and on several, and in place where it may be:
// the bits of the scalar path on one thread, and nothing written but what the operation says. What these bits should be
// is the business of the tests of each kernel.

#include "tests/kernels/op_cases.hpp"

#include "kernels/cpu_stream.hpp"

#include "tests/kernels/comparing.hpp"
#include "tests/kernels/linear_testing.hpp"
#include <cstring>
#include <set>

namespace weft::kernels::testing_ops::op_cases_test {
namespace {

/// Memory of all operands after a run.
struct Outcome {
  std::vector<AlignedBuffer<float>> blocks;
  bool answer = false;
};

Outcome run(const Case& c, std::size_t threads, bool in_place) {
  Outcome outcome;
  for (const Block& each : c.blocks) outcome.blocks.push_back(each.initial);
  testing_linear::Backwards tasks;
  ParallelOptions options{ParallelFor(tasks)};
  options.threads = threads, options.grain_size = 0, options.workspace_stride = c.workspace_stride;
  CpuStream stream;
  stream.set_parallel(&options);
  outcome.answer = c.run(stream, [&](const void* host) -> void* {
    std::size_t i = c.block_of(host);
    if (i == c.blocks.size()) return nullptr;
    const std::ptrdiff_t offset = static_cast<const float*>(host) - c.blocks[i].initial.data();
    if (in_place && i == c.output) i = c.input;
    return outcome.blocks[i].data() + offset;
  });
  return outcome;
}

testing::AssertionResult same(const Block& kind, const AlignedBuffer<float>& got, const AlignedBuffer<float>& want) {
  for (std::size_t i = 0; i < want.size(); ++i)
    if (kind.is_bits ? std::memcmp(&got[i], &want[i], sizeof got[i]) != 0
                     : !testing_support::same_bits(got[i], want[i]))
      return testing::AssertionFailure() << "element " << i << ": " << got[i] << " against " << want[i] << std::hexfloat
                                         << " (" << got[i] << ", " << want[i] << ")";
  return testing::AssertionSuccess();
}

void expect_same(const Case& c, const Outcome& got, const Outcome& want, const std::string& what) {
  EXPECT_EQ(got.answer, want.answer) << c.name << what;
  for (std::size_t i = 0; i < c.blocks.size(); ++i)
    if (!c.blocks[i].is_workspace) {
      ASSERT_TRUE(same(c.blocks[i], got.blocks[i], want.blocks[i])) << c.name << what << ", operand " << i;
    }
}

/// All but what the operation says that it writes is as it was: inputs, gaps between rows, padding of panels.
void expect_the_rest_untouched(const Case& c, const Outcome& outcome) {
  std::vector<std::vector<bool>> written;
  for (const Block& each : c.blocks) written.emplace_back(each.initial.size(), each.is_workspace);
  c.written([&](const void* at, std::size_t count) {
    const std::size_t i = c.block_of(at);
    if (i == c.blocks.size()) return;
    const auto first = static_cast<const float*>(at) - c.blocks[i].initial.data();
    std::fill_n(written[i].begin() + first, count, true);
  });
  for (std::size_t i = 0; i < c.blocks.size(); ++i)
    for (std::size_t j = 0; j < written[i].size(); ++j)
      if (!written[i][j]) {
        ASSERT_EQ(std::memcmp(&outcome.blocks[i][j], &c.blocks[i].initial[j], sizeof(float)), 0)
            << c.name << ": operand " << i << ", element " << j << " is not among those written";
      }
}

class EveryOperation : public testing::TestWithParam<int> {
 protected:
  void TearDown() override { ASSERT_TRUE(set_active_isa(best_isa())); }
  const FlushSubnormals flush_;
};

/// Operations that have one body for all instruction sets: they move, choose, or are one multiplication.
const std::set<OpId> kScalarOnly = {
    OpId::max_backward,       OpId::permute,           OpId::top_k_mask, OpId::one_hot,    OpId::embedding,
    OpId::embedding_backward, OpId::optimizer_factors, OpId::fill,       OpId::scale_rows, OpId::gap_residual};

TEST_P(EveryOperation, HasTheScalarPathsBitsEverywhere) {
  const auto op = static_cast<OpId>(GetParam());
  const std::vector<Case> cases = cases_of(op, Breadth::host);
  ASSERT_FALSE(cases.empty()) << name(op) << " has no rows: tests/kernels/op_cases_values.cpp and its neighbours";
  std::set<Isa> ran;
  for (const Case& c : cases) {
    ASSERT_TRUE(set_active_isa(Isa::scalar));
    const Outcome want = run(c, 1, false);
    expect_the_rest_untouched(c, want);
    if (HasFatalFailure()) return;
    for (const Isa isa : available_isas()) {
      ASSERT_TRUE(set_active_isa(isa));
      for (const std::size_t threads : {std::size_t{1}, std::size_t{2}, kMostThreads}) {
        const Outcome got = run(c, threads, false);
        expect_same(c, got, want, " on " + std::string(name(isa)) + ", threads: " + std::to_string(threads));
        if (HasFatalFailure()) return;
      }
      if (last_isa_run() == general_isa(isa)) ran.insert(isa);
      if (c.output == c.input) continue;
      const Outcome got = run(c, 1, true);
      ASSERT_TRUE(same(c.blocks[c.output], got.blocks[c.input], want.blocks[c.output]))
          << c.name << " in place on " << name(isa);
    }
  }
  for (const Isa isa : available_isas())
    EXPECT_TRUE(ran.contains(isa) || kScalarOnly.contains(op)) << name(op) << " never ran the code of " << name(isa);
}

INSTANTIATE_TEST_SUITE_P(Table, EveryOperation, testing::Range(0, kOpCount),
                         [](const auto& op) { return std::string(name(static_cast<OpId>(op.param))); });

}  // namespace
}  // namespace weft::kernels::testing_ops::op_cases_test
