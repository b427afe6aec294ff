// SPDX-License-Identifier: Apache-2.0

#include "server/drift_detector.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace {

using weft::server::DriftDetector;

/// The same test, written down from its definition over the whole history.
bool is_worse(const std::vector<bool>& history) {
  const std::size_t recent = 100, count = history.size();
  if (count < 2 * recent) return false;
  double r_old = 0, r_new = 0;
  for (std::size_t i = 0; i < count; ++i) (i < count - recent ? r_old : r_new) += history[i];
  const double n_old = static_cast<double>(count - recent), n_new = recent, p = (r_old + r_new) / (n_old + n_new);
  if (r_new / n_new >= r_old / n_old) return false;
  const double top = std::abs(r_old / n_old - r_new / n_new) - 0.5 * (1 / n_old + 1 / n_new);
  return top / std::sqrt(p * (1 - p) * (1 / n_old + 1 / n_new)) > DriftDetector::kBound;
}

TEST(DriftDetector, SaysWhatTheTestSaysAtTheSameSample) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    std::mt19937 draw(seed);
    DriftDetector detector;
    std::vector<bool> history;
    for (int i = 0; i < 3000; ++i) {
      const bool hit = draw() % 100 < (i < 1500 ? 90u : 45u);
      history.push_back(hit);
      const auto event = detector.add(hit);
      ASSERT_EQ(event.has_value(), is_worse(history)) << seed << " sample " << i;
      if (!event) continue;
      EXPECT_FALSE(event->is_recovery);
      EXPECT_EQ(event->sample, history.size());
      EXPECT_GE(i, 1500) << "no false alarm";
      EXPECT_LT(i, 1600) << "seen within a hundred samples";
      break;
    }
    EXPECT_EQ(detector.drifts(), 1u);
  }
}

TEST(DriftDetector, TellsWhenItIsOver) {
  std::mt19937 draw(1);
  DriftDetector detector;
  const auto feed = [&](int count, unsigned percent) {
    for (int i = 0; i < count; ++i) detector.add(draw() % 100 < percent);
  };
  feed(2000, 95);
  EXPECT_EQ(detector.last().number, 0u);
  feed(400, 30);
  ASSERT_EQ(detector.last().number, 1u);
  const double before = detector.last().before;
  EXPECT_NEAR(before, 0.95, 0.02);
  feed(400, 95);
  ASSERT_EQ(detector.last().number, 2u);
  EXPECT_TRUE(detector.last().is_recovery);
  EXPECT_GE(detector.last().after, 0.95 * before);
  EXPECT_GT(detector.last().since, 300u);
  EXPECT_LT(detector.last().since, 500u);
  EXPECT_EQ(detector.drifts(), 1u);
}

TEST(DriftDetector, IsSilentWhileAllStaysOrImproves) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    std::mt19937 draw(seed);
    DriftDetector detector;
    for (unsigned i = 0; i < 20000; ++i) detector.add(draw() % 20000 < 10000 + i / 2);
    EXPECT_EQ(detector.last().number, 0u) << seed;
  }
  DriftDetector perfect;
  for (int i = 0; i < 1000; ++i) perfect.add(true);
  EXPECT_EQ(perfect.last().number, 0u);
}

}  // namespace
