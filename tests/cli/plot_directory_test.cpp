// SPDX-License-Identifier: Apache-2.0
// Pictures of data directories: what a run keeps of itself.

#include "tests/cli/data_directory.hpp"

namespace weft::cli_test::plot_directory_test {
namespace {

TEST(PlotDirectory, DrawsTheTasksOfARunAsItsMatrix) {
  Folder folder;
  Json network = Json::parse(R"({"weft": 2, "name": "split", "inputs": {"x": [64]},
    "chain": [{"type": "dense", "out": 16, "activation": "relu"}, {"type": "dense", "out": 10}],
    "stream": {"scale": 0.0625, "held_out": 0.2, "tasks": {"kind": "split", "count": 5, "scenario": "class"}}})");
  network["stream"]["csv"] = source_path("examples/data/digits.csv.gz");
  write_file(folder / "n.json", network.dump());
  const Outcome ran =
      weft({"run", folder / "n.json", "--quiet", "--state", folder / "a", "--matrix", folder / "m.csv"});
  ASSERT_EQ(ran.exit, 0) << ran.told();
  for (const char* const from : {"a", "m.csv"}) {
    const Outcome drawn = weft({"plot", folder / from, "-o", folder / (std::string(from) + ".svg"), "--title", "t"});
    ASSERT_EQ(drawn.exit, 0) << drawn.told();
  }
  EXPECT_EQ(read_file(folder / "a.svg"), read_file(folder / "m.csv.svg"));
  EXPECT_GT(read_file(folder / "a.svg").size(), 1000u);
}

TEST(PlotDirectory, DrawsTheCurveOfARunThatGoesOn) {
  Folder folder;
  Process run(run_in(folder / "a") + Words{"--checkpoint-every", "2000"});
  run.wait();
  const Outcome drawn = weft({"plot", folder / "a", "-o", folder / "x.svg"});
  ASSERT_EQ(drawn.exit, 0) << drawn.told();
  const std::string picture = read_file(folder / "x.svg");
  for (const char* const part : {"prequential_accuracy", "samples", "<polyline"})
    EXPECT_NE(picture.find(part), std::string::npos) << part;
}

TEST(PlotDirectory, DrawsTheEpisodesOfAnAgent) {
  Folder folder;
  const Outcome ran = weft({"live", source_path("examples/cartpole.json"), "--steps", "300", "--quiet", "--threads",
                            "1", "--state", folder / "a"});
  ASSERT_EQ(ran.exit, 0) << ran.told();
  const Outcome drawn = weft({"plot", folder / "a", "-o", folder / "x.svg"});
  ASSERT_EQ(drawn.exit, 0) << drawn.told();
  EXPECT_NE(read_file(folder / "x.svg").find(">return</text>"), std::string::npos);
  // Of an agent that was kept before there was such a table.
  std::filesystem::remove(folder / "a/scalars.csv");
  const Outcome refused = weft({"plot", folder / "a", "-o", folder / "x.svg"});
  EXPECT_EQ(refused.exit, 3);
  EXPECT_NE(refused.err.find("is a data directory of 'live', which keeps no curve; give the directory of its --logdir"),
            std::string::npos)
      << refused.err;
  std::filesystem::create_directories(folder / "b/journal");
  const Outcome none = weft({"plot", folder / "b", "-o", folder / "x.svg"});
  EXPECT_EQ(none.exit, 3);
  EXPECT_NE(none.err.find("no agent is there"), std::string::npos) << none.err;
}

}  // namespace
}  // namespace weft::cli_test::plot_directory_test
