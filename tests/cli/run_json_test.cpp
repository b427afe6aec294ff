// SPDX-License-Identifier: Apache-2.0
// Events of `weft run --json`, which scripts rely on.

#include "tests/cli/program.hpp"
#include <algorithm>
#include <cctype>

namespace weft::cli_test::run_json_test {
namespace {

const Words kShort{"run", kDigits, "--json", "--max-samples", "3000"};

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> out;
  for (const auto& [key, value] : object.items()) out.push_back(key);
  return out;
}

/// Keys on which two equal runs must agree.
Json lasting(Json done) {
  done.erase("ticks_per_second");
  return done;
}

TEST(RunJson, EndsWithDoneAndItsKeysInOrder) {
  const Outcome ran = weft(kShort);
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  const Json done = ran.last();
  const std::vector<std::string> expected{"event",
                                          "rule",
                                          "held_out_accuracy",
                                          "held_out",
                                          "validation",
                                          "prequential_accuracy",
                                          "mean_loss",
                                          "state_hash",
                                          "ticks",
                                          "ticks_per_second",
                                          "samples",
                                          "recovery_samples",
                                          "clock",
                                          "drift",
                                          "anomaly",
                                          "adaptation",
                                          "tasks",
                                          "device"};
  EXPECT_EQ(keys(done), expected);
  EXPECT_EQ(done["event"], "done");
  EXPECT_EQ(done["rule"], "fw_dtp");
  EXPECT_EQ(done["samples"], 3000);
  EXPECT_GT(done["ticks"], 3000);
  EXPECT_GT(done["ticks_per_second"], 0.0);
  EXPECT_GT(done["held_out_accuracy"], 0.5);
  EXPECT_LE(done["held_out_accuracy"], 1.0);
  EXPECT_GT(done["prequential_accuracy"], 0.5);
  const std::string hash = done["state_hash"];
  EXPECT_EQ(hash.size(), 32u);
  EXPECT_TRUE(
      std::all_of(hash.begin(), hash.end(), [](unsigned char c) { return std::isxdigit(c) && !std::isupper(c); }));
}

TEST(RunJson, TellsStartProgressAndShiftOnTheWay) {
  const auto events = weft(kShort).events();
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events.front()["event"], "start");
  EXPECT_EQ(events.front()["schedule"], "pipelined");
  EXPECT_EQ(events.front()["held_out"], 359);
  EXPECT_EQ(events.front()["training_set"], 1438);
  EXPECT_EQ(events.front()["lr"], 0.03);
  std::uint64_t last = 0;
  int progress = 0, drift = 0;
  for (const Json& event : events) {
    if (event["event"] == "progress") {
      ++progress;
      EXPECT_GT(event["samples"], last);
      last = event["samples"];
      for (const char* key : {"total", "ticks", "ticks_per_second", "samples_per_second", "prequential_accuracy"})
        EXPECT_TRUE(event.contains(key)) << key;
    } else if (event["event"] == "drift") {
      ++drift;
      EXPECT_EQ(event["kind"], "labels");
      EXPECT_GE(event["samples"], 1200);
      EXPECT_LT(event["samples"], 1500);
    }
  }
  EXPECT_GE(progress, 10);
  EXPECT_EQ(drift, 1);
  EXPECT_EQ(last, 3000u);
}

TEST(RunJson, SaysNullWhereNothingWasHeldOutOrRecovered) {
  Folder folder;
  Json network = digits_json();
  network["stream"].erase("drift");
  write_file(folder / "n.json", network.dump());
  const Json done = weft({"run", folder / "n.json", "--json", "--max-samples", "300", "--held-out", "0"}).last();
  EXPECT_TRUE(done["held_out_accuracy"].is_null()) << done;
  EXPECT_TRUE(done["recovery_samples"].is_null()) << done;
}

