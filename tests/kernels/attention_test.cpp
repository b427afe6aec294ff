// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention.hpp"

#include "core/aligned_buffer.hpp"

#include "comparing.hpp"
#include <string>
#include <vector>

namespace weft::kernels::attention_test {
namespace {
using namespace testing_support;

constexpr std::size_t kSessions = 2;

enum class State { copied, in_place };

void attend_in_shares(const AttentionShape& shape, const AttentionOperands& operands, const MatrixView& y,
                      const MatrixView& statistics, const MatrixView& next, std::size_t shares) {
  const std::size_t units = attention_units(shape, y.rows);
  for (std::size_t i = 1; i < shares; ++i) attention_meet(shape, operands, next, units * i / shares);
  for (std::size_t i = shares; i-- > 0;) {
    AlignedBuffer<float> workspace(attention_workspace_size(shape));
    attention_share(shape, operands, y, statistics, next, {units * i / shares, units * (i + 1) / shares},
                    workspace.data());
  }
  attention_end(shape, operands, next);
}

/// Results of sessions that take a sequence in calls of `per_call` tokens, and their state after the last.
struct Sequence {
  /// `shares`: parts of each call, run from the last to the first.
  Sequence(const AttentionShape& whole, std::size_t per_call, State memory, std::size_t shares = 1) {
    AttentionShape shape = whole;
    shape.tokens = per_call;
    const std::size_t calls = whole.tokens / per_call, queries = whole.heads * whole.head_dim,
                      keys = whole.kv_heads * whole.head_dim, size = attention_state_size(shape);
    RandomStream random(13, 0, RandomPurpose::test);
    const Matrix q = random_matrix(random, kSessions, whole.tokens * queries),
                 k = random_matrix(random, kSessions, whole.tokens * keys),
                 v = random_matrix(random, kSessions, whole.tokens * keys);
    Matrix results(kSessions, whole.tokens * queries), before(kSessions, size),
        statistics(kSessions, attention_statistics_size(shape));
    for (std::size_t b = 0; b < kSessions; ++b) std::fill_n(before.view().row(b), size, 0.0f);
    AlignedBuffer<float> workspace(attention_workspace_size(shape));
    const auto part = [&](const auto& of, std::size_t call, std::size_t width) {
      auto view = of.view();
      view.data += call * per_call * width, view.cols = per_call * width;
      return view;
    };
    for (std::size_t call = 0; call < calls; ++call) {
      Matrix after(kSessions, size);
      const Matrix& from = before;
      auto out = results.view();
      out.data += call * per_call * queries, out.cols = per_call * queries;
      const AttentionOperands operands{part(q, call, queries), part(k, call, keys), part(v, call, keys), from.view()};
      const MatrixView next = memory == State::in_place ? before.view() : after.view();
      if (shares == 1)
        attention(shape, operands, out, statistics.view(), next, workspace.data());
      else
        attend_in_shares(shape, operands, out, statistics.view(), next, shares);
      if (memory == State::copied) before = after;
    }
    y = results.values(), state = before.values();
  }
  std::vector<float> y, state;
};

// Whole, in halves, in parts of a few tokens, token by token; the rings wrap several times.
TEST(Attention, PrefillsInOneCallWhatItDecodesTokenByToken) {
  const Isa before = active_isa();
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    const FlushSubnormals flush;
    for (const AttentionShape& shape : std::initializer_list<AttentionShape>{{24, 4, 2, 6, 5, 0, true, 0.4f},
                                                                             {48, 2, 1, 17, 16, 0, true, 0.24f},
                                                                             {60, 6, 2, 8, 40, 9, true, 0.35f},
                                                                             {150, 2, 2, 16, 70, 0, true, 0.25f},
                                                                             {36, 8, 1, 64, 300, 0, true, 0.125f},
                                                                             {35, 20, 1, 4, 17, 17, true, 0.5f}}) {
      SCOPED_TRACE(std::to_string(shape.tokens) + " tokens on " + std::string(name(isa)));
      const Sequence whole(shape, shape.tokens, State::copied);
      for (std::size_t per_call = 1; per_call < shape.tokens; ++per_call) {
        if (shape.tokens % per_call != 0 || (per_call > 5 && per_call * 2 < shape.tokens)) continue;
        for (const State memory : {State::copied, State::in_place}) {
          const Sequence parts(shape, per_call, memory);
          const std::string text = memory == State::copied ? " tokens a call" : " tokens a call, state in place";
          expect_same_bits(parts.y, whole.y, std::to_string(per_call) + text);
          expect_same_bits(parts.state, whole.state, "state");
        }
      }
    }
  }
  ASSERT_TRUE(set_active_isa(before));
}

// Cut between heads of a group, between tokens of a head and between sessions; the rings wrap, some within a call.
TEST(Attention, GivesTheSameBitsInSharesOfAnySize) {
  const Isa before = active_isa();
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    const FlushSubnormals flush;
    for (const AttentionShape& shape : std::initializer_list<AttentionShape>{{24, 9, 3, 6, 16, 0, true, 0.4f},
                                                                             {40, 6, 2, 8, 32, 9, true, 0.35f},
                                                                             {60, 3, 1, 17, 100, 0, true, 0.24f}}) {
      const Sequence whole(shape, shape.tokens, State::copied);
      for (const std::size_t per_call : {std::size_t{1}, shape.tokens / 4, shape.tokens})
        for (const State memory : {State::copied, State::in_place})
          for (const std::size_t shares : {2, 3, 7, 16}) {
            const Sequence parts(shape, per_call, memory, shares);
            const std::string text = std::to_string(per_call) + " tokens a call, " + std::to_string(shares) +
                                     " shares on " + std::string(name(isa));
            expect_same_bits(parts.y, whole.y, text);
            expect_same_bits(parts.state, whole.state, "state of " + text);
          }
    }
  }
  ASSERT_TRUE(set_active_isa(before));
}

}  // namespace
}  // namespace weft::kernels::attention_test
