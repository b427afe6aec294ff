// SPDX-License-Identifier: Apache-2.0
// `--device`: where a run computes changes what it says of the device, and no bit of its result.

#include "tests/cli/program.hpp"
#include <algorithm>
#include <chrono>
#include <thread>

namespace weft::cli_test::device_test {
namespace {

const Words kRun{"run", kDigits, "--json", "--max-samples", "300"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Devices of the machine, with what each lacks to be used.
Json devices() { return weft({"doctor", "--json"}).last()["gpu"]["devices"]; }

/// Skipped where there is no device; one that cannot be used fails.
class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (devices().empty()) GTEST_SKIP() << "no Vulkan device";
  }
};

TEST_F(Gpu, GivesTheSameResultAsTheCpuAndSaysWhoComputed) {
  const Json expected = weft(kRun).last();
  EXPECT_EQ(expected["device"], (Json{{"name", "cpu"}}));
  for (const Outcome& ran : {weft(with(kRun, {"--device", "vulkan"})), weft(kRun, {{"WEFT_ARG_DEVICE", "vulkan:0"}})}) {
    ASSERT_EQ(ran.exit, 0) << ran.err;
    const Json done = ran.last();
    EXPECT_EQ(done["state_hash"], expected["state_hash"]);
    EXPECT_EQ(done["held_out_accuracy"], expected["held_out_accuracy"]);
    EXPECT_EQ(done["device"]["steps"], done["ticks"]);
    EXPECT_EQ(done["device"]["cpu_steps"], 0);
    EXPECT_TRUE(done["device"]["why_cpu"].is_null()) << done;
    EXPECT_NE(done["device"]["name"], "cpu");
  }
}

TEST_F(Gpu, IsUsedAsVulkanAllowsSynchronisationIncluded) {
  const Folder folder;
  const std::string found = folder / "found.txt";
  write_file(folder / "vk_layer_settings.txt",
             "khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG\n"
             "khronos_validation.report_flags = error,warn\n"
             "khronos_validation.log_filename = " +
                 found +
                 "\nkhronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT\n");
  const Environment validated{{"VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation"},
                              {"VK_LAYER_SETTINGS_PATH", folder / ""}};
  const Outcome ran = weft(with(kRun, {"--device", "vulkan"}), validated);
  if (!std::filesystem::exists(found)) GTEST_SKIP() << "no validation layers";  // they make it when they start
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(read_file(found), "");
  EXPECT_EQ(ran.last()["device"]["cpu_steps"], 0);
  EXPECT_EQ(ran.last()["device"]["faults"], 0);
  EXPECT_TRUE(ran.last()["device"]["last_fault"].is_null());
}

TEST_F(Gpu, OfTheFileCountsUntilAFlagSaysOtherwise) {
  const Folder folder;
  Json network = Json::parse(read_file(kDigits));
  network["device"] = "vulkan";
  write_file(folder / "digits.json", network.dump());
  const Words data{"--data", source_path("examples/data/digits.csv.gz")};
  Words run = with(kRun, data);
  run[1] = folder / "digits.json";
  EXPECT_EQ(weft(run).last()["device"]["steps"], 307);
  EXPECT_EQ(weft(with(run, {"--device", "cpu"})).last()["device"], (Json{{"name", "cpu"}}));
}

TEST_F(Gpu, MayLeaveCellsToTheCpu) {
  const Folder folder;
  Json network = Json::parse(read_file(kDigits));
  network["layers"][1]["device"] = "cpu";
  write_file(folder / "digits.json", network.dump());
  const Json looked = weft({"inspect", folder / "digits.json", "--json"}).last();
  EXPECT_NE(looked["why_cpu_cells"].get<std::string>().find("kept there by the network"), std::string::npos) << looked;
  EXPECT_NE(weft({"inspect", folder / "digits.json"}).out.find("placement "), std::string::npos);
  EXPECT_TRUE(weft({"inspect", kDigits, "--json"}).last()["why_cpu_cells"].is_null());
  Words run = with(kRun, {"--data", source_path("examples/data/digits.csv.gz")});
  run[1] = folder / "digits.json";
  const Json here = weft(with(run, {"--device", "cpu"})).last(), there = weft(with(run, {"--device", "vulkan"})).last();
  EXPECT_EQ(here["device"], (Json{{"name", "cpu"}}));
  EXPECT_EQ(here["state_hash"], weft(kRun).last()["state_hash"]);
  EXPECT_EQ(there["state_hash"], here["state_hash"]);
  EXPECT_EQ(there["device"]["steps"], there["ticks"]);
  EXPECT_EQ(there["device"]["cpu_steps"], 0);
  EXPECT_EQ(there["device"]["cpu_cells"], 1);
  EXPECT_NE(there["device"]["why_cpu_cells"].get<std::string>().find("kept there by the network"), std::string::npos)
      << there;
  EXPECT_GT(there["device"]["exchanged_bytes"], 0);
}

TEST(Device, OfALayerIsNoPartOfARun) {
  const Folder folder;
  const Words more{"--data", source_path("examples/data/digits.csv.gz"), "--state", folder / "agent"};
  const Outcome original = weft(with(kRun, more));
  ASSERT_EQ(original.exit, 0) << original.err;
  Json network = Json::parse(read_file(kDigits));
  network["layers"][1]["device"] = "cpu";
  write_file(folder / "digits.json", network.dump());
  Words run = with(kRun, more);
  run[1] = folder / "digits.json";
  const Outcome again = weft(run);
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_EQ(again.last()["state_hash"], original.last()["state_hash"]);
}

TEST_F(Gpu, ARunOnADeviceIsReplayedAnywhere) {
  const Folder folder;
  const Words directory{"--state", folder / "agent"};
  const std::string hash = weft(kRun).last()["state_hash"];
  const Outcome original = weft(with(with(kRun, directory), {"--device", "vulkan"}));
  ASSERT_EQ(original.exit, 0) << original.err;
  EXPECT_EQ(original.last()["state_hash"], hash);
  for (const char* device : {"cpu", "vulkan"}) {
    const Outcome again = weft({"replay", folder / "agent", "--verify", "--json", "--device", device});
    ASSERT_EQ(again.exit, 0) << again.err;
    EXPECT_EQ(again.last()["state_hash"], hash) << device;
    EXPECT_EQ(again.last()["device"] == "cpu", std::string(device) == "cpu") << again.last();
  }
}

// Weights are changed on the host, between two samples.
TEST_F(Gpu, WeightsAtAChangeAreThoseOfTheCpu) {
  const Folder folder;
  for (const char* const action :
       {R"({"swap": "initial"})", R"({"swap": "best", "swap_every": 100, "swap_samples": 50, "renew": 0.5})"}) {
    SCOPED_TRACE(action);
    Json network = Json::parse(read_file(source_path("examples/drift.json")));
    network["learning"]["drift"].update(Json::parse(action));
    network["learning"]["drift"]["react_every"] = 10;
    network["stream"].update({{"csv", source_path("examples/data/digits.csv.gz")},
                              {"drift", {{"kind", "labels"}, {"at", 0.75}, {"share", 1.0}}}});
    write_file(folder / "n.json", network.dump());
    const Words run{"run", folder / "n.json", "--json", "--quiet", "--max-samples", "800", "--threads", "1"};
    const Json here = weft(run).last(), there = weft(with(run, {"--device", "vulkan"})).last();
    EXPECT_EQ(there["state_hash"], here["state_hash"]);
    EXPECT_EQ(there["drift"], here["drift"]);
    EXPECT_GE(here["drift"]["swaps"].get<int>() + here["drift"]["renewed"].get<int>(), 1) << here["drift"];
    EXPECT_EQ(there["device"]["cpu_steps"], 0);
    EXPECT_GE(there["device"]["steps"].get<int>(), 800);
  }
}

// Begun on the one, killed somewhere, gone on with on the other, and so on.
TEST_F(Gpu, AnAgentThatActsGoesOnOnTheOther) {
  const Folder folder;
  const std::string network = small_agent(folder / "n.json"), directory = folder / "agent";
  const Words live{"live", network, "--json", "--quiet", "--threads", "1", "--steps", "1500"};
  const Json whole = weft(live).last();
  EXPECT_EQ(whole["device"], (Json{{"name", "cpu"}}));
  const Words kept = with(live, {"--state", directory, "--durability", "tick", "--checkpoint-every", "500"});
  for (int part = 0; part < 4; ++part) {
    Process process(with(kept, {"--device", part % 2 ? "cpu" : "vulkan"}));
    const auto episodes = [&] {
      const std::string out = process.out_so_far();
      return std::count(out.begin(), out.end(), '\n');
    };
    while (!process.has_ended() && episodes() < 4 * (part + 1))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    process.send(SIGKILL);
    process.wait();
  }
  const Json done = weft(with(kept, {"--device", "vulkan"})).last();
  EXPECT_EQ(done["state_hash"], whole["state_hash"]) << done;
  EXPECT_EQ(done["mean_return"], whole["mean_return"]);
  EXPECT_EQ(done["device"]["cpu_steps"], 0);
  EXPECT_EQ(done["device"]["faults"], 0);
  for (const char* const device : {"cpu", "vulkan"}) {
    const Outcome replayed = weft({"replay", directory, "--verify", "--json", "--device", device});
    ASSERT_EQ(replayed.exit, 0) << replayed.told();
    EXPECT_EQ(replayed.last()["state_hash"], whole["state_hash"]);
  }
}

TEST(Device, ThatDoesNotExistIsRefusedWithThoseThatDo) {
  const Outcome typo = weft(with(kRun, {"--device", "gpu"}));
  EXPECT_EQ(typo.exit, 2);
  EXPECT_NE(typo.err.find("expected cpu, vulkan, vulkan:NUMBER or vulkan:PART-OF-A-NAME; there are: cpu"),
            std::string::npos)
      << typo.err;
  if (devices().empty()) return;
  const Outcome none = weft(with(kRun, {"--device", "vulkan:no such card"}));
  EXPECT_EQ(none.exit, 3);
  EXPECT_NE(none.err.find("no such device; there are: vulkan:0"), std::string::npos) << none.err;
}

TEST(Device, WithoutADriverTheCpuDoesItAndSaysWhy) {
  const Environment driverless{{"VK_ICD_FILENAMES", "/nonexistent"}, {"VK_DRIVER_FILES", "/nonexistent"}};
  const Outcome ran = weft(with(kRun, {"--device", "vulkan"}), driverless);
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_NE(ran.err.find("warning: the mesh runs on the CPU: "), std::string::npos) << ran.err;
  const Json done = ran.last();
  EXPECT_EQ(done["state_hash"], weft(kRun).last()["state_hash"]);
  EXPECT_EQ(done["device"]["name"], "cpu");
  EXPECT_EQ(done["device"]["steps"], 0);
  EXPECT_EQ(done["device"]["cpu_steps"], done["ticks"]);
  EXPECT_NE(std::string(done["device"]["why_cpu"]), "");
}

}  // namespace
}  // namespace weft::cli_test::device_test
