// SPDX-License-Identifier: Apache-2.0

// Layers that carry the derivatives of their past along: they learn what an output needs of ticks long ago, in memory
// that does not grow with them. Gradients: tests/mesh/diagonal_test.cpp; the same bits everywhere: exactness_test.cpp.

#include "learning/error_schedule.hpp"
#include "learning/memory_estimate.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <algorithm>

namespace weft::learning::forward_memory_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

constexpr Coord kCell{0, 0, 0, 0}, kOut{0, 0, 1, 0};

mesh::NetworkSpec gated(const std::string& type, const std::string& through_time, std::uint64_t seed,
                        std::size_t units = 32) {
  return mesh::NetworkBuilder("memory_chain", GridShape{1, 1, 2, 1})
      .input("x", 3)
      .layer(kCell, type, units)
      .option("through_time", through_time)
      .dense(kOut, 2)
      .output("y", kOut)
      .seed(seed)
      .spec();
}

mesh::NetworkSpec network(const std::string& through_time, std::uint64_t seed, std::size_t units = 32) {
  return mesh::NetworkBuilder("memory_chain", GridShape{1, 1, 2, 1})
      .input("x", 3)
      .layer(kCell, "diagonal", 2 * units)
      .option("through_time", through_time)
      .option("least_size", 0.5)
      .option("largest_size", 0.9)
      .dense(kOut, 2)
      .output("y", kOut)
      .seed(seed)
      .spec();
}

LearningOptions options(std::uint32_t horizon = 0) {
  LearningOptions all{.schedule = Schedule::pipelined, .horizon = horizon};
  all.optimizer = {.kind = OptimizerKind::adamw, .lr = 0.003f};
  return all;
}

/// MemoryChain: a bit is shown in the first tick and asked for after `length` ticks of noise. The number of sequences
/// until the answers to the last `window` are right but for a fiftieth, each answered before it was learned from; 0
/// where `most` sequences do not do.
std::size_t sequences_until_solved(const mesh::NetworkSpec& spec, const LearningOptions& learning, std::size_t length,
                                   std::size_t most, std::size_t window, std::uint64_t seed) {
  LearningRun run(spec, learning);
  RandomStream random(seed, 0, RandomPurpose::test);
  std::vector<bool> hits;
  for (std::size_t first = 0; first < most; first += 50) {
    std::vector<float> x;
    std::vector<std::uint32_t> labels;
    for (std::size_t sequence = 0; sequence < 50; ++sequence) {
      const std::uint32_t bit = random.next_below(2);
      for (std::size_t t = 0; t < length + 2; ++t) {
        const bool is_shown = t == 0, is_asked = t == length + 1;
        x.push_back(is_shown ? 2.0f * static_cast<float>(bit) - 1.0f : 0.0f);
        x.push_back(random.next_normal());
        x.push_back(is_asked ? 1.0f : 0.0f);
        labels.push_back(is_asked ? bit : kNoLabel);
      }
    }
    run.train(x, labels, {}, labels.size());
    for (const Score& score : run.learner->scores()) {
      if (score.label == kNoLabel) continue;
      hits.push_back(score.prediction == score.label);
    }
    run.learner->clear_scores();
    if (hits.size() < window) continue;
    const auto right = std::count(hits.end() - static_cast<std::ptrdiff_t>(window), hits.end(), true);
    if (static_cast<std::size_t>(right) * 50 >= window * 49) return hits.size();
  }
  return 0;
}

TEST(ForwardMemory, SolvesMemoryChainsOf64TicksWhereErrorsOfOneTickDoNot) {
#ifdef WEFT_SANITIZED
  constexpr std::size_t kLength = 12, kMost = 2500, kSeeds = 1, kLeast = 1;
#else
  constexpr std::size_t kLength = 64, kMost = 8000, kSeeds = 5, kLeast = 4;
#endif
  std::size_t solved = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::size_t forward = sequences_until_solved(network("forward", seed), options(), kLength, kMost, 500, seed);
    RecordProperty("sequences_" + std::to_string(seed), static_cast<int>(forward));
    solved += forward != 0;
    // Its own tick is all that an error of two links meets.
    if (kLength > 12)
      EXPECT_EQ(sequences_until_solved(network("backward", seed), options(2), kLength, kMost, 500, seed), 0u) << seed;
  }
  EXPECT_GE(solved, kLeast);
}

std::uint64_t memory(const mesh::NetworkSpec& spec, std::uint32_t horizon) {
  const LearningRun run(spec, {.schedule = Schedule::pipelined, .horizon = 2});
  return must(estimate_memory(run.mesh->graph(), options(horizon), 1, UINT64_MAX)).total();
}

