// SPDX-License-Identifier: Apache-2.0

// weft predict and weft eval: JSON lines, IDX files, pipes that pause, and data directories as models.

#include "tests/cli/conversation.hpp"
#include <sstream>

namespace weft::cli_test::predict_rows_test {
namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A model of the irises.
std::string iris(const Folder& folder) {
  EXPECT_EQ(weft({"new", "--from", source_path("examples/data/iris.csv"), "-o", folder / "iris.json"}).exit, 0);
  EXPECT_EQ(weft({"run", folder / "iris.json", "--quiet", "--save", folder / "iris.entity"}).exit, 0);
  return folder / "iris.entity";
}

/// The table as JSON lines, by names or as lists.
std::string as_json_lines(const std::string& csv, bool as_lists) {
  std::istringstream in(csv);
  std::ostringstream out;
  std::vector<std::string> names;
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> fields;
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) fields.push_back(cell);
    if (names.empty()) {
      names = fields;
      continue;
    }
    Json object = Json::object();
    for (std::size_t i = 0; i + 1 < fields.size(); ++i) {
      const Json value = Json::parse(fields[i]);
      if (as_lists)
        object["x"].push_back(value);
      else
        object[names[i]] = value;
    }
    object[as_lists ? "y" : names.back()] = fields.back();
    out << object.dump() << "\n";
  }
  return out.str();
}

TEST(PredictRows, JsonLinesGiveTheAnswersOfTheTable) {
  Folder folder;
  const std::string model = iris(folder), csv = source_path("examples/data/iris.csv");
  const Outcome table = weft({"predict", model, "--data", csv, "--values"});
  const Outcome report = weft({"eval", model, "--data", csv});
  ASSERT_EQ(table.exit, 0) << table.told();
  for (const bool as_lists : {false, true}) {
    write_file(folder / "iris.jsonl", as_json_lines(read_file(csv), as_lists));
    const Outcome lines = weft({"predict", model, "--data", folder / "iris.jsonl", "--values"});
    EXPECT_EQ(lines.exit, 0) << lines.told();
    EXPECT_EQ(lines.out, table.out);
    EXPECT_EQ(weft({"eval", model, "--data", folder / "iris.jsonl", "--format", "jsonl"}).out, report.out);
  }
  // A network learns from such a file too, to the same bits.
  write_file(folder / "iris.jsonl", as_json_lines(read_file(csv), false));
  const Words run{"run", folder / "iris.json", "--quiet", "--json", "--data"};
  EXPECT_EQ(weft(run + Words{folder / "iris.jsonl"}).last()["state_hash"], weft(run + Words{csv}).last()["state_hash"]);
  const Outcome as_csv = weft({"predict", model, "--data", folder / "iris.jsonl", "--format", "csv"});
  EXPECT_EQ(as_csv.exit, 3);
  EXPECT_TRUE(holds(as_csv.err, "is JSON")) << as_csv.err;
}

TEST(PredictRows, AnswersKeepTheIdsAndWhatIsWanted) {
  Folder folder;
  const std::string model = iris(folder);
  write_file(folder / "q.jsonl",
             "{\"id\": \"a\", \"x\": [5.0, 3.4, 1.5, 0.2]}\n{\"x\": [7.2, 3.2, 6, 1.8], \"id\": 8}\n");
  const auto answers = weft({"predict", model, "--data", folder / "q.jsonl", "--json"}).events();
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0], (Json{{"id", "a"}, {"class", "setosa"}}));
  EXPECT_EQ(answers[1], (Json{{"id", 8}, {"class", "virginica"}}));
  const Outcome both = weft({"predict", model, "--data", folder / "q.jsonl", "--values"});
  const Outcome alone = weft({"predict", model, "--data", folder / "q.jsonl", "--values", "--no-class"});
  std::istringstream first(both.out), second(alone.out);
  for (std::string with, without; std::getline(first, with) && std::getline(second, without);)
    EXPECT_EQ(with.substr(with.find(',') + 1), without);
  EXPECT_EQ(weft({"predict", model, "--data", folder / "q.jsonl", "--no-class"}).exit, 2);
}

