// SPDX-License-Identifier: Apache-2.0

// weft send: commands to a running agent. The rows come by a pipe, so each command stands between two known rows.

#include "tests/cli/agent.hpp"
#include "tests/cli/conversation.hpp"
#include "tests/cli/data_directory.hpp"
#include <cmath>

namespace weft::cli_test::send_test {
namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string network(const Folder& folder, const std::string& schedule) {
  write_file(folder / "n.json",
             R"({"weft": 2, "name": "n", "grid": {"z": 1, "y": 1, "x": 2, "layers": 1}, "inputs": {"x": [2]},
    "layers": [{"at": [0,0,0,0], "type": "dense", "out": 8, "activation": "tanh", "from": ["x"]},
               {"at": [0,0,1,0], "type": "dense", "out": 2}],
    "outputs": {"y": [0,0,1,0]},
    "learning": {"schedule": ")" +
                 schedule + R"("},
    "stream": {"csv": "none.csv", "classes": ["no", "yes"], "window": 40}})");
  return folder / "n.json";
}

std::string row(int i) {
  const double a = (i * 37 % 61 - 30) / 20.0, b = (i * 53 % 59 - 29) / 20.0;
  return Json{{"x", {a, b}}, {"y", a + b > 0 ? "yes" : "no"}}.dump() + "\n";
}

/// A run that is fed by a pipe and kept in a directory.
class FedRun {
 public:
  FedRun(const std::string& net, std::string state, const Words& more = {})
      : state_(std::move(state)),
        run_(Words{"run", net, "--data", "-", "--answers", "--quiet", "--state", state_} + more) {
    found_ = run_.hear_event("found");
    EXPECT_FALSE(found_.is_null());
  }
  /// The rows [first, end), each answered before this returns.
  void feed(int first, int end) {
    for (int i = first; i < end; ++i) {
      run_.say(row(i));
      EXPECT_FALSE(run_.hear_event("answer").is_null()) << i;
    }
  }
  Outcome command(const Words& words) const { return weft(Words{"send", state_} + words); }
  /// The answer to a command that is executed.
  Json done(const Words& words) const {
    const Outcome outcome = weft(Words{"send", state_, "--json"} + words);
    EXPECT_EQ(outcome.exit, 0) << words[0] << outcome.told();
    return outcome.exit == 0 ? outcome.last() : Json::object();
  }
  std::vector<double> values(const Words& words) const { return done(words)["values"].get<std::vector<double>>(); }
  void kill() {
    run_.send(SIGKILL);
    EXPECT_EQ(run_.end().exit, 128 + SIGKILL);
  }
  Outcome end() { return run_.end(); }
  const Json& found() const { return found_; }
  const std::string& state() const { return state_; }

 private:
  std::string state_;
  Conversation run_;
  Json found_;
};

void expect_verified(const std::string& state, const Json& hash) {
  const Outcome replayed = weft({"replay", state, "--verify", "--json"});
  ASSERT_EQ(replayed.exit, 0) << replayed.told();
  EXPECT_EQ(replayed.last()["state_hash"], hash) << replayed.told();
}

class Send : public testing::TestWithParam<const char*> {};

