// SPDX-License-Identifier: Apache-2.0
// The verbs that only look: inspect, hash, doctor; and the rows of bench.

#include "tests/cli/program.hpp"

namespace weft::cli_test {
namespace {

TEST(Inspect, TellsTheNetworkInNumbers) {
  const Json d = weft({"inspect", kDigits, "--json"}).last();
  ASSERT_EQ(d["layers"].size(), 4u);
  // By hand: (64 + 16 + 1) * 64 of the first layer, and so on.
  EXPECT_EQ(d["layers"][0]["parameters"], 81 * 64);
  EXPECT_EQ(d["layers"][1]["parameters"], 65 * 64);
  EXPECT_EQ(d["layers"][2]["parameters"], 65 * 10);
  EXPECT_EQ(d["layers"][3]["parameters"], 65 * 16);
  EXPECT_EQ(d["parameters"], 81 * 64 + 65 * 64 + 65 * 10 + 65 * 16);
  EXPECT_EQ(d["layers"][0]["in"], 80);
  EXPECT_EQ(d["layers"][0]["activation"], "tanh");
  EXPECT_EQ(d["layers"][2]["activation"], "linear");
  EXPECT_EQ(d["layers"][3]["dtype"], "float32");
  // A tick of the first layer: 80 products for each of 64 outputs; its weights, 80 inputs and 64 outputs twice.
  EXPECT_EQ(d["layers"][0]["in_shape"], Json::parse("[80]"));
  EXPECT_EQ(d["layers"][0]["out_shape"], Json::parse("[64]"));
  EXPECT_EQ(d["layers"][0]["multiply_adds"], 80 * 64);
  EXPECT_EQ(d["layers"][0]["bytes_touched"], 4 * (81 * 64 + 80 + 2 * 64));
  EXPECT_EQ(d["multiply_adds"], 80 * 64 + 64 * 64 + 64 * 10 + 64 * 16);
  EXPECT_EQ(d["latency"], Json::parse(R"([{"input":"pixels","output":"digit","ticks":3}])"));
  EXPECT_EQ(d["loops"], Json::parse(R"([["[0,0,0,0]","[0,0,1,0]","[0,1,1,0]"]])"));
  EXPECT_EQ(d["settle_ticks"], 3);
  EXPECT_EQ(d["kind"], "network");
  EXPECT_FALSE(d["live"]);
  const std::string text = weft({"inspect", kDigits}).out;
  for (const char* wanted : {"11,034", "3 ticks", "loop of [0,0,0,0] [0,0,1,0] [0,1,1,0]", "pixels to digit",
                             "multiply-adds", "bytes touched", "5,120", "10,880 multiply-adds"})
    EXPECT_NE(text.find(wanted), std::string::npos) << wanted << " in:\n" << text;
}

TEST(Hash, OfASavedModelIsThatOfItsRun) {
  Folder folder;
  const std::string file = folder / "m.entity";
  const Json done = weft({"run", kDigits, "--json", "--max-samples", "500", "--save", file}).last();
  EXPECT_EQ(weft({"hash", file}).out, done["state_hash"].get<std::string>() + "\n");
  const Json seen = weft({"inspect", file, "--json"}).last();
  EXPECT_EQ(seen["kind"], "entity");
  EXPECT_TRUE(seen["live"]);
  EXPECT_EQ(seen["ticks"], done["ticks"]);
  EXPECT_EQ(seen["state_hash"], done["state_hash"]);
}

TEST(Hash, OfANetworkDependsOnItsSeedAlone) {
  Folder folder;
  Json network = digits_json();
  const std::string first = weft({"hash", kDigits}).out;
  EXPECT_EQ(weft({"hash", kDigits}).out, first);
  network["seed"] = 1;
  write_file(folder / "n.json", network.dump());
  EXPECT_NE(weft({"hash", folder / "n.json"}).out, first);
  EXPECT_EQ(weft({"hash", kDigits, "--json"}).last()["state_hash"].get<std::string>() + "\n", first);
}

TEST(Run, GoesOnFromASavedModelsWeights) {
  Folder folder;
  const std::string file = folder / "m.entity";
  ASSERT_EQ(weft({"run", kDigits, "--quiet", "--max-samples", "4000", "--save", file}).exit, 0);
  // The path to the data was made to fit the file's new place, and the shift is behind us only in the weights.
  const Outcome more = weft({"run", file, "--json", "--max-samples", "2"});
  ASSERT_EQ(more.exit, 0) << more.err;
  const Json fresh = weft({"run", kDigits, "--json", "--max-samples", "2"}).last();
  EXPECT_GT(more.last()["held_out_accuracy"].get<double>(), fresh["held_out_accuracy"].get<double>() + 0.3);
}

TEST(Doctor, TellsTheMachineAndThePlacement) {
  const Outcome outcome = weft({"doctor", kDigits, "--json"});
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  const Json d = outcome.last();
  EXPECT_TRUE(d["well"]);
  EXPECT_TRUE(d["subnormals"]["flushes"]);
  EXPECT_GE(d["machine"]["usable_cpus"], 1);
  EXPECT_GE(d["executor"]["threads"], 1);
  for (const char* key : {"cpu", "caches", "numa_nodes", "affinity", "cgroup", "transparent_huge_pages"})
    EXPECT_TRUE(d["machine"].contains(key)) << key;
  EXPECT_TRUE(d["isa"]["WEFT_ISA"].is_null());
  // Whatever GPUs there are, each is exact or says why not; and where there is none, that is said.
  EXPECT_NE(d["gpu"]["devices"].empty(), d["gpu"]["problem"].is_null());
  for (const Json& device : d["gpu"]["devices"])
    EXPECT_TRUE(!device["missing"].is_null() || device["self_test"]["exact"] == true ||
                device["self_test"].contains("problem"))
        << device;
  std::size_t cells = 0;
  for (const Json& region : d["placement"]["regions"]) cells += region["cells"].size();
  EXPECT_EQ(cells, 4u);
  EXPECT_FALSE(d["placement"]["why"].get<std::string>().empty());
  const Json forced = weft({"doctor", "--json"}, {{"WEFT_ISA", "scalar"}}).last();
  EXPECT_EQ(forced["isa"]["active"], "scalar");
  EXPECT_EQ(forced["isa"]["WEFT_ISA"], "scalar");
  EXPECT_EQ(weft({"doctor"}, {{"WEFT_ISA", "mmx"}}).exit, 3);
}

TEST(Bench, PrintsRowsWithTheseKeys) {
  const std::string bench = std::filesystem::path(WEFT_PROGRAM).parent_path() / "weft-bench";
  if (access(bench.c_str(), X_OK) != 0) GTEST_SKIP() << "built without benchmarks";
  const Outcome outcome = weft({"bench", "learn", "--json", "--quick"});
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  const auto rows = outcome.events();
  ASSERT_EQ(rows.size(), 10u);
  for (const Json& row : rows) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : row.items()) keys.push_back(key);
    EXPECT_EQ(keys, (std::vector<std::string>{"name", "weft", "peer", "peer_value", "ratio", "floor", "unit"}));
    EXPECT_GT(row["weft"], 0.0);
  }
}

}  // namespace
}  // namespace weft::cli_test