TEST(PredictRows, BadLinesAreNamedBehindTheAnswersBefore) {
  Folder folder;
  const std::string model = iris(folder);
  const std::string good = "{\"x\": [5.0, 3.4, 1.5, 0.2]}\n";
  struct Case {
    std::string line, error;
  };
  for (const Case& c : {Case{"{\"x\": [5.0, 3.4, 1.5, 0.2", "q:2: no JSON object on the line: column 26: syntax error"},
                        Case{"{\"x\": [1]}\n", "q:2: 'x': expected a list of 4 values, found 1"},
                        Case{"{\"x\": [1, 2, null, 4]}\n", "q:2: column 3 'x[2]': no value"},
                        Case{"{\"x\": [1, 2, 1e300, 4]}\n", "q:2: column 3 'x[2]': \"1e+300\" is more than a float"},
                        Case{"{\"id\": 1, \"y\": 4}\n", "q:2: no sample, but the target of one"}}) {
    write_file(folder / "q", good + c.line + good);
    const Outcome out = weft({"predict", model, "--data", folder / "q"});
    EXPECT_EQ(out.exit, 3) << out.told();
    EXPECT_EQ(out.out, "class\nsetosa\n");
    EXPECT_TRUE(holds(out.err, c.error)) << out.err;
  }
}

std::string idx(const std::vector<unsigned>& shape, const std::string& values) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(shape.size())};
  for (const unsigned size : shape)
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(size >> shift & 255));
  return bytes + values;
}

TEST(PredictRows, IdxFilesAreAskedAndMeasured) {
  Folder folder;
  // Eight pictures of two by two, bright on the left or on the right.
  std::string pixels, labels, csv;
  for (int i = 0; i < 8; ++i) {
    const unsigned left = i % 2 ? 200u + static_cast<unsigned>(i) : 3u,
                   right = i % 2 ? 5u : 190u + static_cast<unsigned>(i);
    for (const unsigned value : {left, right, left, right}) pixels.push_back(static_cast<char>(value));
    csv += std::to_string(left) + "," + std::to_string(right) + "," + std::to_string(left) + "," +
           std::to_string(right) + "," + std::to_string(i % 2) + "\n";
    labels.push_back(static_cast<char>(i % 2));
  }
  write_file(folder / "t-images-idx3-ubyte", idx({8, 2, 2}, pixels));
  write_file(folder / "t-labels-idx1-ubyte", idx({8}, labels));
  write_file(folder / "alone.idx", idx({8, 4}, pixels));
  write_file(folder / "t.csv", csv);
  ASSERT_EQ(
      weft({"new", "--from", folder / "t.csv", "--hidden", "none", "--held-out", "0", "-o", folder / "n.json"}).exit,
      0);
  ASSERT_EQ(weft({"run", folder / "n.json", "--quiet", "--save", folder / "m.entity"}).exit, 0);
  const std::string model = folder / "m.entity", images = folder / "t-images-idx3-ubyte";
  const Outcome wanted = weft({"predict", model, "--data", folder / "t.csv", "--values"});
  EXPECT_EQ(weft({"predict", model, "--data", images, "--values"}).out, wanted.out);
  EXPECT_EQ(weft({"predict", model, "--data", folder / "alone.idx", "--values"}).out, wanted.out);
  EXPECT_EQ(weft({"eval", model, "--data", images}).out, weft({"eval", model, "--data", folder / "t.csv"}).out);
  const Outcome unlabelled = weft({"eval", model, "--data", folder / "alone.idx"});
  EXPECT_EQ(unlabelled.exit, 3);
  EXPECT_TRUE(holds(unlabelled.err, "has \"images\" in its name")) << unlabelled.err;
  write_file(folder / "t-labels-idx1-ubyte", idx({7}, labels.substr(1)));
  EXPECT_EQ(weft({"predict", model, "--data", images}).exit, 3);
}

