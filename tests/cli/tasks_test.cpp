// SPDX-License-Identifier: Apache-2.0
// Tasks one after the other in `weft run`: the same end wherever it is killed, accuracies as a table and as a picture.

#include "tests/cli/data_directory.hpp"
#include <sstream>

namespace weft::cli_test::tasks_test {
namespace {

/// Digits in five tasks, with stored samples and weights that are held.
Json network() {
  Json made = Json::parse(R"({"weft": 2, "inputs": {"pixels": [64]},
    "chain": [{"type": "dense", "out": 32, "activation": "relu", "init": "he"}, {"type": "dense", "out": 10}],
    "learning": {"rule": "backprop", "optimizer": {"type": "sgd", "lr": 0.05}, "learners": 2,
                 "replay": {"method": "der++", "samples": 6, "capacity": 100},
                 "consolidation": {"method": "ewc", "every": 100, "strength": 1}},
    "stream": {"scale": 0.0625, "tasks": {"kind": "split", "count": 5, "scenario": "class", "samples": 600}}})");
  made["stream"]["csv"] = source_path("examples/data/digits.csv.gz");
  return made;
}

class Tasks : public ::testing::Test {
 protected:
  std::string file(const Json& made) {
    write_file(folder_ / "n.json", made.dump());
    return folder_ / "n.json";
  }
  Folder folder_;
};

TEST_F(Tasks, AreMeasuredPrintedWrittenAndDrawn) {
  const Words words{"run", file(network()), "--json", "--matrix", folder_ / "m.csv", "--threads", "1"};
  const Outcome ran = weft(words);
  ASSERT_EQ(ran.exit, 0) << ran.told();
  const Json tasks = ran.last()["tasks"];
  EXPECT_EQ(tasks["scenario"], "class-incremental");
  ASSERT_EQ(tasks["matrix"].size(), 6u);
  EXPECT_GT(tasks["accuracy"].get<double>(), 0.6);
  EXPECT_GT(tasks["matrix"][1][0].get<double>(), 0.9);
  EXPECT_LT(tasks["matrix"][1][4].get<double>(), 0.1);
  std::istringstream lines(read_file(folder_ / "m.csv"));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "scenario,after,task_1,task_2,task_3,task_4,task_5");
  std::getline(lines, line);
  EXPECT_TRUE(line.starts_with("class-incremental,0,")) << line;
  write_file(folder_ / "r.jsonl", ran.out);
  for (const char* const from : {"m.csv", "r.jsonl"}) {
    const Outcome drawn = weft({"plot", folder_ / from, "-o", folder_ / "x.svg", "--title", "a < b"});
    ASSERT_EQ(drawn.exit, 0) << drawn.told();
    const std::string picture = read_file(folder_ / "x.svg");
    EXPECT_TRUE(picture.starts_with("<svg ")) << picture.substr(0, 80);
    EXPECT_NE(picture.find("a &lt; b"), std::string::npos);
    EXPECT_EQ(picture.find("nan"), std::string::npos);
  }
  const Outcome text = weft({"run", file(network()), "--threads", "2"});
  EXPECT_NE(text.out.find("5 tasks, split, class-incremental"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("forgetting"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find(ran.last()["state_hash"].get<std::string>()), std::string::npos) << text.out;
}

TEST_F(Tasks, EndInTheSameStateAndMatrixWhereverTheyAreKilled) {
  expect_same_end_after_kills({"run", file(network()), "--json", "--threads", "1"}, folder_ / "agent", "500",
                              {"state_hash", "tasks", "held_out_accuracy", "mean_loss"});
}

TEST_F(Tasks, ThatCannotBeMadeAreRefusedInWords) {
  const auto refused = [&](const char* pointer, const Json& value, const std::string& words) {
    Json made = network();
    made[Json::json_pointer(pointer)] = value;
    const Outcome outcome = weft({"run", file(made)});
    EXPECT_TRUE(outcome.exit == 2 || outcome.exit == 3) << pointer << ": " << outcome.exit;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  };
  refused("/stream/tasks/count", 11, "stream.tasks.count: 11 tasks, and the samples have 10 classes");
  refused("/stream/tasks/count", 3, "stream.tasks.count: 3 tasks do not divide 10 classes evenly");
  refused("/stream/tasks/count", -1, "stream.tasks.count");
  refused("/stream/tasks/kind", "shuffled", "stream.tasks.kind");
  refused("/stream/tasks/scenario", "task", "with learning.loss 'cross_entropy'; give multi_head_cross_entropy");
  refused("/stream/held_out", 0, "each task is measured with held-out samples, and there are none");
  refused("/stream/drift", {{"kind", "labels"}}, "with stream.drift.kind 'labels'");
  refused("/chain/1/out", 4, "takes 10 values");
  refused("/learning/replay/capacity", -4, "learning.replay.capacity");
  refused("/learning/late", "again", "learning.replay.method: 'der++' with learning.late 'again'");
  Json permuted = network();
  permuted["stream"]["tasks"] = {{"kind", "permuted"}, {"count", 3}, {"scenario", "class"}};
  const Outcome outcome = weft({"run", file(permuted)});
  EXPECT_NE(outcome.err.find("'class' takes 30 values, and output"), std::string::npos) << outcome.err;
}

TEST_F(Tasks, PlotsOfOtherFilesAreRefusedInWords) {
  const auto refused = [&](const std::string& content, const std::string& words) {
    write_file(folder_ / "t.csv", content);
    const Outcome outcome = weft({"plot", folder_ / "t.csv", "-o", folder_ / "x.svg"});
    EXPECT_NE(outcome.exit, 0) << content;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  };
  refused("", "is empty");
  refused("x,y\n1,two\n", "\"two\" in column 'y' is no number");
  refused("x\n1\n", "1 columns");
  refused("x,y\n", "holds no numbers to show");
  refused("{\"event\": \"done\"}\n", "holds no numbers to show");
  refused("{\"event\": \n", "t.csv:1");
  const Outcome none = weft({"plot", folder_ / "none.csv", "-o", folder_ / "x.svg"});
  EXPECT_NE(none.exit, 0);
}

}  // namespace
}  // namespace weft::cli_test::tasks_test
