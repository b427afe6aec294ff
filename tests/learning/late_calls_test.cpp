// SPDX-License-Identifier: Apache-2.0
// Calls of observe, answer, teach and forgo: what they refuse, count and answer.

#include "learning/one_sample.hpp"

#include <gtest/gtest.h>

#include "late_digits.hpp"
#include <cmath>
#include <limits>
#include <string>

namespace weft::learning::late_calls_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

TEST(LateCalls, RefusesWhatMeansNothingAndChangesNothing) {
  LateDigits d(meeting());
  const Ticket ticket = d.observe();
  const std::string before = d.run.hash();
  expect_error(d.teach(7, 1), Errc::out_of_range, {"sample 7: unknown; 1 samples have entered"});
  expect_error(d.teach(ticket, 10), Errc::out_of_range, {"label 10 of sample 0 is not below the output's width 10"});
  const std::uint32_t label = 1;
  const float negative = -0.5f, nan = std::numeric_limits<float>::quiet_NaN();
  expect_error(d.teach(ticket, {.output = "digit", .labels = {&label, 1}, .weights = {&negative, 1}}),
               Errc::out_of_range, {"weight -0.5"});
  expect_error(d.teach(ticket, {.output = "digit", .labels = {&label, 1}, .weights = {&nan, 1}}), Errc::not_finite,
               {"weight"});
  std::vector<float> gradient(10, 0.5f);
  gradient[3] = nan;
  expect_error(d.teach(ticket, {.output = "digit", .gradient = gradient}), Errc::not_finite, {"gradient 3 is"});
  const float huge = 1e30f;
  gradient[3] = -1e10f;
  expect_error(d.teach(ticket, {.output = "digit", .gradient = gradient, .weights = {&huge, 1}}), Errc::not_finite,
               {"gradient 3 times its weight is -inf"});
  gradient[3] = 0;
  expect_error(d.teach(ticket, {.output = "digit", .labels = {&label, 1}, .gradient = gradient}),
               Errc::invalid_argument, {"a gradient beside labels"});
  expect_error(d.teach(ticket, {.output = "digit", .labels = {&label, 1}, .values = gradient}), Errc::invalid_argument,
               {"1 labels beside 10 values"});
  expect_error(d.teach(ticket, {.output = "digit", .values = gradient}), Errc::shape_mismatch,
               {"10 values where 1 labels (whole numbers) are expected, by learning.loss 'cross_entropy'"});
  gradient.pop_back();
  expect_error(d.teach(ticket, {.output = "digit", .gradient = gradient}), Errc::shape_mismatch, {"a gradient of 9"});
  expect_error(d.teach(ticket, {.output = "digits", .labels = {&label, 1}}), Errc::unknown_name, {"'digits'"});
  EXPECT_EQ(d.run.hash(), before);
  EXPECT_TRUE(d.run.learner->scores().empty());
  must(d.teach(ticket, 1));
  expect_error(d.teach(ticket, 1), Errc::invalid_argument, {"sample 0: has been taught already"});
  const Ticket next = d.observe();
  must(d.run.learner->forgo(next));
  expect_error(d.teach(next, 1), Errc::invalid_argument, {"sample 1: has been forgone"});
  expect_error(d.run.learner->forgo(next), Errc::invalid_argument, {"has been forgone"});
}

