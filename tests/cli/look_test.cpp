// SPDX-License-Identifier: Apache-2.0
// The verbs that only look: inspect, hash, doctor; and the rows of bench.

#include <sys/resource.h>

#include "tests/cli/program.hpp"
#include <algorithm>

namespace weft::cli_test::look_test {
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
  for (const bool reads_weights : {false, true}) {
    const Json seen = weft(Words{"inspect", file, "--json"} + (reads_weights ? Words{"--weights"} : Words{})).last();
    EXPECT_EQ(seen["kind"], "entity");
    EXPECT_TRUE(seen["live"]);
    EXPECT_EQ(seen["ticks"], done["ticks"]);
    EXPECT_EQ(seen["parameters"], 11034);
    EXPECT_EQ(seen["state_hash"], reads_weights ? done["state_hash"] : Json());
  }
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
  // The path to the data was made to fit the file's new place, and the drift is behind us only in the weights.
  const Outcome more = weft({"run", file, "--json", "--max-samples", "2"});
  ASSERT_EQ(more.exit, 0) << more.err;
  const Json fresh = weft({"run", kDigits, "--json", "--max-samples", "2"}).last();
  EXPECT_GT(more.last()["held_out_accuracy"].get<double>(), fresh["held_out_accuracy"].get<double>() + 0.3);
}

TEST(Layers, AreListedWithTheirOptions) {
  const Outcome all = weft({"layers"});
  ASSERT_EQ(all.exit, 0) << all.err;
  for (const char* type : {"dense", "leaky_integrator", "parallel"})
    EXPECT_NE(all.out.find(type), std::string::npos) << type;
  const Json dense = weft({"layers", "dense", "--json"}).last();
  EXPECT_EQ(dense["formula"], "y = activation(W x + b)");
  EXPECT_EQ(dense["options"].size(), 4u);
  EXPECT_EQ(dense["options"][0]["key"], "out");
  EXPECT_EQ(dense["options"][0]["needed"], true);
  EXPECT_EQ(dense["options"][1]["default"], "linear");
  const Outcome rate = weft({"layers", "leaky_integrator"});
  EXPECT_NE(rate.out.find("tick length over time constant"), std::string::npos) << rate.out;
  const Outcome unknown = weft({"layers", "dnese"});
  EXPECT_EQ(unknown.exit, 3);
  EXPECT_NE(unknown.err.find("did you mean 'dense'?"), std::string::npos) << unknown.err;
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

TEST(Doctor, TellsWhatBoundsMemory) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit tight{std::min<rlim_t>(before.rlim_max, rlim_t{48} << 30), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);  // what is started from here has it too
  const Json memory = weft({"doctor", "--json"}).last()["machine"]["memory"];
  const std::string text = weft({"doctor"}).out;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_GE(memory["limits"].size(), 2u) << memory;
  EXPECT_EQ(memory["limits"][0]["source"], "RAM and swap");
  EXPECT_EQ(memory["limits"][1]["source"], "ulimit -v");
  EXPECT_EQ(memory["limits"][1]["bytes"], tight.rlim_cur);
  for (const Json& limit : memory["limits"]) {
    EXPECT_LE(limit["free"].get<std::uint64_t>(), limit["bytes"].get<std::uint64_t>());
    EXPECT_GE(limit["free"].get<std::uint64_t>(), memory["free"].get<std::uint64_t>());
    EXPECT_NE(text.find(", by " + limit["source"].get<std::string>()), std::string::npos) << text;
  }
}

TEST(Doctor, TellsTheSystemAndTheDisk) {
  const Json d = weft({"doctor", "--json"}).last();
  const std::string text = weft({"doctor"}).out;
  for (const char* key : {"kernel", "machine", "libc"}) {
    EXPECT_FALSE(d["system"][key].get<std::string>().empty()) << key;
    EXPECT_NE(text.find(d["system"][key].get<std::string>()), std::string::npos) << text;
  }
  EXPECT_GT(d["disk"]["bytes"].get<std::uint64_t>(), 0u);
  EXPECT_LE(d["disk"]["free"].get<std::uint64_t>(), d["disk"]["bytes"].get<std::uint64_t>());
  EXPECT_NE(text.find(", at " + d["disk"]["path"].get<std::string>() + "\n"), std::string::npos) << text;
  for (const Json& device : d["unreached_devices"])
    EXPECT_NE(text.find("PCI " + device["address"].get<std::string>() + ": " + device["problem"].get<std::string>()),
              std::string::npos)
        << text;
}

/// Numbers that any device has which Weft can use: what Vulkan asks of all, and no more than there can be.
void expect_plausible_limits(const Json& limits) {
  const std::map<std::string, std::pair<double, double>> bounds = {
      {"memory_bytes", {1 << 20, 1e15}}, {"allocation_bytes", {1 << 20, 2e19}},
      {"buffer_bytes", {0, 2e19}},       {"storage_range", {1 << 27, 2e19}},
      {"group_threads", {128, 1 << 16}}, {"shared_bytes", {16384, 1 << 24}},
      {"push_bytes", {128, 1 << 16}},    {"subgroup", {1, 128}}};
  for (const auto& [key, range] : bounds) {
    ASSERT_TRUE(limits.contains(key)) << key << " of " << limits;
    EXPECT_GE(limits[key].get<double>(), range.first) << key;
    EXPECT_LE(limits[key].get<double>(), range.second) << key;
  }
  ASSERT_EQ(limits["groups"].size(), 3u);
  for (const Json& axis : limits["groups"]) EXPECT_GE(axis, 65535);
  EXPECT_EQ(limits.size(), bounds.size() + 1);
}

