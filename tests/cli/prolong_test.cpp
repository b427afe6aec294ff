// SPDX-License-Identifier: Apache-2.0

// Runs that go on: more passes, other data of the same shape.

#include "tests/cli/program.hpp"

namespace weft::cli_test::prolong_test {
namespace {

/// 60 rows of two classes that a line divides; another table for another `shift`.
std::string table(int shift, const std::string& second = "no") {
  std::string text = "a,b,kind\n";
  for (int i = 0; i < 60; ++i) {
    const int a = i * 37 % 61 - 30 + shift, b = i * 53 % 59 - 29;
    text += std::to_string(a) + "," + std::to_string(b) + "," + (a + b > shift ? "yes" : second) + "\n";
  }
  return text;
}

/// A network of both tables' width, without names of classes: the run finds them in its first table.
std::string network(const Folder& folder, const std::string& schedule = "settle") {
  write_file(folder / "one.csv", table(0));
  write_file(folder / "two.csv", table(5));
  write_file(folder / "n.json", R"({"weft": 2, "name": "n", "inputs": {"x": [2]},
    "chain": [{"type": "standardize", "mean": [0, 0], "deviation": [20, 20]},
              {"type": "dense", "out": 8, "activation": "tanh"}, {"type": "dense", "out": 2}],
    "learning": {"schedule": ")" + schedule +
                                    R"("},
    "stream": {"csv": "one.csv", "epochs": 2, "window": 40}})");
  return folder / "n.json";
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Outcome run(const std::string& net, const std::string& state, const Words& more = {}) {
  return weft(Words{"run", net, "--state", state, "--json", "--quiet"} + more);
}

void expect_verified(const std::string& state) {
  const Outcome replayed = weft({"replay", state, "--verify"});
  EXPECT_EQ(replayed.exit, 0) << replayed.told();
  EXPECT_TRUE(holds(replayed.out, "all equal")) << replayed.out;
}

// Under `settle` nothing is under way at a stream's end: the run is one that had all its passes at once.
TEST(Prolong, MorePassesGoOnWhereTheStreamEnded) {
  Folder folder;
  const std::string net = network(folder);
  ASSERT_EQ(run(net, folder / "a").exit, 0);
  const Outcome longer = run(net, folder / "a", {"--epochs", "7"});
  ASSERT_EQ(longer.exit, 0) << longer.told();
  const Outcome whole = run(net, folder / "b", {"--epochs", "7"});
  EXPECT_EQ(longer.last()["state_hash"], whole.last()["state_hash"]);
  EXPECT_EQ(longer.last()["held_out"], whole.last()["held_out"]);
  EXPECT_EQ(longer.last()["samples"], 7 * 48);
  expect_verified(folder / "a");
  // Said again, it is finished; less than it has is refused.
  const Outcome again = run(net, folder / "a", {"--epochs", "7"});
  EXPECT_EQ(again.events().front()["is_finished"], true) << again.told();
  EXPECT_EQ(again.last()["state_hash"], whole.last()["state_hash"]);
  const Outcome shorter = run(net, folder / "a", {"--epochs", "2"});
  EXPECT_EQ(shorter.exit, 2) << shorter.told();
  EXPECT_TRUE(holds(shorter.err, "stands at sample 336")) << shorter.err;
}

TEST(Prolong, OtherDataFollowTheFirst) {
  for (const char* const schedule : {"settle", "pipelined"}) {
    Folder folder;
    const std::string net = network(folder, schedule);
    const std::string first = run(net, folder / "a").last()["state_hash"];
    const Words other{"--data", folder / "two.csv", "--epochs", "3"};
    const Outcome second = run(net, folder / "a", other);
    ASSERT_EQ(second.exit, 0) << second.told();
    EXPECT_EQ(second.events().front()["state_hash"], first);
    EXPECT_NE(second.last()["state_hash"], first);
    EXPECT_EQ(second.last()["samples"], 3 * 48);
    EXPECT_EQ(second.last()["held_out"]["classes"][0]["name"], "no");
    expect_verified(folder / "a");
    // A third stream, killed at its beginning and gone on with, ends as one that was not.
    ASSERT_EQ(run(net, folder / "b").exit, 0);
    ASSERT_EQ(run(net, folder / "b", other).last()["state_hash"], second.last()["state_hash"]);
    const Words third{"--epochs", "40", "--durability", "tick"};
    {
      Process killed(Words{"run", net, "--state", folder / "b", "--rate", "2000", "--json"} + third);
      while (!holds(killed.out_so_far(), "progress") && !killed.has_ended())
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      killed.send(SIGKILL);
      killed.wait();
    }
    const Outcome rest = run(net, folder / "b", third);
    ASSERT_EQ(rest.exit, 0) << rest.told();
    EXPECT_EQ(rest.last()["samples"], 40 * 48);
    EXPECT_EQ(rest.last()["state_hash"], run(net, folder / "a", third).last()["state_hash"]);
    expect_verified(folder / "b");
  }
}

TEST(Prolong, RefusesAnUnfinishedStreamAndWhatDoesNotFit) {
  Folder folder;
  const std::string net = network(folder);
  const Words slow{"--epochs", "1000", "--rate", "200"};
  {
    Process stopped(Words{"run", net, "--state", folder / "a", "--json"} + slow);
    while (!holds(stopped.out_so_far(), "progress") && !stopped.has_ended())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    stopped.send(SIGTERM);
    EXPECT_EQ(stopped.wait().exit, 143);
  }
  const Outcome early = run(net, folder / "a", Words{"--data", folder / "two.csv"} + slow);
  EXPECT_EQ(early.exit, 2) << early.told();
  EXPECT_TRUE(holds(early.err, "let it come to its end")) << early.err;
  ASSERT_EQ(run(net, folder / "c").exit, 0);
  struct Case {
    std::string text, error;
  };
  for (const Case& c : {Case{table(1, "maybe"), "\"maybe\" is none of the classes that the model knows"},
                        Case{"a,kind\n1,yes\n2,no\n", "network takes 2"}}) {
    write_file(folder / "bad.csv", c.text);
    const Outcome refused = run(net, folder / "c", {"--data", folder / "bad.csv"});
    EXPECT_NE(refused.exit, 0);
    EXPECT_TRUE(holds(refused.err, c.error) || holds(refused.err, "bad.csv: 1 values")) << refused.err;
  }
  // Nothing of it was lost.
  EXPECT_EQ(run(net, folder / "c").events().front()["is_finished"], true);
  Json changed = Json::parse(read_file(net));
  changed["stream"]["scale"] = 2;
  write_file(folder / "s.json", changed.dump());
  EXPECT_TRUE(holds(run(folder / "s.json", folder / "c").err, "stream.scale"));
}

TEST(Prolong, ARunWithCheckpointsAloneGoesOnToo) {
  Folder folder;
  const std::string net = network(folder);
  const Words place{"run", net, "--checkpoint", folder / "c", "--resume", "--json", "--quiet"};
  ASSERT_EQ(weft(place).exit, 0);
  const Outcome longer = weft(place + Words{"--epochs", "7"});
  ASSERT_EQ(longer.exit, 0) << longer.told();
  EXPECT_EQ(longer.last()["state_hash"], run(net, folder / "b", {"--epochs", "7"}).last()["state_hash"]);
}

}  // namespace
}  // namespace weft::cli_test::prolong_test
