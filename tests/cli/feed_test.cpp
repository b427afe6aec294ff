// SPDX-License-Identifier: Apache-2.0

// weft run --data - and --follow: samples that arrive while the run goes on.

#include <sys/stat.h>

#include "tests/cli/agent.hpp"
#include "tests/cli/conversation.hpp"
#include "tests/cli/data_directory.hpp"

namespace weft::cli_test::feed_test {
namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Rows of two values and a class of two, which a line divides.
struct Row {
  double a, b;
  int kind;
};
std::vector<Row> rows(int count) {
  std::vector<Row> all;
  for (int i = 0; i < count; ++i) {
    const double a = (i * 37 % 61 - 30) / 20.0, b = (i * 53 % 59 - 29) / 20.0;
    all.push_back({a, b, a + b > 0});
  }
  return all;
}

std::string text_of(double value) { return Json(value).dump(); }
std::string csv(const Row& r) { return text_of(r.a) + "," + text_of(r.b) + "," + (r.kind ? "yes" : "no") + "\n"; }
std::string input(const Row& r) { return "\"x\":[" + text_of(r.a) + "," + text_of(r.b) + "]"; }
std::string target(const Row& r) { return std::string("\"y\":\"") + (r.kind ? "yes" : "no") + "\""; }
std::string json(const Row& r) { return "{" + input(r) + "," + target(r) + "}\n"; }
std::string observed(const Row& r, int id) { return "{\"id\":" + std::to_string(id) + "," + input(r) + "}\n"; }
std::string taught(const Row& r, int id) { return "{\"id\":" + std::to_string(id) + "," + target(r) + "}\n"; }

std::string network(const Folder& folder, const std::string& schedule = "settle", const std::string& late = "none") {
  write_file(folder / "n.json", R"({"weft": 2, "name": "n", "inputs": {"x": [2]},
    "chain": [{"type": "dense", "out": 8, "activation": "tanh"}, {"type": "dense", "out": 2}],
    "learning": {"schedule": ")" + schedule +
                                    R"(", "late": ")" + late + R"(", "patience": 8},
    "stream": {"csv": "none.csv", "classes": ["no", "yes"], "window": 40}})");
  return folder / "n.json";
}

/// A run that is given `text` by a pipe, to its end.
Outcome fed(const std::string& net, const std::string& text, const Words& more = {}) {
  Conversation run(Words{"run", net, "--data", "-", "--json", "--quiet"} + more);
  run.say(text);
  return run.end();
}

void expect_verified(const std::string& state) {
  const Outcome replayed = weft({"replay", state, "--verify", "--json"});
  EXPECT_EQ(replayed.exit, 0) << replayed.told();
}

/// The end of a run that is killed with -9 after each of these numbers of lines, begun again, and told the rest.
Outcome end_of_killed(const Words& place, const std::vector<std::string>& lines,
                      std::initializer_list<std::size_t> kills) {
  const auto say_from = [&](Conversation& run, std::size_t until) {
    const std::size_t next = run.hear_event("found")["rows"];
    for (std::size_t i = next; i < until; ++i) run.say(lines[i]);
  };
  for (const std::size_t until : kills) {
    Conversation run(place);
    say_from(run, until);
    run.hear_event("acknowledged");
    run.send(SIGKILL);
    run.end();
  }
  Conversation last(place);
  say_from(last, lines.size());
  return last.end();
}

