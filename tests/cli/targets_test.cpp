// SPDX-License-Identifier: Apache-2.0

// Values, several labels and sequences from the command line: weft new, run, predict, eval.

#include "tests/cli/program.hpp"
#include <array>
#include <cmath>
#include <sstream>

namespace weft::cli_test::targets_test {
namespace {

struct Row {
  double a, b, c, price;
};

/// price = 3 a - 20 b + c / 20 + 7, and noise; three columns of very different size.
std::vector<Row> rows() {
  std::uint32_t state = 7;
  const auto draw = [&] { return static_cast<double>((state = state * 1664525 + 1013904223) >> 16) / 65536 - 0.5; };
  std::vector<Row> all;
  for (int i = 0; i < 300; ++i) {
    // Rounded to what the table's text says.
    const double a = std::round(draw() * 1600) / 100, b = std::round(draw() * 300) / 100, c = std::round(draw() * 1000);
    const double noise = std::round((draw() + draw() + draw()) * 400) / 100;
    all.push_back({a, b, c, 3 * a - 20 * b + c / 20 + 7 + noise});
  }
  return all;
}

std::string table_of(const std::vector<Row>& all) {
  std::ostringstream text;
  text.precision(12);
  text << "a,b,c,price,half,side\n";
  for (const Row& r : all)
    text << r.a << "," << r.b << "," << r.c << "," << r.price << "," << r.price / -2 << ","
         << (r.a > 0 ? "right" : "left") << "\n";
  return text.str();
}

/// Mean of the squares that least squares leave: the normal equations in binary64.
double least_squares(const std::vector<Row>& all) {
  double m[4][5] = {};
  const auto line = [](const Row& r) { return std::array{r.a, r.b, r.c, 1.0, r.price}; };
  for (const Row& r : all)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 5; ++j)
        m[i][j] += line(r)[static_cast<std::size_t>(i)] * line(r)[static_cast<std::size_t>(j)];
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 4; ++k) {
      if (k == i) continue;
      const double factor = m[k][i] / m[i][i];
      for (int j = 0; j < 5; ++j) m[k][j] -= factor * m[i][j];
    }
  double squares = 0;
  for (const Row& r : all) {
    double error = -r.price;
    for (int i = 0; i < 4; ++i) error += line(r)[static_cast<std::size_t>(i)] * m[i][4] / m[i][i];
    squares += error * error;
  }
  return squares / static_cast<double>(all.size());
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string trained(const Folder& folder, const Words& words, const Words& run_words = {}) {
  const Outcome made = weft(Words{"new", "--from", folder / "t.csv", "--force", "-o", folder / "n.json"} + words);
  EXPECT_EQ(made.exit, 0) << made.told();
  const Outcome run = weft(Words{"run", folder / "n.json", "--quiet", "--save", folder / "m.entity"} + run_words);
  EXPECT_EQ(run.exit, 0) << run.told();
  return folder / "m.entity";
}

// A linear model comes as near as least squares do, and none comes nearer.
TEST(Targets, ALinearModelIsThatOfLeastSquares) {
  Folder folder;
  const std::vector<Row> all = rows();
  write_file(folder / "t.csv", table_of(all));
  const std::string model = trained(
      folder, {"--target", "price", "--skip", "half,side", "--hidden", "none", "--held-out", "0", "--lr", "0.001"});
  const Json network = Json::parse(read_file(folder / "n.json"));
  EXPECT_EQ(network["learning"]["loss"], "mse");
  EXPECT_EQ(network["stream"]["targets"], Json::array({"price"}));
  EXPECT_FALSE(network["stream"].contains("stratified"));
  const Outcome eval = weft({"eval", model, "--data", folder / "t.csv", "--json"});
  ASSERT_EQ(eval.exit, 0) << eval.told();
  const Json told = eval.last();
  const double mse = told["targets"][0]["mse"].get<double>(), least = least_squares(all);
  EXPECT_GE(mse, least * (1 - 1e-6));
  EXPECT_LE(mse, least * 1.01);
  EXPECT_EQ(told["targets"][0]["name"], "price");
  EXPECT_EQ(told["samples"], 300);
  // The answers themselves, in the table's units, give the same figures.
  const auto answers = lines_of(weft({"predict", model, "--data", folder / "t.csv"}).out);
  ASSERT_EQ(answers.size(), 301u);
  EXPECT_EQ(answers[0], "price");
  double squares = 0, distances = 0, sum = 0, variation = 0;
  int near = 0;
  for (const Row& r : all) sum += r.price;
  for (std::size_t i = 0; i < 300; ++i) {
    const double error = std::stod(answers[i + 1]) - all[i].price;
    squares += error * error;
    distances += std::fabs(error);
    near += std::fabs(error / all[i].price) <= 0.1;
    variation += std::pow(all[i].price - sum / 300, 2);
  }
  EXPECT_NEAR(mse, squares / 300, 1e-4);
  EXPECT_NEAR(told["targets"][0]["mae"].get<double>(), distances / 300, 1e-5);
  EXPECT_NEAR(told["targets"][0]["r2"].get<double>(), 1 - squares / variation, 1e-6);
  EXPECT_EQ(told["targets"][0]["relative_bins"][0], near);
  EXPECT_EQ(told["targets"][0]["relative_bins"].size(), 7u);
}

TEST(Targets, SeveralColumnsAreLearnedAtOnce) {
  Folder folder;
  write_file(folder / "t.csv", table_of(rows()));
  const std::string model = trained(folder, {"--target", "price,half", "--skip", "side", "--loss", "huber"});
  const Outcome run = weft({"run", folder / "n.json", "--quiet", "--json"});
  const Json done = run.last();
  EXPECT_TRUE(done["held_out_accuracy"].is_null());
  EXPECT_TRUE(done["prequential_accuracy"].is_null());
  ASSERT_EQ(done["held_out"]["targets"].size(), 2u) << done;
  EXPECT_GT(done["held_out"]["targets"][1]["r2"].get<double>(), 0.95);
  EXPECT_TRUE(holds(weft({"run", folder / "n.json", "--quiet"}).out, "held out    R2 0.9"));
  // Rows with and without the columns to predict, in the order in which they come.
  const std::string with = weft({"predict", model, "--data", folder / "t.csv"}).out;
  std::string bare = "a,b,c\n";
  for (const Row& r : rows()) {
    std::ostringstream line;
    line.precision(12);
    line << r.a << "," << r.b << "," << r.c << "\n";
    bare += line.str();
  }
  write_file(folder / "bare.csv", bare);
  EXPECT_EQ(weft({"predict", model, "--data", folder / "bare.csv"}).out, with);
  EXPECT_EQ(lines_of(with)[0], "price,half");
  const Json first = Json::parse(lines_of(weft({"predict", model, "--data", folder / "bare.csv", "--json"}).out)[0]);
  EXPECT_EQ(first["values"].size(), 2u);
}

TEST(Targets, RefusesTablesThatDoNotFit) {
  Folder folder;
  std::string table = "a,b,c,price\n";
  for (int i = 0; i < 20; ++i)
    table += std::to_string(i) + "," + std::to_string(i * i) + ",1," + std::to_string(3 * i) + "\n";
  write_file(folder / "t.csv", table);
  const std::string model = trained(folder, {"--target", "price", "--epochs", "1"});
  struct Case {
    std::string text, error;
  };
  for (const Case& c : {Case{"a,b,c,price\n1,2,3,4\n1,2,3,nan\n", ":3: column 4 'price': no value; --missing drop"},
                        Case{"a,b,c,price\n1,2,3,dear\n", ":2: column 4 'price': \"dear\" is not a number"},
                        Case{"a,b,c,price\n1,2,3,1e99\n", "more than a float can hold"},
                        Case{"a,b,c,cost\n1,2,3,4\n", "target: no column 'price'; there are a, b, c, cost"},
                        Case{"a,b,c,price\n1,2,3,4\n1,2,3\n", ":3: 3 fields, expected 4"},
                        Case{"a,b,price\n1,2,3\n", "2 values a sample beside the target; the network takes 3"}}) {
    write_file(folder / "bad.csv", c.text);
    for (const Words& words : {Words{"eval", model}, Words{"run", folder / "n.json", "--quiet"}}) {
      const Outcome refused = weft(words + Words{"--data", folder / "bad.csv"});
      EXPECT_EQ(refused.exit, 3) << refused.told();
      EXPECT_TRUE(holds(refused.err, words[0] == "run" ? "bad.csv" : c.error)) << refused.told();
    }
  }
  EXPECT_TRUE(holds(weft({"eval", model, "--data", folder / "t.csv", "--target", "price,a"}).err, "1 answers a row"));
  EXPECT_TRUE(holds(weft({"predict", model, "--data", folder / "t.csv", "--probabilities"}).err, "learned classes"));
  EXPECT_TRUE(holds(weft({"run", kDigits, "--target", "5"}).err, "give mse, mae, huber or binary_cross_entropy"));
  EXPECT_EQ(weft({"new", "--from", folder / "t.csv", "--target", "price", "--loss", "cross_entropy"}).exit, 2);
}

TEST(Targets, SeveralLabelsHaveHeadsOfTheirOwn) {
  Folder folder;
  std::string table = "x,y,side,third\n";
  for (int i = 0; i < 240; ++i) {
    const int x = i * 37 % 101 - 50, y = i * 53 % 97 - 48;
    if (x == 0) continue;
    table += std::to_string(x) + "," + std::to_string(y) + (x > 0 ? ",right," : ",left,") +
             std::to_string(y < -16  ? 1
                            : y < 16 ? 2
                                     : 3) +
             "\n";
  }
  write_file(folder / "t.csv", table);
  const std::string model = trained(folder, {"--label", "side,third"});
  const Json network = Json::parse(read_file(folder / "n.json"));
  EXPECT_EQ(network["learning"]["heads"], Json::array({2, 3}));
  EXPECT_EQ(network["stream"]["head_classes"], Json::parse(R"([["left", "right"], ["1", "2", "3"]])"));
  const Json told = weft({"eval", model, "--data", folder / "t.csv", "--json"}).last();
  ASSERT_EQ(told["heads"].size(), 2u) << told;
  EXPECT_EQ(told["heads"][1]["name"], "third");
  EXPECT_GT(told["heads"][0]["accuracy"].get<double>(), 0.97);
  EXPECT_GT(told["heads"][1]["accuracy"].get<double>(), 0.95);
  const auto answers = lines_of(weft({"predict", model, "--data", folder / "t.csv", "--probabilities"}).out);
  EXPECT_EQ(answers[0], "side,third,side:left,side:right,third:1,third:2,third:3");
  // Each head's probabilities are its own.
  double values[5];
  ASSERT_EQ(std::sscanf(answers[1].c_str(), "%*[a-z],%*d,%lf,%lf,%lf,%lf,%lf", values, values + 1, values + 2,
                        values + 3, values + 4),
            5)
      << answers[1];
  EXPECT_NEAR(values[0] + values[1], 1, 1e-5);
  EXPECT_NEAR(values[2] + values[3] + values[4], 1, 1e-5);
}

// A model that was trained through the API names no column of any table; rows of inputs alone have none either.
TEST(Targets, ModelsThatNameNoColumnsAnswerRows) {
  Folder folder;
  const auto network = [&](const char* name, const std::string& out, const std::string& learning) {
    write_file(folder / name, R"({"weft": 2, "name": "n", "inputs": {"x": [2]}, "chain": [{"type": "dense", )" + out +
                                  R"(}], "learning": )" + learning + "}");
    return folder / name;
  };
  const std::string values = network("v.json", R"("out": 3)", R"({"loss": "mse"})");
  const std::string heads =
      network("h.json", R"("out": 5)", R"({"loss": "multi_head_cross_entropy", "heads": [2, 3]})");
  const std::string places = network("p.json", R"("out": 8}, {"type": "dense", "out": 2, "view": [4, 2])", "{}");
  write_file(folder / "x.csv", "a,b\n1,2\n3,4\n");
  write_file(folder / "y.csv", "a,b,p,q,r\n1,2,0,1,0\n3,4,1,0,1\n");
  struct Case {
    std::string model, heading, flag;
    std::size_t answers;
    std::string columns;
  };
  for (const Case& c : {Case{values, "y1,y2,y3", "--target", 3, "p,q,r"},
                        {heads, "class1,class2", "--label", 2, "p,q"},
                        {places, "class1,class2,class3,class4", "--label", 4, "p,q,r,a"}}) {
    const Outcome told = weft({"predict", c.model, "--data", folder / "x.csv"});
    ASSERT_EQ(told.exit, 0) << told.told();
    const auto lines = lines_of(told.out);
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[0], c.heading);
    EXPECT_EQ(static_cast<std::size_t>(std::count(lines[2].begin(), lines[2].end(), ',')), c.answers - 1);
    // To compare with a table it must be said where the answers stand.
    const Outcome eval = weft({"eval", c.model, "--data", folder / "y.csv"});
    EXPECT_EQ(eval.exit, 2) << eval.told();
    EXPECT_TRUE(holds(eval.err, c.flag + ": the model gives " + std::to_string(c.answers) + " answers a row"))
        << eval.err;
  }
  const Outcome eval = weft({"eval", values, "--data", folder / "y.csv", "--target", "p,q,r", "--json"});
  ASSERT_EQ(eval.exit, 0) << eval.told();
  EXPECT_EQ(eval.last()["targets"].size(), 3u);
  const Outcome two = weft({"eval", heads, "--data", folder / "y.csv", "--label", "p,q", "--skip", "r", "--json"});
  ASSERT_EQ(two.exit, 0) << two.told();
  EXPECT_EQ(two.last()["heads"].size(), 2u);
}

