// SPDX-License-Identifier: Apache-2.0
// The examples besides digits.json: what they learn, and that the long ones run.

#include "tests/cli/program.hpp"

namespace weft::cli_test::examples_test {
namespace {

std::string example(const std::string& name) { return source_path("examples/") + name + ".json"; }

Json last_event(const Words& words) {
  const Outcome outcome = weft(words);
  EXPECT_EQ(outcome.exit, 0) << outcome.told();
  const auto events = outcome.events();
  return events.empty() ? Json() : Json(events.back());
}

struct Bound {
  const char* name;
  double accuracy;
};

// Means of five seeds: 98.9, 98.5, 98.3 and 98.2 % (README). One seed here, so that the bounds are those asked for.
TEST(Examples, LearnTheDigitsByBackprop) {
  for (const auto& [name, accuracy] :
       {Bound{"digits_cnn", 0.97}, {"digits_gru", 0.95}, {"digits_transformer", 0.96}, {"digits_moe", 0.96}}) {
    const Json done = last_event({"run", example(name), "--json"});
    ASSERT_EQ(done["event"], "done") << name;
    EXPECT_GE(done["held_out_accuracy"].get<double>(), accuracy) << name;
  }
}

TEST(Examples, RunTheMixersOfThePlanetbridging) {
  for (const char* const name : {"mixer_v1", "mixer_v2"}) {
    const Json done = last_event({"run", example(name), "--json", "--max-samples", "300"});
    ASSERT_EQ(done["event"], "done") << name;
    EXPECT_EQ(done["samples"], 300) << name;
    const Json shown = last_event({"inspect", example(name), "--json"});
    EXPECT_EQ(shown["layers"].size(), 10u) << name;
  }
}

TEST(Examples, EndInOneStateOnAnyNumberOfThreads) {
  for (const char* const name : {"digits_cnn", "digits_transformer", "mixer_v1", "mixer_v2"}) {
    const Words words{"run", example(name), "--json", "--max-samples", "200", "--threads"};
    const Json one = last_event(words + Words{"1"}), two = last_event(words + Words{"2"});
    EXPECT_EQ(one["state_hash"], two["state_hash"]) << name;
  }
}

}  // namespace
}  // namespace weft::cli_test::examples_test
