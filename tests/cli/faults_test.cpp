// SPDX-License-Identifier: Apache-2.0
// Cells that fail or hang, as those who watch a run learn of them.

#include "tests/cli/agent.hpp"
#include <algorithm>

namespace weft::cli_test::faults_test {
namespace {

/// Digits so large that the first cell's sums overflow at every sample.
std::string overflowing(const Folder& folder, const std::string& policy) {
  Json network = digits_json();
  network["stream"]["scale"] = 2e37;
  network["supervision"] = {{"policy", policy}, {"max_restarts", 2}, {"window", 0}, {"escalation", "isolate"}};
  for (Json& layer : network["layers"])
    if (layer["at"] == Json{0, 0, 0, 0}) layer["activation"] = "linear";
  write_file(folder / "n.json", network.dump());
  return folder / "n.json";
}

std::vector<Json> of_kind(const Outcome& run, const std::string& event) {
  auto all = run.events();
  std::erase_if(all, [&](const Json& each) { return each["event"] != event; });
  return all;
}

TEST(Faults, AreEventsAndLogLinesWithPlaceTickKindAndDecision) {
  Folder folder;
  const Outcome run =
      weft({"run", overflowing(folder, "restart"), "--json", "--max-samples", "300", "--log", folder / "log"});
  ASSERT_EQ(run.exit, 0) << run.told();
  const auto faults = of_kind(run, "fault");
  ASSERT_EQ(faults.size(), 3u) << run.told();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(faults[i]["cell"], Json({0, 0, 0}));
    EXPECT_EQ(faults[i]["kind"], "output_not_finite");
    EXPECT_TRUE(faults[i]["reason"].is_null());
    EXPECT_EQ(faults[i]["decision"], i < 2 ? "restart" : "isolate");
    EXPECT_EQ(faults[i]["escalated"], i == 2);
    EXPECT_EQ(faults[i]["restarts_used"], std::min(i + 1, 2));
    EXPECT_TRUE(i == 0 || faults[i]["tick"] > faults[i - 1]["tick"]) << faults[i];
  }
  const auto standings = of_kind(run, "supervision");
  ASSERT_EQ(standings.size(), 1u) << run.told();
  EXPECT_EQ(standings[0]["cell"], Json({0, 0, 0}));
  EXPECT_EQ(standings[0]["was"], "running");
  EXPECT_EQ(standings[0]["status"], "isolated");
  EXPECT_EQ(standings[0]["faults"], 3);
  EXPECT_EQ(standings[0]["restarts"], 2);
  for (const std::string& text : {run.err, read_file(folder / "log")}) {
    EXPECT_NE(text.find("cell [0,0,0] failed at tick 0 (output_not_finite): restart, restart 1 of 2"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("isolate, as no restart is left"), std::string::npos) << text;
  }
}

TEST(Faults, ThatHaltTheMeshAreToldOnceBeforeTheError) {
  Folder folder;
  const Outcome run = weft({"run", overflowing(folder, "halt"), "--json", "--max-samples", "300"});
  EXPECT_EQ(run.exit, 1) << run.told();
  EXPECT_EQ(of_kind(run, "fault").size(), 1u) << run.told();
  EXPECT_EQ(run.last()["event"], "error");
  EXPECT_EQ(run.last()["code"], "halted");
}

TEST(Faults, WithoutEndAreCountedRatherThanTold) {
  Folder folder;
  const Outcome run = weft({"run", overflowing(folder, "hold"), "--json", "--max-samples", "3000"});
  ASSERT_EQ(run.exit, 0) << run.told();
  std::uint64_t told = of_kind(run, "fault").size(), untold = 0;
  for (const Json& each : of_kind(run, "faults_dropped")) untold += each["count"].get<std::uint64_t>();
  EXPECT_GT(told, 0u);
  EXPECT_GT(untold, told);
  EXPECT_LT(run.events().size(), 1500u) << "3,000 samples fail";
}

/// One layer whose step takes far longer than a millisecond.
std::string heavy(const Folder& folder) {
  Json network = digits_json();
  for (Json& layer : network["layers"])
    if (layer["at"] == Json{0, 0, 0, 0} || layer["at"] == Json{0, 0, 1, 0}) layer["out"] = 6000;
  network["stream"].erase("drift");
  write_file(folder / "n.json", network.dump());
  return folder / "n.json";
}

TEST(Hangs, AreEventsThatNameCellTickAndTime) {
  Folder folder;
  const Outcome run = weft({"run", heavy(folder), "--json", "--max-samples", "12", "--held-out", "0", "--threads", "1",
                            "--hang-limit", "0.001"});
  ASSERT_EQ(run.exit, 0) << run.told();
  const auto hangs = of_kind(run, "hang");
  ASSERT_GE(hangs.size(), 1u) << run.told();
  EXPECT_EQ(hangs[0]["cell"].size(), 3u);
  EXPECT_GE(hangs[0]["seconds"], 0.001);
  EXPECT_TRUE(hangs[0].contains("tick"));
  EXPECT_GE(of_kind(run, "hang_over").size(), 1u) << run.told();
  EXPECT_NE(run.err.find("hangs, has not returned for "), std::string::npos) << run.err;
}

TEST(Hangs, EndTheProcessWhereItIsToldTo) {
  Folder folder;
  const Outcome run =
      weft({"run", heavy(folder), "--json", "--threads", "1", "--hang-limit", "0.001", "--on-hang", "abort"});
  EXPECT_EQ(run.exit, 128 + SIGABRT) << run.told();
  EXPECT_EQ(run.last()["event"], "hang") << run.told();
}

TEST(Hangs, AreNotLookedForWithoutALimit) {
  Folder folder;
  const Outcome run = weft({"run", heavy(folder), "--json", "--max-samples", "4", "--held-out", "0", "--threads", "1",
                            "--hang-limit", "0", "--on-hang", "abort"});
  EXPECT_EQ(run.exit, 0) << run.told();
}

}  // namespace
}  // namespace weft::cli_test::faults_test
