// SPDX-License-Identifier: Apache-2.0
// Adapters of low rank: against PyTorch in float64 (tools/make_lora_goldens.py), what moves and what stays, weights
// that somebody else writes, through a file, and what is refused. Machine shapes and devices: cases.cpp.

#include "learning/lora.hpp"

#include "learning/learner_snapshot.hpp"
#include "learning/memory_estimate.hpp"
#include "learning/optimizer.hpp"
#include "learning/options.hpp"

#include "kernels/views.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include "reference_chain.hpp"
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace weft::learning::lora_test {
namespace {

using namespace test;
using mesh::testing_support::must;

constexpr const char* kAdam = R"({"type": "adamw", "lr": 0.01})";

LearningOptions with(const std::string& lora, const std::string& optimizer = kAdam, const std::string& more = "") {
  return must(read_learning(R"({"loss": "mse", "optimizer": )" + optimizer + R"(, "lora": )" + lora + more + "}"));
}

/// Row-major values of panels [out, in].
std::vector<double> unpacked(const float* panels, std::size_t out, std::size_t in) {
  std::vector<double> values;
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t k = 0; k < in; ++k) values.push_back(panels[kernels::panel_index(in, o, k)]);
  return values;
}

TEST(Lora, EndsAtTheWeightsOfPyTorch) {
  std::ifstream file(source_path("tests/data/lora.json"));
  std::stringstream text;
  text << file.rdbuf();
  const Json golden = must(parse_json(text.str(), "lora.json"));
  ASSERT_EQ(golden["cases"].size(), 3u);
  for (const Json& wanted : golden["cases"]) {
    const Json lora{{"rank", wanted["rank"]}, {"alpha", wanted["alpha"]}};
    ReferenceChain chain(with(lora.dump(), wanted["optimizer"].dump()));
    const auto before = chain.run.weights(Coord{0, 0, 0, 0});
    chain.learn(golden["samples"].get<std::uint64_t>());
    for (std::uint32_t x = 0; x < 3; ++x) {
      const std::vector<float> found = chain.run.weights(Coord{0, 0, x, 0})[0];
      const Json& of = wanted["weights"][x];
      ASSERT_EQ(found.size(), of.size());
      for (std::size_t i = 0; i < of.size(); ++i)
        ASSERT_NEAR(found[i], of[i].get<double>(), 2e-5) << wanted["optimizer"].dump() << x << " " << i;
    }
    EXPECT_NE(chain.run.weights(Coord{0, 0, 0, 0})[0], before[0]);
    EXPECT_EQ(chain.run.weights(Coord{0, 0, 0, 0})[1], before[1]) << "a bias has no adapter";
  }
}

TEST(Lora, MovesTheMatricesThatItNamesWithinTheirRank) {
  ReferenceChain chain(with(R"({"rank": 1, "matrices": ["weight"]})"));
  const auto before = chain.run.weights(Coord{0, 0, 0, 0});
  chain.learn(40);
  const auto after = chain.run.weights(Coord{0, 0, 0, 0});
  // Of rank 1 all 2 x 2 minors of the difference are 0.
  const auto moved = [&](std::size_t o, std::size_t k) {
    return double{after[0][o * 6 + k]} - double{before[0][o * 6 + k]};
  };
  double largest = 0;
  for (std::size_t o = 0; o < 24; ++o)
    for (std::size_t k = 0; k < 6; ++k) largest = std::max(largest, std::fabs(moved(o, k)));
  ASSERT_GT(largest, 1e-3);
  for (std::size_t o = 1; o < 24; ++o)
    for (std::size_t k = 1; k < 6; ++k)
      ASSERT_NEAR(moved(0, 0) * moved(o, k), moved(0, k) * moved(o, 0), 1e-6 * largest) << o << " " << k;
}

TEST(Lora, KeepsWeightsThatSomebodyWroteAsItsNewBase) {
  ReferenceChain chain(with(R"({"rank": 2})"));
  chain.learn(20);
  mesh::WeightStore& store = chain.run.store();
  auto& parameter = store.of(chain.run.node({0, 0, 1, 0}))[0];
  std::vector<float> values = store.read(parameter);
  for (float& value : values) value += 1.0f;
  must(store.write(parameter, values, "test"));
  chain.learn(1);
  const std::vector<float> after = store.read(parameter);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(after[i], values[i], 0.05) << i;
  EXPECT_NE(after, values);
}

TEST(Lora, StateIsTheAdaptersTheirArraysAndTheBase) {
  ReferenceChain chain(with(R"({"rank": 2})"));
  chain.learn(5);
  const Optimizer& optimizer = std::as_const(*chain.run.learner).optimizer();
  ASSERT_EQ(optimizer.slots(), 4u);  // two moments, A and B, W0
  // Of a matrix [24, 6]: rows of 16 and 32 floats, twice.
  EXPECT_EQ(optimizer.slot_size(0, 0), 2u * (16 + 32));
  EXPECT_EQ(optimizer.slot_size(3, 0), kernels::panels_size(24, 6));
  EXPECT_EQ(optimizer.slot_size(0, 1), 0u);
  EXPECT_EQ(optimizer.slot(0, 1), nullptr);
  const ReferenceChain fresh(with(R"({"rank": 2})"));
  EXPECT_EQ(unpacked(optimizer.slot(3, 0), 24, 6), unpacked(fresh.run.store().parameters()[0].data, 24, 6))
      << "the base never moves";
}

TEST(Lora, AFrozenLayerHasNone) {
  mesh::NetworkSpec spec = reference_chain().spec();
  spec.layers[1].is_frozen = true;
  ReferenceChain chain(with(R"({"rank": 2})"), shape(), spec);
  const auto before = chain.run.weights(Coord{0, 0, 1, 0});
  chain.learn(5);
  EXPECT_EQ(chain.run.weights(Coord{0, 0, 1, 0}), before);
  const Optimizer& optimizer = std::as_const(*chain.run.learner).optimizer();
  for (std::size_t slot = 0; slot < optimizer.slots(); ++slot) EXPECT_EQ(optimizer.slot(slot, 2), nullptr);
  EXPECT_NE(optimizer.slot(0, 4), nullptr);
}

TEST(Lora, CountsWhatItTakesAsMemory) {
  const mesh::Mesh mesh = must(mesh::Mesh::build(reference_chain().spec(), shape()));
  const auto bytes = [&](const LearningOptions& options) {
    const mesh::MemoryEstimate estimate = must(estimate_memory(mesh.graph(), options, 1, UINT64_MAX));
    for (const auto& [what, size] : estimate.parts)
      if (what == "optimizer") return size;
    return std::uint64_t{0};
  };
  // Gradients of all; A and B with gradients, scaled, and two moments; W0.
  const std::uint64_t rows = 2 * (16 + 32 + 32 + 16 + 16 + 16), matrices = 32 * 6 + 16 * 24 + 16 * 9,
                      biases = 32 + 16 + 16;
  EXPECT_EQ(bytes(with(R"({"rank": 2})")), (matrices + biases + 5 * rows + matrices) * sizeof(float));
}

TEST(Lora, BeginsAnewWithAnotherRankScaleOrChoice) {
  EXPECT_TRUE(keeps_meaning(with(R"({"rank": 2})"), with(R"({"rank": 2})", R"({"type": "adamw", "lr": 0.5})")));
  for (const char* const other :
       {"{}", R"({"rank": 3})", R"({"rank": 2, "alpha": 1})", R"({"rank": 2, "matrices": ["weight"]})"})
    EXPECT_FALSE(keeps_meaning(with(R"({"rank": 2})"), with(other))) << other;
}

TEST(Lora, RefusesWhatItCannotKeep) {
  const auto text = [](const std::string& more, const std::string& lora = R"({"rank": 2})") {
    const auto read = read_learning(R"({"lora": )" + lora + more + "}");
    return read ? std::string() : read.error().text();
  };
  EXPECT_EQ(text(""), "");
  EXPECT_EQ(text(R"(, "consolidation": {"method": "ewc"})"),
            "learning.lora.rank: 2 with learning.consolidation, which is about each weight of a layer; give one of the "
            "two");
  EXPECT_EQ(text(R"(, "renew": {"method": "redo"})"),
            "learning.lora.rank: 2 with learning.renew, which is about each weight of a layer; give one of the two");
  EXPECT_NE(text("", R"({"rank": 5000})"), "");
  mesh::Mesh mesh = must(mesh::Mesh::build(reference_chain().spec(), shape()));
  const auto learner = Learner::build(mesh, with(R"({"rank": 2, "matrices": ["query", "bias"]})"));
  ASSERT_FALSE(learner);
  EXPECT_EQ(learner.error().text(), "learning.lora.matrices: no layer that learns has one of them; there are 'weight'");
}

}  // namespace
}  // namespace weft::learning::lora_test
