// SPDX-License-Identifier: Apache-2.0

// Tables of one's own: weft new, run and predict with them.

#include <sys/stat.h>

#include "tests/cli/program.hpp"
#include <algorithm>
#include <sstream>
#include <thread>

namespace weft::cli_test::table_test {
namespace {

const std::string kIris = source_path("examples/data/iris.csv");

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// A network for iris, written by `weft new`.
std::string new_network(const Folder& folder, const Words& more = {}) {
  const std::string path = folder / "net.json";
  const Outcome made = weft(Words{"new", "--from", kIris, "-o", path} + more);
  EXPECT_EQ(made.exit, 0) << made.told();
  return path;
}

/// Trains the network that `weft new` wrote.
std::string trained(const Folder& folder, const Words& more = {}) {
  const std::string model = folder / "m.entity";
  const Outcome run = weft(Words{"run", new_network(folder), "--quiet", "--save", model} + more);
  EXPECT_EQ(run.exit, 0) << run.told();
  return model;
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(New, WritesANetworkThatLearnsTheTable) {
  Folder folder;
  const std::string path = new_network(folder);
  const Json network = Json::parse(read_file(path));
  ASSERT_EQ(network["chain"].size(), 4u) << network;
  EXPECT_EQ(network["chain"][0]["type"], "standardize");
  EXPECT_EQ(network["chain"][3]["out"], 3);
  EXPECT_EQ(network["inputs"]["x"], Json::array({4}));
  EXPECT_EQ(network["stream"]["classes"], Json::array({"setosa", "versicolor", "virginica"}));
  EXPECT_EQ(network["stream"]["stratified"], true);
  EXPECT_FALSE(network["stream"].contains("drift"));
  const Outcome run = weft({"run", path, "--json"});
  ASSERT_EQ(run.exit, 0) << run.told();
  const Json done = run.last();
  // Ten of each species are held out, and every figure is that of the confusion matrix.
  const Json& held_out = done["held_out"];
  std::uint64_t right = 0;
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(held_out["classes"][c]["samples"], 10);
    right += held_out["confusion"][c][c].get<std::uint64_t>();
    const double recall = held_out["confusion"][c][c].get<double>() / 10;
    EXPECT_DOUBLE_EQ(held_out["classes"][c]["recall"].get<double>(), recall);
  }
  EXPECT_DOUBLE_EQ(held_out["accuracy"].get<double>(), static_cast<double>(right) / 30);
  EXPECT_GT(held_out["loss"].get<double>(), 0);
  EXPECT_EQ(held_out["classes"][1]["name"], "versicolor");
}

/// Accuracy on the rows that `weft new` held out, by its defaults but for `more`.
double held_out_accuracy(const Folder& folder, const std::string& table, const Words& more) {
  const Outcome made = weft(Words{"new", "--from", table, "--force", "-o", folder / "n.json"} + more);
  EXPECT_EQ(made.exit, 0) << made.told();
  const Outcome run = weft({"run", folder / "n.json", "--json", "--quiet"});
  EXPECT_EQ(run.exit, 0) << run.told();
  return run.exit == 0 ? run.last()["held_out_accuracy"].get<double>() : 0;
}

// The figures are the same bits everywhere: docs/tutorial.md has them.
TEST(New, LearnsIrisByItsDefaultsOnTheMeanOfTenSplits) {
  Folder folder;
  double sum = 0;
  for (int split = 0; split < 10; ++split)
    sum += held_out_accuracy(folder, kIris, {"--split-seed", std::to_string(split)});
  EXPECT_GE(sum / 10, 0.95);
}

// Quadrants against each other (exclusive or): no line, and so no model without hidden layers, does better than chance.
// A network of given widths knows of no table, and learns it nevertheless.
TEST(New, LearnsIrisByWidthsAlone) {
  Folder folder;
  const std::string path = folder / "n.json";
  ASSERT_EQ(weft({"new", "--in", "4", "--hidden", "16,16", "--out", "3", "-o", path}).exit, 0);
  double accuracy = 0;
  for (int seed = 0; seed < 5; ++seed) {
    const Outcome run = weft({"run", path, "--data", kIris, "--json", "--quiet", "--seed", std::to_string(seed)});
    ASSERT_EQ(run.exit, 0) << run.told();
    EXPECT_TRUE(holds(run.told(), "learned from 200 times")) << run.told();
    accuracy += run.last()["held_out_accuracy"].get<double>() / 5;
  }
  EXPECT_GE(accuracy, 0.93);
  // An amount or a pace that is given counts.
  for (const Words& words : {Words{"--epochs", "1"}, {"--max-samples", "100"}, {"--rate", "100000"}}) {
    const Outcome once = weft(Words{"run", path, "--data", kIris, "--json", "--quiet"} + words);
    ASSERT_EQ(once.exit, 0) << once.told();
    EXPECT_LE(once.last()["samples"].get<int>(), 120) << once.last();
  }
  // An agent goes on with what it began with.
  const Words kept{"run", path, "--data", kIris, "--json", "--quiet", "--state", folder / "d"};
  ASSERT_EQ(weft(kept + Words{"--epochs", "2"}).exit, 0);
  EXPECT_EQ(weft(kept).last()["samples"], 240);
}

TEST(New, LearnsByItsDefaultsWhatNoLinearModelCan) {
  Folder folder;
  std::string table = "a,b,quadrants\n";
  std::uint32_t state = 1;
  const auto draw = [&] { return static_cast<int>((state = state * 1664525 + 1013904223) >> 16) % 2001 - 1000; };
  for (int rows = 0; rows < 400;) {
    const int a = draw(), b = draw();
    if (std::abs(a) < 50 || std::abs(b) < 50) continue;  // no row on the border
    table += std::to_string(a) + "," + std::to_string(b) + (a * b > 0 ? ",alike\n" : ",unlike\n");
    ++rows;
  }
  write_file(folder / "t.csv", table);
  EXPECT_LE(held_out_accuracy(folder, folder / "t.csv", {"--hidden", "none"}), 0.65);
  EXPECT_GE(held_out_accuracy(folder, folder / "t.csv", {}), 0.95);
}

// Standardisation is of the training part alone: other held-out rows, other numbers; and exactly those of the rows
// left.
TEST(New, StandardisesByTheTrainingPartAlone) {
  Folder folder;
  write_file(folder / "t.csv", "1,a\n3,a\n5,b\n7,b\n1000,c\n");
  const auto numbers = [&](const Words& more) {
    const Outcome made = weft(Words{"new", "--from", folder / "t.csv"} + more);
    EXPECT_EQ(made.exit, 0) << made.told();
    return Json::parse(made.out)["chain"][0];
  };
  EXPECT_EQ(numbers({"--held-out", "0"})["mean"][0], 203.2);
  write_file(folder / "one.csv", "2,a\n4,b\n4,b\n4,b\n");
  const Json layer = Json::parse(weft({"new", "--from", folder / "one.csv", "--held-out", "0"}).out)["chain"][0];
  EXPECT_EQ(layer["mean"][0], 3.5);
  EXPECT_EQ(layer["deviation"][0], 0.8660254);  // the root of 0.75, as a float
}

TEST(New, WritesOverNothingUnasked) {
  Folder folder;
  const std::string path = new_network(folder);
  const std::string before = read_file(path);
  const Outcome again = weft({"new", "--from", kIris, "--hidden", "8", "-o", path});
  EXPECT_EQ(again.exit, 2) << again.told();
  EXPECT_TRUE(holds(again.err, "--force")) << again.err;
  EXPECT_EQ(read_file(path), before);
  EXPECT_EQ(weft({"new", "--from", kIris, "--hidden", "8", "--force", "-o", path}).exit, 0);
  EXPECT_NE(read_file(path), before);
  const Outcome over_data = weft({"new", "--from", path, "--force", "-o", path});
  EXPECT_NE(over_data.exit, 0);
}

TEST(New, SaysAllThatIsMissingAtOnce) {
  const Outcome nothing = weft({"new"});
  EXPECT_EQ(nothing.exit, 2);
  EXPECT_TRUE(holds(nothing.err, "--in and --out")) << nothing.err;
  const Outcome widths = weft({"new", "--in", "4", "--hidden", "16,16", "--out", "3"});
  ASSERT_EQ(widths.exit, 0) << widths.told();
  const Json network = Json::parse(widths.out);
  EXPECT_EQ(network["chain"].size(), 3u);
  EXPECT_FALSE(network.contains("stream"));
  for (const char* hidden : {"16,,16", "0", "x", "-3", "16,"})
    EXPECT_EQ(weft({"new", "--in", "4", "--hidden", hidden, "--out", "3"}).exit, 2) << hidden;
}

// The same rows in other clothes are the same run.
TEST(Run, ReadsTheSameTableInOtherClothes) {
  Folder folder;
  const std::string network = new_network(folder, {"--epochs", "3"});
  const auto hash = [&](const std::string& data, const Words& more) {
    const Outcome run = weft(Words{"run", network, "--data", data, "--json"} + more);
    EXPECT_EQ(run.exit, 0) << run.told();
    return run.last()["state_hash"].get<std::string>();
  };
  const std::string plain = hash(kIris, {});
  std::string dressed = "\xEF\xBB\xBF\"id\";\"species\";a;b;c;\"d\"\r\n";
  std::size_t id = 0;
  for (const std::string& line : lines_of(read_file(kIris))) {
    if (id++ == 0) continue;
    const std::size_t last = line.rfind(',');
    std::string values = line.substr(0, last);
    std::replace(values.begin(), values.end(), ',', ';');
    dressed += std::to_string(id) + "; \"" + line.substr(last + 1) + "\" ;" + values + "\r\n";
  }
  write_file(folder / "dressed.csv", dressed + "\r\n");
  EXPECT_EQ(hash(folder / "dressed.csv", {"--label", "species", "--skip", "id"}), plain);
  EXPECT_EQ(hash(folder / "dressed.csv", {"--label", "2", "--skip", "1", "--separator", ";"}), plain);
}

TEST(Run, KeepsTheClassesInTheModel) {
  Folder folder;
  write_file(
      folder / "n.json",
      R"({"weft": 2,"inputs":{"x":[2]},"chain":[{"type":"dense","out":2}],"stream":{"csv":"t.csv","held_out":0}})");
  write_file(folder / "t.csv", "1,2,yes\n3,4,no\n5,6,yes\n");
  const Outcome run = weft({"run", folder / "n.json", "--quiet", "--save", folder / "m.entity"});
  ASSERT_EQ(run.exit, 0) << run.told();
  // Labels of the other order, and only one of them: still the model's classes.
  write_file(folder / "u.csv", "1,2,yes\n");
  EXPECT_EQ(weft({"run", folder / "m.entity", "--quiet", "--data", folder / "u.csv"}).exit, 0);
  write_file(folder / "u.csv", "1,2,maybe\n");
  const Outcome other = weft({"run", folder / "m.entity", "--quiet", "--data", folder / "u.csv"});
  EXPECT_EQ(other.exit, 3);
  EXPECT_TRUE(holds(other.err, "u.csv:1: label \"maybe\" is none of the classes that the model knows: \"no\", \"yes\""))
      << other.err;
}

TEST(Run, SaysWhatMaySurprise) {
  Folder folder;
  const Outcome again = weft({"run", trained(folder), "--max-samples", "10"});
  EXPECT_TRUE(holds(again.err, "goes on learning")) << again.err;
  write_file(folder / "far.csv", "200,255,1\n190,0,0\n");
  write_file(folder / "n.json",
             R"({"weft": 2,"inputs":{"x":[2]},"chain":[{"type":"dense","out":2,"activation":"tanh"}],)"
             R"("stream":{"csv":"far.csv","held_out":0}})");
  EXPECT_TRUE(holds(weft({"run", folder / "n.json", "--quiet"}).err, "inputs reach 255"));
  const Outcome far = weft({"run", folder / "n.json"});
  EXPECT_TRUE(holds(far.err, "inputs reach 255")) << far.err;
  EXPECT_TRUE(holds(far.err, "--epochs")) << far.err;
  write_file(folder / "far.csv", "0.2,0.25,1\n0.19,0,0\n");
  EXPECT_FALSE(holds(weft({"run", folder / "n.json"}).err, "inputs reach"));
}

// A table in another unit than the one learned from.
TEST(Predict, SaysOnceThatValuesAreFarFromThoseLearned) {
  Folder folder;
  const std::string model = trained(folder);
  const std::string metres = "5.1,3.5,1.4,0.2\n", millimetres = "51,35,14,2\n";
  write_file(folder / "t.csv", metres);
  EXPECT_EQ(weft({"predict", model, "--data", folder / "t.csv"}).err, "");
  write_file(folder / "t.csv", metres + millimetres + millimetres);
  const Outcome far = weft({"predict", model, "--data", folder / "t.csv"});
  EXPECT_EQ(far.exit, 0) << far.told();
  EXPECT_TRUE(holds(far.err, "standard deviations") && holds(far.err, "t.csv")) << far.err;
  EXPECT_EQ(lines_of(far.err).size(), 1u) << far.err;
  write_file(folder / "t.csv", "a,b,c,d,species\n51,35,14,2,setosa\n63,33,60,25,virginica\n70,32,47,14,versicolor\n");
  const Outcome learned = weft({"run", model, "--data", folder / "t.csv", "--quiet", "--held-out", "0"});
  EXPECT_TRUE(holds(learned.err, "standard deviations") && holds(learned.err, "goes on learning")) << learned.told();
  EXPECT_FALSE(holds(learned.err, "  samples ")) << learned.err;
}

TEST(Predict, SaysThatRawValuesAreFarOutside) {
  Folder folder;
  write_file(folder / "near.csv", "0.2,0.25,1\n0.19,0,0\n");
  write_file(folder / "n.json",
             R"({"weft": 2,"inputs":{"x":[2]},"chain":[{"type":"dense","out":2,"activation":"tanh"}],)"
             R"("stream":{"csv":"near.csv","held_out":0}})");
  ASSERT_EQ(weft({"run", folder / "n.json", "--quiet", "--save", folder / "m.entity"}).exit, 0);
  write_file(folder / "far.csv", "200,255\n190,0\n");
  const Outcome far = weft({"predict", folder / "m.entity", "--data", folder / "far.csv"});
  EXPECT_TRUE(holds(far.err, "inputs reach 255")) << far.told();
  EXPECT_EQ(weft({"predict", folder / "m.entity", "--data", folder / "near.csv"}).err, "");
}

// A run that ends with nonsense ends with exit code 0, and says so.
TEST(Run, SaysThatALearningRateWasTooHigh) {
  Folder folder;
  const std::string network = new_network(folder, {"--hidden", "16", "--epochs", "5"});
  for (const char* lr : {"50", "1000"}) {
    const Outcome run = weft({"run", network, "--quiet", "--lr", lr});
    ASSERT_EQ(run.exit, 0) << run.told();
    EXPECT_TRUE(holds(run.err, "guessing") && holds(run.err, "try --lr")) << lr << ": " << run.err;
  }
  EXPECT_FALSE(holds(weft({"run", network, "--quiet"}).err, "guessing"));
}

TEST(Run, SaysThatAnExamplesTaskChangesUnderOnesOwnTable) {
  Folder folder;
  Json digits = Json::parse(read_file(kDigits));
  write_file(folder / "d.json", digits.dump());
  const Outcome lost = weft({"run", folder / "d.json"});
  EXPECT_EQ(lost.exit, 3);
  EXPECT_TRUE(holds(lost.err, "d.json names it, from that file's directory on: give --data")) << lost.err;
  std::string table;
  for (int row = 0; row < 20; ++row) {
    for (int i = 0; i < 64; ++i) table += std::to_string((row * 7 + i) % 16) + ",";
    table += std::to_string(row % 10) + "\n";
  }
  write_file(folder / "own.csv", table);
  const Outcome own = weft({"run", folder / "d.json", "--data", folder / "own.csv"});
  ASSERT_EQ(own.exit, 0) << own.told();
  EXPECT_TRUE(holds(own.err, "its stream.drift changes the task")) << own.err;
}

TEST(Run, ShowsLossAndConfusionAtTheEnd) {
  Folder folder;
  const Outcome run = weft({"run", new_network(folder), "--quiet"});
  ASSERT_EQ(run.exit, 0) << run.told();
  for (const char* part : {"loss        ", "label \\ answer", "precision", "versicolor"})
    EXPECT_TRUE(holds(run.out, part)) << part << " in\n" << run.out;
}

TEST(Predict, AnswersRowForRowWithAndWithoutLabels) {
  Folder folder;
  const std::string model = trained(folder);
  const Outcome labelled = weft({"predict", model, "--data", kIris, "--values"});
  ASSERT_EQ(labelled.exit, 0) << labelled.told();
  const auto answers = lines_of(labelled.out);
  ASSERT_EQ(answers.size(), 151u);
  EXPECT_EQ(answers[0], "class,setosa,versicolor,virginica");
  std::string bare;
  std::size_t right = 0, row = 0;
  for (const std::string& line : lines_of(read_file(kIris))) {
    const std::size_t last = line.rfind(',');
    if (row > 0) right += answers[row].starts_with(line.substr(last + 1) + ",");
    bare += (row > 0 ? line.substr(0, last) : "") + (row > 0 ? "\n" : "");
    ++row;
  }
  EXPECT_GE(right, 140u);
  write_file(folder / "bare.csv", bare);
  for (const Words& more : {Words{}, Words{"--threads", "1"}, Words{"--threads", "4"}})
    EXPECT_EQ(weft(Words{"predict", model, "--data", folder / "bare.csv", "--values"} + more).out, labelled.out);
  // Rows one at a time have the bits of rows in a batch.
  write_file(folder / "row.csv", "sepal_length,a,b,c\n6.1,2.9,4.7,1.4\n");
  const std::string alone = lines_of(weft({"predict", model, "--data", folder / "row.csv", "--values"}).out).at(1);
  const auto table = lines_of(read_file(kIris));
  const auto found = std::find(table.begin(), table.end(), "6.1,2.9,4.7,1.4,versicolor");
  ASSERT_NE(found, table.end());
  EXPECT_EQ(alone, answers[static_cast<std::size_t>(found - table.begin())]);
}

TEST(Predict, ReportsWhatTheRunMeasured) {
  Folder folder;
  const std::string model = trained(folder);
  const Json report = weft({"predict", model, "--data", kIris, "--report", "--json"}).last();
  EXPECT_EQ(report["samples"], 150) << report;
  std::uint64_t right = 0;
  const auto answers = lines_of(weft({"predict", model, "--data", kIris}).out), table = lines_of(read_file(kIris));
  for (std::size_t i = 1; i < table.size(); ++i) right += table[i].ends_with("," + answers.at(i));
  EXPECT_DOUBLE_EQ(report["accuracy"].get<double>(), static_cast<double>(right) / 150);
  write_file(folder / "bare.csv", "1,2,3,4\n");
  EXPECT_EQ(weft({"predict", model, "--data", folder / "bare.csv", "--report"}).exit, 3);
}

TEST(Predict, AnswersAPipeAsItsRowsCome) {
  Folder folder;
  const std::string model = trained(folder), pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  Process asked({"predict", model, "--data", pipe});
  std::ofstream rows(pipe);
  const auto answered = [&](std::size_t lines) {
    for (int i = 0; i < 2000; ++i) {
      if (lines_of(asked.out_so_far()).size() >= lines) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  };
  rows << "5.0,3.4,1.5,0.2\n" << std::flush;
  EXPECT_TRUE(answered(2)) << "an answer before the next row";
  rows << "7.2,3.2,6.0,1.8\n" << std::flush;
  EXPECT_TRUE(answered(3));
  rows.close();
  const Outcome ended = asked.wait();
  EXPECT_EQ(ended.exit, 0) << ended.told();
  EXPECT_EQ(ended.out, "class\nsetosa\nvirginica\n");
}

TEST(Predict, KeepsItsPlaceBesideRowsLeftOutAndBeforeOnesRefused) {
  Folder folder;
  const std::string model = trained(folder);
  write_file(folder / "gaps.csv", "NA,3.4,1.5,0.2\n5.0,3.4,1.5,0.2\n7.2,?,6.0,1.8\n7.2,3.2,6.0,1.8\n,,,\n");
  const Outcome gaps = weft({"predict", model, "--data", folder / "gaps.csv", "--missing", "drop"});
  EXPECT_EQ(gaps.out, "class\n\nsetosa\n\nvirginica\n\n") << gaps.told();
  write_file(folder / "bad.csv", "5.0,3.4,1.5,0.2\n7.2,3.2,6.0,1.8\n1,2,x,4\n");
  const Outcome bad = weft({"predict", model, "--data", folder / "bad.csv"});
  EXPECT_EQ(bad.exit, 3);
  EXPECT_EQ(bad.out, "class\nsetosa\nvirginica\n");
  EXPECT_TRUE(holds(bad.err, "bad.csv:3: column 3: \"x\" is not a number")) << bad.err;
  write_file(folder / "narrow.csv", "1,2\n");
  const Outcome narrow = weft({"predict", model, "--data", folder / "narrow.csv"});
  EXPECT_EQ(narrow.exit, 3);
  EXPECT_TRUE(holds(narrow.err, "the network takes 4")) << narrow.err;
  EXPECT_EQ(weft({"predict", model, "--data", folder / "missing.csv"}).exit, 3);
  EXPECT_EQ(weft({"predict", model}).exit, 2);
}

// A model fills new tables with the means that it learned by.
TEST(Predict, FillsMissingValuesAsTheModelDid) {
  Folder folder;
  write_file(folder / "t.csv", "a,b,kind\n1,10,x\n3,NA,y\n5,20,x\n7,30,y\n");
  ASSERT_EQ(
      weft({"new", "--from", folder / "t.csv", "--missing", "mean", "--held-out", "0", "-o", folder / "n.json"}).exit,
      0);
  EXPECT_EQ(Json::parse(read_file(folder / "n.json"))["stream"]["fill"], Json::array({4.0, 20.0}));
  ASSERT_EQ(weft({"run", folder / "n.json", "--quiet", "--save", folder / "m.entity"}).exit, 0);
  write_file(folder / "u.csv", "5,\n");
  write_file(folder / "v.csv", "5,20\n");
  const auto answer = [&](const std::string& name) {
    const Outcome asked = weft({"predict", folder / "m.entity", "--data", folder / name, "--values"});
    EXPECT_EQ(asked.exit, 0) << asked.told();
    return asked.out;
  };
  EXPECT_EQ(answer("u.csv"), answer("v.csv"));
}

}  // namespace
}  // namespace weft::cli_test::table_test
