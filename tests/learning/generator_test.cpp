// SPDX-License-Identifier: Apache-2.0
// Generators of streams against a reference in Python (tools/make_drift_goldens.py), and what each stream must be.

#include "learning/generators/generator.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include "tests/mesh/testing.hpp"
#include "tests/support/source_path.hpp"
#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace weft::learning::generator_test {
namespace {

using mesh::testing_support::must;

std::vector<GeneratorKind> kinds() {
  std::vector<GeneratorKind> all;
  for (std::size_t i = 0; i < generator_names().size(); ++i) all.push_back(static_cast<GeneratorKind>(i));
  return all;
}

TEST(Generator, MakesTheSamplesOfTheReference) {
  std::ifstream file(source_path("tests/data/drift.json"));
  std::stringstream text;
  text << file.rdbuf();
  const Json all = must(parse_json(text.str(), "drift.json"));
  for (const GeneratorKind kind : kinds()) {
    const auto generator = make_generator({.kind = kind, .seed = 7, .change_every = 40, .width = 20});
    const Json& rows = all["samples"][std::string(name(kind))];
    ASSERT_GT(rows.size(), 100u) << name(kind);
    std::vector<float> x(generator->shape().features.size());
    for (std::size_t n = 0; n < rows.size(); ++n) {
      EXPECT_EQ(generator->task_of(n), rows[n][0].get<std::uint64_t>()) << name(kind) << " " << n;
      float y = 0;
      generator->next(x, y);
      const auto target = rows[n][2].get<double>();
      if (generator->shape().classes > 0)
        ASSERT_EQ(y, static_cast<float>(target)) << name(kind) << " " << n;
      else
        ASSERT_NEAR(y, target, 1e-5) << name(kind) << " " << n;
      for (std::size_t i = 0; i < rows[n][1].size(); ++i) {
        const auto wanted = rows[n][1][i].get<double>();
        ASSERT_NEAR(x[i], wanted, 1e-6 * std::max(1.0, std::fabs(wanted))) << name(kind) << " " << n << " " << i;
      }
    }
  }
}

TEST(Generator, BeginsWithTheTaskAskedForAndKeepsIt) {
  std::vector<float> x(3), other(3);
  float y = 0, second = 0;
  // Bounds 8 and 9.5: of 1,000 samples without noise some lie between them, and have other labels.
  const auto low = make_generator({.seed = 1, .noise = 0.0f}),
             high = make_generator({.seed = 1, .first = 3, .noise = 0.0f});
  std::size_t differ = 0;
  for (int n = 0; n < 1000; ++n) {
    low->next(x, y);
    high->next(other, second);
    ASSERT_EQ(x, other);
    ASSERT_EQ(y, x[0] + x[1] > 8.0f ? 1.0f : 0.0f);
    ASSERT_EQ(second, x[0] + x[1] > 9.5f ? 1.0f : 0.0f);
    differ += y != second;
  }
  EXPECT_GT(differ, 80u);
  EXPECT_EQ(high->task_of(UINT64_MAX), 3u);
}

TEST(Generator, ReplacesATaskMoreAndMoreOften) {
  const auto generator = make_generator({.seed = 2, .change_every = 10'000, .width = 4000});
  std::size_t before = 0, early = 0, late = 0;
  for (std::uint64_t n = 0; n < 10'000; ++n) before += generator->task_of(n) != 0;
  for (std::uint64_t n = 0; n < 1000; ++n) {
    early += generator->task_of(10'000 + n);
    late += generator->task_of(13'000 + n);
  }
  EXPECT_EQ(before, 0u);
  EXPECT_NEAR(static_cast<double>(early), 125, 50);  // 1/8 in the mean
  EXPECT_NEAR(static_cast<double>(late), 875, 50);
  EXPECT_EQ(generator->task_of(14'000), 1u);
}

TEST(Generator, HasNoiseOfTheShareAskedFor) {
  for (const GeneratorKind kind : {GeneratorKind::sea, GeneratorKind::hyperplane, GeneratorKind::agrawal}) {
    const auto plain = make_generator({.kind = kind, .seed = 3, .noise = 0.0f, .magnitude = 0.0f}),
               noisy = make_generator({.kind = kind, .seed = 3, .noise = 0.25f, .magnitude = 0.0f});
    std::vector<float> x(plain->shape().features.size());
    float y = 0, other = 0;
    std::size_t wrong = 0;
    for (int n = 0; n < 4000; ++n) {
      plain->next(x, y);
      noisy->next(x, other);
      wrong += y != other;
    }
    EXPECT_NEAR(static_cast<double>(wrong), 1000, 110) << name(kind);  // four standard deviations
  }
}

}  // namespace
}  // namespace weft::learning::generator_test
