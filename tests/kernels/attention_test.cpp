// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention.hpp"

#include "core/aligned_buffer.hpp"

#include "comparing.hpp"
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace weft::kernels::attention_test {
namespace {
using namespace testing_support;

std::string text(const AttentionShape& s) {
  return std::to_string(s.tokens) + " tokens, heads " + std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) +
         " of " + std::to_string(s.head_dim) + ", context " + std::to_string(s.context) + ", window " +
         std::to_string(s.window) + (s.causal ? ", causal" : "");
}

/// One session after another through one attention: calls of `tokens` tokens each.
struct ReplayableMesh {
  ReplayableMesh(const AttentionShape& whole, std::size_t sessions, std::size_t per_call, std::uint64_t seed,
                 bool special = false)
      : shape(whole), sessions_(sessions), calls(whole.tokens / per_call) {
    shape.tokens = per_call;
    RandomStream random(seed, 0, RandomPurpose::test);
    const auto fill = [&](std::size_t width) {
      std::vector<float> all(sessions * whole.tokens * width);
      for (float& x : all) x = random.next_normal();
      const auto& values = special_values();
      if (special)
        for (float& x : all)
          if (random.next_below(40) == 0) x = values[random.next_below(static_cast<std::uint32_t>(values.size()))];
      return all;
    };
    q = fill(query_width()), k = fill(key_width()), v = fill(key_width()), dy = fill(query_width());
    y.resize(q.size()), dq.resize(q.size()), dk.resize(k.size()), dv.resize(k.size());
    state.resize((calls + 1) * sessions * state_size());
    dstate.resize(sessions * state_size());
    statistics.resize(calls * sessions * attention_statistics_size(shape));
    workspace = AlignedBuffer<float>(attention_workspace_size(shape));
    std::fill(workspace.begin(), workspace.end(), std::numeric_limits<float>::quiet_NaN());
  }
  std::size_t query_width() const { return shape.heads * shape.head_dim; }
  std::size_t key_width() const { return shape.kv_heads * shape.head_dim; }
  std::size_t state_size() const { return attention_state_size(shape); }
  // Values are [session][token][width]: a call's rows stand a session's whole length apart.
  template <class View = MatrixView>
  View rows(std::vector<float>& all, std::size_t width, std::size_t call, std::size_t first, std::size_t count) {
    const std::size_t stride = calls * shape.tokens * width;
    return {all.data() + first * stride + call * shape.tokens * width, count, shape.tokens * width, stride};
  }
  MatrixView at(std::vector<float>& all, std::size_t width, std::size_t call, std::size_t first, std::size_t count) {
    if (width == 0) return {};
    return {all.data() + (call * sessions_ + first) * width, count, width, width};
  }
  AttentionOperands operands(std::size_t call, std::size_t first, std::size_t count) {
    return {rows(q, query_width(), call, first, count), rows(k, key_width(), call, first, count),
            rows(v, key_width(), call, first, count), at(state, state_size(), call, first, count)};
  }
  ReplayableMesh& forward(std::size_t first, std::size_t count) {
    for (std::size_t call = 0; call < calls; ++call)
      attention(shape, operands(call, first, count), rows(y, query_width(), call, first, count),
                at(statistics, attention_statistics_size(shape), call, first, count),
                at(state, state_size(), call + 1, first, count), workspace.data());
    return *this;
  }
  ReplayableMesh& forward() { return forward(0, sessions_); }
  ReplayableMesh& backward() {
    std::vector<float> next = dstate;
    for (std::size_t call = calls; call-- > 0;) {
      attention_backward(shape, operands(call, 0, sessions_), rows(y, query_width(), call, 0, sessions_),
                         at(statistics, attention_statistics_size(shape), call, 0, sessions_),
                         {rows(dy, query_width(), call, 0, sessions_), at(next, state_size(), 0, 0, sessions_),
                          rows(dq, query_width(), call, 0, sessions_), rows(dk, key_width(), call, 0, sessions_),
                          rows(dv, key_width(), call, 0, sessions_), at(dstate, state_size(), 0, 0, sessions_)},
                         workspace.data());
      next = dstate;
    }
    return *this;
  }
  std::vector<float> last_state() const {
    return {state.end() - static_cast<std::ptrdiff_t>(sessions_ * state_size()), state.end()};
  }

  AttentionShape shape;
  std::size_t sessions_, calls;
  std::vector<float> q, k, v, dy, y, dq, dk, dv, state, dstate, statistics;
  AlignedBuffer<float> workspace;
};

const std::vector<AttentionShape>& shapes() {
  static const std::vector<AttentionShape> all = {
      {1, 1, 1, 1, 0, 0, false, 1.0f},     {5, 1, 1, 3, 0, 0, false, 0.6f},    {7, 2, 2, 5, 0, 0, true, 0.5f},
      {16, 4, 2, 8, 0, 0, true, 0.35f},    {33, 3, 1, 16, 0, 0, false, 0.25f}, {70, 2, 1, 20, 0, 0, true, 0.2f},
      {130, 1, 1, 32, 0, 0, true, 0.18f},  {40, 2, 2, 66, 0, 7, true, 0.12f},  {67, 1, 1, 40, 0, 5, false, 0.16f},
      {150, 2, 1, 8, 0, 65, true, 0.35f},  {96, 1, 1, 130, 0, 0, false, 0.1f}, {100, 4, 1, 12, 0, 30, false, 0.3f},
      {24, 4, 2, 6, 5, 0, true, 0.4f},     {48, 2, 1, 17, 16, 0, true, 0.24f}, {60, 6, 2, 8, 40, 9, true, 0.35f},
      {150, 2, 2, 16, 70, 0, true, 0.25f}, {100, 3, 3, 33, 64, 0, true, 0.2f}, {36, 8, 1, 64, 300, 0, true, 0.125f},
      {35, 20, 1, 4, 17, 17, true, 0.5f}};
  return all;
}

/// The equations in float64, a token and a head at a time, with no cache and no tiles.
std::vector<double> reference(const ReplayableMesh& run, std::size_t tokens) {
  const AttentionShape& s = run.shape;
  std::vector<double> y(run.y.size());
  const auto reach = [&](std::size_t limit) { return limit == 0 ? tokens : limit; };
  for (std::size_t b = 0; b < run.sessions_; ++b)
    for (std::size_t t = 0; t < tokens; ++t)
      for (std::size_t h = 0; h < s.heads; ++h) {
        const std::size_t kv = h / (s.heads / s.kv_heads);
        std::vector<double> weight(tokens, 0.0);
        double sum = 0;
        for (std::size_t j = 0; j < tokens; ++j) {
          const bool later = j > t;
          const std::size_t distance = later ? j - t : t - j;
          if ((s.causal && later) || distance >= std::min(reach(s.window), reach(s.context))) continue;
          double dot = 0;
          for (std::size_t i = 0; i < s.head_dim; ++i)
            dot += double{run.q[((b * tokens + t) * s.heads + h) * s.head_dim + i]} *
                   double{run.k[((b * tokens + j) * s.kv_heads + kv) * s.head_dim + i]};
          sum += weight[j] = std::exp(dot * double{s.scale});
        }
        for (std::size_t i = 0; i < s.head_dim; ++i) {
          double& to = y[((b * tokens + t) * s.heads + h) * s.head_dim + i];
          for (std::size_t j = 0; j < tokens; ++j)
            to += weight[j] / sum * double{run.v[((b * tokens + j) * s.kv_heads + kv) * s.head_dim + i]};
        }
      }
  return y;
}

TEST(Attention, IsTheSoftmaxOfScoresOverWhatATokenSees) {
  const FlushSubnormals flush;
  for (const AttentionShape& shape : shapes()) {
    ReplayableMesh run(shape, 2, shape.tokens, 11);
    const auto want = reference(run.forward(), shape.tokens);
    double scale = 0;
    for (const double v : want) scale = std::max(scale, std::fabs(v));
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(run.y[i], want[i], 4e-6 * scale) << text(shape) << ", element " << i;
  }
}

// Whole, in halves, in parts of a few tokens, token by token; the rings wrap several times.
TEST(Attention, PrefillsInOneCallWhatItDecodesTokenByToken) {
  const Isa before = active_isa();
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    const FlushSubnormals flush;
    for (const AttentionShape& shape : shapes()) {
      if (shape.context == 0) continue;
      SCOPED_TRACE(text(shape) + " on " + std::string(name(isa)));
      ReplayableMesh whole(shape, 2, shape.tokens, 13);
      whole.forward();
      for (std::size_t per_call = 1; per_call < shape.tokens; ++per_call) {
        if (shape.tokens % per_call != 0 || (per_call > 5 && per_call * 2 < shape.tokens)) continue;
        ReplayableMesh parts(shape, 2, per_call, 13);
        parts.forward();
        expect_same_bits(parts.y, whole.y, std::to_string(per_call) + " tokens a call");
        expect_same_bits(parts.last_state(), whole.last_state(), "state");
      }
    }
  }
  ASSERT_TRUE(set_active_isa(before));
}

