// SPDX-License-Identifier: Apache-2.0
// Weights at a change of the task that a detector of drift saw: others take their place, or units begin anew. Which
// ones is found here from the weights and answers of the time; on every machine shape, in blocks and through a file.

#include "learning/drift/drift_watch.hpp"
#include "learning/learner_snapshot.hpp"
#include "learning/memory_estimate.hpp"
#include "learning/optimizer.hpp"

#include "kernels/isa.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace weft::learning::weight_swap_test {
namespace {

using namespace test;
using mesh::testing_support::must;

using Weights = std::vector<std::vector<double>>;

mesh::NetworkSpec network() {
  return mesh::NetworkBuilder("digits", GridShape{1, 1, 3, 1})
      .input("pixels", 64)
      .dense({0, 0, 0, 0}, 20, kernels::Activation::tanh)
      .from({"pixels"})
      .dense({0, 0, 1, 0}, 12, kernels::Activation::tanh)
      .dense({0, 0, 2, 0}, 10)
      .output("digit", {0, 0, 2, 0})
      .seed(4)
      .spec();
}

LearningOptions with(const std::string& drift, const std::string& more = "") {
  return must(read_learning(R"({"optimizer": {"type": "momentum", "lr": 0.05}, "drift": {"detector": "hddm_a",
    "react_every": 10, )" + drift +
                            "}" + more + "}"));
}

const char* const kBest = R"("swap": "best", "swap_weights": 2, "swap_every": 50, "swap_samples": 30)";

/// Digits, whose labels are those of the other task in every second `kTask` samples. Looks for something to do as often
/// as `react_every` says, as `weft run` does.
struct Turns {
  static constexpr std::uint64_t kTask = 400;

  explicit Turns(const LearningOptions& options, const mesh::MeshOptions& wanted = shape(),
                 const mesh::NetworkSpec& spec = network())
      : run(spec, options, wanted), data(digits()) {}

  std::vector<float> inputs_of(std::uint64_t sample) const {
    const std::size_t row = sample % data.labels.size();
    return {data.inputs.begin() + static_cast<std::ptrdiff_t>(row * data.features),
            data.inputs.begin() + static_cast<std::ptrdiff_t>((row + 1) * data.features)};
  }
  std::uint32_t label_of(std::uint64_t sample) const {
    return (data.labels[sample % data.labels.size()] + (sample / kTask % 2 ? 3 : 0)) % 10;
  }
  /// A block of samples, the same for every session, and the reaction that is due. True: there was one.
  bool step(std::uint64_t block) {
    const std::size_t sessions = run.mesh->sessions(), learners = run.learner->options().learners;
    std::vector<float> x;
    std::vector<std::uint32_t> labels;
    for (std::uint64_t s = seen; s < seen + block; ++s) {
      const auto one = inputs_of(s);
      for (std::size_t b = 0; b < sessions; ++b) x.insert(x.end(), one.begin(), one.end());
      labels.insert(labels.end(), learners, label_of(s));
    }
    run.train(x, labels, {}, block);
    seen += block;
    if (seen % run.learner->options().drift.react_every != 0) return false;
    const DriftReaction due = drift_of(*run.learner).due();
    if (!due.is_due()) return false;
    must(change_weights(*run.learner, due));
    drift_of(*run.learner).reacted();
    return true;
  }
  void learn(std::uint64_t samples, std::uint64_t block = 10) {
    for (std::uint64_t end = seen + samples; seen < end;) step(std::min(block, end - seen));
  }
  std::uint64_t hits(const std::vector<std::uint64_t>& samples) {
    std::vector<float> x, y(samples.size() * 10);
    for (const std::uint64_t s : samples) {
      const auto one = inputs_of(s);
      x.insert(x.end(), one.begin(), one.end());
    }
    const mesh::RunInput input{"pixels", x};
    const mesh::RunOutput output{"digit", y};
    must(run.learner->predict({&input, 1}, samples.size(), {&output, 1}));
    std::uint64_t right = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const auto begin = y.begin() + static_cast<std::ptrdiff_t>(i * 10);
      right += static_cast<std::uint32_t>(std::max_element(begin, begin + 10) - begin) == label_of(samples[i]);
    }
    return right;
  }

  LearningRun run;
  Dataset data;
  std::uint64_t seen = 0;
};

