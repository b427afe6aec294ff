// SPDX-License-Identifier: Apache-2.0
// Weights stored in other numeric types, and where files may not be written.

#include <sys/stat.h>

#include "tests/cli/dtypes.hpp"
#include <iterator>

namespace weft::cli_test::morph_test {
namespace {

std::string hash_of(const std::string& file) { return weft({"hash", file}).out; }

std::size_t files_in(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(Morph, StoresEveryTypeAndStoringAgainChangesNothing) {
  Folder folder;
  save_digits(folder / "m.entity");
  for (const std::string& dtype : kAllTypes) {
    const std::string first = folder / (dtype + ".entity"), second = folder / "again.entity";
    const Outcome morphed = weft({"morph", folder / "m.entity", "--dtype", dtype, "-o", first, "--json"});
    ASSERT_EQ(morphed.exit, 0) << dtype << morphed.told();
    EXPECT_EQ(morphed.err, "");
    EXPECT_EQ(morphed.last()["layers"], 4);
    EXPECT_EQ(morphed.last()["file_bytes"], std::filesystem::file_size(first));
    EXPECT_EQ(layer(first, 2)["dtype"], dtype);
    ASSERT_EQ(weft({"morph", first, "--dtype", dtype, "-o", second}).exit, 0);
    EXPECT_EQ(read_file(first), read_file(second)) << dtype;
    const Outcome ran = weft({"run", first, "--json", "--max-samples", "40"});
    EXPECT_EQ(ran.exit, 0) << dtype << ran.told();
  }
  // Masters went along: through binary and back nothing is lost.
  ASSERT_EQ(weft({"morph", folder / "binary.entity", "--dtype", "float32", "-o", folder / "back.entity"}).exit, 0);
  EXPECT_EQ(hash_of(folder / "back.entity"), hash_of(folder / "m.entity"));
}

TEST(Morph, TakesPlacesInAnyOrderEachCountedOnce) {
  Folder folder;
  save_digits(folder / "m.entity");
  const std::string out = folder / "out.entity";
  const Outcome morphed = weft({"morph", "--dtype", "ternary", "--layer", "0,0,1,0", "--layer", "[0,1,0,0]", "--layer",
                                "0,0,1,0", folder / "m.entity", "-o", out, "--json"});
  ASSERT_EQ(morphed.exit, 0) << morphed.told();
  EXPECT_EQ(morphed.last()["layers"], 2);
  const Words expected{"float32", "ternary", "ternary", "float32"};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(layer(out, i)["dtype"], expected[i]) << i;
  EXPECT_EQ(weft({"morph", out, "--layer", "0,0,0,0", "--layer", "*", "--dtype", "int8", "-o", folder / "all.entity",
                  "--json"})
                .last()["layers"],
            4);
}

TEST(Morph, ChangesLayersInsideContainersAndHowTheyLearn) {
  Folder folder;
  write_file(folder / "n.json", R"({"weft": 2, "inputs": {"x": [40]}, "chain": [
      {"type": "sequential", "layers": [{"type": "dense", "out": 9}, {"type": "parallel", "merge": "add", "layers": [
        {"type": "dense", "out": 4}, {"type": "dense", "out": 4, "policy": "restart"}]}]}, {"type": "dense", "out": 3}]})");
  const std::string out = folder / "out.entity", again = folder / "again.entity";
  const Outcome inside = weft({"morph", folder / "n.json", "--dtype", "int8", "--qat", "--layer",
                               "0,0,0,0.layers[1].layers[0]", "--layer", "0,0,1,0", "-o", out, "--json"});
  ASSERT_EQ(inside.exit, 0) << inside.told();
  EXPECT_EQ(inside.last()["layers"], 2);
  const Json container = layer(out, 0), head = layer(out, 1);
  EXPECT_EQ(container["dtype"], "mixed");
  ASSERT_EQ(container["inside"].size(), 2u) << "a matrix and its bias";
  EXPECT_EQ(container["inside"][0]["name"], "layers[1].layers[0].weight");
  EXPECT_EQ(container["inside"][0]["dtype"], "int8/channel");
  EXPECT_EQ(container["inside"][0]["qat"], true);
  EXPECT_NE(weft({"inspect", out}).out.find("layers[1].layers[1]: restart"), std::string::npos);
  EXPECT_EQ(container["policies"].dump(), R"([{"layer":"layers[1].layers[1]","policy":"restart"}])");
  EXPECT_EQ(container["qat"], false);
  EXPECT_EQ(head["dtype"], "int8");
  EXPECT_EQ(head["qat"], true);
  // The cell follows a morph, the layer inside keeps its own type.
  ASSERT_EQ(weft({"morph", out, "--dtype", "bfloat16", "-o", again}).exit, 0);
  EXPECT_EQ(layer(again, 0)["inside"][0]["dtype"], "int8/channel");
  EXPECT_EQ(layer(again, 1)["dtype"], "bfloat16");
  ASSERT_EQ(weft({"morph", again, "--qat", "-o", folder / "aware.entity"}).exit, 0);
  EXPECT_EQ(layer(folder / "aware.entity", 0)["qat"], true);
  EXPECT_EQ(hash_of(folder / "aware.entity"), hash_of(again)) << "how it learns is no weight";
  const auto refused = [&](const std::string& place, int exit, const std::string& names) {
    expect_refused({"morph", folder / "n.json", "--dtype", "int8", "-o", again, "--layer", place}, exit, names);
  };
  refused("0,0,0,0.layers[2]", 3, "0,0,0,0 holds 2 layers");
  refused("0,0,1,0.layers[0]", 3, "holds 0 layers");
  refused("0,0,0,0.layers[x]", 2, "is no layer inside");
  refused("0,0,0,0.layers[0].weight", 2, "is no layer inside");
  refused("0,0,0,0.layers[1]x", 2, "is no layer inside");
  refused("*.layers[0]", 2, "one container");
}

TEST(Morph, LeavesTheStateOutWhenOnlyWeightsAreWanted) {
  Folder folder;
  save_digits(folder / "m.entity");
  const Words morph{"morph", folder / "m.entity", "--dtype", "int4"};
  ASSERT_EQ(weft(morph + Words{"-o", folder / "live.entity"}).exit, 0);
  ASSERT_EQ(weft(morph + Words{"-o", folder / "codes.entity", "--weights-only"}).exit, 0);
  EXPECT_LT(std::filesystem::file_size(folder / "codes.entity") * 8,
            std::filesystem::file_size(folder / "live.entity"));
  const Json live = weft({"inspect", folder / "live.entity", "--json", "--weights"}).last();
  const Json codes = weft({"inspect", folder / "codes.entity", "--json", "--weights"}).last();
  EXPECT_TRUE(live["live"]);
  EXPECT_FALSE(codes["live"]);
  EXPECT_EQ(live["weight_bytes"], codes["weight_bytes"]);
  EXPECT_GT(live["layers"][0]["matrices"][0]["rmse"], 0.0);
  EXPECT_FALSE(codes["layers"][0]["matrices"][0].contains("rmse")) << "without masters there is nothing to compare";
  EXPECT_NE(weft({"inspect", folder / "codes.entity", "--weights"}).out.find("no master"), std::string::npos);
  EXPECT_EQ(weft({"run", folder / "codes.entity", "--json", "--max-samples", "40"}).exit, 0);
}

TEST(Morph, KeepsTheWayToTheDataAsPackDoes) {
  Folder folder;
  std::filesystem::create_directories(folder / "a/data");
  std::filesystem::create_directories(folder / "b");
  std::filesystem::copy(source_path("examples/data/digits.csv.gz"), folder / "a/data/d.csv.gz");
  Json network = digits_json();
  network["stream"]["csv"] = "data/d.csv.gz";
  write_file(folder / "a/n.json", network.dump());
  ASSERT_EQ(weft({"run", folder / "a/n.json", "--quiet", "--max-samples", "40", "--save", folder / "a/m.entity"}).exit,
            0);
  for (const Words& made : {Words{"morph", folder / "a/n.json", "--dtype", "int8"},
                            {"morph", folder / "a/m.entity", "--dtype", "int8"},
                            {"pack", folder / "a/m.entity"}}) {
    ASSERT_EQ(weft(made + Words{"-o", folder / "b/out.entity"}).exit, 0);
    const Outcome ran = weft({"run", folder / "b/out.entity", "--json", "--max-samples", "40"});
    EXPECT_EQ(ran.exit, 0) << made[0] << " " << made[1] << ran.told();
  }
}

TEST(Morph, RefusesBadPlacesAndTypes) {
  Folder folder;
  Json network = digits_json();
  network["grid"]["layers"] = 2;
  network["layers"].push_back({{"at", {0, 0, 0, 1}}, {"type", "rms_norm"}});
  write_file(folder / "n.json", network.dump());
  const std::string out = folder / "out.entity";
  const auto refused = [&](const Words& more, int exit, const std::string& names) {
    expect_refused(Words{"morph", folder / "n.json", "-o", out} + more, exit, names);
  };
  refused({"--dtype", "int8", "--layer", ""}, 2, "--layer: the value is empty");
  for (const char* place : {"**", "0,0,0", "0,0,0,0,", "0,0,0,0,0", "-1,0,0,0", "0 0 0 0", "99999999999,0,0,0",
                            "[0,0,0,0", "0,0,0,0]", "[]"})
    refused({"--dtype", "int8", "--layer", place}, 2, "--layer " + std::string(place) + ": is no place");
  refused({"--dtype", "int8", "--layer", "9,9,9,9"}, 3, "no layer stands there");
  refused({"--dtype", "int8", "--layer", "0,1,0,1"}, 3, "no layer stands there");
  refused({"--dtype", "int8", "--layer", "0,0,0,1"}, 3, "n.json: layers[4] [0,0,0,1]: has no weight matrix");
  refused({}, 2, "--dtype");
  refused({"--dtype", "int9"}, 2, "'int9'");
  refused({"--dtype", "float16", "--granularity", "tensor"}, 2, "float16 has no scales");
  refused({"--dtype", "int4", "--granularity", "block64"}, 2, "tensor|channel|block32|block32_f16");
  refused({"--dtype", "uint32", "--granularity", "block32_f16"}, 2, "float64");
  EXPECT_FALSE(std::filesystem::exists(out));
  expect_refused({"morph", folder / "n.json", "--dtype", "int8"}, 2, "--output");
  expect_refused({"morph", folder / "missing.entity", "--dtype", "int8", "-o", out}, 3, "missing.entity");
}

TEST(Morph, WritesNothingWhereItShouldNot) {
  Folder folder;
  const std::string file = folder / "m.entity";
  save_digits(file);
  const std::string before = read_file(file);
  std::filesystem::create_directory(folder / "d");
  std::filesystem::create_symlink("m.entity", folder / "link");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  const std::size_t files = files_in(folder / "");
  const Words morph{"morph", file, "--dtype", "int4", "-o"};
  expect_refused(morph + Words{""}, 2, "--output");
  expect_refused(morph + Words{folder / "no/such.entity"}, 5, "no directory " + (folder / "no"));
  expect_refused(morph + Words{folder / "d"}, 5, "is a directory");
  expect_refused(morph + Words{folder / "pipe"}, 5, "is a pipe");
  expect_refused(morph + Words{file}, 2, "is the file that is read");
  expect_refused(morph + Words{folder / "link"}, 2, "is the file that is read");
  expect_refused(morph + Words{folder / std::string(300, 'n')}, 5, "too long");
  EXPECT_EQ(read_file(file), before);
  EXPECT_EQ(files_in(folder / ""), files);
}

TEST(Run, SavesNothingWhereItShouldNotAndSaysSoBeforeItRuns) {
  Folder folder;
  std::filesystem::create_directory(folder / "d");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const char* place : {"d", "pipe"}) {
    const Outcome refused = weft({"run", kDigits, "--json", "--max-samples", "40", "--save", folder / place});
    EXPECT_EQ(refused.exit, 5) << refused.told();
    ASSERT_EQ(refused.events().size(), 1u) << refused.told();
    EXPECT_NE(refused.err.find(std::string(place) + ": is a "), std::string::npos) << refused.err;
  }
  expect_refused({"run", kDigits, "--max-samples", "40", "--save", ""}, 2, "--save");
  EXPECT_EQ(files_in(folder / ""), 2u);
}