TEST(Feed, TablesAndJsonLinesAreLearnedAlike) {
  for (const char* const schedule : {"settle", "pipelined"}) {
    Folder folder;
    const std::string net = network(folder, schedule);
    std::string table, lines, named;
    for (const Row& r : rows(600)) {
      table += csv(r);
      lines += json(r);
      named += "{\"a\":" + text_of(r.a) + ",\"b\":" + text_of(r.b) + ",\"kind\":\"" + (r.kind ? "yes" : "no") + "\"}\n";
    }
    write_file(folder / "t.csv", table);
    const Outcome one = fed(net, table, {"--test", folder / "t.csv"});
    ASSERT_EQ(one.exit, 0) << one.told();
    const Json done = one.last();
    EXPECT_EQ(done["samples"], 600);
    EXPECT_EQ(done["rows"], 600);
    EXPECT_GE(done["held_out_accuracy"].get<double>(), 0.95);
    EXPECT_GE(done["prequential_accuracy"].get<double>(), 0.9);
    for (const std::string& other : {"a,b,kind\n" + table, "\n" + table, lines, named}) {
      const Outcome two = fed(net, other);
      EXPECT_EQ(two.exit, 0) << two.told();
      EXPECT_EQ(two.last()["state_hash"], done["state_hash"]) << other.substr(0, 40);
    }
    // One by one, as they come, they are the same samples.
    Conversation slow({"run", net, "--data", "-", "--json", "--quiet", "--answers"});
    for (const Row& r : rows(600)) slow.say(json(r));
    EXPECT_EQ(slow.end().last()["state_hash"], done["state_hash"]);
  }
}

TEST(Feed, AStreamThatNamesNoFileTakesTheOneThatIsGiven) {
  Folder folder;
  const std::string net = network(folder), bare = folder / "bare.json";
  Json text = Json::parse(read_file(net));
  text["stream"].erase("csv");
  write_file(bare, text.dump());
  std::string table;
  for (const Row& row : rows(40)) table += csv(row);
  write_file(folder / "t.csv", table);
  EXPECT_EQ(fed(bare, table).last()["state_hash"], fed(net, table).last()["state_hash"]);
  const Words on_table{"--data", folder / "t.csv", "--epochs", "2", "--quiet", "--json"};
  const Outcome wanted = weft(Words{"run", net} + on_table), run = weft(Words{"run", bare} + on_table);
  ASSERT_EQ(run.exit, 0) << run.told();
  EXPECT_EQ(run.last()["state_hash"], wanted.last()["state_hash"]);
  EXPECT_EQ(weft({"predict", bare, "--data", folder / "t.csv"}).out,
            weft({"predict", net, "--data", folder / "t.csv"}).out);
  const Outcome refused = weft({"run", bare});
  EXPECT_EQ(refused.exit, 3) << refused.told();
  EXPECT_NE(refused.err.find("stream: key \"csv\" is missing"), std::string::npos) << refused.err;
}

TEST(Feed, KilledAndResumedItLosesNothingAndLearnsNothingTwice) {
  for (const char* const durability : {"tick", "interval=50ms"}) {
    Folder folder;
    const std::string net = network(folder, "pipelined");
    const auto all = rows(4000);
    std::string text;
    for (const Row& r : all) text += json(r);
    const Outcome whole = fed(net, text, {"--state", folder / "whole"});
    ASSERT_EQ(whole.exit, 0) << whole.told();
    const Words place{"run",     net,          "--data",       "-",       "--json", "--quiet",
                      "--state", folder / "a", "--durability", durability};
    std::size_t next = 0;
    for (const std::size_t until : {900, 1700, 3100}) {
      Conversation run(place);
      const Json found = run.hear_event("found");
      ASSERT_FALSE(found.is_null());
      EXPECT_GE(found["rows"].get<std::size_t>(), next) << durability;
      next = found["rows"];
      for (std::size_t i = next; i < until; ++i) run.say(json(all[i]));
      const Json acknowledged = run.hear_event("acknowledged");
      ASSERT_FALSE(acknowledged.is_null());
      next = acknowledged["rows"];
      run.send(SIGKILL);
      EXPECT_EQ(run.end().exit, 128 + SIGKILL);
    }
    Conversation last(place);
    next = last.hear_event("found")["rows"];
    for (std::size_t i = next; i < all.size(); ++i) last.say(json(all[i]));
    const Outcome end = last.end();
    ASSERT_EQ(end.exit, 0) << end.told();
    EXPECT_EQ(end.last()["samples"], 4000);
    EXPECT_EQ(end.last()["state_hash"], whole.last()["state_hash"]);
    EXPECT_EQ(end.last()["prequential_accuracy"], whole.last()["prequential_accuracy"]);
    expect_verified(folder / "a");
    EXPECT_EQ(weft({"diff", folder / "a", folder / "whole"}).exit, 0);
    // Asked, it answers; and another feed follows, counted anew.
    write_file(folder / "q.csv", "1,1\n");
    EXPECT_EQ(weft({"predict", folder / "a", "--data", folder / "q.csv"}).out, "class\nyes\n");
    EXPECT_EQ(fed(net, text, {"--state", folder / "a"}).last()["rows"], 4000);
    expect_verified(folder / "a");
  }
}

