// SPDX-License-Identifier: Apache-2.0
// weft live with an environment that another program is: killed on both sides, failing in all ways, replayed without
// it.

#include "tests/cli/data_directory.hpp"
#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace weft::cli_test::external_test {
namespace {

const std::string kProgram = "/usr/bin/env python3 " + source_path("tests/data/grid_environment.py");

/// A small actor and critic for the program.
std::string network(const std::string& path, double timeout = 10, int actions = 4, int resend = 10000) {
  Json network = Json::parse(read_file(source_path("examples/cartpole.json")));
  for (Json& layer : network["layers"])
    for (Json& inner : layer["layers"])
      if (inner.contains("out") && inner["out"] == 128) inner["out"] = 8;
  network["layers"][0]["layers"].back()["out"] = actions;
  network["reinforcement"]["environment"] = {
      {"type", "external"}, {"observations", 4}, {"actions", actions}, {"timeout", timeout}, {"resend", resend}};
  write_file(path, network.dump());
  return path;
}

Words live(const std::string& network, std::uint64_t steps, const std::string& more = "") {
  return {"live",          network,        "--json", "--quiet", "--threads", "1", "--steps", std::to_string(steps),
          "--environment", kProgram + more};
}

Json event_of(const Outcome& outcome, const std::string& name) {
  for (const Json& event : outcome.events())
    if (event["event"] == name) return event;
  return {};
}

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(ExternalEnvironment, IsReplayedWithoutItsProgram) {
  Folder folder;
  const std::string file = network(folder / "n.json"), directory = folder / "agent";
  const Outcome kept = weft(live(file, 2000) + Words{"--state", directory});
  ASSERT_EQ(kept.exit, 0) << kept.told();
  EXPECT_GT(kept.last()["episodes"], 50);
  EXPECT_EQ(weft(live(file, 2000)).last()["state_hash"], kept.last()["state_hash"]);
  const Outcome replayed = weft({"replay", directory, "--verify", "--json"});
  ASSERT_EQ(replayed.exit, 0) << replayed.told();
  EXPECT_EQ(replayed.last()["state_hash"], kept.last()["state_hash"]);
}

// Of the agent and of the program, at any moment: a new program is brought to where the episode stood.
TEST(ExternalEnvironment, GoesOnToTheBitWhereverTheAgentIsKilled) {
  constexpr std::uint64_t kSteps = 3000;
  Folder folder;
  const std::string file = network(folder / "n.json"), directory = folder / "agent";
  const Outcome whole = weft(live(file, kSteps));
  ASSERT_EQ(whole.exit, 0) << whole.told();
  const Words words =
      live(file, kSteps) + Words{"--state", directory, "--checkpoint-every", "500", "--durability", "interval=20ms"};
  std::size_t returns = 0;
  for (std::size_t kills = 0; kills < 6; ++kills) {
    Process process(words);
    const auto lines = [&] {
      const std::string out = process.out_so_far();
      return static_cast<std::size_t>(std::count(out.begin(), out.end(), '\n'));
    };
    while (!process.has_ended() && lines() < 8 + 5 * kills) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    process.send(SIGKILL);
    const Outcome killed = process.wait();
    for (const Json& event : whole_events(killed.out)) {
      returns += event["event"] == "environment_back";
      EXPECT_NE(event["event"], "episode_left");
    }
  }
  const Outcome last = weft(words);
  ASSERT_EQ(last.exit, 0) << last.told();
  EXPECT_EQ(last.last()["state_hash"], whole.last()["state_hash"]);
  EXPECT_EQ(last.last()["mean_return"], whole.last()["mean_return"]);
  EXPECT_GT(returns, 0u);
  const Outcome replayed = weft({"replay", directory, "--verify", "--json"});
  ASSERT_EQ(replayed.exit, 0) << replayed.told();
  EXPECT_EQ(replayed.last()["state_hash"], whole.last()["state_hash"]);
}

struct Fault {
  const char *kind, *code, *text;
};

// Each ends the run with an event that names the program, the request and the value, and the same command goes on to
// the bits of a run without it.
TEST(ExternalEnvironment, ThatFailsLeavesAGoodDataDirectory) {
  Folder folder;
  const std::string file = network(folder / "n.json", 1);
  const Outcome whole = weft(live(file, 400));
  ASSERT_EQ(whole.exit, 0) << whole.told();
  for (const Fault& fault : {
           Fault{"hang", "timed_out", "it gave no answer for 1000 ms"},
           Fault{"half_hang", "timed_out", "within a line: '{\"observation\": [1, 2'"},
           Fault{"half", "storage", "it ended with exit status 0, within a line: '{\"observation\": [1, 2'"},
           Fault{"die", "storage", "it ended with exit status 3"},
           Fault{"killed", "storage", "signal 9"},
           Fault{"nan", "not_finite", "the answer has NaN"},
           Fault{"nan_reward", "not_finite", "the answer has Infinity"},
           Fault{"huge", "out_of_range", "answer.observation[3]: found 1e+39"},
           Fault{"size", "shape_mismatch", "answer.observation: 3 values, 4 are expected"},
           Fault{"text", "parse_failed", "is no JSON object: 'Traceback (most recent call last):'"},
           Fault{"list", "parse_failed", "is no JSON object: '[1, 2]'"},
           Fault{"key", "unknown_name", "answer.terminate"},
           Fault{"missing", "not_found", "answer: key \"truncated\" is missing"},
           Fault{"flag", "parse_failed", "answer.terminated"},
           Fault{"error", "invalid_argument", "the game has crashed"},
           Fault{"long", "too_large", "its line has more than 65792 bytes"},
       }) {
    const std::string kind = fault.kind, directory = folder / kind;
    const Words words = live(file, 400, " --fault " + kind + " --at 203 --once " + (folder / (kind + ".once"))) +
                        Words{"--state", directory};
    const Outcome failed = weft(words);
    EXPECT_EQ(failed.exit != 0, true) << kind;
    const Json event = event_of(failed, "environment_fault");
    ASSERT_TRUE(event.is_object()) << kind << failed.told();
    EXPECT_EQ(event["code"], fault.code) << failed.told();
    EXPECT_EQ(event["step"], 202) << kind;
    EXPECT_TRUE(mentions(event["text"], "asked " + event["request"].get<std::string>())) << failed.told();
    EXPECT_TRUE(mentions(failed.err, "step 203, episode " + event["episode"].dump() + ": ")) << failed.told();
    EXPECT_TRUE(mentions(event["request"], "\"request\":\"step\"")) << failed.told();
    EXPECT_TRUE(mentions(event["text"], fault.text)) << failed.told();
    EXPECT_TRUE(mentions(event["environment"], "grid_environment.py"));
    EXPECT_TRUE(mentions(event["advice"], "goes on from step 202")) << failed.told();
    EXPECT_TRUE(mentions(failed.err, fault.text)) << failed.told();
    EXPECT_FALSE(failed.last().contains("state_hash"));
    const Outcome replayed = weft({"replay", directory, "--verify", "--json"});
    EXPECT_EQ(replayed.exit, 0) << replayed.told();
    const Outcome last = weft(words);
    ASSERT_EQ(last.exit, 0) << kind << last.told();
    EXPECT_EQ(last.events().front()["steps"], 202) << kind;
    EXPECT_EQ(last.last()["state_hash"], whole.last()["state_hash"]) << kind;
  }
}

// An episode that cannot be gone on with is left: cut short, and in the journal as such.
TEST(ExternalEnvironment, ThatCannotComeBackLeavesTheEpisode) {
  Folder folder;
  for (const bool is_unsteady : {true, false}) {
    const std::string file = network(folder / "n.json", 10, 4, is_unsteady ? 10000 : 0);
    const std::string more = is_unsteady ? " --unsteady" : "";
    // An unsteady world hangs on its process' number: an episode of it may end just where the run does.
    std::string directory;
    std::uint64_t steps = 110;
    Json ended;
    do {
      directory = folder / ((is_unsteady ? "unsteady" : "long") + std::to_string(++steps));
      const Outcome first = weft(live(file, steps, more) + Words{"--state", directory});
      ASSERT_EQ(first.exit, 0) << first.told();
      for (const Json& event : first.events())
        if (event["event"] == "episode") ended = event["step"];
    } while (ended == steps);
    const Outcome second = weft(live(file, 300, more) + Words{"--state", directory});
    ASSERT_EQ(second.exit, 0) << second.told();
    const Json left = event_of(second, "episode_left");
    ASSERT_TRUE(left.is_object()) << second.told();
    EXPECT_TRUE(mentions(left["why"], is_unsteady ? "to the same seed" : "reinforcement.environment.resend"));
    const Json episode = event_of(second, "episode");
    EXPECT_EQ(episode["episode"], left["episode"]);
    EXPECT_EQ(episode["step"], steps);
    EXPECT_EQ(episode["truncated"], true);
    const Outcome replayed = weft({"replay", directory, "--verify", "--json"});
    ASSERT_EQ(replayed.exit, 0) << replayed.told();
    EXPECT_EQ(replayed.last()["state_hash"], second.last()["state_hash"]);
    ASSERT_EQ(weft({"diff", directory, directory}).exit, 0);
  }
}

TEST(ExternalEnvironment, IsReachedByASocket) {
  Folder folder;
  const std::string file = network(folder / "n.json"), socket = folder / "s";
  const std::string hash = weft(live(file, 500)).last()["state_hash"];
  const std::string command = kProgram + " --socket " + socket + " >/dev/null 2>&1 & echo $!";
  FILE* const shell = popen(command.c_str(), "r");
  ASSERT_NE(shell, nullptr);
  int server = 0;
  ASSERT_EQ(fscanf(shell, "%d", &server), 1);
  pclose(shell);
  for (int tries = 0; tries < 1000 && !std::filesystem::exists(socket); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const auto run = [&](std::uint64_t steps) {
    return weft({"live", file, "--json", "--quiet", "--threads", "1", "--steps", std::to_string(steps),
                 "--environment-socket", socket, "--state", folder / "agent"});
  };
  EXPECT_EQ(run(250).exit, 0);
  const Outcome last = run(500);
  EXPECT_EQ(last.exit, 0) << last.told();
  EXPECT_EQ(last.last()["state_hash"], hash);
  EXPECT_TRUE(event_of(last, "environment_back").is_object()) << last.told();
  kill(server, SIGKILL);
  while (kill(server, 0) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const Outcome gone = run(600);
  EXPECT_NE(gone.exit, 0);
  EXPECT_TRUE(mentions(gone.err, "nobody listens there")) << gone.err;
}

TEST(ExternalEnvironment, AsksWhatIfUntilTheAgentActsOtherwise) {
  Folder folder;
  const std::string file = network(folder / "n.json"), directory = folder / "agent";
  ASSERT_EQ(weft(live(file, 300) + Words{"--state", directory, "--keep", "100"}).exit, 0);
  EXPECT_EQ(weft({"replay", directory, "--set", "reinforcement.discount=0.99"}).exit, 0);
  const Outcome changed = weft({"replay", directory, "--set", "reinforcement.actor_bound=0.5"});
  EXPECT_EQ(changed.exit, 1);
  EXPECT_TRUE(mentions(changed.err, "so a changed replay ends here")) << changed.err;
}

TEST(ExternalEnvironment, SaysWhatDoesNotFit) {
  Folder folder;
  const auto refused = [&](const Words& words, const std::string& text) {
    const Outcome outcome = weft(words);
    EXPECT_NE(outcome.exit, 0);
    EXPECT_TRUE(mentions(outcome.err, text)) << outcome.err;
  };
  const std::string file = network(folder / "n.json");
  refused({"live", file, "--steps", "10"}, "give one of --environment COMMAND and --environment-socket PATH");
  refused(live(source_path("examples/cartpole.json"), 10), "this one is 'cartpole'");
  refused(live(network(folder / "three.json", 10, 3), 10), "it describes itself with 4 actions");
  refused({"live", file, "--steps", "10", "--environment", "/no/such/program"}, "it ended with exit status 127");
  refused({"live", file, "--steps", "10", "--environment-socket", folder / "none"}, "there is none");
  Json without = Json::parse(read_file(file));
  without["reinforcement"]["environment"].erase("observations");
  write_file(folder / "without.json", without.dump());
  refused(live(folder / "without.json", 10), "reinforcement.environment.observations");
}

// The example, with a stand-in for the library.
TEST(ExternalEnvironment, OfGymnasiumsShapeIsServedByTheExample) {
  Folder folder;
  write_file(folder / "gymnasium.py", R"(
class Seen(list):
    def ravel(self): return self
    def tolist(self): return list(self)
class Walk:
    class action_space:
        n = 2
    def reset(self, seed):
        self.place, self.steps = seed % 7 - 3, 0
        return self.seen(), {}
    def seen(self): return Seen([self.place / 4, self.steps / 8, float(self.place > 0), 1.0])
    def step(self, action):
        self.place, self.steps = self.place + (1 if action else -1), self.steps + 1
        return self.seen(), 1 if self.place > 0 else 0, abs(self.place) > 5, self.steps >= 8, {"any": object()}
def make(name):
    assert name == "Walk-v0"
    return Walk()
)");
  const std::string command = "/usr/bin/env python3 " + source_path("examples/gymnasium_environment.py") + " Walk-v0";
  const auto run = [&](int steps, const Words& more) {
    return weft(Words{"live", source_path("examples/external.json"), "--json", "--threads", "1", "--steps",
                      std::to_string(steps), "--environment", command} +
                    more,
                {{"PYTHONPATH", folder / ""}});
  };
  const Outcome whole = run(200, {});
  ASSERT_EQ(whole.exit, 0) << whole.told();
  EXPECT_GT(whole.last()["episodes"], 20);
  EXPECT_EQ(run(101, {"--state", folder / "agent"}).exit, 0);
  const Outcome last = run(200, {"--state", folder / "agent"});
  EXPECT_TRUE(event_of(last, "environment_back").is_object()) << last.told();
  EXPECT_EQ(last.last()["state_hash"], whole.last()["state_hash"]);
}

// The same of an action that is an array of real values, with bounds that the server keeps.
TEST(ExternalEnvironment, TakesRealValuesInGymnasiumsShape) {
  if (std::system("/usr/bin/env python3 -c 'import numpy' 2> /dev/null") != 0) GTEST_SKIP() << "no numpy";
  Folder folder;
  write_file(folder / "gymnasium.py", R"(
import numpy
class Walk:
    class action_space:
        shape, dtype = (2,), numpy.float32
        low, high = numpy.array([-1, -1], dtype), numpy.array([1, 1], dtype)
    def reset(self, seed):
        self.at, self.steps = numpy.array([seed % 7 - 3, seed % 5 - 2]) / 4, 0
        return self.seen(), {}
    def seen(self): return numpy.concatenate([self.at, [self.steps / 8, 1.0]])
    def step(self, action):
        assert action.shape == (2,) and action.dtype == numpy.float32 and abs(action).max() <= 1
        self.at, self.steps = self.at + action / 4, self.steps + 1
        return self.seen(), -abs(self.at).sum(), abs(self.at).max() > 4, self.steps >= 8, {}
def make(name): return Walk()
)");
  const std::string network = folder / "n.json";
  Json spec = Json::parse(read_file(source_path("examples/external.json")));
  spec["layers"][0]["layers"].back()["out"] = 4;
  spec["reinforcement"]["environment"] = {{"type", "external"}, {"observations", 4}, {"values", 2}};
  write_file(network, spec.dump());
  const std::string command = "/usr/bin/env python3 " + source_path("examples/gymnasium_environment.py") + " Walk-v0";
  const auto run = [&](int steps, const Words& more) {
    return weft(
        Words{"live", network, "--json", "--threads", "1", "--steps", std::to_string(steps), "--environment", command} +
            more,
        {{"PYTHONPATH", folder / ""}});
  };
  const Outcome whole = run(100, {});
  ASSERT_EQ(whole.exit, 0) << whole.told();
  EXPECT_EQ(run(51, {"--state", folder / "agent"}).exit, 0);
  const Outcome last = run(100, {"--state", folder / "agent"});
  EXPECT_TRUE(event_of(last, "environment_back").is_object()) << last.told();
  EXPECT_EQ(last.last()["state_hash"], whole.last()["state_hash"]);
  EXPECT_EQ(weft({"replay", folder / "agent", "--verify", "--json"}).last()["state_hash"], whole.last()["state_hash"]);
}

// A signal is not kept waiting by a program that hangs.
TEST(ExternalEnvironment, IsLeftAtASignal) {
  Folder folder;
  const std::string file = network(folder / "n.json", 600), directory = folder / "agent";
  Process process(live(file, 1000, " --fault hang --at 50 --once " + (folder / "once")) + Words{"--state", directory});
  while (!process.has_ended() && !std::filesystem::exists(folder / "once"))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  process.send(SIGTERM);
  EXPECT_EQ(process.wait().exit, 128 + SIGTERM);
  EXPECT_EQ(weft({"replay", directory, "--verify"}).exit, 0);
}

}  // namespace
}  // namespace weft::cli_test::external_test
