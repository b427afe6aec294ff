// SPDX-License-Identifier: Apache-2.0

#include "learning/measurement.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace weft::learning::measurement_test {
namespace {

// By hand, as sklearn.metrics.confusion_matrix and classification_report count: rows are labels, columns answers.
TEST(Measurement, CountsAnswersByClass) {
  // Answers 0 0 1 2 1 0, labels 0 1 1 2 2 0.
  const std::vector<float> outputs{5, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0, 5, 0, 5, 0, 5, 5, 0};
  const std::vector<std::uint32_t> labels{0, 1, 1, 2, 2, 0};
  Measurement m(3);
  m.add({outputs.data(), 2, 3, 3}, std::span(labels).first(2));
  m.add({outputs.data() + 6, 4, 3, 3}, std::span(labels).subspan(2));
  EXPECT_EQ(m.samples(), 6u);
  EXPECT_EQ(m.right(), 4u);
  EXPECT_DOUBLE_EQ(m.accuracy(), 4.0 / 6);
  const std::uint64_t expected[3][3] = {{2, 0, 0}, {1, 1, 0}, {0, 1, 1}};
  for (std::uint32_t i = 0; i < 3; ++i)
    for (std::uint32_t j = 0; j < 3; ++j) EXPECT_EQ(m.count(i, j), expected[i][j]) << i << " " << j;
  EXPECT_DOUBLE_EQ(m.of_class(0).precision, 2.0 / 3);
  EXPECT_DOUBLE_EQ(m.of_class(0).recall, 1);
  EXPECT_DOUBLE_EQ(m.of_class(0).f1, 0.8);
  EXPECT_DOUBLE_EQ(m.of_class(1).precision, 0.5);
  EXPECT_DOUBLE_EQ(m.of_class(1).recall, 0.5);
  EXPECT_DOUBLE_EQ(m.of_class(2).precision, 1);
  EXPECT_DOUBLE_EQ(m.of_class(2).f1, 2.0 / 3);
  // -log softmax: five times of (5, 0, 0) at the 5 or at a 0, once of (5, 5, 0) at a 5.
  const double sum = std::exp(5) + 2, right = std::log(sum) - 5, wrong = std::log(sum);
  EXPECT_NEAR(m.loss(), (3 * right + 2 * wrong + std::log(2 * std::exp(5) + 1) - 5) / 6, 1e-6);
}

TEST(Measurement, CountsAnswersThatAreNoClassAsWrong) {
  const std::vector<float> outputs{0, 0, 9};
  const std::vector<std::uint32_t> labels{1};
  Measurement m(2);
  m.add({outputs.data(), 1, 3, 3}, labels);
  EXPECT_EQ(m.right(), 0u);
  EXPECT_EQ(m.of_class(1).samples, 1u);
  EXPECT_EQ(m.of_class(1).recall, 0);
  EXPECT_EQ(m.of_class(0).precision, 0);
}

TEST(Measurement, HasNoMatrixForVeryManyClasses) {
  const std::vector<float> outputs{0, 1};
  const std::vector<std::uint32_t> labels{1};
  Measurement m(65536);
  EXPECT_FALSE(m.has_matrix());
  m.add({outputs.data(), 1, 2, 2}, labels);
  EXPECT_EQ(m.of_class(1).f1, 1);
}

}  // namespace
}  // namespace weft::learning::measurement_test
