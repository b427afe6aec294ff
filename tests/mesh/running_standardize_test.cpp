// SPDX-License-Identifier: Apache-2.0

// The layer alone; in a mesh that learns: tests/learning/running_standardize_test.cpp.

#include "kernels/isa.hpp"

#include "goldens.hpp"
#include "testing.hpp"
#include <cmath>
#include <limits>

namespace weft::mesh::running_standardize_test {
namespace {

using namespace testing_support;

struct Standardized : goldens::Sequence {
  Standardized(const Options& options, const Shape& shape, std::size_t ticks, std::size_t rows)
      : Sequence(goldens::layer("running_standardize", options), shape, ticks, rows) {
    std::fill(state.begin(), state.end(), 0.0f);
  }
};

/// The formula of the header in plain float32, of one input of one row.
struct Reference {
  float decay, epsilon, mean = 0, variance = 0, weight = 0, deviation = 0;

  float take_in(float x) {
    weight = std::fma(decay, weight, 1.0f);
    const float rate = 1.0f / weight, e = x - mean, step = rate * e;
    mean = mean + step;
    const float w = variance + step * e;
    variance = w - rate * w;
    return standardized(x, variance);
  }
  float look(float x) { return standardized(x, std::max(variance, 1.0f - weight)); }

 private:
  float standardized(float x, float of_variance) {
    deviation = std::sqrt(of_variance + epsilon);
    return (x - mean) / deviation;
  }
};

void expect_near(const std::vector<float>& got, const std::vector<double>& want, const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], 1e-5 * std::max(1.0, std::fabs(want[i]))) << what << ", element " << i;
}

// tools/make_running_standardize_goldens.py
TEST(RunningStandardize, HasTheMomentsOfAllSamplesByTheirDefinition) {
  const std::string path = source_path("tests/data/layers/running_standardize.json");
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const Json json = must(parse_json(text.str(), path));
  const auto all = goldens::read("running_standardize");
  ASSERT_GE(all.size(), 14u);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const goldens::Golden& golden = all[i];
    const Json row = json[i];
    SCOPED_TRACE("row " + std::to_string(i));
    Standardized run(golden.spec.options, golden.in, golden.ticks, golden.rows);
    const auto offset = static_cast<float>(row["offset"].get<double>());
    for (float& x : run.x) x = x + offset;
    run.sample_rows_of_tick = row["taken"].get<std::vector<std::size_t>>();
    run.forward(0, golden.rows);
    run.backward();
    expect_near(run.y, golden.y, "y");
    expect_near(run.last_state(), golden.state, "state");
    expect_near(run.dx, golden.dx, "dx");
    EXPECT_EQ(run.dstate, std::vector<float>(run.dstate.size(), 0.0f));
  }
}

