// SPDX-License-Identifier: Apache-2.0

#include "learning/evaluation.hpp"

#include "learning/learner.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <cmath>

namespace weft::learning::evaluation_test {
namespace {

using mesh::testing_support::must;

// The examples of sklearn.metrics' manual: mean_squared_error 0.375, mean_absolute_error 0.5, r2_score 0.948...
TEST(ValueErrors, AreThoseOfScikitLearnsManual) {
  const double targets[] = {3, -0.5, 2, 7}, answers[] = {2.5, 0.0, 2, 8};
  ValueErrors errors;
  for (int i = 0; i < 4; ++i) errors.add(answers[i], targets[i]);
  EXPECT_EQ(errors.samples(), 4u);
  EXPECT_DOUBLE_EQ(errors.mse(), 0.375);
  EXPECT_DOUBLE_EQ(errors.mae(), 0.5);
  EXPECT_NEAR(*errors.r2(), 0.9486081370449679, 1e-12);
  ValueErrors equal;
  equal.add(1, 5);
  equal.add(2, 5);
  EXPECT_FALSE(equal.r2());
}

TEST(ValueErrors, CountRelativeErrors) {
  // Relative errors of 0, .1, .11, .5, .75, 1, 1.5; of a target of 0 none and one without bound.
  const double targets[] = {4, -10, 100, 8, 4, 2, 2, 0, 0}, answers[] = {4, -11, 89, 12, 7, 0, 5, 0, 0.001};
  ValueErrors errors;
  EXPECT_EQ(errors.relative_score(), 0.0);
  for (int i = 0; i < 9; ++i) errors.add(answers[i], targets[i]);
  EXPECT_EQ(errors.relative_bins(), (ValueErrors::RelativeBins{3, 1, 0, 0, 1, 2, 2}));
  EXPECT_NEAR(errors.relative_score(), (1 + 0.9 + 0.89 + 0.5 + 0.25 + 0 + 0 + 1 + 0) / 9, 1e-12);
}

mesh::Graph graph_of(const std::string& out) {
  const std::string text =
      R"({"weft": 2, "name": "n", "inputs": {"x": [2]}, "chain": [{"type": "dense", "out": )" + out + R"(}]})";
  return must(mesh::Graph::build(must(mesh::read_network(text, "n"))));
}

const mesh::Node& output_of(const mesh::Graph& graph) { return graph.nodes()[graph.outputs()[0]]; }

TEST(Evaluation, MeasuresEachHeadByItself) {
  const mesh::Graph graph = graph_of("5");
  LearningOptions options;
  options.loss = Loss::multi_head_cross_entropy;
  options.heads = {2, 3};
  const std::vector<std::uint32_t> classes{2, 3};
  Evaluation e({output_of(graph), options}, options, classes, {});
  // Answers (0, 2), (1, 0), (1, 1); labels (0, 2), (0, none), (1, 0).
  const std::vector<float> outputs{9, 0, 0, 0, 9, 0, 9, 9, 0, 0, 0, 9, 0, 9, 0};
  const std::vector<std::uint32_t> labels{0, 2, 0, kNoLabel, 1, 0};
  e.add({outputs.data(), 3, 5, 5}, labels);
  EXPECT_EQ(e.samples(), 3u);
  ASSERT_EQ(e.heads().size(), 2u);
  EXPECT_EQ(e.heads()[0].samples(), 3u);
  EXPECT_EQ(e.heads()[1].samples(), 2u);
  EXPECT_DOUBLE_EQ(e.heads()[0].accuracy(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(e.heads()[1].accuracy(), 0.5);
  EXPECT_DOUBLE_EQ(e.accuracy(), 3.0 / 5);
  // -log softmax at the label, over the five labels that there are.
  const double two = std::log(std::exp(9) + 1), three = std::log(std::exp(9) + 2);
  EXPECT_NEAR(e.loss(), ((two - 9) * 2 + two + (three - 9) + three) / 5, 1e-5);
}

// Each key has a fallback of its own: 0 for the mean, 1 for the deviation.
TEST(TargetUnits, NeedNotHaveBoth) {
  TableOptions table;
  table.target_deviation = {100, 8};
  const TargetUnits divided(table);
  EXPECT_EQ(divided.learned(250, 0), 2.5f);
  EXPECT_EQ(divided.learned(-2, 1), -0.25f);
  EXPECT_EQ(divided.told(2.5f, 0), 250);
  table.target_mean = {50, 1};
  table.target_deviation.clear();
  const TargetUnits shifted(table);
  EXPECT_EQ(shifted.learned(250, 0), 200.0f);
  EXPECT_EQ(shifted.told(-3, 1), -2);
  EXPECT_EQ(TargetUnits().told(0.1f, 5), 0.1f);
}

TEST(Evaluation, TellsErrorsInTheTablesUnits) {
  const mesh::Graph graph = graph_of("2");
  LearningOptions options;
  options.loss = Loss::mse;
  TableOptions table;
  table.target_mean = {100, -1};
  table.target_deviation = {10, 0.5f};
  Evaluation e({output_of(graph), options}, options, {}, TargetUnits(table));
  const std::vector<float> outputs{1, 0, -1, 2}, values{112, -1, 90, 1};  // told: 110, -1; 90, 0
  e.add({outputs.data(), 2, 2, 2}, std::span<const float>(values));
  EXPECT_TRUE(e.has_values());
  EXPECT_DOUBLE_EQ(e.values()[0].mse(), 2);
  EXPECT_DOUBLE_EQ(e.values()[0].mae(), 1);
  EXPECT_DOUBLE_EQ(*e.values()[0].r2(), 1 - 4.0 / 242);
  EXPECT_DOUBLE_EQ(e.values()[1].mse(), 0.5);
  // As it is learned: targets (1.2, 0), (-1, 4) against the outputs.
  EXPECT_NEAR(e.loss(), ((0.04 + 0) / 2 + (0 + 4.0) / 2) / 2, 1e-6);
}

}  // namespace
}  // namespace weft::learning::evaluation_test