TEST_P(Send, ExecutesEachCommandBetweenTwoRows) {
  Folder folder;
  FedRun run(network(folder, GetParam()), folder / "a");
  run.feed(0, 40);
  // Looking changes nothing, and is answered with the layer's values.
  const auto first = run.values({"snapshot", "0,0,0"}), second = run.values({"snapshot", "[0,0,1,0]"});
  EXPECT_EQ(first.size(), 2u * 8u + 8u);
  EXPECT_EQ(second.size(), 8u * 2u + 2u);
  EXPECT_EQ(run.values({"probe", "0,0,1"}).size(), 2u);

  const Json frozen = run.done({"freeze", "0,0,0"});
  EXPECT_EQ(frozen["layers"], 1);
  EXPECT_TRUE(frozen["kept"].get<bool>());
  run.feed(40, 80);
  EXPECT_EQ(run.values({"snapshot", "0,0,0"}), first) << "a frozen layer does not move";
  const auto moved = run.values({"snapshot", "0,0,1"});
  EXPECT_NE(moved, second) << "and the others go on";

  // All layers at a rate of 0, and then at their own.
  EXPECT_EQ(run.done({"rate", "*", "0"})["layers"], 2);
  run.feed(80, 100);
  EXPECT_EQ(run.values({"snapshot", "0,0,1"}), moved);
  EXPECT_EQ(run.done({"thaw", "*"})["layers"], 2);
  run.feed(100, 120);
  EXPECT_NE(run.values({"snapshot", "0,0,0"}), first);
  EXPECT_NE(run.values({"snapshot", "0,0,1"}), moved);

  // New values of a parameter: the first layer's vector of biases, at a rate of 0 so that they stay.
  write_file(folder / "b.txt", "0.5 -0.25\n0.125, 1e-3 2;4 8 16\n");
  run.done({"freeze", "0,0,0"});
  run.done({"weights", "0,0,0", "--parameter", "1", "--values", folder / "b.txt"});
  const auto given = run.values({"snapshot", "0,0,0"});
  const std::vector<float> wanted{0.5f, -0.25f, 0.125f, 1e-3f, 2, 4, 8, 16};
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(static_cast<float>(given[16 + i]), wanted[i]) << i;

  // A cell that is off keeps its output; a reset one commits zeros, and then computes again.
  run.done({"disable", "0,0,1"});
  const auto kept = run.values({"probe", "0,0,1"});
  run.feed(120, 125);
  EXPECT_EQ(run.values({"probe", "0,0,1"}), kept);
  run.done({"enable", "*"});
  run.feed(125, 130);
  EXPECT_NE(run.values({"probe", "0,0,1"}), kept);
  run.done({"period", "0,0,1", "3"});
  run.done({"period", "0,0,1", "1"});
  run.done({"reset", "0,0,1"});
  run.feed(130, 140);

  // In another type.
  run.done({"freeze", "0,0,1"});
  run.done({"morph", "0,0,1", "--dtype", "int4", "--granularity", "channel"});
  const Outcome text = run.command({"thaw", "0,0,1,0"});
  EXPECT_EQ(text.exit, 0) << text.told();
  EXPECT_TRUE(holds(text.out, "thaw [0,0,1,0]: done at tick ")) << text.out;
  run.feed(140, 150);

  const Outcome end = run.end();
  ASSERT_EQ(end.exit, 0) << end.told();
  expect_verified(run.state(), end.last()["state_hash"]);
  EXPECT_EQ(weft({"diff", run.state(), run.state()}).exit, 0);
}

// One script of rows and commands, on one thread and several, in one go and killed in the middle.
TEST_P(Send, GivesTheSameRunHoweverItIsComputed) {
  const auto hash_of = [&](const Words& more, bool is_killed) {
    Folder folder;
    const std::string net = network(folder, GetParam());
    write_file(folder / "w.txt", "0.5 -0.5");
    auto run = std::make_unique<FedRun>(net, folder / "a", more);
    const auto pause = [&] {
      if (!is_killed) return;
      run->kill();
      run = std::make_unique<FedRun>(net, folder / "a", more);
      EXPECT_EQ(run->found()["rows"], 60);
    };
    run->feed(0, 30);
    run->done({"rate", "0,0,0", "0.004"});
    run->feed(30, 60);
    run->done({"freeze", "0,0,1"});
    run->done({"morph", "0,0,0", "--dtype", "int8"});
    run->done({"disable", "0,0,1", "--at", "400"});
    run->done({"enable", "0,0,1", "--at", "410"});
    pause();
    run->feed(60, 90);
    run->done({"weights", "0,0,1", "--parameter", "1", "--values", folder / "w.txt"});
    run->done({"thaw", "0,0,1"});
    run->feed(90, 300);
    const Outcome end = run->end();
    EXPECT_EQ(end.exit, 0) << end.told();
    const Json hash = end.last()["state_hash"];
    expect_verified(folder / "a", hash);
    return hash;
  };
  const Json whole = hash_of({"--threads", "1"}, false);
  EXPECT_EQ(hash_of({"--threads", "4", "--executor", "graph"}, false), whole);
  EXPECT_EQ(hash_of({"--threads", "1"}, true), whole);
  EXPECT_EQ(hash_of({"--threads", "2", "--durability", "tick"}, true), whole);
}