// An update of several learners is of as many rows. Of equal ones it is that of the row alone, to the bit.
TEST(Feed, LearnersTakeARowEach) {
  for (const char* const schedule : {"settle", "pipelined"}) {
    Folder folder;
    const std::string net = network(folder, schedule);
    std::string table, once, twice, other;
    const auto all = rows(400);
    for (std::size_t i = 0; i < all.size(); ++i) {
      table += csv(all[i]);
      once += json(all[i]);
      twice += json(all[i]) + json(all[i]);
      other += json(all[i]) + json(all[(i + 1) % all.size()]);
    }
    write_file(folder / "t.csv", table);
    const Words test{"--test", folder / "t.csv", "--learners"};
    const Json single = fed(net, once, test + Words{"1"}).last(), pairs = fed(net, twice, test + Words{"2"}).last();
    EXPECT_EQ(pairs["samples"], 800);
    EXPECT_EQ(pairs["rows"], 800);
    EXPECT_EQ(pairs["held_out"]["loss"], single["held_out"]["loss"]);
    EXPECT_NE(fed(net, other, test + Words{"2"}).last()["held_out"]["loss"], single["held_out"]["loss"]);
    // Rows that fill no update are left out and told; a sample without its target is refused.
    const Json rest = fed(net, twice + json(all[0]), test + Words{"2", "--sessions", "3"}).last();
    EXPECT_EQ(rest["rows"], 801);
    EXPECT_EQ(rest["skipped_rows"], 1);
    EXPECT_EQ(rest["held_out"]["loss"], pairs["held_out"]["loss"]);
    const Outcome refused = fed(network(folder, schedule, "meet"), observed(all[0], 7), {"--learners", "2"});
    EXPECT_NE(refused.exit, 0);
    EXPECT_TRUE(holds(refused.err, "--learners 1")) << refused.err;
  }
}

TEST(Feed, LearnersThatTakeARowEachLoseNoneWhenKilled) {
  Folder folder;
  const std::string net = network(folder, "pipelined");
  std::vector<std::string> lines;
  for (const Row& r : rows(1500)) lines.push_back(lines.size() % 7 == 3 ? "no row\n" : json(r));
  std::string text;
  for (const std::string& line : lines) text += line;
  const Words more{"--learners", "4", "--bad-rows", "skip"};
  const Outcome whole = fed(net, text, more + Words{"--state", folder / "whole"});
  ASSERT_EQ(whole.exit, 0) << whole.told();
  const Words place =
      Words{"run", net, "--data", "-", "--json", "--quiet", "--state", folder / "a", "--durability", "tick"} + more;
  const Outcome end = end_of_killed(place, lines, {301, 702, 1103});
  ASSERT_EQ(end.exit, 0) << end.told();
  for (const char* const key : {"rows", "skipped_rows", "samples", "state_hash", "prequential_accuracy"})
    EXPECT_EQ(end.last()[key], whole.last()[key]) << key;
  EXPECT_EQ(end.last()["rows"], 1500);
  expect_verified(folder / "a");
}