Weights begun() { return LearningRun(network(), LearningOptions{}).weights(); }

TEST(WeightSwap, BeginsAnewAtAChange) {
  Turns turns(with(R"("swap": "initial")"));
  const Weights initial = begun();
  EXPECT_EQ(turns.run.weights(), initial);
  bool has_changed = false;
  while (turns.seen < 2 * Turns::kTask && !(has_changed = turns.step(10))) EXPECT_NE(turns.run.weights(), initial);
  ASSERT_TRUE(has_changed);
  EXPECT_GE(turns.seen, Turns::kTask);
  EXPECT_EQ(turns.run.weights(), initial);
  EXPECT_EQ(weight_changes(*turns.run.learner).swaps, 1u);
  Optimizer& optimizer = turns.run.learner->optimizer();
  ASSERT_EQ(optimizer.slots(), 1u);
  for (std::size_t i = 0; i < turns.run.store().parameters().size(); ++i) {
    const std::span<const float> momenta(optimizer.slot(0, i), optimizer.slot_size(0, i));
    EXPECT_TRUE(std::all_of(momenta.begin(), momenta.end(), [](float v) { return v == 0.0f; }));
  }
}

// Candidates are told apart by the weights that were there at the time; the comparison is made anew here.
TEST(WeightSwap, TakesTheWeightsThatAreRightMostOften) {
  Turns turns(with(kBest)), other(with(kBest));
  const Weights initial = begun();
  std::vector<Weights> copies, kept;
  const auto answers_of = [&](const Weights& weights, const std::vector<std::uint64_t>& samples) {
    mesh::WeightStore& store = other.run.store();
    for (std::size_t p = 0; p < weights.size(); ++p)
      must(store.write(store.parameters()[p], std::vector<float>(weights[p].begin(), weights[p].end()), "test"));
    return other.hits(samples);
  };
  std::size_t swapped = 0, changes = 0;
  while (turns.seen < 6 * Turns::kTask) {
    const std::vector<float> x = turns.inputs_of(turns.seen);
    turns.run.train(x, {turns.label_of(turns.seen)}, {}, 1);
    ++turns.seen;
    if (turns.seen % 50 == 0) copies.push_back(turns.run.weights());
    if (turns.seen % 10 != 0) continue;
    const DriftReaction due = drift_of(*turns.run.learner).due();
    if (!due.is_due()) continue;
    EXPECT_TRUE(due.swaps && !due.renews && !due.checkpoint && due.rate_factor == 1.0f);
    ++changes;
    std::vector<std::uint64_t> last(std::min<std::uint64_t>(30, turns.seen));
    std::iota(last.begin(), last.end(), turns.seen - last.size());
    std::vector<Weights> candidates{turns.run.weights()};
    candidates.insert(candidates.end(), kept.rbegin(), kept.rend());
    candidates.push_back(initial);
    std::size_t best = 0;
    std::vector<std::uint64_t> right;
    for (const Weights& each : candidates) right.push_back(answers_of(each, last));
    for (std::size_t i = 1; i < right.size(); ++i)
      if (right[i] > right[best]) best = i;
    must(change_weights(*turns.run.learner, due));
    drift_of(*turns.run.learner).reacted();
    ASSERT_EQ(turns.run.weights(), candidates[best]) << turns.seen;
    swapped += best != 0;
    ASSERT_EQ(weight_changes(*turns.run.learner).swaps, swapped);
    if (best > 0 && best <= kept.size()) kept.erase(kept.end() - static_cast<std::ptrdiff_t>(best));
    if (copies.size() >= 2) {
      if (kept.size() == 2) kept.erase(kept.begin());
      kept.push_back(copies[copies.size() - 2]);
    }
    copies.clear();
  }
  EXPECT_GE(changes, 4u);
  EXPECT_GE(swapped, 2u);
}

