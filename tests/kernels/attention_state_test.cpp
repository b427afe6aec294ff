// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention_state.hpp"
#include "kernels/cpu_stream.hpp"

#include "core/aligned_buffer.hpp"

#include "comparing.hpp"
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace weft::kernels::attention_state_test {
namespace {
using namespace testing_support;

constexpr std::size_t kContext = 90;

/// One session that takes random tokens; those of one number are the same in every session.
class Session {
 public:
  explicit Session(const AttentionShape& shape) : shape_(shape), state_(1, attention_state_size(shape)) {
    std::fill_n(state_.view().row(0), state_.view().cols, 0.0f);
  }
  float* state() { return state_.view().row(0); }

  /// Takes `tokens` tokens in one call, drawn by `seed`, and gives the heads' results.
  std::vector<float> take(std::size_t tokens, std::uint64_t seed) {
    AttentionShape shape = shape_;
    shape.tokens = tokens;
    RandomStream random(seed, 0, RandomPurpose::test);
    const std::size_t queries = tokens * shape.heads * shape.head_dim, keys = tokens * shape.kv_heads * shape.head_dim;
    const Matrix q = random_matrix(random, 1, queries), k = random_matrix(random, 1, keys),
                 v = random_matrix(random, 1, keys);
    Matrix y(1, queries), statistics(1, attention_statistics_size(shape));
    AlignedBuffer<float> workspace(attention_workspace_size(shape));
    const auto state = state_.view();
    attention(shape, {q.view(), k.view(), v.view(), state}, y.view(), statistics.view(), state, workspace.data());
    return y.values();
  }

 private:
  AttentionShape shape_;
  Matrix state_;
};

/// heads, kv_heads, head_dim, context, window.
std::vector<AttentionShape> shapes() {
  return {{1, 4, 2, 6, kContext, 0, true, 0.4f},
          {1, 2, 1, 17, kContext, 5, true, 0.24f},
          {1, 6, 3, 16, kContext, 33, true, 0.25f},
          {1, 2, 2, 8, kContext, 0, true, 0.3f, 4.0f}};
}

template <class Test>
void on_each_isa(const Test& test) {
  const Isa before = active_isa();
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    const FlushSubnormals flush;
    for (const AttentionShape& shape : shapes()) {
      SCOPED_TRACE(std::string(name(isa)) + ", window " + std::to_string(shape.window) + ", head_dim " +
                   std::to_string(shape.head_dim));
      test(shape);
    }
  }
  ASSERT_TRUE(set_active_isa(before));
}

TEST(AttentionState, CutsToTheBitsOfTokensThatWereNeverTaken) {
  on_each_isa([](const AttentionShape& shape) {
    CpuStream cpu;
    Session cut(shape), wanted(shape);
    for (Session* const each : {&cut, &wanted}) each->take(37, 1);
    cut.take(9, 2);
    for (int i = 0; i < 3; ++i) cut.take(1, 3);
    attention_cut(cpu, 37, cut.state());
    // Slots behind the end take no part, whatever they hold.
    std::vector<float> bad(attention_saved_size(shape, kContext - 48), std::numeric_limits<float>::quiet_NaN());
    attention_load(shape, bad.data(), 48, kContext - 48, cut.state());
    for (const std::size_t tokens : {1u, 4u, 1u, 16u, 1u})
      expect_same_bits(cut.take(tokens, 4 + tokens), wanted.take(tokens, 4 + tokens),
                       std::to_string(tokens) + " tokens");
    attention_cut(cpu, 0, cut.state());
    Session fresh(shape);
    expect_same_bits(cut.take(20, 9), fresh.take(20, 9), "from the beginning");
    expect_same_bits(cut.take(1, 10), fresh.take(1, 10), "from the beginning");
  });
}

TEST(AttentionState, CopiesWhatTokensLeft) {
  on_each_isa([](const AttentionShape& shape) {
    Session from(shape), to(shape);
    from.take(70, 1);
    to.take(80, 2);
    for (const auto& [first, tokens] : {std::pair<std::size_t, std::size_t>{0, 16}, {16, 48}, {64, 6}}) {
      std::vector<float> part(attention_saved_size(shape, tokens) + 1, 7.0f);
      attention_save(shape, from.state(), first, tokens, part.data());
      EXPECT_EQ(part.back(), 7.0f);
      attention_load(shape, part.data(), first, tokens, to.state());
    }
    CpuStream cpu;
    attention_cut(cpu, 70, to.state());
    for (const std::size_t tokens : {1u, 8u, 1u})
      expect_same_bits(to.take(tokens, 3 + tokens), from.take(tokens, 3 + tokens), std::to_string(tokens) + " tokens");
  });
}

TEST(AttentionState, HasNothingToCopyWithoutContext) {
  const AttentionShape shape{4, 2, 2, 8, 0, 0, true, 0.3f};
  EXPECT_EQ(attention_saved_size(shape, 16), 0u);
  attention_save(shape, nullptr, 0, 16, nullptr);
  attention_load(shape, nullptr, 0, 16, nullptr);
}

}  // namespace
}  // namespace weft::kernels::attention_state_test