// Each answer and each row that is passed over has its own number, also while others wait for their minibatch.
TEST(Feed, RowsAreCountedWhileOthersWaitForTheirUpdate) {
  Folder folder;
  const std::string net = network(folder, "pipelined");
  std::string text;
  for (const Row& r : rows(10)) text += text.empty() ? json(r) + "no row\n" : json(r);
  for (const char* const learners : {"1", "4"})
    for (const bool answers : {true, false}) {
      Words more{"--learners", learners, "--bad-rows", "skip"};
      if (answers) more.push_back("--answers");
      const Outcome outcome = fed(net, text, more);
      ASSERT_EQ(outcome.exit, 0) << outcome.told();
      std::vector<std::uint64_t> answered;
      for (const Json& event : outcome.events()) {
        if (event["event"] == "answer") answered.push_back(event["row"]);
        if (event["event"] == "skipped") {
          EXPECT_EQ(event["row"], 1) << learners;
        }
      }
      const std::vector<std::uint64_t> all{0, 2, 3, 4, 5, 6, 7, 8, 9, 10};
      EXPECT_EQ(answered, answers ? all : std::vector<std::uint64_t>()) << learners;
    }
}

// The step that overflows is not made, and what was learned before it is not lost with it.
TEST(Feed, RowsBeforeAHaltAreKept) {
  Folder folder;
  const std::string net = network(folder, "settle", "meet");
  const auto all = rows(41);
  std::string text;
  for (int i = 0; i < 40; ++i) text += json(all[static_cast<std::size_t>(i)]);
  text += observed(all[40], 40);
  const std::string huge = R"({"id":40,"gradient":[3e38,-3e38]})"
                           "\n";
  for (int trial = 0; trial < 5; ++trial) {
    const std::string state = folder / ("s" + std::to_string(trial));
    const Outcome halted = fed(net, text + huge + json(all[0]), {"--state", state});
    EXPECT_EQ(halted.exit, 1) << halted.told();
    const Outcome rest = fed(net, "", {"--state", state});
    EXPECT_EQ(rest.exit, 0) << rest.told();
    EXPECT_EQ(rest.last()["rows"], 41) << trial;
    EXPECT_EQ(rest.last()["samples"], 41);
  }
}

// Taught before the next sample enters, an observed sample is one that is learned.
TEST(Feed, TargetsThatComeLater) {
  for (const char* const late : {"meet", "again"}) {
    Folder folder;
    const std::string net = network(folder, "settle", late);
    const auto all = rows(300);
    std::string at_once, in_two, later;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const int id = static_cast<int>(i);
      at_once += json(all[i]);
      in_two += observed(all[i], id) + taught(all[i], id);
      later += observed(all[i], id);
      if (i % 5 == 4) later += "{\"id\":" + std::to_string(id) + ",\"forgo\":true}\n";
      if (i >= 3 && (i - 3) % 5 != 4) later += taught(all[i - 3], id - 3);
    }
    const Outcome learned = fed(net, at_once), two = fed(net, in_two, {"--state", folder / "two"});
    ASSERT_EQ(two.exit, 0) << two.told();
    if (late == std::string("meet")) {
      EXPECT_EQ(two.last()["state_hash"], learned.last()["state_hash"]);
    }
    EXPECT_EQ(two.last()["prequential_accuracy"], learned.last()["prequential_accuracy"]);
    EXPECT_EQ(two.last()["rows"], 600);
    EXPECT_EQ(two.last()["late"]["taught"], 300);
    expect_verified(folder / "two");
    // With samples open: killed again and again, and resumed.
    const Outcome whole = fed(net, later, {"--state", folder / "whole"});
    ASSERT_EQ(whole.exit, 0) << whole.told();
    EXPECT_EQ(whole.last()["late"]["forgone"], 60);
    std::vector<std::string> lines;
    std::istringstream in(later);
    for (std::string line; std::getline(in, line);) lines.push_back(line + "\n");
    const Words place{"run", net, "--data", "-", "--json", "--quiet", "--state", folder / "a", "--durability", "tick"};
    const Outcome end = end_of_killed(place, lines, {101, 202, 303});
    ASSERT_EQ(end.exit, 0) << end.told();
    EXPECT_EQ(end.last()["state_hash"], whole.last()["state_hash"]);
    EXPECT_EQ(end.last()["late"], whole.last()["late"]);
    expect_verified(folder / "a");
  }
}

