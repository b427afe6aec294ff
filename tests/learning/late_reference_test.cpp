// SPDX-License-Identifier: Apache-2.0
// Targets that come after the answer, against float64 and river's order (tools/make_late_goldens.py).

#include "learning/learner.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace weft::learning::late_reference_test {
namespace {

using namespace mesh::testing_support;
using namespace test;
using kernels::Activation;

Json goldens() {
  std::stringstream text;
  text << std::ifstream(source_path("tests/data/late.json")).rdbuf();
  return parse_json(text.str(), "late.json").value();
}

std::vector<float> flat(const Json& values) {
  std::vector<float> all;
  for (const Json& row : values) {
    if (!row.is_array()) {
      all.push_back(static_cast<float>(row.get<double>()));
      continue;
    }
    for (const Json& value : row) all.push_back(static_cast<float>(value.get<double>()));
  }
  return all;
}

void write(LearningRun& run, Coord at, std::size_t index, const std::vector<float>& values) {
  mesh::WeightStore& store = run.store();
  must(store.write(store.parameters()[store.first(run.node(at)) + index], values, "golden"));
}

LearningOptions plain(Schedule schedule, Late late, const Json& golden) {
  LearningOptions options{.schedule = schedule, .optimizer = {.kind = OptimizerKind::sgd}};
  options.optimizer.lr = static_cast<float>(golden["rate"].get<double>());
  options.late = late;
  return options;
}

constexpr Coord kFirst{0, 0, 0, 0}, kSecond{0, 0, 1, 0};

class Meet : public ::testing::TestWithParam<Schedule> {};

TEST_P(Meet, MovesAsTheReferenceInFloat64) {
  const Json golden = goldens();
  const auto spec = mesh::NetworkBuilder("meet", GridShape{1, 1, 2, 1})
                        .input("x", 5)
                        .dense(kFirst, 7, Activation::tanh)
                        .dense(kSecond, 3)
                        .output("y", kSecond)
                        .spec();
  LearningRun run(spec, plain(GetParam(), Late::meet, golden));
  write(run, kFirst, 0, flat(golden["weights"][0]));
  write(run, kFirst, 1, flat(golden["weights"][1]));
  write(run, kSecond, 0, flat(golden["weights"][2]));
  write(run, kSecond, 1, flat(golden["weights"][3]));
  std::size_t taught = 0;
  for (const Json& event : golden["events"]) {
    const auto number = event[1].get<std::uint64_t>();
    if (event[0] == "observe") {
      const std::vector<float> x = flat(golden["x"][number]);
      const mesh::RunInput input{"x", x};
      ASSERT_EQ(must(run.learner->observe({&input, 1})), number);
    } else if (event[0] == "forgo") {
      must(run.learner->forgo(number));
    } else {
      const auto weight = static_cast<float>(event[4].get<double>());
      Target target{.output = "y", .weights = {&weight, 1}};
      std::vector<float> gradient;
      std::uint32_t label = 0;
      if (event[2] == "gradient")
        target.gradient = gradient = flat(event[3]);
      else
        target.labels = {&(label = event[3].get<std::uint32_t>()), 1};
      must(run.learner->teach(number, {&target, 1}));
      if (GetParam() == Schedule::settle) {
        EXPECT_NEAR(run.learner->scores().back().loss, golden["losses"][taught].get<double>(), 2e-5) << number;
        ++taught;
      }
    }
  }
  must(run.learner->drain());
  const Json& end = golden[GetParam() == Schedule::settle ? "settled" : "pipelined"];
  const auto weights = run.weights();
  ASSERT_EQ(weights.size(), 4u);
  for (std::size_t p = 0; p < 4; ++p) {
    const std::vector<float> wanted = flat(end[p]);
    ASSERT_EQ(weights[p].size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(weights[p][i], wanted[i], 3e-5) << p << ", " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Meet, ::testing::Values(Schedule::settle, Schedule::pipelined),
                         [](const auto& row) { return std::string(name(row.param)); });

TEST(LateAgain, IsRiversDelayedProgressiveValidationToTheSample) {
  const Json golden = goldens();
  for (const Json& river : golden["river"]) {
    const auto spec = mesh::NetworkBuilder("softmax", GridShape{1, 1, 1, 1})
                          .input("x", 5)
                          .dense(kFirst, 3)
                          .output("y", kFirst)
                          .spec();
    LearningRun run(spec, plain(Schedule::settle, Late::again, golden));
    write(run, kFirst, 0, std::vector<float>(15));
    write(run, kFirst, 1, std::vector<float>(3));
    const auto delay = river["delay"].get<std::uint64_t>(), count = std::uint64_t{golden["x"].size()};
    const auto teach = [&](std::uint64_t sample) {
      const auto label = golden["labels"][sample].get<std::uint32_t>();
      const Target target{"y", {&label, 1}};
      must(run.learner->teach(sample, {&target, 1}));
    };
    for (std::uint64_t s = 0; s < count; ++s) {
      if (s >= delay) teach(s - delay);
      const std::vector<float> x = flat(golden["x"][s]);
      const mesh::RunInput input{"x", x};
      ASSERT_EQ(must(run.learner->observe({&input, 1})), s);
      const auto y = must(run.learner->answer(s, "y"));
      EXPECT_EQ(std::max_element(y.begin(), y.end()) - y.begin(), river["predictions"][s].get<int>()) << s;
    }
    for (std::uint64_t s = count - delay; s < count; ++s) teach(s);
    const auto scores = run.learner->scores();
    ASSERT_EQ(scores.size(), count);
    double hits = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      EXPECT_EQ(scores[i].sample, river["order"][i].get<std::uint64_t>());
      hits += scores[i].prediction == scores[i].label;
      EXPECT_DOUBLE_EQ(hits / static_cast<double>(i + 1), river["accuracy"][i].get<double>()) << i;
    }
    const std::vector<float> wanted = flat(river["w"]);
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(run.weights()[0][i], wanted[i], 3e-5);
  }
}

}  // namespace
}  // namespace weft::learning::late_reference_test
