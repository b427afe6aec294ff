// SPDX-License-Identifier: Apache-2.0
// Runs at a given rate: their pace, their statistics, their end.

#include "tests/cli/agent.hpp"
#include <chrono>

namespace weft::cli_test::clock_test {
namespace {

using Steady = std::chrono::steady_clock;

Words at_rate(const std::string& rate, const std::string& samples) {
  return {"run", kDigits, "--json", "--held-out", "0", "--rate", rate, "--max-samples", samples};
}

double seconds_since(Steady::time_point begin) { return std::chrono::duration<double>(Steady::now() - begin).count(); }

TEST(Clock, KeepsThePaceAndTheBits) {
  const Outcome free = weft({"run", kDigits, "--json", "--held-out", "0", "--max-samples", "100"});
  EXPECT_TRUE(free.last()["clock"].is_null());
  for (const std::string overrun : {"skip", "catch_up", "stretch"}) {
    const auto begin = Steady::now();
    const Outcome ran = weft(at_rate("200", "100") + Words{"--overrun", overrun});
    ASSERT_EQ(ran.exit, 0) << ran.told();
    EXPECT_GE(seconds_since(begin), 99 * 0.005) << "a hundred samples, 5 ms each";
    EXPECT_LT(ran.last()["ticks_per_second"], 1000.0) << "waiting counts";
    const Json done = ran.last(), clock = done["clock"];
    EXPECT_EQ(done["state_hash"], free.last()["state_hash"]);
    EXPECT_EQ(clock["hertz"], 200.0);
    EXPECT_EQ(clock["overrun"], overrun);
    if (overrun != "skip") {
      EXPECT_EQ(clock["skipped"], 0);
    }
    const auto of = [&](const char* key) { return clock[key].get<double>(); };
    EXPECT_LE(of("late_median"), of("late_p99"));
    EXPECT_LE(of("late_p99"), of("late_p999"));
    EXPECT_GE(of("latency_median"), 0.0);
    EXPECT_GE(of("jitter"), 0.0);
  }
}

TEST(Clock, CatchesUpWhatIsOverdue) {
  // A million a second cannot be kept: each is overdue, and all run one after the other.
  const Outcome ran = weft(at_rate("1000000", "3000") + Words{"--overrun", "catch_up"});
  ASSERT_EQ(ran.exit, 0) << ran.told();
  const Json clock = ran.last()["clock"];
  EXPECT_GT(clock["overruns"], 0);
  EXPECT_EQ(clock["skipped"], 0);
  EXPECT_GT(clock["latency_worst"], clock["late_median"]);
  const Outcome skipping = weft(at_rate("1000000", "3000"));
  EXPECT_GT(skipping.last()["clock"]["skipped"], 0);
}

TEST(Clock, TellsAnswersInTimeAroundChanges) {
  Folder folder;
  Json network = Json::parse(read_file(kDigits));
  network["stream"].erase("drift");
  network["stream"].update({{"csv", source_path("examples/data/digits.csv.gz")}, {"change_every", 40}});
  write_file(folder / "n.json", network.dump());
  const Words run{"run", folder / "n.json", "--json", "--held-out", "0", "--max-samples", "100"};
  const Json none = weft(run).last()["adaptation"];
  EXPECT_TRUE(none["deadline"].is_null()) << none;
  EXPECT_TRUE(none["availability"].is_null());
  ASSERT_EQ(none["changes"].size(), 2u);
  EXPECT_TRUE(none["changes"][0]["availability"].is_null());
  // A million a second cannot be kept.
  const Json late = weft(run + Words{"--rate", "1000000", "--overrun", "catch_up"}).last()["adaptation"];
  EXPECT_EQ(late["deadline"], 1e-6);
  for (const Json& change : late["changes"]) {
    EXPECT_LT(change["availability"].get<double>(), 1.0) << late;
    EXPECT_GE(change["availability"].get<double>(), 0.0) << late;
  }
  EXPECT_EQ(late["availability"].size(), 2u) << "mean, sd: " << late;
  Words text = run;
  text.erase(text.begin() + 2);
  EXPECT_NE(weft(text).out.find("; answers have no deadline without --rate"), std::string::npos);
  EXPECT_NE(weft(text + Words{"--rate", "5000"}).out.find(" % of answers in time"), std::string::npos);
}

TEST(Clock, ASignalEndsALongWait) {
  Folder folder;
  // The first sample is due at once, the second after a quarter of an hour.
  Process process(at_rate("0.001", "10") + Words{"--checkpoint", folder / "c"});
  while (!process.has_ended() && process.out_so_far().find("\"start\"") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto begin = Steady::now();
  process.send(SIGTERM);
  const Outcome ended = process.wait();
  EXPECT_EQ(ended.exit, 143) << ended.told();
  EXPECT_LT(seconds_since(begin), 20.0);
}

TEST(Clock, IsShownByTopAndAtTheEnd) {
  Folder folder;
  Process agent(endless(folder / "c") + Words{"--rate", "500"});
  wait_for_progress(agent);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const Outcome json = weft({"top", folder / "c", "--once", "--json"});
  ASSERT_EQ(json.exit, 0) << json.told();
  EXPECT_EQ(json.last()["clock"]["hertz"], 500.0);
  EXPECT_GT(json.last()["clock"]["latency_median"], 0.0);
  const Outcome text = weft({"top", folder / "c", "--once"});
  EXPECT_NE(text.out.find("clock"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("jitter"), std::string::npos) << text.out;
  agent.send(SIGTERM);
  EXPECT_EQ(agent.wait().exit, 143);
  const Outcome plain = weft({"run", kDigits, "--rate", "1000", "--max-samples", "50", "--quiet"});
  EXPECT_NE(plain.out.find("late by"), std::string::npos) << plain.out;
}

}  // namespace
}  // namespace weft::cli_test::clock_test
