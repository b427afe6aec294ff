// SPDX-License-Identifier: Apache-2.0
// Drift seen by `weft run`: events, figures, the same end with and without a data directory and after kills; streams of
// `weft stream`.

#include "tests/cli/data_directory.hpp"
#include <algorithm>
#include <sstream>

namespace weft::cli_test::drift_test {
namespace {

const std::string kDrift = source_path("examples/drift.json");
const Words kRun{"run", kDrift, "--json", "--threads", "1"};

std::vector<Json> seen(const std::vector<Json>& events) {
  std::vector<Json> all;
  std::copy_if(events.begin(), events.end(), std::back_inserter(all),
               [](const Json& event) { return event["event"] == "drift_seen"; });
  return all;
}

TEST(DriftSeen, IsToldAndMeasured) {
  const Outcome ran = weft(kRun);
  ASSERT_EQ(ran.exit, 0) << ran.told();
  const Json done = ran.last();
  const auto events = seen(ran.events());
  const std::size_t changes = static_cast<std::size_t>(
      std::count_if(events.begin(), events.end(), [](const Json& event) { return event["level"] == "change"; }));
  EXPECT_EQ(done["drift"]["detector"], "hddm_a");
  EXPECT_EQ(done["drift"]["changes"], changes);
  EXPECT_EQ(done["drift"]["scores"], 28760);
  // Labels are permuted at 40 %: the first declared change, and an alarm within 200 samples.
  const Json& all = done["adaptation"]["changes"];
  const auto declared = std::find_if(all.begin(), all.end(), [](const Json& each) { return each["declared"] == true; });
  ASSERT_NE(declared, all.end());
  EXPECT_EQ((*declared)["at"], 11504);
  EXPECT_GT((*declared)["before"].get<double>(), 0.8);
  EXPECT_LT((*declared)["trough"].get<double>(), 0.8);
  EXPECT_GT((*declared)["area"].get<double>(), 10.0);
  ASSERT_TRUE((*declared)["detection_delay"].is_number());
  EXPECT_LT((*declared)["detection_delay"].get<int>(), 200);
  EXPECT_EQ(std::count_if(events.begin(), events.end(),
                          [](const Json& event) {
                            return event["level"] == "change" && event["sample"] >= 11504 && event["sample"] < 11704;
                          }) > 0,
            true);
}

// The rates rise: as many samples without it end elsewhere.
TEST(DriftSeen, ChangesWhatIsLearnedAfterwards) {
  Folder folder;
  Json network = Json::parse(read_file(kDrift));
  network["learning"]["drift"]["rate_boost"] = 1;
  network["stream"]["csv"] = source_path("examples/data/digits.csv.gz");
  write_file(folder / "n.json", network.dump());
  const Json plain = weft({"run", folder / "n.json", "--json", "--threads", "1"}).last(), risen = weft(kRun).last();
  EXPECT_NE(plain["state_hash"], risen["state_hash"]);
  EXPECT_EQ(plain["drift"]["changes"], 1);
  EXPECT_EQ(risen["drift"]["changes"], 1);
}

// Reactions stand where the samples are, not where blocks or kills end them.
TEST(DriftSeen, EndsInTheSameStateWhereverItIsKilled) {
  Folder folder;
  expect_same_end_after_kills(kRun, folder / "agent", "1000",
                              {"state_hash", "drift", "adaptation", "held_out_accuracy"});
}

TEST(DriftSeen, IsRefusedInWordsWhereTheOptionsContradictEachOther) {
  Folder folder;
  Json network = Json::parse(read_file(kDrift));
  network["learning"]["drift"]["rate_boost"] = 3;
  write_file(folder / "n.json", network.dump());
  const Outcome refused = weft({"run", folder / "n.json"});
  EXPECT_EQ(refused.exit, 2);
  EXPECT_NE(refused.err.find("learning.drift.rate_boost: 3 is no power of two"), std::string::npos) << refused.err;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Stream, PrintsTheSameTableLongerOrShorter) {
  for (const char* const kind : {"sea", "hyperplane", "agrawal", "friedman", "led", "slowly_changing"}) {
    const Words words{"stream", kind, "--seed", "3", "--change-every", "20", "--width", "5", "--samples"};
    const auto shorter = lines_of(weft(words + Words{"30"}).out), longer = lines_of(weft(words + Words{"60"}).out);
    ASSERT_EQ(shorter.size(), 31u) << kind;
    ASSERT_EQ(longer.size(), 61u) << kind;
    EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin())) << kind;
    const bool is_value = kind == std::string("friedman") || kind == std::string("slowly_changing");
    const std::string last = is_value ? "value" : "class";
    EXPECT_TRUE(shorter[0].ends_with("," + last)) << shorter[0];
  }
}

TEST(Stream, RefusesATaskThatThereIsNot) {
  const Outcome refused = weft({"stream", "led", "--first", "5"});
  EXPECT_EQ(refused.exit, 2);
  EXPECT_NE(refused.err.find("--first: 5; led has tasks 0 to 4"), std::string::npos) << refused.err;
  EXPECT_EQ(weft({"stream", "waves"}).exit, 2);
}

}  // namespace
}  // namespace weft::cli_test::drift_test
