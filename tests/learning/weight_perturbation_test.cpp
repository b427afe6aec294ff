// SPDX-License-Identifier: Apache-2.0
// Steps with noise: against a reference in float64 (tools/make_perturbation_goldens.py), on every machine shape, in
// blocks of any length, through a file; and what is refused.

#include "learning/weight_perturbation.hpp"

#include "learning/learner_snapshot.hpp"
#include "learning/memory_estimate.hpp"
#include "learning/options.hpp"

#include "kernels/isa.hpp"
#include "kernels/perturb.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include "reference_chain.hpp"
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace weft::learning::weight_perturbation_test {
namespace {

using namespace test;
using mesh::testing_support::must;

LearningOptions with(const std::string& perturb, const std::string& more = "", const std::string& decay = "0") {
  return must(read_learning(R"({"loss": "mse", "optimizer": {"type": "sgd", "lr": 0.05, "weight_decay": )" + decay +
                            R"(}, "perturb": )" + perturb + more + "}"));
}

const char* const kUpgd = R"({"method": "upgd", "noise": 0.5, "decay": 0.9})";

TEST(WeightPerturbation, EndsAtTheWeightsOfTheReference) {
  std::ifstream file(source_path("tests/data/perturbation.json"));
  std::stringstream text;
  text << file.rdbuf();
  const Json golden = must(parse_json(text.str(), "perturbation.json"));
  ASSERT_EQ(golden["cases"].size(), 2u);
  for (const Json& wanted : golden["cases"]) {
    Json perturb = Json::object();
    for (const char* const key : {"method", "noise", "decay"}) perturb[key] = wanted[key];
    ReferenceChain chain(with(perturb.dump(), "", wanted["weight_decay"].dump()));
    chain.learn(golden["samples"].get<std::uint64_t>());
    for (std::uint32_t x = 0; x < 3; ++x) {
      const std::vector<std::vector<float>> found{chain.run.weights(Coord{0, 0, x, 0})};
      ASSERT_EQ(found.size(), 2u);
      for (std::size_t p = 0; p < 2; ++p) {
        const Json& of = wanted[p == 0 ? "weights" : "biases"][x];
        ASSERT_EQ(found[p].size(), of.size());
        for (std::size_t i = 0; i < of.size(); ++i)
          ASSERT_NEAR(found[p][i], of[i].get<double>(), 2e-5) << wanted["method"].dump() << x << p << " " << i;
      }
    }
  }
}

TEST(WeightPerturbation, HasTheSameBitsOnEveryMachineShapeInBlocksOfAnyLengthAndThroughAFile) {
  for (const std::string method : {"upgd", "upgd_nonprotecting"})
    for (const char* const more : {"", R"(, "rule": "fw_dtp")", R"(, "learners": 3)"}) {
      const LearningOptions options = with(R"({"method": ")" + method + R"("})", more);
      const std::size_t sessions = options.learners + 1;
      ReferenceChain whole(options, shape(1, sessions));
      whole.learn(90);
      for (const kernels::Isa isa : kernels::available_isas()) {
        const ForIsa scope(isa);
        for (const std::size_t threads : {1, 2, 7}) {
          ReferenceChain other(options, shape(threads, sessions));
          other.learn(90, threads * 9);
          ASSERT_EQ(other.run.told(), whole.run.told()) << method << more << name(isa) << threads;
        }
      }
      ReferenceChain first(options, shape(1, sessions));
      first.learn(37);
      ReferenceChain second(options, shape(1, sessions));
      second.run.learner.reset();  // before its mesh
      second.run = LearningRun(first.run.file(), options);
      second.seen = 37;
      EXPECT_EQ(second.run.hash(), first.run.hash());
      second.learn(53, 53);
      EXPECT_EQ(second.run.hash(), whole.run.hash()) << method << more;
    }
}

TEST(WeightPerturbation, IsTheSameWhereTargetsComeByAnotherCall) {
  const LearningOptions late = with(kUpgd, R"(, "late": "meet", "patience": 8)");
  ReferenceChain plain(with(kUpgd)), at_once(late), later(late);
  plain.learn(90);
  at_once.teach_late(90, 0);
  EXPECT_EQ(at_once.run.weights(), plain.run.weights());
  later.teach_late(90, 3);
  for (const kernels::Isa isa : kernels::available_isas()) {
    const ForIsa scope(isa);
    for (const std::size_t threads : {1, 2, 7}) {
      ReferenceChain other(late, shape(threads));
      other.teach_late(90, 3);
      ASSERT_EQ(other.run.told(), later.run.told()) << name(isa) << threads;
    }
  }
  ReferenceChain first(late);
  first.teach_late(40, 3);
  LearningRun restored(first.run.file(), late);
  first.run.learner.reset();  // before its mesh
  first.run = std::move(restored);
  first.teach_late(90, 3);
  EXPECT_EQ(first.run.hash(), later.run.hash());
}

TEST(WeightPerturbation, KeepsUtilitiesInTheHash) {
  ReferenceChain a(with(R"({"method": "upgd_nonprotecting", "noise": 0})")),
      b(with(R"({"method": "upgd_nonprotecting", "noise": 0, "decay": 0.5})"));
  a.learn(5);
  b.learn(5);
  EXPECT_EQ(a.run.weights(), b.run.weights());
  EXPECT_NE(a.run.hash(), b.run.hash());
}

TEST(WeightPerturbation, WithoutNoiseAndProtectionIsPlainDescent) {
  ReferenceChain plain(must(read_learning(R"({"loss": "mse", "optimizer": {"type": "sgd", "lr": 0.05}})"))),
      same(with(R"({"method": "upgd_nonprotecting", "noise": 0})"));
  plain.learn(50);
  same.learn(50);
  EXPECT_EQ(same.run.weights(), plain.run.weights());
}

TEST(WeightPerturbation, NoiseHasTheMomentsOfItsWords) {
  // Weights at 0 take -rate noise / 2 each: sigmoid(0) is a half.
  const std::size_t n = 1 << 16;
  std::vector<float> w(n), u(n), g(n);
  kernels::perturbed_step({.out = n,
                           .w = w.data(),
                           .u = u.data(),
                           .g = g.data(),
                           .rate = 2.0f,
                           .deviation = 1.0f,
                           .key = {5, 6},
                           .update = 3});
  double sum = 0, squares = 0;
  for (const float value : w) sum += double{value}, squares += double{value} * double{value};
  EXPECT_NEAR(sum / n, 0.0, 4 / std::sqrt(double{n}));
  EXPECT_NEAR(squares / n, 1.0, 4 * std::sqrt(1.7 / double{n}));
  std::vector<float> other(n);
  kernels::perturbed_step({.out = n,
                           .w = other.data(),
                           .u = u.data(),
                           .g = g.data(),
                           .rate = 2.0f,
                           .deviation = 1.0f,
                           .key = {5, 6},
                           .update = 4});
  EXPECT_NE(other, w);
}

TEST(WeightPerturbation, LeavesValuesThatPadAPanelAtZero) {
  ReferenceChain chain(with(kUpgd));
  chain.learn(3);
  std::size_t padding = 0;
  for (const auto& parameter : chain.run.store().parameters()) {
    const std::size_t in = parameter.spec->in, out = parameter.spec->out;
    if (!parameter.spec->is_matrix()) continue;
    for (std::size_t k = 0; k < in; ++k)
      for (std::size_t o = out; o % kernels::kPanelWidth != 0; ++o, ++padding)
        ASSERT_EQ(parameter.data[kernels::panel_index(in, o, k)], 0.0f) << o << " " << k;
  }
  EXPECT_GT(padding, 100u);
}

TEST(WeightPerturbation, GoesOnByOtherNumbersAndBeginsAnewByAnotherMethod) {
  EXPECT_TRUE(keeps_meaning(with(kUpgd), with(R"({"method": "upgd", "noise": 0.1})")));
  EXPECT_TRUE(keeps_meaning(with(kUpgd), with(R"({"method": "upgd_nonprotecting"})")));
  EXPECT_FALSE(keeps_meaning(with("{}"), with(kUpgd)));
}

TEST(WeightPerturbation, CountsItsUtilitiesAsMemory) {
  const mesh::Mesh mesh = must(mesh::Mesh::build(reference_chain().spec(), shape()));
  const auto bytes = [&](const LearningOptions& options) {
    const mesh::MemoryEstimate estimate = must(estimate_memory(mesh.graph(), options, 1, UINT64_MAX));
    for (const auto& [what, size] : estimate.parts)
      if (what == "optimizer") return size;
    return std::uint64_t{0};
  };
  EXPECT_GT(bytes(with("{}")), 0u);
  EXPECT_EQ(bytes(with(kUpgd)), 2 * bytes(with("{}")));
}

TEST(WeightPerturbation, RefusesOptionsThatItCannotKeep) {
  const auto text = [](const std::string& more, const std::string& optimizer = R"({"type": "sgd"})") {
    const auto read =
        read_learning(R"({"optimizer": )" + optimizer + R"(, "perturb": {"method": "upgd"})" + more + "}");
    return read ? std::string() : read.error().text();
  };
  EXPECT_EQ(text(""), "");
  EXPECT_EQ(text(R"(, "schedule": "pipelined")"),
            "learning.perturb.method: 'upgd' with learning.schedule 'pipelined', where layers learn from different "
            "samples at once, and the largest utility is of all; give 'settle'");
  EXPECT_EQ(text("", R"({"type": "adamw"})"),
            "learning.perturb.method: 'upgd' with learning.optimizer.type 'adamw'; give 'sgd'");
  EXPECT_EQ(text("", R"({"type": "sgd", "clip": "norm", "clip_limit": 1})"),
            "learning.perturb.method: 'upgd' with learning.optimizer.clip 'norm'; give 'none'");
  EXPECT_EQ(text(R"(, "consolidation": {"method": "ewc"})"),
            "learning.perturb.method: 'upgd' with learning.consolidation.method 'ewc', which holds weights; give one "
            "of the two");
  EXPECT_NE(must(read_learning("{}")).perturb.is_on(), true);
  EXPECT_FALSE(read_learning(R"({"perturb": {"noise": 1}})"));
  LearningOptions options;
  options.perturb.decay = 1;
  EXPECT_EQ(check_options(options).error().text(), "learning.perturb.decay: 1 is not within [0, 0.999999]");
}

}  // namespace
}  // namespace weft::learning::weight_perturbation_test
