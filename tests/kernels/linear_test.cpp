// SPDX-License-Identifier: Apache-2.0

#include "kernels/linear.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/unary.hpp"

#include <gtest/gtest.h>

#include "tests/kernels/linear_testing.hpp"
#include <thread>

namespace weft::kernels::linear_test {
namespace {
using namespace testing_linear;

struct Problem {
  Problem(Size size, Fill fill, std::uint64_t seed) : w(size.out, size.in), x(size.batch, size.in), bias(size.out) {
    RandomStream random(seed, 1, RandomPurpose::test);
    w.fill(random, fill);
    x.fill(random, fill);
    for (float& b : bias) b = draw(random, fill);
  }
  std::vector<float> run(bool with_bias = true, Activation activation = Activation::linear) const {
    Matrix y(x.rows, w.out);
    linear(w.view(), with_bias ? bias.data() : nullptr, x.view(), activation, {}, y.view());
    return y.data;
  }
  PanelMatrix w;
  Matrix x;
  std::vector<float> bias;
};

class Linear : public OnEachIsa {
  const FlushSubnormals flush_;
};

// Their rows' sums lie among the outputs from one part of the inputs to the next.
TEST_F(Linear, HasTheScalarPathsBitsOfDeepLayersToo) {
  std::uint64_t seed = 900;
  for (const Size& size : {Size{3, 40, 1700}, Size{57, 24, 3101}, Size{65, 33, 2048}, Size{90, 16, 1537},
                           Size{100, 70, 1600}, Size{33, 5, 4096}, Size{6, 48, 30000}})
    for (const Fill fill : {Fill::plain, Fill::special}) {
      const Problem problem(size, fill, ++seed);
      for (const Activation activation : {Activation::linear, Activation::tanh})
        expect_same_on_all(testing::PrintToString(size), [&] {
          Matrix z(size.batch, size.out), y(size.batch, size.out);
          linear(problem.w.view(), problem.bias.data(), problem.x.view(), activation, z.view(), y.view());
          z.data.insert(z.data.end(), y.data.begin(), y.data.end());
          return z.data;
        });
    }
}

TEST_F(Linear, ScalarPathIsWithinTheErrorBoundOfFloat64) {
  ASSERT_TRUE(set_active_isa(Isa::scalar));
  for (const Size& size : sizes()) {
    const Problem problem(size, Fill::plain, 77);
    const auto y = problem.run();
    for (std::size_t b = 0; b < size.batch; ++b)
      for (std::size_t o = 0; o < size.out; ++o) {
        double sum = problem.bias[o], magnitude = std::fabs(sum);
        for (std::size_t k = 0; k < size.in; ++k) {
          const double product = double(problem.w.at(o, k)) * double(problem.x.at(b, k));
          sum += product;
          magnitude += std::fabs(product);
        }
        const std::size_t roundings = std::min(size.in, kChunk) + (size.in + kChunk - 1) / kChunk + 1;
        ASSERT_NEAR(y[b * (size.out + 3) + o], sum, bound(roundings, magnitude)) << size;
      }
  }
}

// The order that rule R1 prescribes shows in this sum: 2^24 swallows ones inside its chunk, not those of the next.
TEST_F(Linear, SumsInChunksOf64) {
  PanelMatrix w(1, 128);
  Matrix x(1, 128);
  for (std::size_t k = 0; k < 128; ++k) w.at(0, k) = x.at(0, k) = 1.0f;
  w.at(0, 0) = 0x1p24f;
  expect_same_on_all("chunks", [&] {
    Matrix y(1, 1);
    linear(w.view(), nullptr, x.view(), Activation::linear, {}, y.view());
    EXPECT_EQ(y.at(0, 0), 0x1p24f + 64.0f);
    return y.data;
  });
}

TEST_F(Linear, MultipliesAndAddsInOneRounding) {
  PanelMatrix w(1, 2);
  Matrix x(1, 2);
  const float third = 1.0f / 3.0f;
  w.at(0, 0) = third, x.at(0, 0) = -third;
  w.at(0, 1) = third, x.at(0, 1) = third;
  expect_same_on_all("fused", [&] {
    Matrix y(1, 1);
    linear(w.view(), nullptr, x.view(), Activation::linear, {}, y.view());
    // fma(t, t, -round(t t)) is the rounding error of t t, which two roundings would lose.
    const float rounded = third * third;
    EXPECT_EQ(y.at(0, 0), static_cast<float>(double(third) * third - double(rounded)));
    EXPECT_NE(y.at(0, 0), 0.0f);
    return y.data;
  });
}

TEST_F(Linear, WithoutInputsGivesZeroOrTheBias) {
  const Problem problem({2, 20, 0}, Fill::plain, 5);
  expect_same_on_all("no inputs", [&] {
    const auto bare = problem.run(false), biased = problem.run(true);
    for (std::size_t o = 0; o < 20; ++o) {
      EXPECT_TRUE(same(bare[o], 0.0f));
      EXPECT_TRUE(same(biased[o], problem.bias[o]));
    }
    return biased;
  });
}

TEST_F(Linear, ARowsResultDoesNotDependOnTheBatchAroundIt) {
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    for (const auto& [out, in] : {std::pair<std::size_t, std::size_t>{64, 64}, {37, 150}, {130, 65}})
      for (const std::size_t batch : {1, 2, 5, 13, 14, 15, 64}) {
        Problem problem({batch, out, in}, Fill::special, batch);
        const auto together = problem.run();
        for (std::size_t b = 0; b < batch; ++b) {
          Matrix alone(1, out);
          linear(problem.w.view(), problem.bias.data(), problem.x.row_view(b), Activation::linear, {}, alone.view());
          const auto* row = together.data() + b * (out + 3);
          ASSERT_TRUE(same_bits(std::vector<float>(row, row + out + 3), alone.data))
              << name(isa) << " row " << b << " of " << batch;
        }
        // Other neighbours, same row.
        const std::size_t kept = batch / 2;
        for (std::size_t b = 0; b < batch; ++b)
          for (std::size_t k = 0; k < in && b != kept; ++k) problem.x.at(b, k) = std::nanf("");
        const auto among_others = problem.run();
        const auto at = [&](const std::vector<float>& y) {
          return std::vector<float>(y.begin() + kept * (out + 3), y.begin() + kept * (out + 3) + out);
        };
        ASSERT_TRUE(same_bits(at(among_others), at(together))) << name(isa) << " batch " << batch;
      }
  }
}

TEST_F(Linear, FusesEveryActivationWithUnarysBits) {
  for (int i = 0; i < kActivationCount; ++i) {
    const auto activation = static_cast<Activation>(i);
    for (const Size& size : {Size{1, 64, 64}, Size{1, 23, 70}, Size{9, 50, 64}}) {
      const Problem problem(size, Fill::special, 11);
      const std::string what = std::string(name(activation)) + " " + testing::PrintToString(size);
      expect_same_on_all(what, [&] { return problem.run(true, activation); });
      Matrix z(size.batch, size.out), y(size.batch, size.out), expected(size.batch, size.out);
      linear(problem.w.view(), problem.bias.data(), problem.x.view(), activation, z.view(), y.view());
      EXPECT_TRUE(same_bits(z.data, problem.run(true))) << what;
      EXPECT_TRUE(same_bits(y.data, problem.run(true, activation))) << what;
      unary(activation, std::as_const(z).view(), expected.view());
      EXPECT_TRUE(same_bits(y.data, expected.data)) << what;
    }
  }
}

TEST_F(Linear, MayWriteBothOutputsToOnePlaceWhenThereIsNoActivation) {
  const Problem problem({3, 20, 30}, Fill::plain, 12);
  Matrix y(3, 20);
  linear(problem.w.view(), problem.bias.data(), problem.x.view(), Activation::linear, y.view(), y.view());
  EXPECT_TRUE(same_bits(y.data, problem.run()));
}

TEST_F(Linear, RunsOnManyThreadsAtOnce) {
  const Problem problem({20, 100, 200}, Fill::plain, 14);
  const auto expected = problem.run();
  std::vector<std::thread> threads;
  std::array<bool, 4> right{};
  for (std::size_t t = 0; t < right.size(); ++t)
    threads.emplace_back([&, t] {
      const FlushSubnormals flush;
      right[t] = true;
      for (int i = 0; i < 20; ++i) right[t] = right[t] && same_bits(problem.run(), expected);
    });
  for (auto& thread : threads) thread.join();
  for (const bool each : right) EXPECT_TRUE(each);
}

TEST(Panels, PackAndUnpackAreInverseAndPadWithZero) {
  for (const auto& [out, in] : {std::pair<std::size_t, std::size_t>{1, 1}, {16, 3}, {33, 20}, {100, 7}}) {
    RandomStream random(3, out, RandomPurpose::test);
    Matrix rows(out, in), back(out, in);
    rows.fill(random, Fill::special);
    PanelMatrix panels(out, in);
    std::fill(panels.data.begin(), panels.data.end(), Matrix::kUntouched);
    pack_panels(rows.view(), panels.view());
    for (std::size_t o = 0; o < panel_count(out) * kPanelWidth; ++o)
      for (std::size_t k = 0; k < in; ++k)
        EXPECT_TRUE(same(panels.data[panel_index(in, o, k)], o < out ? rows.at(o, k) : 0.0f));
    unpack_panels(std::as_const(panels).view(), back.view());
    EXPECT_TRUE(same_bits(back.data, rows.data));
  }
}

}  // namespace
}  // namespace weft::kernels::linear_test
