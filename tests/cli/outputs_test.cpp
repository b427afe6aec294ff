// SPDX-License-Identifier: Apache-2.0

// Several outputs taught from one table: stream.outputs in weft run, eval and predict.

#include "tests/cli/conversation.hpp"
#include "tests/cli/program.hpp"

namespace weft::cli_test::outputs_test {
namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Two stacks that share their input alone, and outputs whose names are in another order than the columns.
std::string network(const Folder& folder, const std::string& name, const std::string& stream,
                    const std::string& learning = R"("loss": "cross_entropy")", const std::string& outs = "23") {
  const std::string path = folder / (name + ".json");
  write_file(path, R"({"weft": 2, "name": "n", "grid": {"z": 1, "y": 1, "x": 4, "layers": 1}, "inputs": {"p": [2]},
   "layers": [{"at": [0,0,0,0], "type": "dense", "out": 6, "activation": "tanh", "from": ["p"]},
              {"at": [0,0,1,0], "type": "dense", "out": )" +
                       outs.substr(0, 1) + R"(, "from": [[0,0,0,0]]},
              {"at": [0,0,2,0], "type": "dense", "out": 6, "activation": "tanh", "from": ["p"]},
              {"at": [0,0,3,0], "type": "dense", "out": )" +
                       outs.substr(1, 1) + R"(, "from": [[0,0,2,0]]}],
   "outputs": {"which": [0,0,1,0], "area": [0,0,3,0]},
   "learning": {)" + learning +
                       R"(, "optimizer": {"type": "sgd", "lr": 0.05}},
   "stream": {"csv": "t.csv", "scale": 0.02, "epochs": 20, "held_out": 0.2, )" +
                       stream + "}}");
  return path;
}

std::string table() {
  std::string text = "x,y,side,third,sum,gap\n";
  for (int i = 0; i < 200; ++i) {
    const int x = i * 37 % 101 - 50, y = i * 53 % 97 - 48;
    if (x == 0) continue;
    text += std::to_string(x) + "," + std::to_string(y) + (x > 0 ? ",right," : ",left,") +
            (y < -16  ? "low"
             : y < 16 ? "middle"
                      : "high") +
            "," + std::to_string((x + y) * 0.01) + "," + std::to_string((x - y) * 0.01) + "\n";
  }
  return text;
}

std::string trained(const std::string& net, const Words& more = {}) {
  const std::string model = net + ".entity";
  const Outcome run = weft(Words{"run", net, "--quiet", "--save", model} + more);
  EXPECT_EQ(run.exit, 0) << run.told();
  return model;
}

constexpr const char* kBoth = R"("outputs": ["which", "area"], "labels": ["side", "third"], "skip": ["sum", "gap"])";

// Stacks that share nothing learn together what each learns alone, to the bit.
TEST(Outputs, SeveralLearnFromOneTableWhatEachLearnsAlone) {
  for (const char* const schedule : {"settle", "pipelined"}) {
    Folder folder;
    write_file(folder / "t.csv", table());
    const std::string learning = std::string(R"("loss": "cross_entropy", "schedule": ")") + schedule + "\"";
    const std::string both = trained(network(folder, "both", kBoth, learning));
    const std::string which = trained(
        network(folder, "a", R"("output": "which", "label": "side", "skip": ["third", "sum", "gap"])", learning));
    const std::string area = trained(
        network(folder, "b", R"("output": "area", "label": "third", "skip": ["side", "sum", "gap"])", learning));
    const auto values = [&](const std::string& model) {
      std::vector<Json> rows;
      for (const std::string& line :
           lines_of(weft({"predict", model, "--data", folder / "t.csv", "--values", "--json"}).out))
        rows.push_back(Json::parse(line));
      return rows;
    };
    const auto all = values(both), first = values(which), second = values(area);
    ASSERT_EQ(all.size(), first.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i]["outputs"]["which"], first[i]);
      EXPECT_EQ(all[i]["outputs"]["area"], second[i]);
    }
    const Json told = weft({"eval", both, "--data", folder / "t.csv", "--json"}).last();
    ASSERT_EQ(told["heads"].size(), 2u) << told;
    EXPECT_EQ(told["heads"][0]["output"], "which");
    EXPECT_EQ(told["heads"][1]["output"], "area");
    EXPECT_EQ(told["heads"][1]["name"], "third");
    const Json alone = weft({"eval", area, "--data", folder / "t.csv", "--json"}).last();
    EXPECT_EQ(told["heads"][1]["accuracy"], alone["accuracy"]);
    EXPECT_EQ(told["heads"][1]["confusion"], alone["confusion"]);
    EXPECT_GT(told["heads"][0]["accuracy"].get<double>(), 0.9);
    EXPECT_GT(told["accuracy"].get<double>(), 0.6);
    const auto lines = lines_of(weft({"predict", both, "--data", folder / "t.csv", "--values"}).out);
    EXPECT_EQ(lines[0], "side,third,side:left,side:right,third:high,third:low,third:middle");
  }
}

