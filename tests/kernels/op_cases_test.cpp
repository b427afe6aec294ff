// SPDX-License-Identifier: Apache-2.0
// Every operation of the table: what its oracle says (oracle.hpp), on every instruction set, on one thread and on
// several, and in place where it may be, and nothing written but what the operation says.

#include "tests/kernels/op_cases.hpp"

#include "kernels/cpu_stream.hpp"

#include "tests/kernels/comparing.hpp"
#include "tests/thorough.hpp"
#include <cstring>
#include <set>

namespace weft::kernels::testing_ops::op_cases_test {
namespace {

/// Runs tasks backwards on the calling thread, so that nothing can lean on their order.
struct Backwards {
  void operator()(std::size_t count, ParallelFor::Body body, void* context) const {
    for (std::size_t i = count; i-- > 0;) body(context, i);
  }
};

/// Memory of all operands after a run.
struct Outcome {
  std::vector<AlignedBuffer<float>> blocks;
  bool answer = false;
};

Outcome run(const Case& c, std::size_t threads, bool in_place) {
  Outcome outcome;
  for (const Block& each : c.blocks) outcome.blocks.push_back(each.initial);
  Backwards tasks;
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

/// Marks of all elements of a case's operands.
using Marks = std::vector<std::vector<bool>>;
void mark(const Case& c, Marks& marks, const void* at, std::size_t count) {
  const std::size_t i = c.block_of(at);
  if (i == c.blocks.size()) return;
  const auto first = static_cast<const float*>(at) - c.blocks[i].initial.data();
  std::fill_n(marks[i].begin() + first, count, true);
}

/// Hands visit(operand, element) those that are unmarked in one and marked in the other.
template <class Visit>
void each_apart(const Marks& without, const Marks& with, const Visit& visit) {
  for (std::size_t i = 0; i < with.size(); ++i)
    for (std::size_t j = 0; j < with[i].size(); ++j)
      if (with[i][j] && !without[i][j]) visit(i, j);
}

/// Each element that is written has the oracle's value; the rest is as it was: inputs, gaps, padding of panels.
void expect_what_the_oracle_says(const Case& c, const Outcome& outcome) {
  Marks none, all, written, known;
  for (const Block& each : c.blocks) {
    none.emplace_back(each.initial.size(), false), all.emplace_back(each.initial.size(), true);
    written.emplace_back(each.initial.size(), each.is_workspace);
  }
  known = none;
  c.written([&](const void* at, std::size_t count) { mark(c, written, at, count); });
  each_apart(written, all, [&](std::size_t i, std::size_t j) {
    EXPECT_EQ(std::memcmp(&outcome.blocks[i][j], &c.blocks[i].initial[j], sizeof(float)), 0)
        << c.name << ": operand " << i << ", element " << j << " is not among those written";
  });
  const auto compare = [&](const auto& expected, const auto& is_right) {
    for (const auto& each : expected.values) {
      mark(c, known, each.at, 1);
      const std::size_t i = c.block_of(each.at);
      const auto j = static_cast<const float*>(each.at) - c.blocks[i].initial.data();
      const float got = outcome.blocks[i][static_cast<std::size_t>(j)];
      ASSERT_TRUE(is_right(got, each)) << c.name << ": operand " << i << ", element " << j << ": " << std::hexfloat
                                       << got << std::defaultfloat << " = " << got;
    }
    if (expected.answer) {
      EXPECT_EQ(outcome.answer, *expected.answer) << c.name;
    }
  };
  Expected<float> exact;
  c.exact(exact);
  compare(exact, [](float got, const auto& want) {
    const bool is_same =
        want.is_bits ? std::memcmp(&got, &want.value, sizeof got) == 0 : testing_support::same_bits(got, want.value);
    return is_same ? testing::AssertionSuccess()
                   : testing::AssertionFailure() << std::hexfloat << want.value << " by the definition";
  });
  if (testing::Test::HasFatalFailure()) return;
  Expected<Bounded> bounded;
  c.bounded(bounded);
  compare(bounded, [](float got, const auto& want) {
    const auto [value, error] = want.value;
    const bool is_near = std::isnan(value)   ? error > 0 || std::isnan(got)
                         : std::isinf(error) ? true
                         : std::isinf(value) ? double{got} == value
                                             : std::fabs(double{got} - value) <= error;
    return is_near ? testing::AssertionSuccess()
                   : testing::AssertionFailure() << value << " in binary64, at most " << error << " off";
  });
  for (std::size_t i = 0; i < written.size(); ++i)
    if (c.blocks[i].is_workspace) written[i] = none[i];
  each_apart(known, written, [&](std::size_t i, std::size_t j) {
    ADD_FAILURE() << c.name << ": operand " << i << ", element " << j << " has no expected value";
  });
}

class EveryOperation : public testing::TestWithParam<int> {
 protected:
  void TearDown() override { ASSERT_TRUE(set_active_isa(best_isa())); }
  const FlushSubnormals flush_;
};

/// Operations that have one body for all instruction sets: they move, choose, or are one multiplication.
const std::set<OpId> kScalarOnly = {
    OpId::max_backward,       OpId::permute,           OpId::top_k_mask, OpId::one_hot,    OpId::embedding,
    OpId::embedding_backward, OpId::optimizer_factors, OpId::fill,       OpId::scale_rows, OpId::gap_residual,
    OpId::bounded_rate,       OpId::end_traces,        OpId::largest};

/// All rows of an operation, or the first and a sixth of the others in turn where they are many: products have some
/// hundred, by type.
std::vector<Case> cases_in_turn(OpId op) {
  constexpr std::size_t kMany = 48, kTurns = 6;
  std::vector<Case> all = cases_of(op, Breadth::host);
  if (is_thorough() || all.size() < kMany) return all;
  std::vector<Case> some;
  for (std::size_t i = 0; i < all.size(); ++i)  // moved: a row keeps addresses within its blocks
    if (i == 0 || i % kTurns == test_slice(kTurns)) some.push_back(std::move(all[i]));
  return some;
}

TEST_P(EveryOperation, IsItsDefinitionEverywhere) {
  const auto op = static_cast<OpId>(GetParam());
  const std::vector<Case> cases = cases_in_turn(op);
  ASSERT_FALSE(cases.empty()) << name(op) << " has no rows: tests/kernels/op_cases_values.cpp and its neighbours";
  std::set<Isa> ran;
  for (const Case& c : cases) {
    ASSERT_TRUE(set_active_isa(Isa::scalar));
    const Outcome want = run(c, 1, false);
    expect_what_the_oracle_says(c, want);
    if (HasFailure()) return;
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
