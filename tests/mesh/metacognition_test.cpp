// SPDX-License-Identifier: Apache-2.0

// Metacognition in a mesh: when it acts, on what, and that it does so the same everywhere. Values: layers_test.cpp.
// Gradient storms: tests/learning/metacognition_test.cpp.

#include "mesh/layers/metacognition.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/isa.hpp"

#include "testing.hpp"
#include <algorithm>

namespace weft::mesh::metacognition_test {
namespace {

using namespace testing_support;

using Statistic = WatchRule::Statistic;
using Action = WatchRule::Action;

Watcher watcher_of(WatchRule rule) { return Watcher(rule, 9, {3, 1, 0}, {4, 2, 0}); }

TEST(Watcher, ActsWhenItsConditionHasHeldLongEnoughAndRestsThen) {
  WatchRule rule;
  rule.above = 2, rule.below = -1, rule.min_ticks = 3, rule.cooldown = 10;
  Watcher watcher = watcher_of(rule);
  std::vector<std::uint64_t> acted;
  const auto look = [&](std::uint64_t tick, double value) {
    if (watcher.update(tick, value)) acted.push_back(tick);
  };
  for (std::uint64_t tick = 0; tick < 40; ++tick) look(tick, tick == 1 ? 0.0 : tick % 2 ? 3.0 : -2.0);
  EXPECT_EQ(acted, std::vector<std::uint64_t>({4, 14, 24, 34})) << "three in a row from tick 2, then each ten";
  for (std::uint64_t tick = 40; tick < 80; ++tick) look(tick, tick % 3 ? 5.0 : 1.0);
  EXPECT_EQ(acted.size(), 4u) << "never three in a row";
  EXPECT_EQ(watcher.actions(), 4u);
}

TEST(Watcher, MeasuresDriftAgainstItsSlowAverageBothWays) {
  for (const double jump : {4.0, 0.25}) {
    WatchRule rule;
    rule.statistic = Statistic::gain_drift, rule.above = 2, rule.horizon = 20, rule.cooldown = 1000;
    Watcher watcher = watcher_of(rule);
    for (std::uint64_t tick = 0; tick < 19; ++tick) EXPECT_FALSE(watcher.update(tick, tick % 2 ? 1.0 : 3.0)) << tick;
    // Slowly growing is no drift.
    double value = 2;
    for (std::uint64_t tick = 19; tick < 200; ++tick) EXPECT_FALSE(watcher.update(tick, value *= 1.01)) << tick;
    EXPECT_TRUE(watcher.update(200, value * jump));
  }
}

TEST(Watcher, TakesNoLearningForNoStorm) {
  WatchRule rule;
  rule.statistic = Statistic::gradient_storm, rule.above = 10, rule.horizon = 5;
  Watcher watcher = watcher_of(rule);
  for (std::uint64_t tick = 0; tick < 50; ++tick) EXPECT_FALSE(watcher.update(tick, 0.0));
  EXPECT_FALSE(watcher.update(50, 100.0)) << "the first gradient";
  for (std::uint64_t tick = 51; tick < 60; ++tick) EXPECT_FALSE(watcher.update(tick, tick % 2 ? 1.0 : 0.0));
  EXPECT_TRUE(watcher.update(60, 1e4));
}

TEST(Watcher, GoesOnFromItsWords) {
  WatchRule rule;
  rule.statistic = Statistic::gain_drift, rule.above = 1.5, rule.action = Action::swap, rule.horizon = 4,
  rule.cooldown = 7;
  Watcher one = watcher_of(rule), two = watcher_of(rule);
  const auto values = noise(300, 5);
  for (std::size_t i = 0; i < 100; ++i) one.update(i, std::fabs(double{values[i]}));
  EXPECT_GT(one.actions(), 3u);
  ASSERT_TRUE(two.restore(one.words()));
  EXPECT_EQ(two.watched().node, one.watched().node);
  for (std::size_t i = 100; i < 300; ++i)
    ASSERT_EQ(two.update(i, std::fabs(double{values[i]})), one.update(i, std::fabs(double{values[i]})));
  auto words = one.words();
  words[3] = std::bit_cast<std::uint64_t>(-1.0);
  EXPECT_FALSE(two.restore(words));
  words[3] = std::bit_cast<std::uint64_t>(std::nan(""));
  EXPECT_FALSE(two.restore(words));
  rule.action = Action::reset;
  Watcher three = watcher_of(rule);
  words = one.words();
  words[4] |= 1;
  EXPECT_FALSE(three.restore(words)) << "nothing to swap";
}

/// A layer with memory, a spare of it, what watches them, and what reads their sum, each in a cell of its own. A second
/// watcher in a third place acts on the same layer.
NetworkSpec network(const Options& rule, const Options& second = {}, std::vector<Source> from = {Coord{0, 0, 1, 0}}) {
  NetworkBuilder builder("minding", {1, 2, 4, 1});
  builder.input("in", 6)
      .dense({0, 0, 0, 0}, 12, kernels::Activation::tanh)
      .layer({0, 0, 1, 0}, "rnn", 8)
      .layer({0, 0, 2, 0}, "rnn", 8)
      .from({Coord{0, 0, 0, 0}})
      .layer({0, 0, 3, 0}, "metacognition")
      .from(std::move(from));
  for (const auto& [key, value] : rule) builder.option(key, value);
  builder.layer({0, 1, 0, 0}, "residual").from({Coord{0, 0, 1, 0}, Coord{0, 0, 2, 0}});
  builder.dense({0, 1, 1, 0}, 3).output("y", {0, 1, 1, 0});
  if (!second.empty()) {
    builder.layer({0, 1, 2, 0}, "metacognition").from({Coord{0, 0, 1, 0}});
    for (const auto& [key, value] : second) builder.option(key, value);
  }
  return builder.seed(21).spec();
}

/// Runs [from, to), inputs growing from tick 30 on, and notes after each tick the state hash of each session.
std::vector<std::string> hashes_of_run(Mesh& mesh, std::uint64_t from, std::uint64_t to) {
  std::vector<std::string> hashes;
  for (std::uint64_t tick = from; tick < to; ++tick) {
    for (std::size_t b = 0; b < mesh.sessions(); ++b)
      must(mesh.set_input("in", noise(6, 100 * tick + b, tick < 30 ? 0.1f : 3.0f), b));
    must(mesh.tick());
    for (std::size_t b = 0; b < mesh.sessions(); ++b) hashes.push_back(to_string(mesh.state_hash(b)));
  }
  return hashes;
}

/// The same in one run, in which regions may be ticks apart: what it put out, and how it ended.
struct Ending {
  std::vector<std::uint32_t> outputs;
  std::vector<std::string> hashes;
  bool operator==(const Ending&) const = default;
};
Ending run_at_once(Mesh& mesh, std::uint64_t from, std::uint64_t to) {
  std::vector<float> in, out((to - from) * mesh.sessions() * 3);
  for (std::uint64_t tick = from; tick < to; ++tick)
    for (std::size_t b = 0; b < mesh.sessions(); ++b)
      for (const float v : noise(6, 100 * tick + b, tick < 30 ? 0.1f : 3.0f)) in.push_back(v);
  const RunInput input{"in", in};
  const RunOutput output{"y", out};
  must(mesh.run({&input, 1}, to - from, {&output, 1}));
  Ending ending{bits(out), {}};
  for (std::size_t b = 0; b < mesh.sessions(); ++b) ending.hashes.push_back(to_string(mesh.state_hash(b)));
  return ending;
}

Mesh mesh_of(const NetworkSpec& spec, std::size_t sessions = 2, std::size_t threads = 1) {
  return must(Mesh::build(spec, {.threads = threads, .sessions = sessions, .pin = false, .grain_bytes = 0}));
}

const Options kReset{{"statistic", std::string("rms")}, {"above", 0.5}, {"cooldown", 20.0}};
const Options kMorph{{"statistic", std::string("gain_drift")},
                     {"above", 1.5},
                     {"horizon", 16.0},
                     {"action", std::string("morph")},
                     {"to", std::string("int8")}};
const Options kSwap{
    {"statistic", std::string("deviation")}, {"above", 0.5}, {"action", std::string("swap")}, {"cooldown", 15.0}};
const std::vector<Source> kBoth{Coord{0, 0, 1, 0}, Coord{0, 0, 2, 0}};

TEST(Metacognition, ResetsThreeTicksLater) {
  Mesh mesh = mesh_of(network(kReset));
  std::vector<std::uint64_t> zero_at, high_at;
  for (std::uint64_t tick = 0; tick < 80; ++tick) {
    hashes_of_run(mesh, tick, tick + 1);
    const auto y = output_of(mesh, {0, 0, 1, 0});
    if (std::all_of(y.begin(), y.end(), [](float v) { return v == 0.0f; })) zero_at.push_back(mesh.ticks());
    double rms = 0;
    for (std::size_t b = 0; b < 2; ++b) rms += output_of(mesh, {0, 0, 3, 0}, b)[3] / 2.0;
    if (rms > 0.5) high_at.push_back(mesh.ticks());
  }
  ASSERT_GE(high_at.size(), 2u);
  ASSERT_GE(zero_at.size(), 2u);
  // The layer fires at tick t and commits at t + 1; the command is executed at t + 3 and commits zeros at t + 4. (At
  // start, before a first input has come through, zeros are no reset.)
  zero_at.erase(zero_at.begin(), std::find_if(zero_at.begin(), zero_at.end(), [](auto t) { return t > 10; }));
  EXPECT_EQ(zero_at.front(), high_at.front() + 3);
  EXPECT_GE(zero_at[1], zero_at[0] + 20) << "cooldown";
}

TEST(Metacognition, MorphsOnceItsGainHasDrifted) {
  Mesh mesh = mesh_of(network(kMorph));
  const NodeId watched = *mesh.graph().find_layer({0, 0, 1, 0});
  hashes_of_run(mesh, 0, 30);
  EXPECT_EQ(MeshAccess::weights(mesh).encoding(watched).dtype, Dtype::float32);
  hashes_of_run(mesh, 30, 50);
  EXPECT_EQ(MeshAccess::weights(mesh).encoding(watched).dtype, Dtype::int8);
}

TEST(Metacognition, SwapsToTheSpareAndBack) {
  Mesh mesh = mesh_of(network(kSwap, {}, kBoth));
  const auto is_on = [&](Coord at) {
    for (const auto& cell : MeshAccess::cells(mesh))
      if (cell->at() == at) return cell->is_enabled();
    return false;
  };
  hashes_of_run(mesh, 0, 30);
  EXPECT_TRUE(is_on({0, 0, 1, 0}) && is_on({0, 0, 2, 0}));
  std::uint64_t tick = 30;
  while (is_on({0, 0, 1, 0}) && tick < 90) hashes_of_run(mesh, tick, tick + 1), ++tick;
  ASSERT_LT(tick, 90u);
  for (const float v : output_of(mesh, {0, 0, 1, 0})) EXPECT_EQ(v, 0.0f);
  EXPECT_TRUE(is_on({0, 0, 2, 0}));
  while (is_on({0, 0, 2, 0}) && tick < 200) hashes_of_run(mesh, tick, tick + 1), ++tick;
  ASSERT_LT(tick, 200u) << "it watches the spare now";
  EXPECT_TRUE(is_on({0, 0, 1, 0}));
  for (const float v : output_of(mesh, {0, 0, 2, 0})) EXPECT_EQ(v, 0.0f);
}

TEST(Metacognition, DecidesTheSameOnEveryThreadCountIsaAndExecutorAndFromAFile) {
  // Two watchers over one layer, which often act in the same tick.
  const Options other{{"statistic", std::string("rms")},
                      {"above", 0.5},
                      {"cooldown", 20.0},
                      {"action", std::string("morph")},
                      {"to", std::string("bfloat16")}};
  // The last pair's commands do not commute: the one that is executed last says the type.
  Options rival = other;
  rival["to"] = std::string("int8");
  for (const NetworkSpec& spec :
       {network(kReset, other), network(kMorph, kReset), network(kSwap, other, kBoth), network(rival, other)}) {
    Mesh first = mesh_of(spec);
    const std::vector<std::string> want = hashes_of_run(first, 0, 120);
    Mesh in_one_run = mesh_of(spec);
    const Ending ending = run_at_once(in_one_run, 0, 120);
    ASSERT_EQ(ending.hashes, std::vector<std::string>(want.end() - 2, want.end()));
    for (const kernels::Isa isa : kernels::available_isas())
      for (const std::size_t threads : {1, 2, 3, 6}) {
        const ForIsa scope(isa);
        for (int repeat = 0; repeat < 5; ++repeat) {
          Mesh again = mesh_of(spec, 2, threads);
          ASSERT_TRUE(run_at_once(again, 0, 120) == ending) << kernels::name(isa) << ", " << threads << " threads";
        }
      }
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      Mesh stepped = must(Mesh::build(spec, {.threads = 6,
                                             .sessions = 2,
                                             .executor = ExecutorKind::deterministic,
                                             .executor_seed = seed,
                                             .grain_bytes = 0}));
      ASSERT_TRUE(run_at_once(stepped, 0, 120) == ending) << "seed " << seed;
    }
    for (const std::uint64_t cut : {31, 33, 34, 60}) {  // with commands under way, too
      Mesh broken = mesh_of(spec);
      hashes_of_run(broken, 0, cut);
      Mesh resumed = mesh_of_file(must(encode_mesh(broken, true)), {.threads = 2, .pin = false, .grain_bytes = 0});
      const std::vector<std::string> rest = hashes_of_run(resumed, cut, 120);
      ASSERT_TRUE(std::equal(rest.begin(), rest.end(), want.begin() + static_cast<std::ptrdiff_t>(2 * cut))) << cut;
    }
  }
}

TEST(Metacognition, RefusesWhatItCannotWatch) {
  const auto refuse = [](const NetworkSpec& spec, Errc code, std::string_view text) {
    SCOPED_TRACE(std::string(text));
    expect_error(Mesh::build(spec), code, {text});
  };
  refuse(network(kReset, {}, kBoth), Errc::invalid_argument, "watches 1 layer, not 2");
  refuse(network(kReset, {}, {"in"}), Errc::invalid_argument, "is no layer");
  refuse(network(kSwap), Errc::invalid_argument, "the second a spare");
  refuse(network(kSwap, {}, {Coord{0, 0, 0, 0}, Coord{0, 0, 1, 0}}), Errc::shape_mismatch, "as wide as");
  refuse(network(kMorph, {}, {Coord{0, 1, 0, 0}}), Errc::invalid_argument, "no weight matrix");
  NetworkBuilder many("many", {1, 1, 6, 1});
  many.input("in", 6).dense({0, 0, 0, 0}, 5);
  for (std::uint32_t x = 1; x < 6; ++x)
    many.layer({0, 0, x, 0}, "metacognition").from({Coord{0, 0, 0, 0}}).option("above", 1.0);
  refuse(many.output("y", {0, 0, 0, 0}).spec(), Errc::too_large, "more than 4");
}

}  // namespace
}  // namespace weft::mesh::metacognition_test
