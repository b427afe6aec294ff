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

/// Step of the newest whole checkpoint in a data directory; 0 where there is none or only the first.
std::uint64_t newest_checkpoint(const std::string& directory) {
  const std::string prefix = "ckpt-";
  std::uint64_t newest = 0;
  std::error_code is_missing;
  for (const auto& each : std::filesystem::directory_iterator(directory, is_missing)) {
    const std::string name = each.path().filename();
    // A dot: one whose writing was cut off.
    if (name.starts_with(prefix) && name.find('.') == std::string::npos)
      newest = std::max<std::uint64_t>(newest, std::stoull(name.substr(prefix.size())));
  }
  return newest;
}

/// In each directory it is killed at seven steps drawn over the whole run, and once between them ended in order, by
/// which there is a later checkpoint than the first; goes on in new directories until `wanted` kills came before the
/// end. At the end: the same state, world included, and the same episodes.
void expect_the_same_wherever_it_is_killed(const std::string& example, int wanted) {
  constexpr std::uint64_t kSteps = 12000, kParts = 8, kInOrder = 4;
  Folder folder;
  const std::string network = small_agent(folder / "n.json", example);
  const Outcome whole = weft(live(network, kSteps));
  ASSERT_EQ(whole.exit, 0) << whole.told();
  EXPECT_EQ(whole.last()["steps"], kSteps);
  std::mt19937 random = told_draws();
  int kills = 0, from_later = 0;
  for (int run = 0; kills < wanted; ++run) {
    ASSERT_LT(run, wanted) << "most runs ended before they were killed: " << kills << " kills";
    const std::string directory = folder / ("agent" + std::to_string(run));
    const Words kept{"--state", directory,      "--checkpoint-every",
                     "1000",    "--durability", run == 0 ? "tick" : "interval=20ms"};
    const Words words = live(network, kSteps) + kept;
    std::vector<std::string> outs;
    std::uint64_t checkpoint = 0;
    const auto see = [&](const Outcome& outcome) {
      const Json start = last_event(outcome.out, "start");
      ASSERT_FALSE(start.is_null()) << outcome.told();
      // One that cannot be read would be passed over, and told.
      EXPECT_EQ(outcome.err.find("ckpt-"), std::string::npos) << outcome.told();
      EXPECT_GE(start["steps"], checkpoint);
      from_later += checkpoint > 0 && start["steps"] < kSteps;
      checkpoint = newest_checkpoint(directory);
      outs.push_back(outcome.out);
    };
    for (std::uint64_t part = 0; part < kParts; ++part) {
      // One in each ninth, none in the last.
      const std::uint64_t step = kSteps * (part * 100 + random() % 100) / (100 * (kParts + 1));
      if (part == kInOrder) {
        const Outcome ended = weft(live(network, step) + kept);
        ASSERT_EQ(ended.exit, 0) << ended.told();
        see(ended);
        EXPECT_GE(checkpoint, step);
        continue;
      }
      const Outcome killed = killed_at(words, "episode", "step", step);
      see(killed);
      if (killed.exit == 0) break;
      ASSERT_EQ(killed.exit, 128 + SIGKILL) << killed.told();
      ++kills;
    }
    const Outcome last = weft(words);
    ASSERT_EQ(last.exit, 0) << last.told();
    see(last);
    EXPECT_EQ(last.last()["state_hash"], whole.last()["state_hash"]);
    EXPECT_EQ(last.last()["mean_return"], whole.last()["mean_return"]);
    EXPECT_EQ(last.last()["episodes"], whole.last()["episodes"]);
    EXPECT_EQ(episodes(outs), episodes({whole.out}));
    const Outcome replayed = weft({"replay", directory, "--verify", "--json"});
    ASSERT_EQ(replayed.exit, 0) << replayed.told();
    EXPECT_EQ(replayed.last()["state_hash"], whole.last()["state_hash"]);
  }
  EXPECT_GT(from_later, 0);
}

TEST(Live, GoesOnToTheBitWhereverItIsKilled) { expect_the_same_wherever_it_is_killed(kCartPole, 21); }
TEST(Live, GoesOnToTheSameRealValuesWhereverItIsKilled) { expect_the_same_wherever_it_is_killed(kPendulum, 7); }

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
    const Outcome plain = weft(live(network, 2000));
    ASSERT_EQ(plain.exit, 0) << plain.told();
    const std::string widest = plain.events().front()["isa"];
    std::vector<std::string> ran;
    for (const char* const isa : {"scalar", "avx2", "avx512", "avx512_vnni", "amx", "neon", "neon_dotprod", "wasm128"})
      for (const char* const threads : {"1", "2", "7"}) {
        const Words words{"live", network, "--json", "--quiet", "--threads", threads, "--steps", "2000"};
        const Outcome outcome = weft(words, {{"WEFT_ISA", isa}});
        if (outcome.exit != 0) {
          EXPECT_NE(outcome.err.find("which this CPU or build lacks"), std::string::npos) << isa << outcome.told();
          break;
        }
        EXPECT_EQ(outcome.events().front()["isa"], isa);
        EXPECT_EQ(outcome.last()["state_hash"], plain.last()["state_hash"]) << isa << ", threads " << threads;
        ran.push_back(isa);
      }
    // With the threads each, the scalar one and the widest: where that is another, two at least.
    for (const std::string& isa : {std::string("scalar"), widest})
      EXPECT_EQ(std::count(ran.begin(), ran.end(), isa), 3) << isa;
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
