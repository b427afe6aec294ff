// SPDX-License-Identifier: Apache-2.0

#include "learning/sample_stream.hpp"
#include "learning/tasks/task_matrix.hpp"
#include "learning/tasks/task_sequence.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

namespace weft::learning::tasks_test {
namespace {

using namespace test;
using mesh::testing_support::must;
using Place = TaskSequence::Place;

/// `rows` rows of `classes` classes in turn, whose values are their numbers.
Dataset table(std::size_t rows, std::uint32_t classes, std::size_t features) {
  Dataset data;
  data.size = rows;
  data.features = features;
  data.classes = classes;
  for (std::size_t row = 0; row < rows; ++row) {
    data.labels.push_back(static_cast<std::uint32_t>(row % classes));
    for (std::size_t j = 0; j < features; ++j) data.inputs.push_back(static_cast<float>(row * features + j));
  }
  return data;
}

std::vector<std::uint32_t> numbers(std::size_t from, std::size_t to) {
  std::vector<std::uint32_t> all(to - from);
  std::iota(all.begin(), all.end(), static_cast<std::uint32_t>(from));
  return all;
}

Result<TaskSequence> made(const Dataset& data, const TaskOptions& options, std::uint64_t seed = 1,
                          std::uint64_t at_once = 1, std::uint64_t epochs = 1) {
  const std::size_t train = data.size * 4 / 5;
  return TaskSequence::build(data, numbers(0, train), numbers(train, data.size), options, seed, epochs, at_once);
}

std::vector<float> inputs(const TaskSequence& sequence, const Dataset& data, const Place& place) {
  std::vector<float> x(data.features);
  sequence.put_inputs(data, place, x.data());
  return x;
}
std::vector<std::uint32_t> labels(const TaskSequence& sequence, const Dataset& data, const Place& place) {
  std::vector<std::uint32_t> y(sequence.labels());
  sequence.put_labels(data, place, y.data());
  return y;
}

TEST(TaskSequence, SplitShowsTheClassesOfEachTaskInEveryScenario) {
  const Dataset data = table(100, 6, 2);
  for (const Scenario scenario : {Scenario::task, Scenario::domain, Scenario::klass}) {
    TaskSequence sequence = must(made(data, {TaskKind::split, 3, scenario}));
    ASSERT_EQ(sequence.tasks(), 3u);
    EXPECT_EQ(sequence.total(), 80u);
    EXPECT_EQ(sequence.classes(), scenario == Scenario::klass ? 6u : 2u);
    std::set<std::uint32_t> rows;
    for (std::uint64_t sample = 0; sample < sequence.total(); ++sample) {
      const Place place = sequence.place(sample);
      rows.insert(place.row);
      const std::uint32_t label = data.labels[place.row];
      EXPECT_EQ(label / 2, place.task);
      std::vector<std::uint32_t> wanted{scenario == Scenario::klass ? label : label % 2};
      if (scenario == Scenario::task) {
        wanted.assign(3, kNoLabel);
        wanted[place.task] = label % 2;
      }
      EXPECT_EQ(labels(sequence, data, place), wanted);
      EXPECT_EQ(inputs(sequence, data, place), std::vector<float>(data.row(place.row), data.row(place.row) + 2));
    }
    EXPECT_EQ(rows.size(), 80u);
    for (std::uint32_t task = 0; task < 3; ++task)
      for (const Place& place : sequence.tests(task)) EXPECT_EQ(data.labels[place.row] / 2, task);
  }
}

TEST(TaskSequence, PermutesPlacesAndLabelsAnewInEachTaskButTheFirst) {
  const Dataset data = table(50, 5, 40);
  TaskSequence places = must(made(data, {TaskKind::permuted, 3, Scenario::klass}));
  std::set<std::vector<float>> seen;
  for (std::uint32_t task = 0; task < 3; ++task) {
    std::vector<float> x = inputs(places, data, {task, 7});
    seen.insert(x);
    EXPECT_EQ(labels(places, data, {task, 7})[0], 5 * task + 2);
    if (task == 0) {
      EXPECT_EQ(x, std::vector<float>(data.row(7), data.row(8)));
    }
    std::sort(x.begin(), x.end());
    EXPECT_EQ(x, std::vector<float>(data.row(7), data.row(8)));
  }
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_EQ(places.classes(), 15u);
  TaskSequence renamed = must(made(data, {TaskKind::labels, 4, Scenario::domain}));
  std::set<std::vector<std::uint32_t>> orders;
  for (std::uint32_t task = 0; task < 4; ++task) {
    std::vector<std::uint32_t> order;
    for (std::uint32_t row = 0; row < 5; ++row) order.push_back(labels(renamed, data, {task, row})[0]);
    orders.insert(order);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, numbers(0, 5));
  }
  EXPECT_GT(orders.size(), 2u);
}

// A quarter turn moves each pixel of a square to another one; 45 degrees are the formula again, in long double.
TEST(TaskSequence, TurnsPicturesAroundTheirMiddle) {
  const Dataset data = table(10, 2, 49);
  const TaskSequence sequence = must(made(data, {TaskKind::rotated, 2, Scenario::domain, 0, 0, 90.0}));
  const std::vector<float> x(data.row(3), data.row(4));
  const std::vector<float> turned = inputs(sequence, data, sequence.tests(1)[0]);
  const float* const first = data.row(sequence.tests(1)[0].row);
  for (std::size_t row = 0; row < 7; ++row)
    for (std::size_t col = 0; col < 7; ++col)
      EXPECT_NEAR(turned[7 * row + col], first[7 * (6 - col) + row], 1e-3) << row << ", " << col;
  for (const double degrees : {45.0, 13.0, 300.0}) {
    const auto angle = static_cast<float>(degrees / 360.0) * 6.28318530717958647692f;
    const std::vector<float> y = inputs(sequence, data, {1, 3, angle});
    for (int row = 0; row < 7; ++row)
      for (int col = 0; col < 7; ++col) {
        const long double c = std::cos(static_cast<long double>(angle)), s = std::sin(static_cast<long double>(angle));
        const long double v = c * (row - 3) - s * (col - 3) + 3, u = s * (row - 3) + c * (col - 3) + 3;
        long double sum = 0;
        for (int i = 0; i < 7; ++i)
          for (int j = 0; j < 7; ++j)
            sum += std::max(0.0L, 1 - std::abs(v - i)) * std::max(0.0L, 1 - std::abs(u - j)) *
                   x[static_cast<std::size_t>(7 * i + j)];
        EXPECT_NEAR(y[static_cast<std::size_t>(7 * row + col)], static_cast<double>(sum), 2e-3) << degrees;
      }
  }
}

TEST(TaskSequence, TurningShowsPairsThreeTimesAroundAndEachSampleOnce) {
  const Dataset data = table(1000, 5, 4);
  TaskSequence sequence = must(made(data, {TaskKind::turning, 1, Scenario::klass}));
  EXPECT_EQ(sequence.tasks(), 1u);
  EXPECT_EQ(sequence.classes(), 4u);
  EXPECT_EQ(sequence.total(), 640u);  // the last class is left out
  std::set<std::uint32_t> rows;
  std::map<std::uint32_t, float> last;
  std::vector<std::set<std::uint32_t>> pairs;
  for (std::uint64_t sample = 0; sample < sequence.total(); ++sample) {
    const Place place = sequence.place(sample);
    const std::uint32_t label = data.labels[place.row];
    EXPECT_TRUE(rows.insert(place.row).second);
    if (last.contains(label)) {
      EXPECT_GT(place.angle, last[label]);
    }
    last[label] = place.angle;
    if (pairs.empty() || (pairs.back().size() == 2 && !pairs.back().contains(label))) pairs.emplace_back();
    pairs.back().insert(label);
  }
  for (const auto& [label, angle] : last) EXPECT_NEAR(angle, 6.28318f * 159 / 160, 1e-3) << label;
  EXPECT_EQ(pairs.size(), 12u);
}

TEST(TaskSequence, OrderFollowsFromTheSeedAndEndsAreWholeUpdates) {
  const Dataset data = table(100, 4, 2);
  const auto rows = [&](std::uint64_t seed) {
    TaskSequence sequence = must(made(data, {TaskKind::split, 2, Scenario::klass, 75}, seed, 10));
    EXPECT_EQ(sequence.total(), 140u);
    EXPECT_EQ(sequence.end_of(69), 70u);
    EXPECT_EQ(sequence.end_of(70), 140u);
    EXPECT_TRUE(sequence.is_bound(0) && sequence.is_bound(70) && sequence.is_bound(140) && !sequence.is_bound(71));
    std::vector<std::uint32_t> all;
    for (std::uint64_t sample = 0; sample < 140; ++sample) all.push_back(sequence.place(sample).row);
    // Asked again, and in another order.
    EXPECT_EQ(sequence.place(3).row, all[3]);
    EXPECT_EQ(sequence.place(139).row, all[139]);
    return all;
  };
  EXPECT_EQ(rows(1), rows(1));
  EXPECT_NE(rows(1), rows(2));
}

TEST(TaskSequence, WhatCannotBeMadeIsRefused) {
  const Dataset data = table(100, 4, 3);
  const auto refused = [&](const TaskOptions& options, const std::string& words, std::uint64_t at_once = 1) {
    const auto sequence = made(data, options, 1, at_once);
    ASSERT_FALSE(sequence);
    EXPECT_EQ(sequence.error().code(), Errc::invalid_argument);
    EXPECT_NE(sequence.error().text().find(words), std::string::npos) << sequence.error().text();
  };
  refused({TaskKind::split, 5}, "stream.tasks.count: 5 tasks, and the samples have 4 classes");
  refused({TaskKind::split, 3}, "stream.tasks.count: 3 tasks do not divide 4 classes evenly");
  refused({TaskKind::rotated, 2}, "turns square pictures, and the samples have 3 values each");
  refused({TaskKind::split, 4}, "leave task 1 with 20 rows, and updates take 64 samples", 64);
  TaskOptions turning{TaskKind::turning, 1, Scenario::task};
  refused(turning, "turns square pictures");
}

/// Numbers of a 3 x 3 example, by hand.
TEST(TaskMatrix, FiguresAreThoseOfTheirDefinitions) {
  TaskMatrix matrix(3);
  matrix.add({0.1, 0.2, 0.3});
  matrix.add({0.9, 0.3, 0.1});
  EXPECT_FALSE(matrix.accuracy());
  matrix.add({0.7, 0.8, 0.5});
  matrix.add({0.8, 0.5, 0.95});
  EXPECT_NEAR(*matrix.accuracy(), 0.75, 1e-12);
  EXPECT_NEAR(*matrix.backward_transfer(), ((0.8 - 0.9) + (0.5 - 0.8)) / 2, 1e-12);
  EXPECT_NEAR(*matrix.forward_transfer(), ((0.3 - 0.2) + (0.5 - 0.3)) / 2, 1e-12);
  EXPECT_NEAR(*matrix.forgetting(), ((0.9 - 0.8) + (0.8 - 0.5)) / 2, 1e-12);
  TaskMatrix back(3);
  const Json saved = matrix.save();
  const Json document{{"rows", saved}};
  JsonReader reader = must(JsonReader::open(document, "matrix"));
  must(back.load(must(reader.value("rows"))));
  EXPECT_EQ(back.rows(), matrix.rows());
  TaskMatrix gap(2);
  gap.add({0.5, 0.5});
  gap.skip();
  gap.add({0.5, 0.5});
  EXPECT_TRUE(gap.accuracy());
  EXPECT_FALSE(gap.backward_transfer());
  EXPECT_FALSE(gap.forgetting());
}

/// Digits of scikit-learn in five tasks, small form of tools/measure_forgetting.py.
struct Forgetting {
  double accuracy = 0, forgetting = 0;
  std::string hash;
};
Forgetting learned(const ReplayOptions& replay, std::uint64_t seed, std::uint64_t block = 64) {
  mesh::NetworkSpec spec = mesh::NetworkBuilder("digits", GridShape{1, 1, 2, 1})
                               .input("pixels", 64)
                               .dense({0, 0, 0, 0}, 64, kernels::Activation::relu)
                               .dense({0, 0, 1, 0}, 10)
                               .output("digit", {0, 0, 1, 0})
                               .seed(seed)
                               .spec();
  LearningOptions options;
  options.optimizer = kernels::default_options(OptimizerKind::sgd);
  options.optimizer.lr = 0.05f;
  options.learners = 4;
  options.replay = replay;
  LearningRun run(spec, options, shape(1, 4 + replay.rows()));
  StreamOptions stream;
  stream.seed = seed;
  stream.epochs = 3;
  stream.tasks = {TaskKind::split, 5, Scenario::klass};
  SampleStream samples = must(SampleStream::build(*run.learner, digits(), stream));
  while (!samples.is_done()) must(samples.advance(block));
  must(samples.finish());
  const TaskMatrix& matrix = *tasks_of(samples);
  return {*matrix.accuracy(), *matrix.forgetting(), run.hash()};
}

// Means and deviations of 20 seeds: none 0.193, 0.005; er 0.914, 0.015; der++ 0.927, 0.013. Thresholds lie 4 deviations
// of a mean of three below them.
TEST(Forgetting, StoredSamplesKeepFiveTasksOfDigits) {
  double none = 0, er = 0, der = 0;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    none += learned({}, seed).accuracy / 3;
    er += learned({ReplayMethod::er, 12, 200}, seed).accuracy / 3;
    der += learned({ReplayMethod::der, 12, 200, 0.3f}, seed).accuracy / 3;
  }
  RecordProperty("none", std::to_string(none));
  RecordProperty("er", std::to_string(er));
  RecordProperty("der", std::to_string(der));
  EXPECT_LT(none, 0.205);
  EXPECT_GT(er, 0.88);
  EXPECT_GT(der, 0.897);
}

// Source of those numbers.
TEST(Forgetting, DISABLED_OfTwentySeeds) {
  for (const ReplayMethod method : {ReplayMethod::none, ReplayMethod::er, ReplayMethod::der}) {
    double sum = 0, squares = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const double accuracy = learned({method, 12, 200, 0.3f}, seed).accuracy;
      sum += accuracy, squares += accuracy * accuracy;
    }
    const double mean = sum / 20, deviation = std::sqrt((squares - 20 * mean * mean) / 19);
    std::printf("%s: %.4f, sd %.4f\n", std::string(name(method)).c_str(), mean, deviation);
  }
}

TEST(Forgetting, MatrixAndStateDoNotHangOnTheLengthOfAdvances) {
  const Forgetting one = learned({ReplayMethod::der, 4, 50}, 3, 4),
                   other = learned({ReplayMethod::der, 4, 50}, 3, 1000);
  EXPECT_EQ(one.hash, other.hash);
  EXPECT_EQ(one.accuracy, other.accuracy);
  EXPECT_EQ(one.forgetting, other.forgetting);
}

}  // namespace
}  // namespace weft::learning::tasks_test