TEST(RunJson, FallsAtTheShiftAndRecovers) {
  const Outcome ran = weft({"run", kDigits, "--json"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  double before = 0, lowest = 1;
  for (const Json& event : ran.events()) {
    if (event["event"] == "drift") before = event["prequential_accuracy"];
    if (event["event"] == "progress" && before > 0)
      lowest = std::min(lowest, event["prequential_accuracy"].get<double>());
  }
  EXPECT_GT(before, 0.95);
  EXPECT_LT(lowest, before - 0.15);  // three labels of ten change
  const Json done = ran.last();
  ASSERT_FALSE(done["recovery_samples"].is_null());
  EXPECT_LT(done["recovery_samples"], 14380);
  EXPECT_GT(done["prequential_accuracy"], 0.9);
}

TEST(RunJson, IsTheSameOnEveryThreadCountExecutorAndInstructionSet) {
  const Words run{"run", kDigits, "--json", "--max-samples", "600"};
  const Json expected = lasting(weft(run).last());
  ASSERT_EQ(expected["event"], "done");
  for (const Words& more :
       {Words{"--threads", "1"}, Words{"--threads", "2"}, Words{"--threads", "5"}, Words{"--executor", "deterministic"},
        Words{"--executor", "resident"}, Words{"--executor", "graph"}, Words{"--device", "cpu"}})
    EXPECT_EQ(lasting(weft(run + more).last()), expected) << more[0] << " " << more[1];
  const Json doctor = weft({"doctor", "--json"}).last();
  for (const std::string isa : doctor["isa"]["available"])
    EXPECT_EQ(lasting(weft(run, {{"WEFT_ISA", isa}}).last()), expected) << isa;
}

TEST(RunJson, RunsEveryRuleUnderBothSchedules) {
  for (const char* rule :
       {"backprop", "gap", "chain", "fw_dtp", "dfa", "dtp", "sdtp", "local_ce", "gap_difference", "chain_original"})
    for (const char* schedule : {"settle", "pipelined"}) {
      const Outcome ran =
          weft({"run", kDigits, "--json", "--max-samples", "200", "--rule", rule, "--schedule", schedule});
      ASSERT_EQ(ran.exit, 0) << ran.err;
      EXPECT_EQ(ran.events().front()["schedule"], schedule);
      EXPECT_EQ(ran.last()["rule"], rule);
    }
}

TEST(RunJson, TakesAnotherRulesOwnRateUnlessToldOtherwise) {
  Folder folder;
  Json network = digits_json();
  network["learning"] = {{"rule", "gap"}, {"schedule", "pipelined"}};
  write_file(folder / "gap.json", network.dump());
  const Words bound{"--json", "--max-samples", "200"};
  const Json own = lasting(weft(Words{"run", folder / "gap.json"} + bound).last());
  EXPECT_EQ(lasting(weft(Words{"run", kDigits, "--rule", "gap"} + bound).last()), own);
  EXPECT_NE(lasting(weft(Words{"run", kDigits, "--rule", "gap", "--lr", "0.03"} + bound).last()), own);
  EXPECT_EQ(weft(Words{"run", kDigits, "--rule", "gap", "--lr", "0.03"} + bound).events().front()["lr"], 0.03);
}

TEST(RunJson, ReadsEveryFlagFromTheEnvironmentToo) {
  const Words bound{"run", kDigits, "--json", "--max-samples", "400"};
  const std::vector<std::pair<std::string, std::string>> flags{
      {"rule", "dfa"},   {"schedule", "settle"}, {"lr", "0.01"},       {"seed", "7"},
      {"epochs", "3"},   {"held-out", "0.5"},    {"threads", "1"},     {"executor", "deterministic"},
      {"device", "cpu"}, {"quiet", "true"},      {"max-samples", "90"}};
  for (const auto& [flag, value] : flags) {
    std::string variable = "WEFT_ARG_";
    for (const char c : flag)
      variable += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    Words by_flag{"run", kDigits, "--json", "--" + flag};
    if (flag != "quiet") by_flag.push_back(value);
    Words by_variable{"run", kDigits, "--json"};
    if (flag != "max-samples")
      for (Words* each : {&by_flag, &by_variable}) *each = *each + Words{"--max-samples", "400"};
    const Outcome first = weft(by_flag), second = weft(by_variable, {{variable, value}});
    ASSERT_EQ(first.exit, 0) << flag << first.err;
    ASSERT_EQ(second.exit, 0) << variable << second.err;
    EXPECT_EQ(lasting(first.last()), lasting(second.last())) << variable;
  }
  EXPECT_EQ(weft({"run", kDigits}, {{"WEFT_ARG_MAX_SAMPLES", "90"}, {"WEFT_ARG_JSON", "1"}}).last()["samples"], 90);
  EXPECT_EQ(weft(bound, {{"WEFT_ARG_MAX_SAMPLES", "90"}}).last()["samples"], 400) << "the command line wins";
}

TEST(RunJson, NamesATwinForEveryFlagInItsHelp) {
  const std::string help = weft({"run", "--help"}).out;
  for (const char* variable :
       {"RULE", "SCHEDULE", "EPOCHS", "SEED", "THREADS", "DEVICE", "EXECUTOR", "HELD_OUT", "MAX_SAMPLES", "SAVE",
        "CHECKPOINT", "CHECKPOINT_EVERY", "RESUME", "JSON", "QUIET", "LR"})
    EXPECT_NE(help.find("(Env:WEFT_ARG_" + std::string(variable) + ")"), std::string::npos) << variable;
}

TEST(RunJson, NotesHiddenStateThatGetsNoErrors) {
  Folder folder;
  const auto notes = [&](const std::string& learning) {
    write_file(folder / "n.json", R"({"weft": 2, "name": "n", "inputs": {"x": [64]}, "chain": [
      {"type": "sequential", "layers": [{"type": "gru", "out": 8}]}, {"type": "dense", "out": 10}],
      "learning": )" + learning + R"(, "stream": {"csv": ")" +
                                      source_path("examples/data/digits.csv.gz") + R"(", "scale": 0.0625}})");
    const Outcome run = weft({"run", folder / "n.json", "--json", "--max-samples", "20"});
    EXPECT_EQ(run.exit, 0) << run.told();
    std::string all;
    for (const Json& event : run.events())
      if (event["event"] == "note") all += event["text"].get<std::string>() + "\n";
    return all;
  };
  EXPECT_EQ(notes(R"({"rule": "fw_dtp"})").find("hidden state"), std::string::npos);
  const std::string by_dfa = notes(R"({"rule": "dfa"})"), cut = notes(R"({"horizon": 2})");
  EXPECT_NE(by_dfa.find("sequential at [0,0,0,0]: learning gets no errors from later ticks through hidden state, since "
                        "the rule 'dfa' sends none there"),
            std::string::npos)
      << by_dfa;
  EXPECT_NE(cut.find("learning.horizon 2 ends before"), std::string::npos) << cut;
  const std::string none = notes(R"({"horizon": 1})");
  EXPECT_NE(none.find("sequential at [0,0,0,0]: no error gets there, and nothing is learned, since learning.horizon 1"),
            std::string::npos)
      << none;
}