TEST(Feed, TargetsHaveWeightsOrAreGradients) {
  Folder folder;
  const std::string net = network(folder, "settle", "meet");
  const auto all = rows(200);
  const auto told = [&](const std::string& keys, bool learns = true) {
    std::string lines;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const int id = static_cast<int>(i);
      std::string target = taught(all[i], id);
      if (!learns) target = R"({"id":)" + std::to_string(id) + "}\n";
      target.insert(target.rfind('}'), keys);
      lines += observed(all[i], id) + target;
    }
    return fed(net, lines);
  };
  const std::string plain = told("").last()["state_hash"];
  EXPECT_EQ(told(R"(,"weight":1)").last()["state_hash"], plain);
  EXPECT_NE(told(R"(,"weight":0.5)").last()["state_hash"], plain);
  const Outcome none = told(R"(,"weight":0)");
  EXPECT_EQ(none.last()["late"]["taught"], 200);
  // A gradient of zeros moves nothing, as a weight of 0; another one does.
  const auto gradient = [&](const std::string& value) { return R"(,"gradient":[)" + value + ",0]"; };
  const Outcome zero = told(gradient("0"), false), moved = told(gradient("0.25"), false);
  ASSERT_EQ(zero.exit, 0) << zero.told();
  EXPECT_NE(moved.last()["state_hash"], zero.last()["state_hash"]);
  const auto refused = [&](const std::string& keys, const std::string& words, bool learns) {
    const Outcome outcome = told(keys, learns);
    EXPECT_NE(outcome.exit, 0) << keys;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  };
  refused(R"(,"weight":-1)", "weight -1", true);
  refused(R"(,"weight":"much")", "'weight': expected a number", true);
  refused(R"(,"gradient":[1])", "'gradient': 1 values where", false);
  refused(R"(,"gradient":["x"])", "'gradient': expected a list of numbers", false);
  refused(R"(,"gradient":[1])", "give one of them", true);
}

