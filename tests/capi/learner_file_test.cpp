// SPDX-License-Identifier: Apache-2.0
// Files and snapshots of meshes that learn: what is loaded goes on as if nothing had been stopped.

#include "learning/options.hpp"

#include "kernels/optimizer.hpp"
#include "kernels/rate_schedule.hpp"

#include <unistd.h>

#include "calls.hpp"
#include <array>
#include <filesystem>

namespace weft::capi::learner_file_test {
namespace {

using namespace testing_support;

constexpr const char* kNetwork = R"({"weft": 2, "seed": 7, "inputs": {"x": [3]}, "chain": [
    {"type": "dense", "out": 6, "activation": "tanh"}, {"type": "dense", "out": 5, "activation": "tanh"},
    {"type": "dense", "out": 2}]})";

/// A mesh with what drives it.
struct Learning {
  weft_mesh* mesh = nullptr;
  weft_learner* learner = nullptr;
  Learning() = default;
  Learning(const Learning&) = delete;
  Learning& operator=(const Learning&) = delete;
  ~Learning() {
    if (learner) (void)weft_learner_destroy(learner);
    if (mesh) (void)weft_mesh_destroy(mesh);
  }
};

void learn(const Learning& of, std::uint64_t first, std::uint64_t samples) {
  for (std::uint64_t i = first; i < first + samples; ++i) {
    const std::array<float, 3> x{static_cast<float>(i % 3) - 1, static_cast<float>(i % 5) / 4,
                                 static_cast<float>(i * 7 % 4) / 2};
    const std::uint32_t label = static_cast<std::uint32_t>(i / 2 % 2);
    const weft_input input{"x", x.data(), x.size()};
    weft_target target{};
    target.size = sizeof target;
    target.output = "y";
    target.labels = &label;
    target.label_count = 1;
    WEFT_ASSERT_OK(weft_learner_learn(of.learner, &input, 1, &target, 1, 1));
  }
}

/// Scores that wait are not in files.
void clear_scores(const Learning& first) { WEFT_EXPECT_OK(weft_learner_clear_scores(first.learner)); }

std::vector<unsigned char> file_of(weft_mesh* mesh) {
  std::size_t needed = 0;
  WEFT_EXPECT_OK(weft_mesh_save_bytes(mesh, 1, nullptr, 0, &needed));
  std::vector<unsigned char> bytes(needed);
  WEFT_EXPECT_OK(weft_mesh_save_bytes(mesh, 1, bytes.data(), bytes.size(), &needed));
  return bytes;
}

std::vector<float> weights_of(weft_mesh* mesh) {
  std::vector<float> all;
  for (const std::uint32_t layer : {0u, 1u, 2u})
    for (const std::size_t parameter : {0, 1}) {
      std::size_t needed = 0;
      const weft_coord at{0, 0, layer, 0};
      WEFT_EXPECT_OK(weft_mesh_read_weights(mesh, at, parameter, nullptr, 0, &needed));
      std::vector<float> values(needed);
      WEFT_EXPECT_OK(weft_mesh_read_weights(mesh, at, parameter, values.data(), needed, nullptr));
      all.insert(all.end(), values.begin(), values.end());
    }
  return all;
}

void load(Learning& into, const std::vector<unsigned char>& file) {
  weft_mesh_options options{};
  options.size = sizeof options;
  options.threads = 1;
  WEFT_ASSERT_OK(weft_learner_load_bytes(file.data(), file.size(), &options, &into.mesh, &into.learner));
}

void expect_same(const Learning& a, const Learning& b) {
  EXPECT_EQ(hash_of(a.mesh), hash_of(b.mesh));
  EXPECT_EQ(weights_of(a.mesh), weights_of(b.mesh));
  std::size_t scores = 0, others = 1;
  WEFT_EXPECT_OK(weft_learner_scores(a.learner, nullptr, 0, &scores));
  WEFT_EXPECT_OK(weft_learner_scores(b.learner, nullptr, 0, &others));
  EXPECT_EQ(scores, others);
}

