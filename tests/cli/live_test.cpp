// SPDX-License-Identifier: Apache-2.0
// weft live: an agent with its world, killed and gone on with, replayed as it was and otherwise.

#include "tests/cli/data_directory.hpp"
#include <algorithm>
#include <random>

namespace weft::cli_test::live_test {
namespace {

const std::string kPendulum = source_path("examples/pendulum.json");

Words live(const std::string& network, std::uint64_t steps) {
  return {"live", network, "--json", "--quiet", "--threads", "1", "--steps", std::to_string(steps)};
}

std::vector<Json> episodes(const std::vector<std::string>& outs) {
  std::vector<Json> all;
  for (const std::string& out : outs)
    for (const Json& event : whole_events(out)) {
      if (event["event"] != "episode") continue;
      // Told again after a kill.
      const std::size_t number = event["episode"];
      EXPECT_LE(number, all.size());
      if (number < all.size())
        EXPECT_EQ(event, all[number]);
      else
        all.push_back(event);
    }
  return all;
}

// At the end: the same state, world included, and the same episodes.
void expect_the_same_wherever_it_is_killed(const std::string& example, int runs) {
  constexpr std::uint64_t kSteps = 12000;
  Folder folder;
  const std::string network = small_agent(folder / "n.json", example);
  const Outcome whole = weft(live(network, kSteps));
  ASSERT_EQ(whole.exit, 0) << whole.told();
  EXPECT_EQ(whole.last()["steps"], kSteps);
  std::mt19937 random(std::random_device{}());
  for (int run = 0; run < runs; ++run) {
    const std::string directory = folder / ("agent" + std::to_string(run));
    const Words words = live(network, kSteps) + Words{"--state", directory,      "--checkpoint-every",
                                                      "1000",    "--durability", run == 0 ? "tick" : "interval=20ms"};
    std::vector<std::string> outs;
    for (int kills = 0; kills < 7; ++kills) {
      Process process(words);
      const std::size_t wanted = random() % 8;
      const auto lines = [&] {
        const std::string out = process.out_so_far();
        return static_cast<std::size_t>(std::count(out.begin(), out.end(), '\n'));
      };
      while (!process.has_ended() && lines() <= wanted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      process.send(SIGKILL);
      outs.push_back(process.wait().out);
    }
    const Outcome last = weft(words);
    ASSERT_EQ(last.exit, 0) << last.told();
    outs.push_back(last.out);
    EXPECT_EQ(last.last()["state_hash"], whole.last()["state_hash"]);
    EXPECT_EQ(last.last()["mean_return"], whole.last()["mean_return"]);
    EXPECT_EQ(last.last()["episodes"], whole.last()["episodes"]);
    EXPECT_EQ(episodes(outs), episodes({whole.out}));
    const Outcome replayed = weft({"replay", directory, "--verify", "--json"});
    ASSERT_EQ(replayed.exit, 0) << replayed.told();
    EXPECT_EQ(replayed.last()["state_hash"], whole.last()["state_hash"]);
  }
}

TEST(Live, GoesOnToTheBitWhereverItIsKilled) { expect_the_same_wherever_it_is_killed(kCartPole, 3); }
TEST(Live, GoesOnToTheSameRealValuesWhereverItIsKilled) { expect_the_same_wherever_it_is_killed(kPendulum, 1); }

// The mean of ten seeds is 281, less 4 standard deviations. The full protocol: tools/measure_reinforcement.py.
TEST(Live, LearnsToBalanceAPole) {
  for (const char* const seed : {"0", "1", "2"}) {
    const Outcome outcome = weft(live(kCartPole, 30000) + Words{"--seed", seed});
    ASSERT_EQ(outcome.exit, 0) << outcome.told();
    EXPECT_GT(outcome.last()["mean_return"].get<double>(), 235.0) << seed;
  }
}

TEST(Live, TellsTheEpisodesOfAWholeRunOnce) {
  Folder folder;
  const std::string network = small_agent(folder / "n.json");
  const Outcome whole = weft(live(network, 3000));
  const Words kept{"--state", folder / "agent"};
  const Outcome first = weft(live(network, 1300) + kept), second = weft(live(network, 3000) + kept);
  ASSERT_EQ(second.exit, 0) << second.told();
  EXPECT_EQ(second.events().front()["resumed"], true);
  EXPECT_EQ(second.events().front()["steps"], 1300);
  EXPECT_EQ(episodes({first.out, second.out}), episodes({whole.out}));
  EXPECT_EQ(second.last()["state_hash"], whole.last()["state_hash"]);
}

TEST(Live, IsReplayedOtherwiseThanItWas) {
  Folder folder;
  const std::string network = small_agent(folder / "n.json"), directory = folder / "agent";
  const Outcome kept = weft(live(network, 2000) + Words{"--state", directory, "--keep", "100"});
  ASSERT_EQ(kept.exit, 0) << kept.told();
  const auto end = [&](const std::string& change) {
    const Outcome outcome = weft({"replay", directory, "--json", "--set", change});
    EXPECT_EQ(outcome.exit, 0) << outcome.told();
    return outcome.last()["state_hash"];
  };
  EXPECT_EQ(end("reinforcement.discount=0.99"), kept.last()["state_hash"]);
  // As the changed agent, had it been so from the beginning.
  Json changed = Json::parse(read_file(network));
  changed["reinforcement"]["actor_bound"] = 6.0;
  write_file(folder / "half.json", changed.dump());
  EXPECT_EQ(end("reinforcement.actor_bound=6"), weft(live(folder / "half.json", 2000)).last()["state_hash"]);
}

TEST(Live, EndsInOneStateOnAnyMachine) {
  Folder folder;
  for (const std::string& example : {std::string(kCartPole), kPendulum}) {
    const std::string network = small_agent(folder / "n.json", example);
    const Json hash = weft(live(network, 2000)).last()["state_hash"];
    for (const char* const isa : {"scalar", "avx2", "avx512"}) {
      const Outcome outcome = weft(live(network, 2000), {{"WEFT_ISA", isa}});
      if (outcome.exit == 0) {
        EXPECT_EQ(outcome.last()["state_hash"], hash) << isa;
      }
    }
    const Words two{"live", network, "--json", "--quiet", "--threads", "2", "--steps", "2000"};
    EXPECT_EQ(weft(two).last()["state_hash"], hash);
  }
}

// A task that turns round, seen by the fall of returns. The reactions are in the journal.
TEST(Live, TellsOfDriftAndReacts) {
  Folder folder;
  const std::string network = folder / "n.json";
  Json spec = Json::parse(read_file(small_agent(network)));
  spec["inputs"]["observation"] = {8};
  spec["layers"][0]["layers"].back()["out"] = 4;
  spec["reinforcement"]["environment"] = {{"type", "chase"}, {"every", 2000}};
  spec["learning"]["drift"] = {
      {"detector", "page_hinkley"}, {"input", "return"}, {"threshold", 40}, {"tolerance", 1}, {"rate_boost", 2},
      {"boost_samples", 10}};
  write_file(network, spec.dump());
  const Outcome whole = weft(live(network, 6000));
  ASSERT_EQ(whole.exit, 0) << whole.told();
  std::vector<Json> seen;
  for (const Json& event : whole.events())
    if (event["event"] == "drift_seen" && event["level"] == "change") seen.push_back(event);
  ASSERT_GE(seen.size(), 1u);
  EXPECT_GT(seen[0]["step"], 2000);
  EXPECT_EQ(seen[0]["detector"], "page_hinkley");
  EXPECT_EQ(seen[0]["input"], "return");
  EXPECT_EQ(whole.last()["drift"]["changes"], seen.size());
  const Words kept{"--state", folder / "agent"};
  EXPECT_EQ(weft(live(network, 2345) + kept).exit, 0);
  EXPECT_EQ(weft(live(network, 6000) + kept).last()["state_hash"], whole.last()["state_hash"]);
  const Outcome replayed = weft({"replay", folder / "agent", "--verify", "--json"});
  EXPECT_EQ(replayed.last()["state_hash"], whole.last()["state_hash"]) << replayed.told();
}

TEST(Live, SaysWhatItLacks) {
  const auto refused = [](const Words& words, const std::string& text) {
    const Outcome outcome = weft(words);
    EXPECT_NE(outcome.exit, 0);
    EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
  };
  refused({"live", kDigits}, "reinforcement: the network has no such section");
  refused({"live", kCartPole, "--checkpoint-every", "10"}, "give --state DIR");
  Folder folder;
  const std::string network = small_agent(folder / "n.json"), directory = folder / "agent";
  ASSERT_EQ(weft(live(network, 300) + Words{"--state", directory}).exit, 0);
  refused(live(network, 300) + Words{"--state", directory, "--seed", "7"}, "holds another agent");
  refused({"run", network, "--state", directory}, "stream");
}

}  // namespace
}  // namespace weft::cli_test::live_test