TEST(Attention, AcrossBatchSamplesKeepsSessionsApart) {
  const FlushSubnormals flush;
  for (const AttentionShape& shape : shapes()) {
    ReplayableMesh together(shape, 3, shape.tokens, 14), alone(shape, 3, shape.tokens, 14),
        other(shape, 3, shape.tokens, 14);
    together.forward();
    for (std::size_t b = 3; b-- > 0;) alone.forward(b, 1);
    expect_same_bits(alone.y, together.y, text(shape));
    expect_same_bits(alone.state, together.state, text(shape));
    // Whatever the neighbours hold.
    const std::size_t third = other.q.size() / 3, of_keys = other.k.size() / 3;
    std::fill_n(other.q.begin(), third, 1e30f);
    std::fill_n(other.k.begin(), of_keys, std::numeric_limits<float>::quiet_NaN());
    std::fill_n(other.v.begin(), of_keys, std::numeric_limits<float>::infinity());
    other.forward();
    expect_same_bits({other.y.begin() + static_cast<std::ptrdiff_t>(third), other.y.end()},
                     {together.y.begin() + static_cast<std::ptrdiff_t>(third), together.y.end()}, text(shape));
  }
}

TEST(Attention, SeesNothingOfWhatIsHiddenFromAToken) {
  const Isa before = active_isa();
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    const FlushSubnormals flush;
    for (const AttentionShape& shape : shapes()) {
      if (!shape.causal) continue;
      SCOPED_TRACE(text(shape));
      ReplayableMesh clean(shape, 1, shape.tokens, 15), poisoned(shape, 1, shape.tokens, 15);
      clean.forward();
      // The token in the middle is poison: only those that see it are touched.
      const std::size_t bad = shape.tokens / 2, width = clean.key_width();
      std::size_t reach = shape.tokens;
      for (const std::size_t limit : {shape.context, shape.window})
        if (limit) reach = std::min(reach, limit);
      for (std::size_t i = bad * width; i < (bad + 1) * width; ++i) {
        poisoned.k[i] = std::numeric_limits<float>::infinity();
        poisoned.v[i] = std::numeric_limits<float>::quiet_NaN();
      }
      poisoned.forward();
      const std::size_t row = clean.query_width();
      for (std::size_t t = 0; t < shape.tokens; ++t)
        for (std::size_t i = t * row; i < (t + 1) * row; ++i) {
          const bool is_hit = t >= bad && t < bad + reach;
          ASSERT_EQ(std::isnan(poisoned.y[i]), is_hit) << "token " << t;
          ASSERT_TRUE(is_hit || same_bits(poisoned.y[i], clean.y[i])) << "token " << t;
        }
    }
  }
  ASSERT_TRUE(set_active_isa(before));
}

