// SPDX-License-Identifier: Apache-2.0

// weft run --learners: each learner takes a sample of its own, so that an update is of a minibatch.

#include "tests/cli/data_directory.hpp"

namespace weft::cli_test::learners_test {
namespace {

Words batches(const std::string& schedule, const Words& more, const std::string& samples = "12001") {
  return Words{"run",        kDigits,  "--json",        "--quiet", "--rule", "backprop",
               "--schedule", schedule, "--max-samples", samples,   "--lr",   "0.1"} +
         more;
}

class Learners : public testing::TestWithParam<const char*> {};

TEST_P(Learners, GiveTheSameBitsOnAnyThreadsAndLearn) {
  const Json whole = weft(batches(GetParam(), {"--learners", "16", "--threads", "1"})).last();
  EXPECT_EQ(whole["samples"], 12000) << "a rest that fills no minibatch is left out";
  EXPECT_GE(whole["held_out_accuracy"].get<double>(), 0.9);
  for (const Words& other : {Words{"--threads", "4"}, Words{"--threads", "3", "--executor", "graph"},
                             Words{"--executor", "deterministic"}}) {
    const Json again = weft(batches(GetParam(), Words{"--learners", "16"} + other)).last();
    EXPECT_EQ(again["state_hash"], whole["state_hash"]) << other[1];
    EXPECT_EQ(again["prequential_accuracy"], whole["prequential_accuracy"]);
  }
  // Sessions that look on change no weight, and not the first session.
  EXPECT_EQ(weft(batches(GetParam(), {"--learners", "16", "--sessions", "20"})).last()["state_hash"],
            whole["state_hash"]);
  EXPECT_NE(weft(batches(GetParam(), {"--learners", "15"})).last()["state_hash"], whole["state_hash"]);
}

TEST_P(Learners, KilledTheyGoOnToTheSameHash) {
  const Words run = batches(GetParam(), {"--learners", "7", "--epochs", "40"}, "50000");
  const Json whole = weft(run).last();
  ASSERT_EQ(whole["samples"], 49994);
  Folder folder;
  const Words kept = run + Words{"--state", folder / "a", "--checkpoint-every", "5000"};
  for (int i = 0; i < 3; ++i) {
    Process process(kept);
    wait_for_progress(process);
    process.send(SIGKILL);
    process.wait();
  }
  const Outcome last = weft(kept);
  ASSERT_EQ(last.exit, 0) << last.told();
  EXPECT_EQ(last.last()["state_hash"], whole["state_hash"]);
  EXPECT_EQ(last.last()["prequential_accuracy"], whole["prequential_accuracy"]);
  EXPECT_EQ(weft({"replay", folder / "a", "--verify"}).exit, 0);
  const Outcome other =
      weft(batches(GetParam(), {"--learners", "8", "--epochs", "40", "--state", folder / "a"}, "50000"));
  EXPECT_EQ(other.exit, 2) << other.told();
  EXPECT_NE(other.err.find("learners"), std::string::npos) << other.err;
}

INSTANTIATE_TEST_SUITE_P(Schedules, Learners, testing::Values("settle", "pipelined"));

TEST(LearnersRefusals, AreRefusedInWordsWhereTheyDoNotFit) {
  const std::vector<std::pair<Words, std::string>> bad{
      {{"--learners", "4000", "--max-samples", "3000"}, "4000 learners"},
      {{"--learners", "4", "--sessions", "3"}, "--sessions 3"},
      {{"--learners", "4", "--rate", "100"}, "--learners 1"},
      {{"--learners", "0"}, "0"},
      {{"--sessions", "65537"}, "65537"},
  };
  for (const auto& [flags, named] : bad) {
    const Outcome refused = weft(Words{"run", kDigits, "--quiet"} + flags);
    EXPECT_EQ(refused.exit, 2) << refused.told();
    EXPECT_NE(refused.err.find(named), std::string::npos) << refused.err;
  }
  Folder folder;
  const Words kept{"run", kDigits, "--quiet", "--max-samples", "100", "--state", folder / "a"};
  ASSERT_EQ(weft(kept + Words{"--sessions", "3"}).exit, 0);
  ASSERT_EQ(weft(kept).exit, 0) << "without the flag it goes on with those that it has";
  const Outcome other = weft(kept + Words{"--sessions", "2"});
  EXPECT_EQ(other.exit, 2) << other.told();
  EXPECT_NE(other.err.find("has 3"), std::string::npos) << other.err;
}

TEST(LearningSection, ComesFromAFileOfItsOwnAndFrozenLayersStay) {
  Folder folder;
  const std::string section = folder / "learning.json", network = folder / "digits.json";
  write_file(section, R"({"rule": "dfa", "optimizer": {"type": "adamw", "lr": 0.002}, "lora": {"rank": 2}})");
  Json whole = Json::parse(read_file(kDigits));
  whole["learning"] = Json::parse(read_file(section));
  for (Json& layer : whole["layers"])
    if (layer["at"] == Json({0, 0, 1, 0})) layer["freeze"] = true;
  write_file(network, whole.dump());
  const Words flags{"--json", "--quiet", "--max-samples", "300", "--data", source_path("examples/data/digits.csv.gz")};
  const Json by_flags = weft(Words{"run", kDigits, "--learning", section, "--freeze", "0,0,1,0"} + flags).last();
  EXPECT_EQ(by_flags["rule"], "dfa");
  EXPECT_EQ(by_flags["state_hash"], weft(Words{"run", network} + flags).last()["state_hash"]);
  EXPECT_NE(by_flags["state_hash"], weft(Words{"run", kDigits, "--learning", section} + flags).last()["state_hash"]);
  write_file(section, R"({"rule": "none"})");
  for (const auto& [wrong, named] : {std::pair{Words{"--learning", section}, "learning.json: learning.rule"},
                                     {Words{"--learning", folder / "absent"}, "absent: cannot open"},
                                     {Words{"--freeze", "9,9,9,9"}, "--freeze 9,9,9,9: no layer"},
                                     {Words{"--freeze", "first"}, "--freeze first: is no place"}}) {
    const Outcome refused = weft(Words{"run", kDigits} + wrong);
    EXPECT_NE(refused.exit, 0) << refused.told();
    EXPECT_NE(refused.err.find(named), std::string::npos) << refused.err;
  }
}

}  // namespace
}  // namespace weft::cli_test::learners_test