TEST(Morph, MakesABinaryFileOfABitAWeight) {
  Folder folder;
  const Json network = Json::parse(R"({"weft": 2, "name": "one", "grid": {"x": 1}, "inputs": {"i": [1024]},
      "layers": [{"at": [0,0,0,0], "type": "dense", "out": 1024, "bias": false}], "outputs": {"o": [0,0,0,0]}})");
  write_file(folder / "n.json", network.dump());
  const auto size = [&](const std::string& dtype) {
    const Outcome morphed = weft({"morph", folder / "n.json", "--dtype", dtype, "-o", folder / "o.entity", "--json"});
    EXPECT_EQ(morphed.exit, 0) << morphed.told();
    return std::filesystem::file_size(folder / "o.entity");
  };
  constexpr std::size_t kWeights = 1024 * 1024, kHeader = 2048;
  EXPECT_LE(size("binary"), kWeights / 8 + kHeader);
  EXPECT_LE(size("ternary"), kWeights / 4 + kHeader);
  EXPECT_LE(size("int4"), kWeights / 2 + kWeights / 32 * 4 + kHeader);
  EXPECT_LE(size("int8"), kWeights + 1024 * 4 + kHeader);
  EXPECT_LE(size("float32"), kWeights * 4 + kHeader);
}

}  // namespace
}  // namespace weft::cli_test::morph_test
