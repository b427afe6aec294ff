// SPDX-License-Identifier: Apache-2.0

#include "kernels/optimizer.hpp"

#include "comparing.hpp"
#include <algorithm>
#include <string>

/// Values: tests/learning/optimizer_goldens_test.cpp, against PyTorch.
namespace weft::kernels::optimizer_test {
namespace {

using namespace testing_support;

std::vector<float> values(RandomStream& random, std::size_t n, float scale, bool special) {
  return (special ? special_matrix(random, 1, n) : random_matrix(random, 1, n, scale)).values();
}
double d(float x) { return static_cast<double>(x); }

/// Every optimiser, with each of its settings that changes the formula.
std::vector<OptimizerOptions> all_options() {
  std::vector<OptimizerOptions> all;
  for (std::size_t i = 0; i < optimizer_names().size(); ++i)
    for (const bool flag : {false, true})
      for (const Clip clip : {Clip::none, Clip::value, Clip::norm}) {
        OptimizerOptions o = default_options(static_cast<OptimizerKind>(i));
        o.lr = 0.1f;
        o.weight_decay = 0.01f;
        o.nesterov = o.centered = flag;
        if (o.kind == OptimizerKind::rmsprop && flag) o.momentum = 0.5f;
        o.clip = clip;
        o.clip_limit = 0.5f;
        all.push_back(o);
      }
  return all;
}

struct State {
  std::vector<float> w, first, second, third;
  void step(const std::vector<float>& g, const OptimizerOptions& o, std::uint64_t before = 0) {
    float factors[kOptimizerFactors];
    optimizer_factors(&before, o.lr, o.beta1, o.beta2, {}, factors);
    const float squares = 2.0f;
    const std::size_t arrays = arrays_of(o);
    optimizer_step({g.size(), w.data(), arrays > 0 ? first.data() : nullptr, arrays > 1 ? second.data() : nullptr,
                    arrays > 2 ? third.data() : nullptr, g.data(), counts_updates(o) ? factors : nullptr,
                    o.clip == Clip::norm ? &squares : nullptr},
                   o);
  }
};

TEST(Optimizer, TheFirstAdamwStepIsTheLearningRateInTheGradientsDirection) {
  // m / c1 is g and v / c2 is g^2, whatever the betas: bias correction at step 1.
  const FlushSubnormals flush;
  OptimizerOptions o = default_options(OptimizerKind::adamw);
  o.lr = 0.125f, o.beta1 = 0.5f, o.beta2 = 0.75f, o.epsilon = 0.0f;
  State s{{1.0f, 1.0f}, {0, 0}, {0, 0}, {}};
  s.step({0.5f, -4.0f}, o);
  EXPECT_EQ(s.w, (std::vector<float>{0.875f, 1.125f}));
}

TEST(Optimizer, LionMovesByItsRateOrNotAtAll) {
  const FlushSubnormals flush;
  OptimizerOptions o = default_options(OptimizerKind::lion);
  o.lr = 0.125f;
  State s{{1.0f, 1.0f, 1.0f, 1.0f, 1.0f}, {0, 0, 0, 0, 0}, {}, {}};
  s.step({1e30f, -1e-30f, 0.0f, -0.0f, 0x1p-140f}, o);
  EXPECT_EQ(s.w, (std::vector<float>{0.875f, 1.125f, 1.0f, 1.0f, 1.0f})) << "0 and what is flushed to it have no sign";
}

TEST(Optimizer, CountsItsStepsAndCorrectsByThem) {
  const FlushSubnormals flush;
  for (const std::uint64_t before :
       {std::uint64_t{0}, std::uint64_t{6}, std::uint64_t{12345}, (std::uint64_t{1} << 40) - 1}) {
    std::uint64_t step = before;
    float factors[kOptimizerFactors];
    optimizer_factors(&step, 0.25f, 0.9f, 0.99999f, {}, factors);
    EXPECT_EQ(step, before + 1);
    EXPECT_EQ(factors[0], 0.25f);
    const double c1 = 1 - std::pow(d(0.9f), static_cast<double>(step)),
                 c2 = 1 - std::pow(d(0.99999f), static_cast<double>(step));
    EXPECT_FLOAT_EQ(factors[1], static_cast<float>(c1));
    EXPECT_FLOAT_EQ(factors[2], static_cast<float>(c2));
  }
}

// A centered root: rounding may take the mean's square past the mean of squares.
TEST(Optimizer, RmspropTakesNoRootBelowZero) {
  const FlushSubnormals flush;
  RandomStream random(84, 0, RandomPurpose::test);
  OptimizerOptions o = default_options(OptimizerKind::rmsprop);
  o.lr = 0.001f, o.centered = true;
  constexpr std::size_t kN = 257;
  const std::vector<float> g = values(random, kN, 1, false);
  State s{std::vector<float>(kN), std::vector<float>(kN), {}, std::vector<float>(kN)};
  s.second.resize(kN);
  // A constant gradient: both means go to the same value.
  for (int step = 0; step < 4000; ++step) s.step(g, o);
  EXPECT_TRUE(std::all_of(s.w.begin(), s.w.end(), [](float w) { return std::isfinite(w); }));
}

TEST(Optimizer, WritesNothingPastTheEndAndNoArrayThatItDoesNotHave) {
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    for (const std::size_t n : kSizes)
      for (const OptimizerOptions& o : all_options()) {
        const std::vector<float> ones(n + 1, 1.0f);
        State s{ones, ones, ones, ones};
        s.step(std::vector<float>(n, 0.25f), o);
        for (const auto* const each : {&s.w, &s.first, &s.second, &s.third}) EXPECT_EQ(each->back(), 1.0f);
        EXPECT_NE(s.w, ones);
        EXPECT_EQ(s.first == ones, arrays_of(o) < 1);
        EXPECT_EQ(s.second == ones, arrays_of(o) < 2);
        EXPECT_EQ(s.third == ones, arrays_of(o) < 3);
      }
  }
}

}  // namespace
}  // namespace weft::kernels::optimizer_test