TEST(PredictRows, EachLineOfAPipeIsAnsweredBeforeTheNext) {
  Folder folder;
  const std::string model = iris(folder);
  Conversation json({"predict", model, "--data", "-", "--json"});
  for (int i = 0; i < 3; ++i) {
    json.say("{\"id\": " + std::to_string(i) + ", \"x\": [5.0, 3.4, 1.5, 0.2]}\n");
    EXPECT_EQ(json.hear(), "{\"id\":" + std::to_string(i) + ",\"class\":\"setosa\"}");
  }
  Conversation csv({"predict", model, "--data", "-"});
  csv.say("5.0,3.4,1.5,0.2\n");
  EXPECT_EQ(csv.hear(), "class");
  EXPECT_EQ(csv.hear(), "setosa");
  csv.say("7.2,3.2,6.0,1.8\n7.2,3.2,");
  EXPECT_EQ(csv.hear(), "virginica");
  csv.say("6.0,1.8\n");
  EXPECT_EQ(csv.hear(), "virginica");
}

// A part of a line may be half a number; a file's last line needs no end.
TEST(PredictRows, APipeThatEndsInsideALineIsRefused) {
  Folder folder;
  const std::string model = iris(folder);
  Conversation asked({"predict", model, "--data", "-"});
  asked.say("5.0,3.4,1.5,0.2\n7.2,3.2,6.0,1.");
  const Outcome told = asked.end();
  EXPECT_EQ(told.exit, 3);
  EXPECT_TRUE(holds(told.err, "standard input:2: the data end inside this line")) << told.err;
  Conversation evaluated({"eval", model, "--data", "-"});
  evaluated.say("5.0,3.4,1.5,0.2,setosa\n7.2,3.2,6.0,1.8,virg");
  EXPECT_EQ(evaluated.end().exit, 3);
  write_file(folder / "t.csv", "5.0,3.4,1.5,0.2\n7.2,3.2,6.0,1.8");
  EXPECT_EQ(weft({"predict", model, "--data", folder / "t.csv"}).out, "class\nsetosa\nvirginica\n");
}

TEST(PredictRows, ADataDirectoryIsAModel) {
  Folder folder;
  const std::string model = iris(folder), csv = source_path("examples/data/iris.csv"), net = folder / "iris.json";
  const std::string wanted = weft({"predict", model, "--data", csv, "--values"}).out;
  for (const char* const kept : {"--state", "--checkpoint"}) {
    const std::string directory = folder / (kept + 2);
    ASSERT_EQ(weft({"run", net, "--quiet", kept, directory}).exit, 0);
    const Outcome asked = weft({"predict", directory, "--data", csv, "--values"});
    EXPECT_EQ(asked.exit, 0) << asked.told();
    EXPECT_EQ(asked.out, wanted);
    EXPECT_TRUE(holds(asked.err, "its newest checkpoint")) << asked.err;
    EXPECT_EQ(weft({"eval", directory, "--data", csv}).out, weft({"eval", model, "--data", csv}).out);
  }
  // Beside a run that goes on: neither is disturbed.
  Process running(
      {"run", net, "--epochs", "1000000", "--quiet", "--json", "--state", folder / "run", "--checkpoint-every", "500"});
  while (!running.has_ended() && !holds(running.out_so_far(), "\"checkpoint\""))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(weft({"predict", folder / "run", "--data", csv}).exit, 0);
  running.send(SIGTERM);
  EXPECT_EQ(running.wait().exit, 143);
  EXPECT_EQ(weft({"replay", folder / "run", "--verify"}).exit, 0);
  std::filesystem::create_directory(folder / "empty");
  const Outcome nothing = weft({"predict", folder / "empty", "--data", csv});
  EXPECT_EQ(nothing.exit, 3) << nothing.told();
  EXPECT_TRUE(holds(nothing.err, "holds no checkpoint")) << nothing.err;
}

}  // namespace
}  // namespace weft::cli_test::predict_rows_test