TEST(LateCalls, RefusesWithoutTheOptionAndWhereARuleHasNoUseForIt) {
  LateDigits none({});
  const mesh::RunInput input{"pixels", none.x};
  const auto refused = none.run.learner->observe({&input, 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::unsupported);
  expect_error(none.teach(0, 1), Errc::unsupported, {"learning.late is 'none'"});
  LearningOptions local = meeting(Late::meet, Schedule::pipelined);
  local.rule = Rule::local_ce;
  expect_error(check_options(local), Errc::invalid_argument, {"keeps no past; use 'again'"});
  for (const Rule rule : {Rule::gap, Rule::local_ce}) {
    LearningOptions options = meeting();
    options.rule = rule;
    LateDigits d(options);
    const Ticket ticket = d.observe();
    const std::vector<float> gradient(10, 0.5f);
    expect_error(d.teach(ticket, {.output = "digit", .gradient = gradient}), Errc::invalid_argument,
                 {"learns from what the output should say"});
  }
  const std::uint32_t label = 1;
  const float weight = 1;
  const Target target{.output = "digit", .labels = {&label, 1}, .weights = {&weight, 1}};
  expect_error(none.run.learner->learn({&input, 1}, {&target, 1}, 1), Errc::invalid_argument,
               {"learning.weights is false"});
  const std::vector<float> slope(10, 0.5f);
  const Target sloped{.output = "digit", .gradient = slope};
  expect_error(none.run.learner->learn({&input, 1}, {&sloped, 1}, 1), Errc::invalid_argument, {"Learner::teach"});
}

TEST(LateCalls, CountsAndTellsWhatExpires) {
  for (const Late late : {Late::meet, Late::again})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      LateDigits d(meeting(late, schedule, 3));
      const std::uint64_t delay = schedule == Schedule::pipelined ? d.run.learner->latency() : 1;
      // The last sample that may be taught: three others have entered since its answer.
      for (std::uint64_t s = 0; s < delay + 3; ++s) d.observe();
      EXPECT_EQ(d.run.learner->late_counts().expired, 0u) << name(late) << name(schedule);
      const std::string before = d.run.hash();
      d.observe();
      EXPECT_EQ(d.run.learner->late_counts().expired, 1u) << name(late) << name(schedule);
      ASSERT_EQ(d.run.learner->expired().size(), 1u);
      EXPECT_EQ(d.run.learner->expired()[0], 0u);
      const std::string weights = d.run.hash();
      expect_error(d.teach(0, 1), Errc::timed_out, {"sample 0: expired"});
      EXPECT_EQ(d.run.hash(), weights);
      must(d.teach(1, 1));
      const LateCounts counts = d.run.learner->late_counts();
      EXPECT_EQ(counts.observed, delay + 4);
      EXPECT_EQ(counts.taught + counts.open(), delay + 3);
      for (int s = 0; s < 40; ++s) d.observe();
      expect_error(d.teach(2, 1), Errc::timed_out, {"expired"});
      d.run.learner->clear_scores();
      EXPECT_TRUE(d.run.learner->expired().empty());
    }
}

TEST(LateCalls, AnswersAreTheOutputsOfAMeshThatDoesNotLearn) {
  for (const Late late : {Late::meet, Late::again})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      LateDigits d(meeting(late, schedule, 40));
      mesh::Mesh mesh = must(mesh::Mesh::build(digits_network(1), shape()));
      std::vector<std::vector<float>> outputs;  // by tick
      for (int s = 0; s < 20; ++s) {
        d.observe();
        must(mesh.set_input("pixels", d.x));
        const std::uint64_t ticks = schedule == Schedule::settle ? d.run.learner->hold() : 1;
        for (std::uint64_t t = 0; t < ticks; ++t) {
          must(mesh.tick());
          const auto y = must(mesh.output("digit"));
          outputs.emplace_back(y.begin(), y.end());
        }
      }
      for (Ticket ticket = 0; ticket < 20; ++ticket) {
        const std::uint64_t end =
            schedule == Schedule::settle ? (ticket + 1) * d.run.learner->hold() : ticket + d.run.learner->latency();
        const auto y = d.run.learner->answer(ticket, "digit");
        ASSERT_EQ(y.has_value(), end <= outputs.size());
        if (!y) {
          EXPECT_EQ(y.error().code(), Errc::not_found);
          continue;
        }
        EXPECT_EQ(std::vector<float>(y->begin(), y->end()), outputs[end - 1]) << ticket;
      }
    }
}

