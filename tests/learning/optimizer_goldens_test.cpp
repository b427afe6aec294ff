// SPDX-License-Identifier: Apache-2.0

#include "learning/options.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/isa.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/rate_schedule.hpp"

#include "core/assert.hpp"

#include <gtest/gtest.h>

#include "tests/support/source_path.hpp"
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

/// Optimisers, clipping and schedules against PyTorch 1.13 in float64 (tools/make_optimizer_goldens.py).
namespace weft::learning::optimizer_goldens_test {
namespace {

struct Line {
  std::string kind, options;
  std::vector<double> numbers;
};

std::vector<Line> read_lines() {
  std::ifstream in(source_path("tests/data/optimizers.txt"));
  std::vector<Line> lines;
  for (std::string text; std::getline(in, text);) {
    std::istringstream parts(text);
    Line& line = lines.emplace_back();
    std::getline(parts, line.kind, '\t');
    std::getline(parts, line.options, '\t');
    for (double number = 0; parts >> number;) line.numbers.push_back(number);
  }
  return lines;
}

std::vector<Line> lines_of(const std::string& kind) {
  std::vector<Line> found = read_lines();
  std::erase_if(found, [&](const Line& line) { return line.kind != kind; });
  return found;
}

std::vector<float> floats(const std::vector<double>& from) { return {from.begin(), from.end()}; }

/// The weights after a step for each of the gradients.
std::vector<float> train(const OptimizerOptions& options, std::vector<float> w, const std::vector<Line>& gradients) {
  const kernels::FlushSubnormals flush;
  const std::size_t n = w.size();
  std::vector<std::vector<float>> state(3, std::vector<float>(n));
  const auto array = [&](std::size_t i) { return i < kernels::arrays_of(options) ? state[i].data() : nullptr; };
  std::uint64_t updates = 0;
  for (const Line& line : gradients) {
    const std::vector<float> g = floats(line.numbers);
    float factors[kernels::kOptimizerFactors], squares = 0;
    kernels::optimizer_factors(&updates, options.lr, options.beta1, options.beta2, {}, factors);
    for (const float x : g) squares = std::fma(x, x, squares);
    kernels::optimizer_step(
        {n, w.data(), array(0), array(1), array(2), g.data(), kernels::counts_updates(options) ? factors : nullptr,
         options.clip == Clip::norm ? &squares : nullptr},
        options);
  }
  return w;
}

TEST(OptimizerGoldens, EveryOptimizerFollowsPyTorch) {
  const std::vector<float> start = floats(lines_of("start").at(0).numbers);
  const std::vector<Line> gradients = lines_of("gradient");
  ASSERT_EQ(gradients.size(), 40u);
  std::set<OptimizerKind> seen;
  std::set<Clip> clips;
  for (const kernels::Isa isa : kernels::available_isas()) {
    ASSERT_TRUE(kernels::set_active_isa(isa));
    for (const Line& line : lines_of("optimizer")) {
      const auto options = read_learning(R"({"optimizer": )" + line.options + "}");
      ASSERT_TRUE(options) << options.error().text();
      seen.insert(options->optimizer.kind);
      clips.insert(options->optimizer.clip);
      const std::vector<float> found = train(options->optimizer, start, gradients);
      ASSERT_EQ(found.size(), line.numbers.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_NEAR(static_cast<double>(found[i]), line.numbers[i], 4e-6) << line.options << ", weight " << i;
    }
  }
  EXPECT_EQ(seen.size(), kernels::optimizer_names().size()) << "an optimiser without a reference";
  EXPECT_EQ(clips, (std::set{Clip::none, Clip::value, Clip::norm}));
}

TEST(OptimizerGoldens, EveryScheduleFollowsPyTorch) {
  const kernels::FlushSubnormals flush;
  std::set<RateScheduleKind> seen;
  for (const Line& line : lines_of("schedule")) {
    const auto options = read_learning(R"({"rate_schedule": )" + line.options + "}");
    ASSERT_TRUE(options) << options.error().text();
    seen.insert(options->rate_schedule.kind);
    ASSERT_EQ(line.numbers.size(), 50u);
    for (std::size_t n = 0; n < line.numbers.size(); ++n)
      EXPECT_NEAR(static_cast<double>(kernels::rate_share(options->rate_schedule, n)), line.numbers[n], 4e-7)
          << line.options << ", update " << n;
  }
  EXPECT_EQ(seen.size(), kernels::rate_schedule_names().size()) << "a schedule without a reference";
}

// Past the end of the references the last rate stays, also when updates are no longer counted.
TEST(OptimizerGoldens, SchedulesEndWhereTheySay) {
  const kernels::FlushSubnormals flush;
  using enum RateScheduleKind;
  for (const std::uint64_t n : {std::uint64_t{100}, std::uint64_t{101}, std::uint64_t{1} << 31, std::uint64_t{1} << 40})
    for (const RateScheduleKind kind : {linear, cosine, polynomial}) {
      const RateSchedule s{.kind = kind, .updates = 100, .end = 0.25f, .power = 2.0f};
      EXPECT_EQ(kernels::rate_share(s, n), 0.25f) << name(kind) << " " << n;
      RateSchedule late = s;
      late.warmup = 7;
      EXPECT_NE(kernels::rate_share(late, 106), 0.25f) << name(kind);
      EXPECT_EQ(kernels::rate_share(late, n + 7), 0.25f) << name(kind) << " " << n;
    }
  // Periods of 1, 1024, 1024^2, ...: the fourth is longer than updates are counted.
  const RateSchedule restarts{.kind = warm_restarts, .updates = 1, .growth = 1024};
  EXPECT_EQ(kernels::rate_share(restarts, 1), 1.0f);
  EXPECT_EQ(kernels::rate_share(restarts, 1025), 1.0f);
  EXPECT_GT(kernels::rate_share(restarts, std::uint64_t{1} << 32), 0.0f);
  EXPECT_EQ(kernels::rate_share({.kind = exponential, .factor = 0.5f}, 4000), 0.0f) << "below the smallest number";
}

}  // namespace
}  // namespace weft::learning::optimizer_goldens_test
