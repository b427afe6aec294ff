// SPDX-License-Identifier: Apache-2.0
// Attention, forward and backward, and rope.

#include "kernels/attention.hpp"
#include "kernels/rope.hpp"

#include "core/aligned_buffer.hpp"

#include "tests/gpu/coded_testing.hpp"

namespace weft::gpu {
namespace {

using namespace testing_support;
using kernels::AttentionShape;
using Values = kernels::testing_support::Matrix;

std::string text(const AttentionShape& s) {
  return std::to_string(s.tokens) + " tokens, heads " + std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) +
         " of " + std::to_string(s.head_dim) + ", context " + std::to_string(s.context) + ", window " +
         std::to_string(s.window) + (s.causal ? ", causal" : "");
}

std::vector<AttentionShape> shapes() {
  return {{1, 1, 1, 1, 0, 0, false, 1.0f},   {7, 2, 1, 5, 0, 0, false, 0.5f},   {9, 3, 3, 16, 0, 0, true, 0.25f},
          {70, 2, 2, 20, 0, 0, true, 0.3f},  {67, 4, 2, 8, 0, 9, false, 0.7f},  {40, 2, 1, 70, 0, 5, true, 0.1f},
          {1, 4, 2, 12, 20, 0, true, 0.3f},  {5, 4, 4, 33, 70, 0, true, 0.2f},  {3, 6, 2, 24, 33, 10, true, 0.3f},
          {40, 2, 1, 18, 16, 0, true, 0.3f}, {2, 1, 1, 300, 8, 0, true, 0.05f}, {6, 3, 1, 4, 130, 0, true, 1.0f}};
}

/// Rows of a session's state: rings of numbers, at this position.
Values states(RandomStream& random, const AttentionShape& shape, std::size_t rows, std::uint64_t position,
              bool special) {
  Values m = draw_matrix(random, rows, kernels::attention_state_size(shape), special);
  for (std::size_t b = 0; b < rows && shape.context; ++b) {
    float* const row = m.view().row(b);
    const std::uint64_t at = position + 3 * b;
    row[0] = static_cast<float>(at & 0xffffffu), row[1] = static_cast<float>(at >> 24);
  }
  return m;
}

TEST(StreamAttention, BothDirectionsHaveTheCpusBits) {
  RandomStream random(60, 0, RandomPurpose::test);
  for (const AttentionShape& shape : shapes())
    for (const std::uint64_t position :
         {std::uint64_t{0}, std::uint64_t{15}, std::uint64_t{197}, (std::uint64_t{5} << 24) + 77}) {
      if (position != 0 && shape.context == 0) continue;
      for (const bool special : {false, true}) {
        constexpr std::size_t kSessions = 2;
        const std::size_t width = shape.tokens * shape.heads * shape.head_dim,
                          keys = shape.tokens * shape.kv_heads * shape.head_dim,
                          size = kernels::attention_state_size(shape);
        AlignedBuffer<float> workspace(kernels::attention_workspace_size(shape));
        Comparison c;
        const auto q = c.add(draw_matrix(random, kSessions, width, special)),
                   k = c.add(draw_matrix(random, kSessions, keys, special)),
                   v = c.add(draw_matrix(random, kSessions, keys, special)),
                   dy = c.add(draw_matrix(random, kSessions, width, special)), y = c.add(Values(kSessions, width)),
                   statistics = c.add(Values(kSessions, kernels::attention_statistics_size(shape))),
                   dq = c.add(Values(kSessions, width)), dk = c.add(Values(kSessions, keys)),
                   dv = c.add(Values(kSessions, keys)), dk2 = c.add(Values(kSessions, keys)),
                   dv2 = c.add(Values(kSessions, keys));
        const auto state = size ? c.add(states(random, shape, kSessions, position, special)) : 0,
                   next = size ? c.add(Values(kSessions, size)) : 0, dstate = size ? c.add(Values(kSessions, size)) : 0,
                   dstate2 = size ? c.add(Values(kSessions, size)) : 0,
                   dnext = size ? c.add(draw_matrix(random, kSessions, size, special)) : 0;
        c.expect_same(
            text(shape) + ", at " + std::to_string(position) + (special ? ", special" : ""),
            [&](OpStream& stream, const auto& at) {
              const auto row = [&](std::size_t i) { return size ? at.rows(i) : MatrixView(); };
              const kernels::AttentionOperands operands{at.rows(q), at.rows(k), at.rows(v), row(state)};
              stream.attention({shape, operands, at.rows(y), at.rows(statistics), row(next), workspace.data()});
              stream.attention_backward({shape,
                                         operands,
                                         at.rows(y),
                                         at.rows(statistics),
                                         {at.rows(dy), row(dnext), at.rows(dq), at.rows(dk), at.rows(dv), row(dstate)},
                                         workspace.data()});
              // The error of the state unknown; then neither known nor wanted.
              stream.attention_backward({shape,
                                         operands,
                                         at.rows(y),
                                         at.rows(statistics),
                                         {at.rows(dy), {}, at.rows(dq), at.rows(dk2), at.rows(dv2), row(dstate2)},
                                         workspace.data()});
              stream.attention_backward({shape,
                                         operands,
                                         at.rows(y),
                                         at.rows(statistics),
                                         {at.rows(dy), {}, at.rows(dq), at.rows(dk2), at.rows(dv2), {}},
                                         workspace.data()});
            });
      }
    }
}

// A sequence in ticks: the state that one tick leaves is what the next one starts from.
TEST(StreamAttention, StatesGoFromTickToTick) {
  RandomStream random(61, 0, RandomPurpose::test);
  const AttentionShape shape{3, 2, 1, 10, 19, 0, true, 0.3f};
  constexpr std::size_t kTicks = 20;
  const std::size_t width = 60, keys = 30, size = kernels::attention_state_size(shape);
  AlignedBuffer<float> workspace(kernels::attention_workspace_size(shape));
  Comparison c;
  const auto q = c.add(draw_matrix(random, 2, kTicks * width, false)),
             k = c.add(draw_matrix(random, 2, kTicks * keys, false)),
             v = c.add(draw_matrix(random, 2, kTicks * keys, false)), y = c.add(Values(2, kTicks * width)),
             statistics = c.add(Values(2, kernels::attention_statistics_size(shape))),
             state = c.add(std::vector<float>(4 * size));
  c.expect_same("ticks", [&](OpStream& stream, const auto& at) {
    for (std::size_t i = 0; i < kTicks; ++i) {
      const auto of = [&](std::size_t operand, std::size_t each) {
        const MatrixView all = at.rows(operand);
        return MatrixView{all.data + i * each, all.rows, each, all.stride};
      };
      const MatrixView from{at.data(state) + i % 2 * 2 * size, 2, size, size},
          to{at.data(state) + (i + 1) % 2 * 2 * size, 2, size, size};
      stream.attention({shape,
                        {of(q, width), of(k, keys), of(v, keys), from},
                        of(y, width),
                        at.rows(statistics),
                        to,
                        workspace.data()});
    }
  });
}

// More probabilities than are kept at once: kv heads and sessions go in several rounds.
TEST(StreamAttention, BackwardGoesInRoundsWhereMuchIsKept) {
  RandomStream random(62, 0, RandomPurpose::test);
  const AttentionShape far{2400, 3, 3,    2,
                           0,    3, true, 0.3f};  // 2400 rows of 2496 keys: three heads need more than 64 MiB
  const std::size_t width = far.tokens * 3 * 2;
  AlignedBuffer<float> workspace(kernels::attention_workspace_size(far));
  Comparison c;
  const auto q = c.add(draw_matrix(random, 1, width, false)), k = c.add(draw_matrix(random, 1, width, false)),
             v = c.add(draw_matrix(random, 1, width, false)), dy = c.add(draw_matrix(random, 1, width, false)),
             y = c.add(Values(1, width)), statistics = c.add(Values(1, kernels::attention_statistics_size(far))),
             dq = c.add(Values(1, width)), dk = c.add(Values(1, width)), dv = c.add(Values(1, width));
  c.expect_same("rounds", [&](OpStream& stream, const auto& at) {
    const kernels::AttentionOperands operands{at.rows(q), at.rows(k), at.rows(v), {}};
    stream.attention({far, operands, at.rows(y), at.rows(statistics), {}, workspace.data()});
    stream.attention_backward({far,
                               operands,
                               at.rows(y),
                               at.rows(statistics),
                               {at.rows(dy), {}, at.rows(dq), at.rows(dk), at.rows(dv), {}},
                               workspace.data()});
  });
}

TEST(StreamAttention, RopeHasTheCpusBits) {
  RandomStream random(63, 0, RandomPurpose::test);
  for (const std::size_t n : {2u, 6u, 34u, 128u})
    for (const auto pairs : {kernels::RopePairs::half, kernels::RopePairs::interleaved})
      for (const bool has_state : {false, true})
        for (const bool transposed : {false, true}) {
          kernels::RopeSettings settings;
          settings.head_dim = n, settings.pairs = pairs;
          const std::vector<std::uint64_t> turns = kernels::rope_turns(settings);
          constexpr std::size_t kTokens = 5, kHeads = 3;
          // Interleaved ones find a table of the first positions, of all that a call without a state asks for.
          const std::size_t positions = pairs == kernels::RopePairs::interleaved ? kTokens : 0;
          std::vector<float> table(positions * 2 * n);
          for (std::size_t p = 0; p < positions; ++p)
            kernels::rope_row({n, pairs, turns.data(), nullptr, 0}, p, table.data() + p * 2 * n);
          AlignedBuffer<float> workspace(2 * n);
          Comparison c;
          const auto x = c.add(draw_matrix(random, 4, kTokens * kHeads * n, n == 6)),
                     y = c.add(Values(4, kTokens * kHeads * n)),
                     state = c.add(std::vector<float>{0, 0, 16777215, 0, 12345, 677, 3.5f, -1}),
                     turn_words = c.add(as_floats(turns.data(), turns.size() * sizeof turns[0])),
                     rows = c.add(table.empty() ? std::vector<float>(1) : table);
          c.expect_same("rope of " + std::to_string(n), [&](OpStream& stream, const auto& at) {
            const kernels::ConstMatrixView from{has_state ? at.data(state) : nullptr, 4, 2, 2};
            const kernels::Rope rope{n, pairs, at.template as<std::uint64_t>(turn_words),
                                     positions ? at.data(rows) : nullptr, positions};
            stream.rope({rope, kTokens, at.rows(x), from, transposed, at.rows(y), workspace.data()});
            stream.rope({rope, kTokens, at.rows(x), from, transposed, at.rows(x), workspace.data()});
          });
        }
}

}  // namespace
}  // namespace weft::gpu