// Rows with a class and a weight: of all formats the same bits, with a data directory too, and as a file of samples.
TEST(Feed, RowsHaveWeights) {
  for (const char* const schedule : {"settle", "pipelined"}) {
    Folder folder;
    const std::string net = network(folder, schedule);
    const auto all = rows(300);
    std::string table = "a,w,b,kind\n", lines, named, plain;
    std::vector<std::string> single;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Row& r = all[i];
      const std::string weight = text_of(0.25 * static_cast<double>(i % 5));
      table += text_of(r.a) + "," + weight + "," + text_of(r.b) + "," + (r.kind ? "yes" : "no") + "\n";
      single.push_back("{" + input(r) + "," + target(r) + ",\"weight\":" + weight + "}\n");
      lines += single.back();
      named += "{\"a\":" + text_of(r.a) + ",\"w\":" + weight + ",\"b\":" + text_of(r.b) + ",\"kind\":\"" +
               (r.kind ? "yes" : "no") + "\"}\n";
      plain += json(r);
    }
    const Words by_column{"--weight", "w", "--label", "kind"};
    const Outcome one = fed(net, table, by_column);
    ASSERT_EQ(one.exit, 0) << one.told();
    const Json done = one.last();
    EXPECT_EQ(done["samples"], 300);
    EXPECT_NE(done["state_hash"], fed(net, plain).last()["state_hash"]);
    EXPECT_EQ(fed(net, named, by_column).last()["state_hash"], done["state_hash"]);
    const Words by_key{"--weight", "weight"};
    EXPECT_EQ(fed(net, lines, by_key).last()["state_hash"], done["state_hash"]);
    EXPECT_EQ(fed(net, lines, by_key + Words{"--answers"}).last()["state_hash"], done["state_hash"]);
    // Killed and begun again.
    const std::string state = folder / "n.agent";
    const Outcome ended = end_of_killed(
        Words{"run", net, "--data", "-", "--json", "--quiet", "--state", state, "--durability", "tick"} + by_key,
        single, {7, 100, 250});
    EXPECT_EQ(ended.last()["state_hash"], done["state_hash"]) << ended.told();
    expect_verified(state);
    write_file(folder / "t.csv", table);
    const Words from_file{"run",     net,          "--data", folder / "t.csv", "--json",
                          "--quiet", "--held-out", "0",      "--epochs",       "1"};
    const Outcome file = weft(from_file + by_column);
    ASSERT_EQ(file.exit, 0) << file.told();
    EXPECT_EQ(file.last()["samples"], 300);
    // Answers have no use for weights.
    const Outcome answers = weft({"predict", net, "--data", folder / "t.csv", "--weight", "w", "--label", "kind"});
    EXPECT_EQ(answers.exit, 0) << answers.told();
    // A weight that nobody takes, and none that can be one.
    const auto refused = [&](const std::string& text, const Words& flags, const std::string& words) {
      const Outcome outcome = fed(net, text, flags);
      EXPECT_EQ(outcome.exit, 3) << words;
      EXPECT_TRUE(holds(outcome.err, words)) << outcome.err;
    };
    refused(lines, {}, ":1: 'weight': a sample with a weight, and samples have none; give --weight weight");
    refused("a,w,b,kind\n1,1,1,yes\n1,-0.5,1,no\n", by_column, ":3: column 2 'w': \"-0.5\"; weights are finite");
    refused("{\"x\":[1,1],\"y\":\"yes\",\"weight\":-2}\n", by_key, ":1: 'weight': -2");
    const Outcome skipped = fed(net, "a,w,b,kind\n1,-1,1,yes\n" + table.substr(table.find('\n') + 1),
                                by_column + Words{"--bad-rows", "skip"});
    EXPECT_EQ(skipped.last()["state_hash"], done["state_hash"]);
  }
}

TEST(Feed, SamplesThatExpireAreTold) {
  Folder folder;
  const std::string net = network(folder, "settle", "meet");
  std::string lines;
  const auto all = rows(300);
  for (std::size_t i = 0; i < all.size(); ++i) lines += observed(all[i], static_cast<int>(i));
  const Outcome outcome = fed(net, lines);
  ASSERT_EQ(outcome.exit, 0) << outcome.told();
  std::uint64_t told = 0;
  for (const Json& event : outcome.events())
    if (event["event"] == "expired") {
      told += event["count"].get<std::uint64_t>();
      EXPECT_EQ(event["late"]["expired"], told);
    }
  EXPECT_GT(told, 0u);
  EXPECT_EQ(outcome.last()["late"]["expired"], told) << outcome.told();
}