void begin(Learning& first, const std::string& section) {
  first.mesh = make_mesh(kNetwork);
  std::size_t made = 0;  // a session for stored samples
  if (section.find("replay") != std::string::npos) WEFT_ASSERT_OK(weft_mesh_add_session(first.mesh, &made));
  WEFT_ASSERT_OK(weft_learner_build(first.mesh, section.c_str(), &first.learner)) << section;
}

/// A learner that goes on, one that is saved and loaded, one that goes back to a snapshot: all the same.
void expect_goes_on(const std::string& section) {
  SCOPED_TRACE(section);
  Learning first, loaded;
  begin(first, section);
  learn(first, 0, 23);
  clear_scores(first);
  const std::vector<unsigned char> file = file_of(first.mesh);
  weft_snapshot* snapshot = nullptr;
  WEFT_ASSERT_OK(weft_snapshot_create(&snapshot));
  WEFT_ASSERT_OK(weft_mesh_take_snapshot(first.mesh, snapshot));
  load(loaded, file);
  ASSERT_TRUE(loaded.learner);
  expect_same(first, loaded);
  EXPECT_EQ(file_of(loaded.mesh), file);
  learn(first, 23, 20);
  learn(loaded, 23, 20);
  expect_same(first, loaded);
  WEFT_ASSERT_OK(weft_mesh_restore_snapshot(loaded.mesh, snapshot));
  learn(loaded, 23, 20);
  expect_same(first, loaded);
  WEFT_ASSERT_OK(weft_learner_drain(first.learner));
  WEFT_ASSERT_OK(weft_learner_drain(loaded.learner));
  expect_same(first, loaded);
  WEFT_EXPECT_OK(weft_snapshot_destroy(snapshot));
}

TEST(CLearnerFile, GoesOnUnderEachRuleScheduleAndOptimizer) {
  std::size_t count = 0;
  for (const std::string_view rule : learning::rule_names())
    for (const char* const schedule : {"settle", "pipelined"})
      for (const std::string_view optimizer : kernels::optimizer_names()) {
        expect_goes_on(R"({"rule": ")" + std::string(rule) + R"(", "schedule": ")" + schedule +
                       R"(", "optimizer": {"type": ")" + std::string(optimizer) + R"(", "lr": 0.01}})");
        ++count;
      }
  EXPECT_EQ(count, learning::rule_names().size() * 2 * kernels::optimizer_names().size());
}

TEST(CLearnerFile, GoesOnWithEverythingElseThatALearnerKeeps) {
  for (const char* const section :
       {R"({"rate_schedule": {"type": "cosine", "updates": 30, "warmup": 5}, "optimizer": {"type": "momentum"}})",
        R"({"rate_schedule": {"type": "step", "updates": 9, "factor": 0.5}, "optimizer": {"type": "adamw"}})",
        R"({"replay": {"method": "er", "capacity": 8}})", R"({"consolidation": {"method": "ewc", "every": 5}})",
        R"({"consolidation": {"method": "si", "every": 7}})", R"({"consolidation": {"method": "lwf", "every": 5}})",
        R"({"drift": {"detector": "ddm"}})", R"({"plasticity": {"every": 4, "share": 0.1}})",
        R"({"schedule": "pipelined", "delay_compensation": "both", "optimizer": {"type": "momentum", "lr": 0.01}})"})
    expect_goes_on(section);
}