TEST(RunJson, MeasuresLayersWithAProbeAndChangesNothing) {
  Words probed = kShort;
  probed.insert(probed.end(), {"--probe", "100"});
  const Json done = weft(probed).last(), plain = weft(kShort).last();
  EXPECT_EQ(done["state_hash"], plain["state_hash"]);
  EXPECT_FALSE(plain.contains("plasticity"));
  ASSERT_EQ(done["plasticity"].size(), 4u) << done;
  for (const Json& layer : done["plasticity"]) {
    EXPECT_EQ(keys(layer), (std::vector<std::string>{"layer", "dormant", "effective_rank", "weight_norm"}));
    EXPECT_GE(layer["dormant"], 0.0);
    EXPECT_LT(layer["dormant"], 0.5);
    EXPECT_GT(layer["effective_rank"], 3);
    EXPECT_LE(layer["effective_rank"], 64);
    EXPECT_GT(layer["weight_norm"], 1.0);
  }
  probed.insert(probed.end(), {"--threads", "1"});
  const Outcome again = weft(probed);
  EXPECT_EQ(again.last()["plasticity"], done["plasticity"]);
  // While it goes on too, as often as there is time.
  const auto events = again.events();
  const auto progress =
      std::find_if(events.begin(), events.end(), [](const Json& event) { return event["event"] == "progress"; });
  ASSERT_NE(progress, events.end());
  ASSERT_EQ((*progress)["plasticity"].size(), 4u) << *progress;
  EXPECT_EQ((*progress)["plasticity"][0]["layer"], done["plasticity"][0]["layer"]);
  Words text{"run", kDigits, "--max-samples", "500", "--quiet", "--probe", "20"};
  const Outcome told = weft(text);
  EXPECT_NE(told.out.find(" dormant, rank "), std::string::npos) << told.told();
}

}  // namespace
}  // namespace weft::cli_test::run_json_test