TEST(WeightSwap, HasTheSameBitsOnEveryMachineShapeInBlocksOfAnyLengthAndThroughAFile) {
  constexpr std::uint64_t kEnd = 2 * Turns::kTask + 60;  // behind the second change, where the first task is back
  const std::string renews = R"("renew": 0.25)";
  for (const std::string& drift :
       {std::string(R"("swap": "initial")"), std::string(kBest), renews, kBest + (", " + renews)})
    for (const char* const more : {"", R"(, "schedule": "pipelined")", R"(, "learners": 2)"}) {
      const LearningOptions options = with(drift, more);
      const std::size_t sessions = options.learners + 1;
      Turns whole(options, shape(1, sessions));
      whole.learn(kEnd, 1);
      const WeightChanges done = weight_changes(*whole.run.learner);
      EXPECT_GE(done.swaps + done.renewed, 1u) << drift << more;
      for (const kernels::Isa isa : kernels::available_isas()) {
        const ForIsa scope(isa);
        for (const std::size_t threads : {1, 2, 7}) {
          Turns other(options, shape(threads, sessions));
          other.learn(kEnd, threads == 7 ? 10 : threads);
          ASSERT_EQ(other.run.told(), whole.run.told()) << drift << more << name(isa) << threads;
        }
      }
      Turns first(options, shape(1, sessions));
      first.learn(430);
      Turns second(options, shape(1, sessions));
      second.run.learner.reset();  // before its mesh
      second.run = LearningRun(first.run.file(), options);
      second.seen = first.seen;
      EXPECT_EQ(second.run.hash(), first.run.hash());
      second.learn(kEnd - 430, 5);
      EXPECT_EQ(second.run.hash(), whole.run.hash()) << drift << more;
    }
}

// Weights that were kept show in the hash before they come.
TEST(WeightSwap, IsPartOfTheHash) {
  Turns none(with(R"("rate_boost": 2)")), initial(with(R"("swap": "initial")")), best(with(kBest));
  std::set<std::string> hashes;
  for (Turns* const each : {&none, &initial, &best}) {
    each->learn(60);
    EXPECT_EQ(each->run.weights(), none.run.weights());
    hashes.insert(each->run.hash());
  }
  EXPECT_EQ(hashes.size(), 3u);
}

TEST(UnitsAtAChange, AreThoseOfLeastUse) {
  Turns turns(with(R"("renew": 0.3)"));
  const std::size_t widths[] = {20, 12};
  std::vector<double> means[] = {std::vector<double>(20), std::vector<double>(12)};
  while (drift_of(*turns.run.learner).changes() == 0 || turns.seen % 10 != 0) {
    turns.run.train(turns.inputs_of(turns.seen), {turns.label_of(turns.seen)}, {}, 1);
    ++turns.seen;
    for (std::uint32_t x = 0; x < 2; ++x) {
      const auto h = must(turns.run.mesh->output(Coord{0, 0, x, 0}));
      for (std::size_t i = 0; i < widths[x]; ++i) means[x][i] = 0.99 * means[x][i] + 0.01 * std::fabs(double{h[i]});
    }
  }
  std::set<std::size_t> wanted[2];
  for (std::uint32_t x = 0; x < 2; ++x) {
    const std::vector<float> out = turns.run.weights(Coord{0, 0, x + 1, 0})[0];
    std::vector<std::pair<double, std::size_t>> uses;
    for (std::size_t unit = 0; unit < widths[x]; ++unit) {
      double use = 0;
      for (std::size_t i = unit; i < out.size(); i += widths[x]) use += std::fabs(double{out[i]});
      uses.emplace_back(use * means[x][unit], unit);
    }
    std::sort(uses.begin(), uses.end());
    for (std::size_t i = 0; i < (x == 0 ? 6u : 4u); ++i) wanted[x].insert(uses[i].second);  // 0.3 of 20 and of 12
  }
  must(change_weights(*turns.run.learner, drift_of(*turns.run.learner).due()));
  drift_of(*turns.run.learner).reacted();
  EXPECT_EQ(weight_changes(*turns.run.learner).renewed, 6u + 4u);
  for (std::uint32_t x = 0; x < 2; ++x) {
    const std::vector<float> out = turns.run.weights(Coord{0, 0, x + 1, 0})[0];
    for (std::size_t unit = 0; unit < widths[x]; ++unit) {
      bool is_zero = true;
      for (std::size_t i = unit; i < out.size(); i += widths[x])
        // A weight from one such unit to another is drawn.
        is_zero &= out[i] == 0.0f || (x == 0 && wanted[1].contains(i / widths[x]));
      EXPECT_EQ(is_zero, wanted[x].contains(unit)) << x << " " << unit;
    }
  }
}