// Tickets given before the file was written are taught after it was read.
TEST(CLearnerFile, SamplesThatWaitForTheirTargetsGoOnWaiting) {
  for (const char* const late : {"meet", "again"})
    for (const char* const schedule : {"settle", "pipelined"}) {
      SCOPED_TRACE(std::string(late) + " " + schedule);
      Learning first, loaded;
      begin(first, std::string(R"({"optimizer": {"type": "adamw", "lr": 0.02}, "patience": 6, "late": ")") + late +
                       R"(", "schedule": ")" + schedule + R"("})");
      const auto observe = [](const Learning& of, float value) {
        const std::array<float, 3> x{value, -value, 1};
        const weft_input input{"x", x.data(), x.size()};
        std::uint64_t ticket = 0;
        WEFT_EXPECT_OK(weft_learner_observe(of.learner, &input, 1, &ticket));
        return ticket;
      };
      const auto teach = [](const Learning& of, std::uint64_t ticket, std::uint32_t label) {
        weft_target target{};
        target.size = sizeof target;
        target.output = "y";
        target.labels = &label;
        target.label_count = 1;
        WEFT_EXPECT_OK(weft_learner_teach(of.learner, ticket, &target, 1));
      };
      learn(first, 0, 5);
      for (int i = 0; i < 5; ++i) (void)observe(first, static_cast<float>(i) / 4);
      teach(first, 5, 1);
      clear_scores(first);
      load(loaded, file_of(first.mesh));
      ASSERT_TRUE(loaded.learner);
      expect_same(first, loaded);
      for (const Learning* const each : {&first, &loaded}) {
        teach(*each, 6, 0);
        (void)observe(*each, 0.5f);
        teach(*each, 8, 1);
        EXPECT_EQ(observe(*each, -0.5f), 11u);
        WEFT_EXPECT_OK(weft_learner_forgo(each->learner, 7));
        WEFT_EXPECT_OK(weft_learner_drain(each->learner));
      }
      expect_same(first, loaded);
    }
}

TEST(CLearnerFile, IsAFileOfTheDiskTooAndOfAMeshAlone) {
  Learning first, loaded;
  begin(first, R"({"schedule": "pipelined", "optimizer": {"type": "momentum", "lr": 0.05}})");
  learn(first, 0, 9);
  clear_scores(first);
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("weft_learner_file_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "learner.entity").string(), weights = (folder / "weights.entity").string();
  WEFT_ASSERT_OK(weft_mesh_save(first.mesh, path.c_str(), 1));
  WEFT_ASSERT_OK(weft_mesh_save(first.mesh, weights.c_str(), 0));
  WEFT_ASSERT_OK(weft_learner_load(path.c_str(), nullptr, &loaded.mesh, &loaded.learner));
  learn(first, 9, 9);
  learn(loaded, 9, 9);
  expect_same(first, loaded);
  weft_mesh* alone = nullptr;
  WEFT_ASSERT_OK(weft_mesh_load(path.c_str(), nullptr, &alone));
  WEFT_EXPECT_OK(weft_mesh_tick(alone, 3));
  const auto without = file_of(alone);
  WEFT_EXPECT_OK(weft_mesh_destroy(alone));
  weft_mesh* mesh = nullptr;
  weft_learner* learner = nullptr;
  WEFT_EXPECT_FAILS(weft_learner_load(weights.c_str(), nullptr, &mesh, &learner), WEFT_NOT_FOUND, "holds no learner");
  WEFT_EXPECT_FAILS(weft_learner_load_bytes(without.data(), without.size(), nullptr, &mesh, &learner), WEFT_NOT_FOUND,
                    "holds no learner");
  WEFT_EXPECT_FAILS(weft_learner_load((folder / "none").c_str(), nullptr, &mesh, &learner), WEFT_NOT_FOUND, "none");
  WEFT_EXPECT_FAILS(weft_learner_load(nullptr, nullptr, &mesh, &learner), WEFT_INVALID_ARGUMENT, "path: NULL");
  WEFT_EXPECT_FAILS(weft_learner_load(path.c_str(), nullptr, nullptr, &learner), WEFT_INVALID_ARGUMENT, "out_mesh");
  WEFT_EXPECT_FAILS(weft_learner_load(path.c_str(), nullptr, &mesh, nullptr), WEFT_INVALID_ARGUMENT, "out_learner");
  WEFT_EXPECT_FAILS(weft_learner_load_bytes("{}", 2, nullptr, &mesh, &learner), WEFT_PARSE_FAILED, "bytes");
  auto damaged = file_of(first.mesh);
  damaged[damaged.size() - 9] ^= 1;
  EXPECT_NE(weft_learner_load_bytes(damaged.data(), damaged.size(), nullptr, &mesh, &learner), WEFT_OK);
  EXPECT_EQ(mesh, nullptr);
  EXPECT_EQ(learner, nullptr);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft::capi::learner_file_test