TEST(Outputs, SeveralLearnValuesToo) {
  Folder folder;
  write_file(folder / "t.csv", table());
  const std::string stream =
      R"("outputs": ["area", "which"], "targets": ["sum", "gap", "x"], "target_deviation": [1, 1, 50],
         "skip": ["side", "third"])";
  const std::string net = network(folder, "n", stream, R"("loss": "mse")", "12");
  // x is an input no more, so the network takes one value.
  std::string text = read_file(net);
  text.replace(text.find("\"p\": [2]"), 8, "\"p\": [1]");
  write_file(net, text);
  const std::string model = trained(net);
  const Json told = weft({"eval", model, "--data", folder / "t.csv", "--json"}).last();
  ASSERT_EQ(told["targets"].size(), 3u) << told;
  EXPECT_EQ(told["targets"][2]["output"], "which");
  EXPECT_EQ(told["targets"][2]["name"], "x");
  // The loss is the mean of both outputs', in the units that are learned.
  const auto mse = [&](int i) { return told["targets"][static_cast<std::size_t>(i)]["mse"].get<double>(); };
  EXPECT_NEAR(told["loss"].get<double>(), ((mse(0) + mse(1)) / 2 + mse(2) / 2500) / 2, 1e-5);
  const Json row = weft({"predict", model, "--data", folder / "t.csv", "--json"}).last();
  EXPECT_EQ(row["outputs"]["area"]["values"].size(), 2u) << row;
  EXPECT_EQ(row["outputs"]["which"]["values"].size(), 1u);
}

// Rows that arrive are learned as those of a file are, and each learner takes one of its own.
TEST(Outputs, SeveralLearnFromAPipe) {
  Folder folder;
  const std::string text = table();
  write_file(folder / "t.csv", text);
  const std::string net =
      network(folder, "n", std::string(kBoth) + R"(, "head_classes": [["left", "right"], ["high", "low", "middle"]])");
  for (const Words& more : {Words{"--answers"}, Words{"--learners", "2"}}) {
    const Words words = Words{"run", net, "--data", "-", "--json", "--quiet", "--test", folder / "t.csv"} + more;
    Conversation told(words);
    told.say(text);
    const Outcome run = told.end();
    ASSERT_EQ(run.exit, 0) << run.told();
    EXPECT_EQ(run.last()["held_out"]["heads"][1]["output"], "area") << run.last();
    EXPECT_EQ(run.last()["samples"], 198);
    if (more.size() == 2) continue;
    const Json answer = Json::parse(lines_of(run.out)[1]);
    EXPECT_TRUE(answer["outputs"]["area"].contains("class")) << answer;
  }
}

/// Unsigned bytes of IDX, sizes in big-endian order.
std::string idx(const std::vector<std::uint8_t>& sizes, const std::string& values) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const std::uint8_t size : sizes) bytes += std::string{'\0', '\0', '\0', static_cast<char>(size)};
  return bytes + values;
}

TEST(Outputs, SeveralLearnFromAnIdxFile) {
  Folder folder;
  std::string samples, labels;
  for (int i = 0; i < 100; ++i) {
    samples += static_cast<char>(i), samples += static_cast<char>(99 - i);
    // A column that no output takes stands between the two.
    labels += static_cast<char>(i >= 50), labels += '\7', labels += static_cast<char>(i / 34);
  }
  write_file(folder / "images.idx", idx({100, 2}, samples));
  write_file(folder / "labels.idx", idx({100, 3}, labels));
  std::string text = "x,y,side,third\n";
  for (int i = 0; i < 100; ++i)
    text += std::to_string(i) + "," + std::to_string(99 - i) + "," + std::to_string(i >= 50) + "," +
            std::to_string(i / 34) + "\n";
  write_file(folder / "t.csv", text);
  const std::string stream = R"("outputs": ["which", "area"], "labels": ["1", "3"])";
  const std::string table = R"("outputs": ["which", "area"], "labels": ["side", "third"])";
  const Json of_table = weft({"run", network(folder, "t", table), "--quiet", "--json"}).last();
  const std::string net = network(folder, "i", stream);
  const Words data{"--data", folder / "images.idx"};
  const Json of_idx = weft(Words{"run", net, "--quiet", "--json"} + data).last();
  ASSERT_TRUE(of_idx.contains("state_hash")) << of_idx;
  EXPECT_EQ(of_idx["state_hash"], of_table["state_hash"]);
  const std::string model = trained(net, data);
  EXPECT_EQ(weft(Words{"eval", model, "--json"} + data).last()["heads"].size(), 2u);
  const Outcome bad = weft(Words{"eval", model, "--label", "1,4"} + data);
  EXPECT_TRUE(holds(bad.err, "labels.idx: no column '4' of labels; they have no names and are numbered, 1 to 3"))
      << bad.told();
}

TEST(Outputs, WhatDoesNotFitIsRefused) {
  Folder folder;
  write_file(folder / "t.csv", table());
  struct Case {
    std::string stream, error;
  };
  const std::string skip = R"(, "skip": ["sum", "gap"])";
  for (const Case& c :
       {Case{R"("labels": ["side", "third"])", "name the one that should give the label, or in stream.outputs those"},
        Case{R"("outputs": ["which", "area"], "output": "area", "labels": ["side", "third"])",
             "stream.output is 'area' too; give the one name or the list"},
        Case{R"("outputs": ["which", "aria"], "labels": ["side", "third"])",
             "stream.outputs: no output is named 'aria'"},
        Case{R"("outputs": ["which", "which"], "labels": ["side", "third"])", "'which' is named twice"},
        Case{R"("outputs": ["which", "area"], "label": "side")",
             "stream.labels: 1 column; outputs 'which', 'area' take 2 under learning.loss cross_entropy"},
        Case{R"("outputs": ["area", "which"], "labels": ["side", "third"])", "3 classes"},
        Case{R"("outputs": ["area", "which"], "labels": ["side", "side"])", "is named twice"},
        Case{R"("outputs": ["which", "area"], "targets": ["sum", "gap"])",
             "learning.loss cross_entropy learns classes"}}) {
    const Outcome run = weft({"run", network(folder, "n", c.stream + skip), "--quiet"});
    EXPECT_NE(run.exit, 0) << c.error;
    EXPECT_TRUE(holds(run.err, c.error)) << run.told();
  }
}

}  // namespace
}  // namespace weft::cli_test::outputs_test