INSTANTIATE_TEST_SUITE_P(Schedules, Send, testing::Values("settle", "pipelined"));

// Killed at any moment around a command: what is on the disk is a run that took place, and it goes on.
TEST(SendCrash, LeavesARunThatReplays) {
  for (int attempt = 0; attempt < 12; ++attempt) {
    Folder folder;
    const std::string net = network(folder, attempt % 2 ? "pipelined" : "settle");
    const Words durability{"--durability", attempt % 3 ? "interval=50ms" : "tick"};
    bool is_answered = false;
    {
      FedRun run(net, folder / "a", durability);
      run.feed(0, 50);
      Process sender({"send", folder / "a", "rate", "*", "0", "--json"});
      std::this_thread::sleep_for(std::chrono::milliseconds(attempt * 2));
      run.kill();
      is_answered = sender.wait().exit == 0;
    }
    FedRun again(net, folder / "a", durability);
    const int next = again.found()["rows"].get<int>();
    EXPECT_LE(next, 50);
    if (is_answered) {
      EXPECT_EQ(next, 50) << "what stood before an answered command is kept with it";
    }
    again.feed(next, next + 1);  // an answer says that it is at work, and listens
    const auto before = again.values({"snapshot", "0,0,0"});
    again.feed(next + 1, 80);
    if (is_answered) {
      EXPECT_EQ(again.values({"snapshot", "0,0,0"}), before) << "an answered command holds";
    }
    const Outcome end = again.end();
    ASSERT_EQ(end.exit, 0) << end.told();
    expect_verified(folder / "a", end.last()["state_hash"]);
  }
}

TEST(SendRefusals, SayWhatIsWrongAndChangeNothing) {
  Folder folder;
  const std::string net = network(folder, "settle");
  EXPECT_EQ(weft({"send", folder / "a", "reset", "*"}).exit, 3) << "nobody is there";
  Json untouched;
  {
    FedRun run(net, folder / "b");
    run.feed(0, 60);
    untouched = run.end().last()["state_hash"];
  }
  FedRun run(net, folder / "a");
  run.feed(0, 30);
  write_file(folder / "two.txt", "1 2");
  write_file(folder / "nan.txt", "1 nan");
  write_file(folder / "words.txt", "1 x");
  const std::vector<std::tuple<Words, int, std::string>> bad{
      {{"reset", "0,0,7"}, 3, "no cell stands there"},
      {{"rate", "0,0,0,5", "0.1"}, 3, "no cell stands there"},
      {{"disable", "0,0,1,0"}, 2, "whole cell"},
      {{"period", "0,0,1", "soon"}, 2, "'soon'"},
      {{"period", "0,0,1", "0"}, 2, "0"},
      {{"rate", "*", "fast"}, 2, "'fast'"},
      {{"rate", "*", "1e9"}, 2, "1000"},
      {{"rate", "*"}, 2, "rate"},
      {{"reset", "0,0,1", "7"}, 2, "one argument too many"},
      {{"reset", "here"}, 2, "no place"},
      {{"reset", "0,0"}, 2, "no place"},
      {{"probe", "*"}, 2, "one layer"},
      {{"probe", "0,0,1", "--session", "3"}, 3, "session 3 of 1"},
      {{"weights", "0,0,1", "--values", folder / "two.txt"}, 3, "2"},
      {{"weights", "0,0,1", "--parameter", "9", "--values", folder / "two.txt"}, 3, "parameter 9"},
      {{"weights", "0,0,1", "--values", folder / "nan.txt"}, 3, "'nan'"},
      {{"weights", "0,0,1", "--values", folder / "words.txt"}, 3, "'x'"},
      {{"weights", "0,0,1"}, 2, "--values"},
      {{"morph", "0,0,1"}, 2, "--dtype"},
      {{"morph", "0,0,1", "--dtype", "float33"}, 2, "float33"},
      {{"freeze", "0,0,1", "--session", "0"}, 2, "--session"},
      {{"unplug", "0,0,1"}, 2, "unplug"},
  };
  for (const auto& [words, exit, named] : bad) {
    const Outcome refused = run.command(words);
    EXPECT_EQ(refused.exit, exit) << words[0] << " " << words[1] << refused.told();
    EXPECT_TRUE(holds(refused.err, named)) << words[0] << " " << words[1] << refused.told();
    EXPECT_EQ(refused.out, "");
  }
  run.feed(30, 60);
  EXPECT_EQ(run.end().last()["state_hash"], untouched);
  const Outcome after = run.command({"reset", "*"});
  EXPECT_EQ(after.exit, 3) << after.told();
  EXPECT_TRUE(holds(after.err, "--state")) << after.err;
}