TEST(RunningStandardize, HasTheBitsOfItsFormulaOnEveryInstructionSet) {
  constexpr std::size_t kTicks = 40, kRows = 3, kWide = 37;
  for (const bool is_welford : {false, true})
    for (const kernels::Isa isa : kernels::available_isas()) {
      SCOPED_TRACE(std::string(name(isa)) + (is_welford ? " welford" : " ema"));
      const ForIsa scope(isa);
      const Options options = is_welford ? Options{{"kind", std::string("welford")}, {"epsilon", 1e-6}}
                                         : Options{{"decay", 0.95}, {"epsilon", 1e-6}};
      Standardized run(options, {kWide}, kTicks, kRows), alone(options, {kWide}, kTicks, kRows);
      // Sizes of all kinds, some inputs that stay 0, and one that stays the same.
      for (std::size_t i = 0; i < run.x.size(); ++i) {
        const std::size_t j = i % kWide;
        run.x[i] = j % 5 == 0 ? 0.0f : j == 1 ? 0.3f : std::ldexp(run.x[i], static_cast<int>(j % 11) * 5 - 25);
      }
      alone.x = run.x;
      for (std::size_t t = 0; t < kTicks; ++t) run.sample_rows_of_tick.push_back(t % 4 == 3 ? 1 : kRows);
      run.forward(0, kRows);
      run.backward();
      std::vector<float> y(run.y.size()), dx(run.dx.size()), state(kRows * 3 * kWide);
      for (std::size_t b = 0; b < kRows; ++b)
        for (std::size_t j = 0; j < kWide; ++j) {
          Reference one{is_welford ? 1.0f : 0.95f, 1e-6f};
          for (std::size_t t = 0; t < kTicks; ++t) {
            const std::size_t at = (t * kRows + b) * kWide + j;
            y[at] = b < run.sample_rows_of_tick[t] ? one.take_in(run.x[at]) : one.look(run.x[at]);
            dx[at] = run.dy[at] / one.deviation;
          }
          float* const to = state.data() + b * 3 * kWide;
          to[j] = one.mean, to[kWide + j] = one.variance, to[2 * kWide + j] = one.weight;
        }
      EXPECT_EQ(bits(run.y), bits(y));
      EXPECT_EQ(bits(run.dx), bits(dx));
      EXPECT_EQ(bits(run.last_state()), bits(state));
      // A row by itself.
      for (std::size_t t = 0; t < kTicks; ++t) alone.sample_rows_of_tick.push_back(1);
      alone.forward(0, 1);
      for (std::size_t t = 0; t < kTicks; ++t)
        for (std::size_t j = 0; j < kWide; ++j)
          ASSERT_EQ(alone.y[t * kRows * kWide + j], run.y[t * kRows * kWide + j]) << t << ", " << j;
    }
}

TEST(RunningStandardize, GivesZeroForTheFirstSampleAndForWhatNeverChanges) {
  Standardized run({}, {4}, 6, 1);
  for (std::size_t t = 0; t < 6; ++t) std::copy_n(run.x.begin(), 4, run.x.begin() + static_cast<std::ptrdiff_t>(4 * t));
  run.sample_rows = 1;
  run.forward(0, 1);
  EXPECT_EQ(run.y, std::vector<float>(24, 0.0f));
}

TEST(RunningStandardize, StaysWithinTheRootOfItsWeight) {
  constexpr std::size_t kTicks = 300;
  Standardized run({{"decay", 0.99}, {"epsilon", 1e-8}}, {1}, kTicks, 1);
  std::fill(run.x.begin(), run.x.end(), 0.0f);
  run.x.back() = 1.0f;
  run.sample_rows = 1;
  run.forward(0, 1);
  EXPECT_GT(run.y.back(), 9.0f);
  EXPECT_LT(run.y.back(), 10.0f);
}

TEST(RunningStandardize, BeforeTheFirstSampleTheVarianceCountsAsOne) {
  Standardized run({{"epsilon", 1e-3}}, {5}, 1, 2);
  run.forward(0, 2);
  for (std::size_t i = 0; i < run.y.size(); ++i) EXPECT_EQ(run.y[i], run.x[i] / std::sqrt(1.0f + 1e-3f));
  EXPECT_EQ(run.last_state(), std::vector<float>(30, 0.0f));
}

TEST(RunningStandardize, CountsAsFarAsFloatsDo) {
  Standardized run({{"kind", std::string("welford")}}, {1}, 3, 1);
  run.state[0] = 0.5f, run.state[1] = 2.0f, run.state[2] = 16777215.0f;
  run.sample_rows = 1;
  run.forward(0, 1);
  EXPECT_EQ(run.state[5], 16777216.0f);
  EXPECT_EQ(run.state[8], 16777216.0f);
  EXPECT_EQ(run.state[11], 16777216.0f);
  EXPECT_NEAR(run.state[10], 2.0f, 1e-5f);
}

TEST(RunningStandardize, MakesNothingFiniteOfASquareBeyondFloats) {
  Standardized run({}, {2}, 2, 1);
  run.x = {1.0f, 1.0f, 1e20f, 2.0f};
  run.sample_rows = 1;
  run.forward(0, 1);
  EXPECT_FALSE(std::isfinite(run.y[2]));
  EXPECT_TRUE(std::isfinite(run.y[3]));
}

}  // namespace
}  // namespace weft::mesh::running_standardize_test
