// SPDX-License-Identifier: Apache-2.0

#include "kernels/gumbel.hpp"

#include "comparing.hpp"
#include <algorithm>
#include <array>
#include <numeric>
#include <set>

namespace weft::kernels::gumbel_test {
namespace {

using namespace testing_support;
using Key = std::array<std::uint32_t, 2>;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
constexpr Key kKey{0x12345678u, 0x9abcdef0u};

/// The noise alone of one row that stands at `state`, which moves on.
std::vector<float> noise(std::size_t cols, std::array<float, 4>& state, Key key = kKey) {
  const FlushSubnormals flush;
  const std::vector<float> zero(cols);
  std::vector<float> y(cols);
  gumbel_noise({zero.data(), 1, cols, cols}, key, {state.data(), 1, 4, 4}, {state.data(), 1, 4, 4},
               {y.data(), 1, cols, cols});
  return y;
}

// Column 64 q + 16 w + i is word w of the Philox block (16 q + i, counter, stream), as docs/numerics.md says.
TEST(Gumbel, IsTheDocumentedFunctionOfKeyStreamCounterAndColumn) {
  for (const std::size_t cols : kSizes)
    for (const std::uint64_t counter : {0ull, 1ull, (1ull << 24) - 1, (1ull << 33) + 5, (1ull << 48) - 1})
      for (const std::uint64_t stream : {1ull, 77ull, (1ull << 40) + 3}) {
        std::array<float, 4> state{static_cast<float>(counter % (1 << 24)), static_cast<float>(counter >> 24),
                                   static_cast<float>(stream % (1 << 24)), static_cast<float>(stream >> 24)};
        const std::vector<float> got = noise(cols, state);
        for (std::size_t j = 0; j < cols; ++j) {
          const auto words =
              philox4x32({static_cast<std::uint32_t>(j / 64 * 16 + j % 16), static_cast<std::uint32_t>(counter),
                          static_cast<std::uint32_t>((counter >> 32) + (stream >> 32) * 65536),
                          static_cast<std::uint32_t>(stream)},
                         kKey);
          const double u = (words[j % 64 / 16] / 512 + 0.5) / (1 << 23);
          const double want = -std::log(-std::log(u));
          // log's ulp of its argument is the result's absolute error; then the result's own ulp.
          ASSERT_NEAR(static_cast<double>(got[j]), want, 2.5e-7 + 1.2e-7 * std::fabs(want)) << j;
        }
        const std::uint64_t next = (counter + 1) % (1ull << 48);
        EXPECT_EQ(state[0], static_cast<float>(next % (1 << 24)));
        EXPECT_EQ(state[1], static_cast<float>(next >> 24));
        EXPECT_EQ(state[2], static_cast<float>(stream % (1 << 24)));
        EXPECT_EQ(state[3], static_cast<float>(stream >> 24));
      }
}

TEST(Gumbel, GivesEveryRowTickAndKeyItsOwnNoise) {
  const FlushSubnormals flush;
  const Matrix x = [] {
    Matrix zero(3, 100);
    for (std::size_t i = 0; i < 3; ++i) std::fill_n(zero.view().row(i), 100, 0.0f);
    return zero;
  }();
  std::multiset<float> all;
  std::size_t drawn = 0;
  for (const Key key : {Key{1, 0}, Key{0, 1}, Key{2, 0}}) {
    Matrix state(3, kNoiseState), y(3, 100);
    for (std::size_t i = 0; i < 3; ++i) std::fill_n(state.view().row(i), kNoiseState, 0.0f);
    for (int tick = 0; tick < 5; ++tick) {
      gumbel_noise(x.view(), key, state.view(), state.view(), y.view());
      for (const float v : y.values()) all.insert(v), ++drawn;
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(state.at(i, 0), static_cast<float>(tick + 1));
        EXPECT_EQ(state.at(i, 2), static_cast<float>(i + 1)) << "its own stream, kept from the first draw on";
      }
      // A row alone that stands where this one stood draws the same.
      std::array<float, 4> at{static_cast<float>(tick), 0, 2, 0};
      expect_same_bits(noise(100, at, key), {y.view().row(1), y.view().row(1) + 100}, "alone");
    }
  }
  // Of 4500 draws from 2^23 values about one pair falls together; a repeated row would be a hundred.
  EXPECT_GT(std::set<float>(all.begin(), all.end()).size() + 12, drawn);
}

TEST(Gumbel, HasTheMomentsAndTheTailsOfItsDistribution) {
  constexpr std::size_t kCols = 1000, kTicks = 500;
  std::array<float, 4> state{};
  std::vector<double> all;
  for (std::size_t t = 0; t < kTicks; ++t)
    for (const float v : noise(kCols, state)) all.push_back(static_cast<double>(v));
  const double n = kCols * kTicks, mean = std::accumulate(all.begin(), all.end(), 0.0) / n;
  double variance = 0;
  for (const double v : all) variance += (v - mean) * (v - mean) / n;
  const double sigma2 = M_PI * M_PI / 6;
  EXPECT_NEAR(mean, 0.57721566490153286, 5 * std::sqrt(sigma2 / n));
  EXPECT_NEAR(variance, sigma2, 5 * sigma2 * std::sqrt((5.4 - 1) / n));
  // Kolmogorov and Smirnov: the distance from exp(-exp(-x)); beyond 2.3 / sqrt(n) once in 20,000.
  std::sort(all.begin(), all.end());
  double distance = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    distance = std::max(distance, std::fabs(std::exp(-std::exp(-all[i])) - (static_cast<double>(i) + 0.5) / n));
  EXPECT_LT(distance * std::sqrt(n), 2.3);
  EXPECT_GT(all.front(), -2.812);
  EXPECT_LT(all.back(), 16.64);
}

TEST(Gumbel, PassesOnWhatIsNotFinite) {
  const FlushSubnormals flush;
  const float x[4] = {kInf, -kInf, kNan, 1e30f};
  float state[4] = {}, y[4];
  gumbel_noise({x, 1, 4, 4}, kKey, {state, 1, 4, 4}, {state, 1, 4, 4}, {y, 1, 4, 4});
  EXPECT_EQ(y[0], kInf);
  EXPECT_EQ(y[1], -kInf);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 1e30f);
}

TEST(ArgmaxOneHot, TakesTheFirstOfEqualsAndKeepsNan) {
  const FlushSubnormals flush;
  const auto of = [](std::vector<float> x) {
    argmax_one_hot({x.data(), 1, x.size(), x.size()}, {x.data(), 1, x.size(), x.size()});
    return x;
  };
  EXPECT_EQ(of({-3.0f}), std::vector<float>({1}));
  EXPECT_EQ(of({1, 2, 2}), std::vector<float>({0, 1, 0}));
  EXPECT_EQ(of({-0.0f, 0.0f}), std::vector<float>({1, 0}));
  EXPECT_EQ(of({-kInf, -kInf}), std::vector<float>({1, 0}));
  EXPECT_EQ(of({0, kInf, kInf}), std::vector<float>({0, 1, 0}));
  for (const float v : of({1, kNan, 2})) EXPECT_TRUE(std::isnan(v));
  std::vector<float> last(131), want(131);
  last.back() = 1e-30f, want.back() = 1;
  EXPECT_EQ(of(last), want);
}

}  // namespace
}  // namespace weft::kernels::gumbel_test