void expect_plausible_self_test(const Json& proof) {
  EXPECT_GE(proof["cases"], 40000);
  EXPECT_GT(proof["milliseconds"], 0.0);
  const std::string shaders = proof["shaders"];
  EXPECT_TRUE(shaders == "fused" || shaders == "fused, flushing in code" || shaders == "emulated") << shaders;
  const Json& own = proof["hardware"];
  for (const char* key : {"fma_differs", "division_differs", "root_differs"}) {
    ASSERT_TRUE(own[key].is_number_float()) << key << " of " << own;
    EXPECT_TRUE(own[key] >= 0.0 && own[key] < 1.0) << key << " of " << own;
  }
  for (const char* key : {"fma_is_fused", "flushes_subnormals", "tiny_after_rounding"})
    EXPECT_TRUE(own[key].is_boolean()) << key << " of " << own;
  // A capability that the hardware lacks cannot have passed.
  EXPECT_TRUE(own["fma_is_fused"] == true || shaders == "emulated") << proof;
  EXPECT_TRUE(own["flushes_subnormals"] == true || shaders != "fused") << proof;
}

TEST(Doctor, TellsEachDevicesLimitsFeaturesAndProof) {
  const Json gpu = weft({"doctor", "--json"}).last()["gpu"];
  if (gpu["devices"].empty()) GTEST_SKIP() << gpu["problem"];
  const std::string text = weft({"doctor"}).out;
  const auto expect_told = [&](const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in:\n" << text;
  };
  std::size_t index = 0;
  for (const Json& device : gpu["devices"]) {
    EXPECT_EQ(device["selector"], "vulkan:" + std::to_string(index++));
    expect_told(device["selector"].get<std::string>() + " ");
    for (const char* key : {"name", "kind", "driver", "vulkan"}) {
      EXPECT_FALSE(device[key].get<std::string>().empty()) << key;
      expect_told(device[key].get<std::string>());
    }
    const Json& features = device["features"];
    for (const char* key : {"float64", "float16", "int16", "int8", "dot_product", "matrix_units",
                            "conditional_dispatches", "memory_budget", "flush_control", "special_values_control"}) {
      ASSERT_TRUE(features[key].is_boolean()) << key << " of " << features;
      if (features[key] == true) expect_told(std::string(" ") + key);
    }
    EXPECT_EQ(features.size(), 10u);
    if (!device["missing"].is_null()) {
      EXPECT_TRUE(device["self_test"].is_null());
      expect_told("not usable: lacks " + device["missing"].get<std::string>());
      continue;
    }
    expect_plausible_limits(device["limits"]);
    expect_told("groups of " + device["limits"]["group_threads"].dump() + " threads");
    if (device["self_test"]["exact"] == false) {
      expect_told("not usable: ");
      continue;
    }
    expect_plausible_self_test(device["self_test"]);
    expect_told("exact: " + device["self_test"]["cases"].dump() +
                " results as the CPU's; shaders: " + device["self_test"]["shaders"].get<std::string>());
    expect_told(device["self_test"]["hardware"]["fma_is_fused"] == true ? "its own fma is fused"
                                                                        : "its own fma rounds twice");
  }
}

TEST(Doctor, SaysWhyThereIsNoDevice) {
  const Environment none{{"VK_ICD_FILENAMES", "/nowhere.json"}, {"VK_DRIVER_FILES", "/nowhere.json"}};
  const Outcome outcome = weft({"doctor", "--json"}, none);
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  const Json d = outcome.last();
  EXPECT_TRUE(d["well"]);
  EXPECT_TRUE(d["gpu"]["devices"].empty());
  const std::string problem = d["gpu"]["problem"];
  EXPECT_EQ(problem.rfind("vulkan: ", 0), 0u) << problem;
  EXPECT_NE(weft({"doctor"}, none).out.find("GPU          none: " + problem), std::string::npos);
}

TEST(Bench, PrintsRowsWithTheseKeys) {
  const std::string bench = std::filesystem::path(program_path()).parent_path() / "weft-bench";
  if (access(bench.c_str(), X_OK) != 0) GTEST_SKIP() << "built without benchmarks";
  const Outcome outcome = weft({"bench", "learn", "--json", "--quick"});
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  const auto rows = outcome.events();
  ASSERT_EQ(rows.size(), 15u);
  for (const Json& row : rows) {
    std::vector<std::string> keys, wanted{"name", "weft", "peer", "peer_value", "ratio", "floor", "unit"};
    for (const auto& [key, value] : row.items()) keys.push_back(key);
    if (row["unit"] == "us") wanted.push_back("most");
    EXPECT_EQ(keys, wanted);
    EXPECT_GT(row["weft"], 0.0);
  }
}

}  // namespace
}  // namespace weft::cli_test::look_test