// A clear error that names the line; nothing of it is learned, and nothing before it is lost.
TEST(Feed, BadRowsStopTheRunOrArePassedOver) {
  Folder folder;
  const std::string net = network(folder, "settle", "meet");
  const auto all = rows(12);
  std::string before, after;
  for (int i = 0; i < 6; ++i) before += json(all[static_cast<std::size_t>(i)]);
  before += observed(all[6], 6) + taught(all[6], 6) + observed(all[7], 7);
  for (int i = 8; i < 12; ++i) after += json(all[static_cast<std::size_t>(i)]);
  const Outcome good = fed(net, before + after), first = fed(net, before);
  ASSERT_EQ(good.exit, 0) << good.told();
  struct Case {
    std::string line, error;
    bool is_last = false;
  };
  for (const Case& c :
       {Case{"{\"x\":[1,2],\"y\":\"per", "inside which the data end", true},
        Case{"{\"x\":[1],\"y\":\"no\"}\n", "expected a list of 2"},
        Case{"{\"x\":[1,NaN],\"y\":\"no\"}\n", "no JSON object"}, Case{"{\"x\":[1,null],\"y\":\"no\"}\n", "no value"},
        Case{"{\"x\":[1,1e60],\"y\":\"no\"}\n", "more than a float"},
        Case{"{\"x\":[1,2],\"y\":\"maybe\"}\n", "none of the model's 2"},
        Case{"{\"id\":99,\"y\":\"no\"}\n", "id 99: unknown"},
        Case{taught(all[6], 6), "id 6: sample 6: has been taught already"},
        Case{observed(all[7], 7), "id 7: an earlier sample has it"},
        Case{"{\"id\":7,\"y\":\"perhaps\"}\n", "none of the model's 2"},
        Case{"{\"id\":6,\"forgo\":true}\n", "id 6: sample 6: has been taught"},
        Case{"{\"id\":7,\"y\":null}\n", "no label"}, Case{"{}\n", "'x': expected a list"}, Case{"[1,2]\n", "no object"},
        Case{"{\"x\":[1,2],\"z\":1}\n", "unknown key"}}) {
    const std::string state = folder / "s";
    const Outcome stopped = fed(net, before + c.line + (c.is_last ? "" : after), {"--state", state});
    EXPECT_EQ(stopped.exit, 3) << c.line << stopped.told();
    EXPECT_TRUE(holds(stopped.err, "standard input:10:") && holds(stopped.err, c.error)) << c.line << stopped.err;
    const Outcome rest = fed(net, "", {"--state", state});
    EXPECT_EQ(rest.exit, 0) << rest.told();
    EXPECT_EQ(rest.last()["rows"], 9);
    EXPECT_EQ(rest.last()["state_hash"], first.last()["state_hash"]) << c.line;
    std::filesystem::remove_all(state);
    const Outcome passed =
        fed(net, before + c.line + (c.is_last ? "" : after), {"--bad-rows", "skip", "--state", state});
    EXPECT_EQ(passed.exit, 0) << c.line << passed.told();
    EXPECT_EQ(passed.last()["skipped_rows"], 1);
    EXPECT_EQ(passed.last()["state_hash"], (c.is_last ? first : good).last()["state_hash"]) << c.line;
    std::filesystem::remove_all(state);
  }
  // A table's last line without its end may be half a number.
  const Outcome cut = fed(net, csv(all[0]) + "0.5,0.25,ye");
  EXPECT_EQ(cut.exit, 3);
  EXPECT_TRUE(holds(cut.err, "standard input:2: the data end inside this line")) << cut.err;
}

TEST(Feed, EndsWhenToldAndGoesOn) {
  Folder folder;
  const std::string net = network(folder);
  const auto all = rows(50);
  const Words place{"run", net, "--data", "-", "--json", "--quiet", "--state", folder / "a"};
  Conversation run(place + Words{"--answers"});
  EXPECT_FALSE(run.hear_event("start").is_null());
  for (int i = 0; i < 20; ++i) {
    run.say(json(all[static_cast<std::size_t>(i)]));
    const Json answer = run.hear_event("answer");
    EXPECT_EQ(answer["row"], i);
    EXPECT_EQ(answer["values"].size(), 2u);
    EXPECT_EQ(answer["class"], answer["values"][0] < answer["values"][1] ? "yes" : "no");
  }
  run.send(SIGTERM);
  // Nobody closes the pipe: the end is that of the signal.
  while (!run.hear().empty()) {
  }
  EXPECT_EQ(run.end().exit, 143);
  Conversation rest(place + Words{"--max-samples", "50"});
  EXPECT_EQ(rest.hear_event("found")["rows"], 20);
  for (std::size_t i = 20; i < 50; ++i) rest.say(json(all[i]));
  const Json done = rest.hear_event("done");
  EXPECT_EQ(done["samples"], 50);
  EXPECT_EQ(rest.end().exit, 0);
  std::string text;
  for (const Row& r : all) text += json(r);
  EXPECT_EQ(fed(net, text).last()["state_hash"], done["state_hash"]);
}