// Each place of a sequence has a label: that of the value one place before it. Shorter ones end in empty fields.
TEST(Targets, SequencesHaveALabelAPlace) {
  Folder folder;
  std::string table;
  for (int i = 0; i < 200; ++i) {
    const int bits = i * 41 % 64;
    std::string values, labels;
    for (int t = 0; t < 4; ++t) {
      const bool is_missing = t == 3 && i % 5 == 0;
      values += is_missing ? "," : std::to_string(bits >> t & 1 ? 1 : -1) + ",";
      labels += is_missing ? "," : std::string(bits >> std::max(t - 1, 0) & 1 ? "up" : "down") + (t < 3 ? "," : "");
    }
    table += values + (labels.back() == ',' ? labels.substr(0, labels.size() - 1) : labels) + "\n";
  }
  write_file(folder / "t.csv", table);
  write_file(folder / "s.json", R"({"weft": 2, "name": "s", "inputs": {"x": [4]},
    "chain": [{"type": "dense", "out": 32, "activation": "tanh"}, {"type": "dense", "out": 2, "view": [4, 8]}],
    "learning": {"optimizer": {"type": "momentum", "lr": 0.05}},
    "stream": {"csv": "t.csv", "labels": [5, 6, 7, 8], "missing": "zero", "epochs": 60}})");
  const Outcome run = weft({"run", folder / "s.json", "--quiet", "--json", "--save", folder / "s.entity"});
  ASSERT_EQ(run.exit, 0) << run.told();
  const Json done = run.last();
  EXPECT_GT(done["held_out"]["accuracy"].get<double>(), 0.97) << done;
  // 40 sequences of 4 places, less the missing ones.
  EXPECT_LT(done["held_out"]["samples"].get<int>(), 160);
  EXPECT_GT(done["held_out"]["samples"].get<int>(), 140);
  const auto answers = lines_of(weft({"predict", folder / "s.entity", "--data", folder / "t.csv"}).out);
  EXPECT_EQ(answers[0], "class1,class2,class3,class4");
  EXPECT_TRUE(holds(answers[1], "up") || holds(answers[1], "down")) << answers[1];
}

TEST(Targets, ALossThatIsNotFiniteIsNotToldAsNone) {
  Folder folder;
  write_file(folder / "n.json", R"({"weft": 2, "inputs": {"x": [2]}, "chain": [{"type": "dense", "out": 1}],
    "learning": {"loss": "mse", "optimizer": {"type": "sgd", "lr": 0}},
    "stream": {"csv": "t.csv", "targets": ["y"], "held_out": 0, "epochs": 1}})");
  write_file(folder / "t.csv", "a,b,y\n1,2,1e30\n1,1,1\n");
  const Outcome run = weft({"run", folder / "n.json", "--quiet"});
  EXPECT_EQ(run.exit, 0) << run.told();
  EXPECT_TRUE(holds(run.out, "loss        not finite of the last 2")) << run.out;
  EXPECT_TRUE(weft({"run", folder / "n.json", "--quiet", "--json"}).last()["mean_loss"].is_null());
}

}  // namespace
}  // namespace weft::cli_test::targets_test