TEST(LateCalls, WeightsScaleAndZeroScoresAlone) {
  LateDigits a(meeting()), b(meeting()), c(meeting());
  std::vector<float> gradient(10, 0.25f), twice(10, 0.5f);
  const float two = 2, zero = 0;
  must(a.teach(a.observe(), {.output = "digit", .gradient = gradient, .weights = {&two, 1}}));
  must(b.teach(b.observe(), {.output = "digit", .gradient = twice}));
  EXPECT_EQ(a.run.weights(), b.run.weights());
  const auto before = c.run.weights();
  const std::uint32_t label = 4;
  must(c.teach(c.observe(), {.output = "digit", .labels = {&label, 1}, .weights = {&zero, 1}}));
  EXPECT_EQ(c.run.weights(), before);
  ASSERT_EQ(c.run.learner->scores().size(), 1u);
  EXPECT_EQ(c.run.learner->scores()[0].label, 4u);
  EXPECT_EQ(c.run.learner->late_counts().taught, 1u);
}

// Sessions that come or go take the kept past with them: nothing is met that is not there.
TEST(LateCalls, SessionsThatComeExpireWhatIsOpen) {
  LateDigits d(meeting());
  const Ticket ticket = d.observe();
  must(d.run.mesh->add_session());
  const std::string before = d.run.hash();
  expect_error(d.teach(ticket, 1), Errc::timed_out, {"sessions were added or removed"});
  EXPECT_EQ(d.run.hash(), before) << "refused";
  d.x.resize(128);
  d.observe();
  EXPECT_EQ(d.run.learner->late_counts().expired, 1u);
  expect_error(d.teach(ticket, 1), Errc::timed_out, {"expired"});
}

TEST(LateCalls, SugarIsPredictAndLearn) {
  LateDigits d({}), e({});
  std::vector<float> y(10), z(10);
  const mesh::RunInput input{"pixels", d.x};
  const mesh::RunOutput output{"digit", z};
  must(predict_one(*d.run.learner, d.x, y));
  must(e.run.learner->predict({&input, 1}, 1, {&output, 1}, 0));
  EXPECT_EQ(y, z);
  must(learn_one(*d.run.learner, d.x, 3u));
  e.run.train(e.x, {3});
  EXPECT_EQ(d.run.hash(), e.run.hash());
}

// A few rows of a network without a past are computed in one pass, more of them by copies that are held: the same bits.
TEST(Predict, OfOneRowIsThatOfMany) {
  constexpr std::size_t kRows = 40;
  using kernels::Activation;
  const auto plain = [](bool has_loop) {
    mesh::NetworkBuilder b("n", {1, 1, 3, 1});
    b.input("x", 5).dense({0, 0, 0, 0}, 33, Activation::tanh);
    if (has_loop) b.from({"x", Coord{0, 0, 1, 0}});
    b.dense({0, 0, 1, 0}, 17, Activation::gelu).dense({0, 0, 2, 0}, 4).from({Coord{0, 0, 1, 0}});
    return must(mesh::Mesh::build(b.output("y", {0, 0, 2, 0}).seed(9).spec(), {}));
  };
  for (const bool has_loop : {false, true}) {
    mesh::Mesh mesh = plain(has_loop);
    const auto learner = must(Learner::build(mesh, {}));
    std::vector<float> x(kRows * 5), y(kRows * 4), one(4);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) / 50.0f - 1.0f;
    const mesh::RunInput input{"x", x};
    const mesh::RunOutput output{"y", y};
    must(learner->predict({&input, 1}, kRows, {&output, 1}, 0));
    for (std::size_t row = 0; row < kRows; ++row) {
      must(predict_one(*learner, std::span(x).subspan(row * 5, 5), one));
      EXPECT_TRUE(std::equal(one.begin(), one.end(), y.begin() + static_cast<std::ptrdiff_t>(row * 4))) << row;
    }
  }
}

}  // namespace
}  // namespace weft::learning::late_calls_test