TEST(Feed, FilesOfADirectoryAreLearnedOnceInTheOrderOfTheirNames) {
  Folder folder;
  const std::string net = network(folder), in = folder / "in";
  std::filesystem::create_directory(in);
  const auto all = rows(400);
  std::string text;
  const auto put = [&](const std::string& name, std::size_t from, std::size_t until) {
    std::string part;
    for (std::size_t i = from; i < until; ++i) part += json(all[i]);
    write_file(in + "/." + name, part);
    std::filesystem::rename(in + "/." + name, in + "/" + name);
    text += part;
  };
  const Words place{"run", net, "--follow", in, "--json", "--quiet", "--state", folder / "a", "--durability", "tick"};
  put("001", 0, 100);
  put("002", 100, 250);
  for (const std::size_t wanted : {250, 390}) {
    Conversation run(place);
    run.hear_event("start");
    if (wanted == 390) put("003", 250, 390);
    const std::size_t last = wanted == 390 ? 140 : 150;  // rows of its file
    for (Json event = run.hear_event("acknowledged"); !event.is_null() && event["rows"] != last;)
      event = run.hear_event("acknowledged");
    run.send(SIGKILL);
    run.end();
  }
  Conversation run(place + Words{"--max-samples", "400"});
  EXPECT_EQ(run.hear_event("found")["samples"], 390);
  put("004", 390, 400);
  const Json done = run.hear_event("done");
  EXPECT_EQ(done["samples"], 400);
  EXPECT_EQ(run.end().exit, 0);
  EXPECT_EQ(fed(net, text).last()["state_hash"], done["state_hash"]);
  expect_verified(folder / "a");
}

TEST(Feed, ASocketTakesProducersOneAfterTheOther) {
  Folder folder;
  const std::string net = network(folder), path = folder / "s";
  const auto all = rows(90);
  Conversation run({"run", net, "--follow", path, "--json", "--quiet", "--max-samples", "90"});
  run.hear_event("start");
  struct stat there {};
  while (lstat(path.c_str(), &there) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(S_ISSOCK(there.st_mode));
  EXPECT_EQ(there.st_mode & 0777, 0600u);
  std::string text;
  for (std::size_t i = 0; i < 90; i += 30) {
    Client producer(path);
    ASSERT_TRUE(producer.is_connected());
    EXPECT_EQ(producer.read()["rows"], i);
    for (std::size_t j = i; j < i + 30; ++j) {
      producer.send(json(all[j]));
      text += json(all[j]);
    }
  }
  const Json done = run.hear_event("done");
  EXPECT_EQ(done["samples"], 90);
  EXPECT_EQ(run.end().exit, 0);
  EXPECT_EQ(fed(net, text).last()["state_hash"], done["state_hash"]);
  EXPECT_NE(lstat(path.c_str(), &there), 0);
}

TEST(Feed, RefusesFlagsThatDoNotFit) {
  Folder folder;
  const std::string net = network(folder);
  for (const Words& words :
       {Words{"--data", "-", "--epochs", "2"}, Words{"--data", "-", "--held-out", "0.2"},
        Words{"--data", "-", "--follow", folder / "x"}, Words{"--answers"}, Words{"--bad-rows", "skip"}}) {
    const Outcome refused = weft(Words{"run", net} + words);
    EXPECT_EQ(refused.exit, 2) << refused.told();
  }
  Json drifting = Json::parse(read_file(net));
  drifting["stream"]["drift"] = {{"kind", "labels"}};
  write_file(folder / "d.json", drifting.dump());
  const Outcome drift = fed(folder / "d.json", "");
  EXPECT_EQ(drift.exit, 3) << drift.told();
  EXPECT_TRUE(holds(drift.err, "stream.drift")) << drift.err;
  const Outcome unnamed = fed(net, "{\"id\":1,\"x\":[1,2]}\n");
  EXPECT_EQ(unnamed.exit, 3);
  EXPECT_TRUE(holds(unnamed.err, "learning.late is 'none'")) << unnamed.err;
}

}  // namespace
}  // namespace weft::cli_test::feed_test
