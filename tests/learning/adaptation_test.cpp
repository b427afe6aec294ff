// SPDX-License-Identifier: Apache-2.0
// Adaptation to changes of the task, against figures worked out by hand.

#include "learning/drift/adaptation.hpp"

#include <gtest/gtest.h>

#include "tests/mesh/testing.hpp"
#include <string>
#include <utility>
#include <vector>

namespace weft::learning::adaptation_test {
namespace {

using mesh::testing_support::must;

/// Scores with the accuracy of a window of four.
struct Scores {
  AdaptationTracker tracker{4};
  std::vector<int> hits;
  double accuracy = 0;
  void add(int hit) {
    hits.push_back(hit);
    int sum = 0;
    for (std::size_t i = hits.size() > 4 ? hits.size() - 4 : 0; i < hits.size(); ++i) sum += hits[i];
    accuracy = sum / 4.0;
    tracker.add(hit != 0, accuracy);
  }
};

void expect_first(const Adaptation& change) {
  EXPECT_EQ(change.at, 4u);
  EXPECT_TRUE(change.is_declared);
  EXPECT_EQ(change.before, 1.0);
  EXPECT_EQ(change.trough, 0.25);
  EXPECT_EQ(change.area, 3.0);
  EXPECT_EQ(change.to_95, 7u);
  EXPECT_EQ(change.to_99, 7u);
  EXPECT_EQ(change.delay, 2u);
}

Scores some_scores() {
  Scores scores;
  for (int i = 0; i < 4; ++i) scores.add(1);
  scores.tracker.declare(scores.accuracy);
  // Of the window 3/4, 2/4, 1/4, 1/4, 2/4, 3/4, 1: three hits are lost.
  for (const int hit : {0, 0}) scores.add(hit);
  scores.tracker.detect(scores.accuracy);
  for (const int hit : {0, 1, 1}) scores.add(hit);
  scores.tracker.detect(scores.accuracy);  // the same change, seen again
  for (const int hit : {1, 1}) scores.add(hit);
  return scores;
}

TEST(Adaptation, IsMeasuredFromADeclaredChange) {
  const Scores scores = some_scores();
  ASSERT_EQ(scores.tracker.changes().size(), 1u);
  expect_first(scores.tracker.changes()[0]);
}

TEST(Adaptation, BeginsAtAnAlarmThatNoChangeExplains) {
  Scores scores = some_scores();
  for (const int hit : {0, 1}) scores.add(hit);
  scores.tracker.detect(scores.accuracy);
  ASSERT_EQ(scores.tracker.changes().size(), 2u);
  expect_first(scores.tracker.changes()[0]);  // over, and as it was
  const Adaptation* second = &scores.tracker.changes()[1];
  EXPECT_FALSE(second->is_declared);
  EXPECT_EQ(second->at, 13u);
  EXPECT_EQ(second->before, 0.75);
  EXPECT_FALSE(second->delay);
  for (const int hit : {0, 0, 1, 1}) scores.add(hit);
  second = &scores.tracker.changes()[1];
  EXPECT_EQ(second->trough, 0.25);  // hits 0, 1, 0, 0
  EXPECT_EQ(second->area, 4 * 0.75 - 2);
  EXPECT_FALSE(second->to_95);  // 0.5 of 0.75
  scores.add(1);
  second = &scores.tracker.changes()[1];
  EXPECT_EQ(second->to_95, 5u);
  EXPECT_EQ(second->to_99, 5u);
  const auto area = scores.tracker.spread_of([](const Adaptation& each) { return std::optional(each.area); });
  ASSERT_TRUE(area);
  EXPECT_DOUBLE_EQ(area->mean, (3.0 + 0.75) / 2);
  EXPECT_NEAR(area->deviation, 2.25 / std::sqrt(2.0), 1e-12);
  const auto delay = scores.tracker.spread_of([](const Adaptation& each) {
    return each.delay ? std::optional(static_cast<double>(*each.delay)) : std::nullopt;
  });
  EXPECT_EQ(delay->mean, 2.0);  // of the one that has it
}

TEST(Adaptation, GoesOnFromWhereItWasSaved) {
  Scores whole = some_scores();
  Scores other = whole;
  AdaptationTracker loaded(4);
  const Json saved = other.tracker.save();
  must(loaded.load(JsonValue(saved, "adaptation")));
  other.tracker = loaded;
  for (Scores* scores : {&whole, &other}) {
    scores->tracker.declare(scores->accuracy);
    for (const int hit : {0, 0, 1, 0, 1, 1, 1, 1}) scores->add(hit);
  }
  EXPECT_EQ(other.tracker.save().dump(), whole.tracker.save().dump());
  EXPECT_EQ(other.tracker.changes().size(), 2u);
}

TEST(Adaptation, KeepsTheLatestOfVeryManyChanges) {
  AdaptationTracker tracker(1);
  for (std::size_t i = 0; i < AdaptationTracker::kMost + 3; ++i) {
    tracker.declare(1.0);
    tracker.add(true, 1.0);
  }
  ASSERT_EQ(tracker.changes().size(), AdaptationTracker::kMost);
  EXPECT_EQ(tracker.changes()[0].at, 3u);
}

}  // namespace
}  // namespace weft::learning::adaptation_test