TEST(Attention, KeepsItsPositionExactForVeryLongRuns) {
  const FlushSubnormals flush;
  const AttentionShape shape{1, 1, 1, 4, 3, 0, true, 0.5f};
  ReplayableMesh run(shape, 1, 1, 16);
  run.state[0] = 16777215.0f, run.state[1] = 5.0f;
  run.forward();
  EXPECT_EQ(run.last_state()[0], 0.0f);
  EXPECT_EQ(run.last_state()[1], 6.0f);
}

/// dLoss along each of `values` by central differences of the float64 reference, Loss = sum of dy y.
void expect_gradient(ReplayableMesh& run, std::size_t tokens, std::vector<float>& values, const std::vector<float>& got,
                     const std::string& what) {
  const auto loss = [&] {
    double sum = 0;
    const auto y = reference(run, tokens);
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * double{run.dy[i]};
    return sum;
  };
  double scale = 0;
  for (const float v : got) scale = std::max(scale, std::fabs(double{v}));
  for (std::size_t i = 0; i < values.size(); i += 1 + values.size() / 15) {
    const float before = values[i];
    values[i] = before + 0x1p-9f;
    const double up = loss();
    values[i] = before - 0x1p-9f;
    const double down = loss();
    values[i] = before;
    ASSERT_NEAR(got[i], (up - down) * 0x1p8, 2e-5 * scale) << what << ", element " << i;
  }
}

TEST(Attention, SendsBackTheSlopeThroughCallsAndCache) {
  const FlushSubnormals flush;
  for (const AttentionShape& shape : shapes()) {
    if (shape.tokens * shape.heads * shape.head_dim > 2000) continue;
    for (const std::size_t per_call : {shape.tokens, std::size_t{1}, shape.tokens / 4}) {
      if (per_call == 0 || shape.tokens % per_call != 0 || (per_call < shape.tokens && shape.context == 0)) continue;
      ReplayableMesh run(shape, 2, per_call, 17);
      run.forward().backward();
      const std::string what = text(shape) + " by " + std::to_string(per_call);
      expect_gradient(run, shape.tokens, run.q, run.dq, what + ": dq");
      expect_gradient(run, shape.tokens, run.k, run.dk, what + ": dk");
      expect_gradient(run, shape.tokens, run.v, run.dv, what + ": dv");
    }
  }
}

}  // namespace
}  // namespace weft::kernels::attention_test