TEST(WeightSwap, CountsWhatItKeepsAsMemory) {
  const mesh::Mesh mesh = must(mesh::Mesh::build(network(), shape()));
  const auto bytes = [&](const LearningOptions& options) {
    const mesh::MemoryEstimate estimate = must(estimate_memory(mesh.graph(), options, 1, UINT64_MAX));
    for (const auto& [what, size] : estimate.parts)
      if (what == "earlier weights") return size;
    return std::uint64_t{0};
  };
  constexpr std::uint64_t kWeights = 64 * 20 + 20 + 20 * 12 + 12 + 12 * 10 + 10;
  EXPECT_EQ(bytes(with(R"("swap": "initial")")), 0u);
  EXPECT_EQ(bytes(with(kBest)), 4 * ((2 + 2 + 2) * kWeights + 30 * (64 + 1)));
}

TEST(WeightSwap, GoesOnByOtherNumbersAndBeginsAnewByOthers) {
  EXPECT_TRUE(keeps_meaning(with(kBest), with(kBest + std::string(R"(, "rate_boost": 2)"))));
  EXPECT_FALSE(keeps_meaning(with(kBest), with(R"("swap": "initial")")));
  EXPECT_FALSE(keeps_meaning(with(kBest), with(R"("swap": "best", "swap_weights": 3, "swap_samples": 30)")));
  EXPECT_FALSE(keeps_meaning(with(R"("renew": 0.1)"), with(R"("rate_boost": 2)")));
  EXPECT_TRUE(keeps_meaning(with(R"("renew": 0.1)"), with(R"("renew": 0.2)")));
  EXPECT_TRUE(keeps_meaning(with(R"("renew": 0.1)", R"(, "renew": {"method": "redo"})"),
                            with(R"("rate_boost": 2)", R"(, "renew": {"method": "redo"})")));
}

TEST(WeightSwap, RefusesOptionsThatItCannotKeep) {
  const auto text = [](const std::string& json) {
    const auto read = read_learning(json);
    return read ? std::string() : read.error().text();
  };
  const std::string detector = R"("drift": {"detector": "adwin", )";
  EXPECT_EQ(text("{" + detector + R"("swap": "initial"}, "consolidation": {"method": "ewc"}})"),
            "learning.drift.swap: 'initial' with learning.consolidation.method 'ewc', which holds weights; give one of "
            "the two");
  EXPECT_EQ(text("{" + detector + R"("renew": 0.5}, "consolidation": {"method": "ewc"}})"),
            "learning.drift.renew: 0.5 with learning.consolidation.method 'ewc', which holds weights; give one of the "
            "two");
  EXPECT_EQ(text("{" + detector + R"("swap": "best"}, "late": "meet"})"),
            "learning.drift.swap: 'best' with learning.late 'meet', whose samples get their labels when they are gone; "
            "give 'initial', or late 'none'");
  EXPECT_EQ(text("{" + detector + R"("swap": "best", "input": "loss"}, "loss": "mse"})"),
            "learning.drift.swap: 'best' with learning.loss 'mse', which knows no right answers; give 'initial', or a "
            "loss of labels");
  EXPECT_EQ(text("{" + detector + R"("swap": "initial", "input": "loss"}, "loss": "mse"})"), "");
  EXPECT_EQ(text("{" + detector + R"("swap": "initial"}, "late": "meet"})"), "");
  EXPECT_NE(text("{" + detector + R"("swap": "initial", "swap_every": 7}})"), "");
  EXPECT_NE(text("{" + detector + R"("renew": 1.5}})"), "");
  EXPECT_EQ(
      text(R"({"drift": {"renew": 0.5}})"),
      "learning.drift.renew: 0.5 without a detector, so that no change is ever seen; give learning.drift.detector");
  EXPECT_EQ(text("{" + detector + R"("swap": "initial"}, "lora": {"rank": 2}})"),
            "learning.drift.swap: 'initial' with learning.lora.rank 2, whose adapters are no weights of a layer; give "
            "one of the two");
}

}  // namespace
}  // namespace weft::learning::weight_swap_test