TEST(SendRefusals, ARunWithoutAJournal) {
  Folder folder;
  Process run(endless(folder / "c"));
  wait_for_progress(run);
  const Outcome refused = weft({"send", folder / "c", "reset", "*"});
  EXPECT_EQ(refused.exit, 3) << refused.told();
  EXPECT_TRUE(holds(refused.err, "--state DIR")) << refused.err;
}

// Spoken by hand: what is no command costs that client alone.
TEST(SendSocket, TakesCommandsAndRefusesWhatIsNone) {
  Folder folder;
  FedRun run(network(folder, "settle"), folder / "a");
  run.feed(0, 10);
  Client client(socket_in(folder / "a"));
  for (const char* const bad :
       {R"({"send":{}})", R"({"send":7})", R"({"send":{"command":"reset","cell":[0,0]}})",
        R"({"send":{"command":"rate","cell":[0,0,1],"rate":-1}})",
        R"({"send":{"command":"rate","cell":[0,0,1],"rate":1e99}})",
        R"({"send":{"command":"reset","cell":[0,0,1],"mood":"bad"}})", R"({"send":{"command":"period","ticks":0}})",
        R"({"send":{"command":"weights","cell":[0,0,1],"values":[]}})",
        R"({"send":{"command":"morph","dtype":"int8","granularity":"row"}})"}) {
    ASSERT_TRUE(client.send(std::string(bad) + "\n"));
    const Json answer = client.read();
    EXPECT_TRUE(answer.contains("refused")) << bad << answer;
  }
  // Two at once are answered one after the other, and statistics between them.
  ASSERT_TRUE(
      client.send("{\"send\":{\"command\":\"reset\",\"cell\":[0,0,1]}}\n{\"get\":\"statistics\"}\n"
                  "{\"send\":{\"command\":\"probe\",\"cell\":[0,0,1]}}\n"));
  EXPECT_EQ(client.read()["command"], "reset");
  EXPECT_EQ(client.read()["weft_top"], 2);
  EXPECT_EQ(client.read()["command"], "probe");
  client.send("{\"send\":{\"command\":\"weights\",\"values\":[" + std::string(5 << 20, '1'));
  const Json cut = client.read();
  EXPECT_TRUE(cut.is_null() || cut.contains("error")) << "longer than any command may be: " << cut;
  run.feed(10, 20);
  EXPECT_EQ(run.end().exit, 0);
}

}  // namespace
}  // namespace weft::cli_test::send_test
