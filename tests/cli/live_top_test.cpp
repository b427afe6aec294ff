// SPDX-License-Identifier: Apache-2.0
// An agent that acts, seen by weft top and told things by weft send; its layers measured while it goes on.

#include "tests/cli/agent.hpp"
#include "tests/cli/data_directory.hpp"
#include <algorithm>
#include <cmath>

namespace weft::cli_test::live_top_test {
namespace {

/// Pole balancing by dense layers of 12 units.
std::string network(const Folder& folder) {
  write_file(folder / "n.json", R"({"weft": 2, "name": "pole", "seed": 3, "grid": {"x": 4}, "inputs": {"o": [4]},
    "layers": [{"at": [0,0,0,0], "type": "dense", "out": 12, "activation": "leaky_relu", "from": ["o"]},
               {"at": [0,0,1,0], "type": "dense", "out": 2},
               {"at": [0,0,2,0], "type": "dense", "out": 12, "activation": "leaky_relu", "from": ["o"]},
               {"at": [0,0,3,0], "type": "dense", "out": 1}],
    "outputs": {"policy": [0,0,1,0], "value": [0,0,3,0]},
    "learning": {"late": "meet", "patience": 1, "traces": true, "optimizer": {"type": "sgd", "lr": 1}},
    "reinforcement": {"environment": {"type": "cartpole"}, "seed": 5}})");
  return folder / "n.json";
}

/// Acts until it is killed.
Words endless_live(const std::string& net, const std::string& state) {
  return {"live", net, "--json", "--quiet", "--threads", "1", "--steps", "0", "--state", state};
}

void wait_for_episode(const Process& process) {
  while (!process.has_ended() && process.out_so_far().find("\"episode\"") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(LiveTop, ShowsAnAgentThatActs) {
  Folder folder;
  Process agent(endless_live(network(folder), folder / "a"));
  wait_for_episode(agent);
  const Outcome text = weft({"top", folder / "a", "--once"});
  ASSERT_EQ(text.exit, 0) << text.told();
  for (const char* const word :
       {"pole", "running", "steps", "episodes", "return", "ticks", "4 running", "busiest", "journal"})
    EXPECT_NE(text.out.find(word), std::string::npos) << word << "\n" << text.told();
  EXPECT_EQ(text.out.find("accuracy"), std::string::npos) << text.out;
  const Outcome json = weft({"top", folder / "a", "--once", "--json"});
  ASSERT_EQ(json.exit, 0) << json.told();
  const Json statistics = json.last();
  EXPECT_EQ(statistics["network"], "pole");
  EXPECT_GT(statistics["steps"], 0);
  EXPECT_GT(statistics["episodes"], 0);
  EXPECT_GT(statistics["mean_return"], 1.0);
  EXPECT_GT(statistics["steps_per_second"], 0.0);
  EXPECT_GT(statistics["ticks_per_second"], statistics["steps_per_second"]);
  EXPECT_TRUE(statistics["mean_loss"].is_null());
  EXPECT_EQ(statistics["journal"]["error"], "");
  agent.send(SIGINT);
  EXPECT_EQ(agent.wait().exit, 130);
  EXPECT_FALSE(std::filesystem::exists(folder / "a/top.path"));
  EXPECT_EQ(weft({"top", folder / "a", "--once"}).exit, 3);
}

// Commands are in the journal: the agent that was killed goes on with what they did, and a replay has the same hashes.
TEST(LiveTop, ExecutesCommandsWhichTheJournalHas) {
  Folder folder;
  const std::string net = network(folder), state = folder / "a";
  const auto values = [&](const std::string& at) {
    const Outcome outcome = weft({"send", state, "snapshot", at, "--json"});
    EXPECT_EQ(outcome.exit, 0) << outcome.told();
    return outcome.exit == 0 ? outcome.last()["values"] : Json();
  };
  Json kept;
  {
    Process agent(endless_live(net, state));
    wait_for_episode(agent);
    const Outcome frozen = weft({"send", state, "freeze", "0,0,0,0", "--json"});
    ASSERT_EQ(frozen.exit, 0) << frozen.told();
    EXPECT_EQ(frozen.last()["kept"], true);
    kept = values("0,0,0,0");
    const Json other = values("0,0,2,0");
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(values("0,0,0,0"), kept);
    EXPECT_NE(values("0,0,2,0"), other);
    agent.send(SIGKILL);
    EXPECT_EQ(agent.wait().exit, 128 + SIGKILL);
  }
  {
    Process agent(endless_live(net, state));
    wait_for_episode(agent);
    EXPECT_EQ(values("0,0,0,0"), kept);
    agent.send(SIGTERM);
    agent.wait();
  }
  const Outcome replayed = weft({"replay", state, "--json"});
  ASSERT_EQ(replayed.exit, 0) << replayed.told();
}

TEST(LiveTop, RefusesCommandsThatNothingWouldKeep) {
  Folder folder;
  Process agent(
      {"live", network(folder), "--json", "--quiet", "--threads", "1", "--steps", "0", "--socket", folder / "s"});
  wait_for_episode(agent);
  const Outcome refused = weft({"send", folder / "s", "freeze", "0,0,0,0"});
  EXPECT_NE(refused.exit, 0);
  EXPECT_NE(refused.err.find("keeps no journal"), std::string::npos) << refused.told();
  EXPECT_EQ(weft({"top", folder / "s", "--once"}).exit, 0);
  agent.send(SIGTERM);
  agent.wait();
  EXPECT_FALSE(std::filesystem::exists(folder / "s"));
}

// The shipped agent is two containers of seven layers.
TEST(Live, MeasuresTheLayersInsideContainers) {
  const Outcome probed = weft({"live", source_path("examples/cartpole.json"), "--json", "--quiet", "--threads", "1",
                               "--steps", "20000", "--probe", "64"});
  ASSERT_EQ(probed.exit, 0) << probed.told();
  const Json layers = probed.last()["plasticity"];
  ASSERT_EQ(layers.size(), 14u) << layers;
  for (std::size_t i = 0; i < 14; ++i) {
    EXPECT_EQ(layers[i]["layer"], Json({0, 0, i / 7, 0}));
    EXPECT_EQ(layers[i]["inside"], "layers[" + std::to_string(i % 7) + "]");
  }
  // An activation of 128 units, beside two logits.
  EXPECT_GT(layers[5]["effective_rank"].get<int>(), 2);
  EXPECT_LE(layers[6]["effective_rank"].get<int>(), 2);
}

// Nothing that is measured changes the run.
TEST(Live, MeasuresItsLayersAsItGoesOn) {
  Folder folder;
  const std::string net = network(folder);
  const Words words{"live", net, "--json", "--quiet", "--threads", "1", "--steps", "5000"};
  const Json plain = weft(words).last();
  const Outcome probed = weft(words + Words{"--probe", "16", "--logdir", folder / "log"});
  ASSERT_EQ(probed.exit, 0) << probed.told();
  const Json done = probed.last();
  EXPECT_EQ(done["state_hash"], plain["state_hash"]);
  EXPECT_FALSE(plain.contains("plasticity"));
  ASSERT_EQ(done["plasticity"].size(), 4u);
  double squares = 0, dormant = 0, ranks = 0;
  for (const Json& layer : done["plasticity"]) {
    EXPECT_GE(layer["dormant"].get<double>(), 0.0);
    EXPECT_LE(layer["dormant"].get<double>(), 1.0);
    EXPECT_GE(layer["effective_rank"].get<int>(), 1);
    EXPECT_LE(layer["effective_rank"].get<int>(), 12);
    squares += std::pow(layer["weight_norm"].get<double>(), 2);
    dormant += layer["dormant"].get<double>() / 4;
    ranks += layer["effective_rank"].get<double>() / 4;
  }
  std::istringstream table(read_file(folder / "log/scalars.csv"));
  std::string line, last;
  std::getline(table, line);
  EXPECT_EQ(line, "step,return,length,dormant,effective_rank,weight_norm");
  while (std::getline(table, line)) last = line;
  double step = 0, found[3] = {};
  ASSERT_EQ(std::sscanf(last.c_str(), "%lf,,,%lf,%lf,%lf", &step, &found[0], &found[1], &found[2]), 4) << last;
  EXPECT_EQ(step, 5000.0);
  EXPECT_NEAR(found[0], dormant, 1e-6);
  EXPECT_NEAR(found[1], ranks, 1e-6);
  EXPECT_NEAR(found[2], std::sqrt(squares), 1e-4);
  const Outcome text = weft({"live", net, "--quiet", "--threads", "1", "--steps", "600", "--probe", "8"});
  EXPECT_NE(text.out.find("dormant, rank"), std::string::npos) << text.out;
}

}  // namespace
}  // namespace weft::cli_test::live_top_test