TEST(ForwardMemory, IsTheSameHoweverFarBackItLearns) {
  const mesh::NetworkSpec forward = network("forward", 1), backward = network("backward", 1);
  EXPECT_EQ(memory(forward, 0), memory(forward, 2));
  EXPECT_EQ(memory(forward, 1024), memory(forward, 2));
  EXPECT_GT(memory(backward, 1024), 20 * memory(backward, 2));
  // And less than a tape of as many ticks.
  EXPECT_LT(memory(forward, 1024), memory(backward, 64));
}

TEST(ForwardMemory, OfGatedCellsIsTheSameHoweverFarBackItLearns) {
  for (const char* const type : {"gru", "lstm"}) {
    const mesh::NetworkSpec backward = gated(type, "backward", 1);
    for (const char* const through_time : {"snap1", "eprop"}) {
      const mesh::NetworkSpec forward = gated(type, through_time, 1);
      EXPECT_EQ(memory(forward, 0), memory(forward, 2)) << type << " " << through_time;
      EXPECT_EQ(memory(forward, 1024), memory(forward, 2)) << type << " " << through_time;
      EXPECT_LT(memory(forward, 1024), memory(backward, 1024)) << type << " " << through_time;
    }
  }
}

/// Bytes of all that learning has after `ticks` ticks of it, as a file keeps them.
std::size_t bytes_after(LearningRun& run, std::size_t ticks) {
  RandomStream random(1, 0, RandomPurpose::test);
  std::vector<float> x;
  std::vector<std::uint32_t> labels;
  for (std::size_t t = run.mesh->ticks(); t < ticks; ++t) {
    for (int i = 0; i < 3; ++i) x.push_back(random.next_normal());
    labels.push_back(random.next_below(2));
  }
  run.train(x, labels, {}, labels.size());
  run.learner->clear_scores();
  return run.file().size();
}

// Counts of allocations: allocation_test.cpp.
TEST(ForwardMemory, IsNoMoreAfter20000TicksThanAfter64) {
  for (const mesh::NetworkSpec& spec : {network("forward", 1), gated("gru", "snap1", 1), gated("lstm", "eprop", 1)}) {
    LearningRun run(spec, options());
    const std::size_t early = bytes_after(run, 64);
    EXPECT_EQ(bytes_after(run, 20000), early) << spec.layers[0].type;
  }
}

// A gate of lstm that starts near 1/2 forgets faster than z of gru: its chain is shorter.
TEST(ForwardMemory, OfGatedCellsLearnsWhatErrorsOfOneTickDoNot) {
  const auto solved_after = [](const std::string& type, const std::string& through_time, std::uint32_t horizon) {
#ifdef WEFT_SANITIZED
    constexpr std::size_t kMost = 1500;
    const std::size_t length = 4;
#else
    constexpr std::size_t kMost = 4000;
    const std::size_t length = type == "gru" ? 16 : 6;
#endif
    return sequences_until_solved(gated(type, through_time, 1), options(horizon), length, kMost, 500, 1);
  };
  for (const char* const type : {"gru", "lstm"}) {
    for (const char* const through_time : {"snap1", "eprop"}) {
      const std::size_t solved = solved_after(type, through_time, 0);
      RecordProperty(std::string(type) + "_" + through_time, static_cast<int>(solved));
      EXPECT_GT(solved, 0u) << type << " " << through_time;
    }
#ifndef WEFT_SANITIZED
    EXPECT_EQ(solved_after(type, "backward", 2), 0u) << type;
#endif
  }
}

TEST(ForwardMemory, ContainersLearnForwardWhereAllOfTheirStatesDo) {
  const auto depth = [](const std::string& layers) {
    mesh::NetworkSpec spec = network("forward", 1);
    spec.layers[0] = must(mesh::read_network(R"({"weft": 2, "grid": {"x": 1}, "layers": [{"at": [0,0,0,0], "type":
                                                "sequential", "layers": [)" +
                                                 layers + "]}]}",
                                             "layers"))
                         .layers[0];
    spec.layers[0].from = {mesh::Source("x")};
    const LearningRun run(spec, options(2));
    return ErrorSchedule(run.mesh->graph(), Rule::backprop, 30).depth();
  };
  EXPECT_EQ(depth(R"({"type": "diagonal", "out": 4}, {"type": "dense", "out": 3}, {"type": "diagonal", "out": 6})"),
            2u);
  EXPECT_EQ(depth(R"({"type": "diagonal", "out": 4}, {"type": "gru", "out": 3})"), 30u);
}

}  // namespace
}  // namespace weft::learning::forward_memory_test
