// SPDX-License-Identifier: Apache-2.0
// Weights in each of the numeric types, measured.

#include "tests/cli/dtypes.hpp"
#include <algorithm>

namespace weft::cli_test::sweep_test {
namespace {

TEST(Sweep, GivesARowOfEachTypeMeasuredAgainstFloat32) {
  Folder folder;
  save_digits(folder / "m.entity");
  const Words sweep{"sweep", folder / "m.entity", "--seconds", "0.001"};
  const Outcome outcome = weft(sweep + Words{"--json"});
  ASSERT_EQ(outcome.exit, 0) << outcome.told();
  EXPECT_EQ(outcome.err, "");
  const auto rows = outcome.events();
  ASSERT_EQ(rows.size(), 21u);
  EXPECT_EQ(rows[0]["dtype"], "float32");
  EXPECT_EQ(rows[0]["ratio"], 1.0);
  EXPECT_EQ(rows[0]["output_error"], 0.0);
  Words seen;
  std::map<std::string, Json> by_name;
  for (const Json& row : rows) {
    seen.push_back(row["dtype"]);
    by_name[row["dtype"]] = row;
    EXPECT_GT(row["ticks_per_second"], 0.0);
    EXPECT_GE(row["accuracy"], 0.0);
    EXPECT_LE(row["accuracy"], 1.0);
  }
  Words wanted = kAllTypes;
  std::sort(wanted.begin(), wanted.end());
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, wanted);
  EXPECT_EQ(by_name["float16"]["granularity"], Json());
  EXPECT_EQ(by_name["int4"]["granularity"], "block32");
  EXPECT_LT(by_name["int8"]["output_error"], by_name["int4"]["output_error"]);
  EXPECT_LT(by_name["int4"]["output_error"], by_name["binary"]["output_error"]);
  EXPECT_GT(by_name["binary"]["output_error"], 0.01);
  EXPECT_LT(by_name["binary"]["ratio"], 0.06);
  const std::string text = weft(sweep).out;
  for (const std::string& dtype : kAllTypes) EXPECT_NE(text.find(dtype), std::string::npos) << dtype;
}

TEST(Sweep, SaysWhatMorphAndInspectSay) {
  Folder folder;
  save_digits(folder / "m.entity");
  const Json before = weft({"inspect", folder / "m.entity", "--json"}).last();
  const auto rows =
      weft({"sweep", folder / "m.entity", "--seconds", "0.001", "--granularity", "tensor", "--json"}).events();
  ASSERT_EQ(rows.size(), 21u);
  for (const Json& row : rows)
    if (row["dtype"] == "int4") {
      EXPECT_EQ(row["granularity"], "tensor");
      const Json morphed = weft({"morph", folder / "m.entity", "--dtype", "int4", "--granularity", "tensor", "-o",
                                 folder / "o.entity", "--json"})
                               .last();
      EXPECT_EQ(row["bytes"], morphed["weight_bytes"]);
    }
  EXPECT_EQ(rows[0]["bytes"], before["weight_bytes"]);
}

TEST(Sweep, CountsAllRowsOfATableOfOnesOwn) {
  Folder folder;
  Json network = digits_json();
  network["inputs"]["pixels"] = {2};
  network["stream"].erase("drift");
  network["stream"]["scale"] = 1;
  network["stream"]["held_out"] = 0.99;
  write_file(folder / "n.json", network.dump());
  write_file(folder / "d.csv", "1,0,0\n0,1,1\n");
  const Outcome outcome =
      weft({"sweep", folder / "n.json", "--data", folder / "d.csv", "--seconds", "0.001", "--json"});
  ASSERT_EQ(outcome.exit, 0) << outcome.told();
  for (const Json& row : outcome.events()) {
    const double rows = row["accuracy"].get<double>() * 2;
    EXPECT_TRUE(rows == 0 || rows == 1 || rows == 2) << row;
  }
}

TEST(Sweep, RefusesWhatItCannotMeasureWith) {
  Folder folder;
  Json network = digits_json();
  write_file(folder / "n.json", network.dump());
  network.erase("stream");
  write_file(folder / "bare.json", network.dump());
  write_file(folder / "narrow.csv", "1,2,0\n3,4,1\n");
  std::string wide;
  for (int i = 0; i < 64; ++i) wide += "1,";
  std::string labels;  // more classes than the network has outputs
  for (int label = 0; label <= 10; ++label) labels += wide + std::to_string(label) + "\n";
  write_file(folder / "labels.csv", labels);
  expect_refused({"sweep", folder / "bare.json"}, 3, "name the data with --data");
  expect_refused({"sweep", folder / "n.json", "--data", folder / "none.csv"}, 3, "none.csv");
  expect_refused({"sweep", folder / "n.json", "--data", folder / "narrow.csv"}, 3, "narrow.csv");
  expect_refused({"sweep", folder / "n.json", "--data", folder / "narrow.csv"}, 3, "takes 64");
  expect_refused({"sweep", folder / "bare.json", "--data", folder / "labels.csv"}, 3, "labels.csv");
  expect_refused({"sweep", folder / "n.json", "--seconds", "0"}, 2, "--seconds");
  expect_refused({"sweep", folder / "n.json", "--granularity", "row"}, 2, "--granularity");
  network["learning"]["rule"] = "hebb";
  write_file(folder / "hebb.json", network.dump());
  expect_refused({"sweep", folder / "hebb.json", "--data", folder / "narrow.csv"}, 3, "hebb.json: learning.rule");
}

}  // namespace
}  // namespace weft::cli_test::sweep_test
