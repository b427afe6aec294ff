// SPDX-License-Identifier: Apache-2.0
// Units that begin anew: against a reference in float64 (tools/make_renewal_goldens.py), on every machine shape, in
// blocks of any length, through a file; and what is refused.

#include "learning/unit_renewal.hpp"

#include "learning/learner_snapshot.hpp"
#include "learning/memory_estimate.hpp"
#include "learning/options.hpp"

#include "kernels/isa.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include "reference_chain.hpp"
#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

namespace weft::learning::unit_renewal_test {
namespace {

using namespace test;
using mesh::testing_support::must;

constexpr std::uint64_t kSamples = 400;

LearningOptions with(const std::string& renew, const std::string& more = "") {
  return must(read_learning(R"({"loss": "mse", "optimizer": {"type": "momentum", "lr": 0.05, "momentum": 0.5,
    "dampening": 0}, "renew": )" +
                            renew + more + "}"));
}

struct Chain : ReferenceChain {
  using ReferenceChain::ReferenceChain;
  /// Units of a hidden layer whose outgoing weights are all 0, those to the units `but` left aside.
  std::set<std::size_t> without_readers(std::size_t layer, const std::set<std::size_t>& but = {}) const {
    const std::vector<float> out = run.weights(Coord{0, 0, static_cast<std::uint32_t>(layer + 1), 0})[0];
    const std::size_t width = layer == 0 ? 24 : 9;
    std::set<std::size_t> units;
    for (std::size_t unit = 0; unit < width; ++unit) {
      bool is_zero = true;
      for (std::size_t i = unit; i < out.size(); i += width) is_zero &= out[i] == 0.0f || but.contains(i / width);
      if (is_zero) units.insert(unit);
    }
    return units;
  }
};

const char* const kMethods[] = {R"({"method": "redo", "every": 50, "threshold": 0.25})",
                                R"({"method": "continual", "rate": 0.002, "decay": 0.875, "maturity": 20})"};

TEST(UnitRenewal, RenewsTheUnitsOfTheReferenceAndEndsAtItsWeights) {
  std::ifstream file(source_path("tests/data/renewal.json"));
  std::stringstream text;
  text << file.rdbuf();
  const Json golden = must(parse_json(text.str(), "renewal.json"));
  ASSERT_EQ(golden["samples"].get<std::uint64_t>(), kSamples);
  ASSERT_EQ(golden["cases"].size(), 2u);
  for (const Json& wanted : golden["cases"]) {
    Chain chain(with(wanted["renew"].dump()));
    std::set<std::tuple<std::uint64_t, std::size_t, std::size_t>> listed;
    for (const Json& one : wanted["renewed"])
      listed.emplace(one[0].get<std::uint64_t>(), one[1].get<std::size_t>(), one[2].get<std::size_t>());
    ASSERT_GT(listed.size(), 15u);
    std::set<std::size_t> before[2];
    for (std::uint64_t s = 0; s < kSamples; ++s) {
      chain.learn(1);
      for (std::size_t layer = 0; layer < 2; ++layer) {
        // From one to another of those the weight is a new one.
        std::set<std::size_t> fresh;
        for (const auto& [at, in, unit] : listed)
          if (at == s && in == layer + 1) fresh.insert(unit);
        const std::set<std::size_t> now = chain.without_readers(layer, fresh);
        for (std::size_t unit = 0; unit < (layer == 0 ? 24u : 9u); ++unit) {
          const bool is_listed = listed.contains({s, layer, unit});
          if (is_listed || !before[layer].contains(unit)) {
            ASSERT_EQ(now.contains(unit), is_listed) << s << " " << layer << " " << unit << wanted["renew"].dump();
          }
        }
        before[layer] = now;
      }
    }
    for (std::uint32_t x = 0; x < 3; ++x) {
      const std::vector<float> found = chain.run.weights(Coord{0, 0, x, 0})[0];
      ASSERT_EQ(found.size(), wanted["weights"][x].size());
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], wanted["weights"][x][i].get<double>(), 2e-5) << x << " " << i;
    }
  }
}

TEST(UnitRenewal, HasTheSameBitsOnEveryMachineShapeInBlocksOfAnyLengthAndThroughAFile) {
  for (const char* const method : kMethods)
    for (const char* const more : {"", R"(, "schedule": "pipelined")", R"(, "learners": 3)"}) {
      const LearningOptions options = with(method, more);
      const std::size_t sessions = options.learners + 1;
      Chain whole(options, shape(1, sessions));
      whole.learn(150);
      for (const kernels::Isa isa : kernels::available_isas()) {
        const ForIsa scope(isa);
        for (const std::size_t threads : {1, 2, 7}) {
          Chain other(options, shape(threads, sessions));
          other.learn(150, threads * 9);
          ASSERT_EQ(other.run.told(), whole.run.told()) << method << more << name(isa) << threads;
        }
      }
      Chain first(options, shape(1, sessions));
      first.learn(77);
      Chain second(options, shape(1, sessions));
      second.run.learner.reset();  // before its mesh
      second.run = LearningRun(first.run.file(), options);
      second.seen = 77;
      EXPECT_EQ(second.run.hash(), first.run.hash());
      second.learn(73, 73);
      EXPECT_EQ(second.run.hash(), whole.run.hash()) << method << more;
    }
}

// Averages of learners that see the same are those of one.
TEST(UnitRenewal, TakesTheMeanOfItsLearners) {
  Chain one(with(kMethods[1])), two(with(kMethods[1], R"(, "learners": 2)"), shape(1, 2));
  one.learn(200);
  two.learn(200);
  EXPECT_EQ(one.run.weights(), two.run.weights());
}

TEST(UnitRenewal, KeepsTheStateOfUnitsInTheHash) {
  Chain a(with(R"({"method": "continual", "rate": 0})")),
      b(with(R"({"method": "continual", "rate": 0, "decay": 0.5})"));
  a.learn(5);
  b.learn(5);
  EXPECT_EQ(a.run.weights(), b.run.weights());
  EXPECT_NE(a.run.hash(), b.run.hash());
}

TEST(UnitRenewal, GoesOnByOtherNumbersAndBeginsAnewByAnotherMethod) {
  const std::string faster = R"({"method": "continual", "rate": 0.01, "decay": 0.875, "maturity": 20})";
  EXPECT_TRUE(keeps_meaning(with(kMethods[1]), with(faster)));
  EXPECT_FALSE(keeps_meaning(with(kMethods[1]), with(kMethods[0])));
  EXPECT_FALSE(keeps_meaning(with("{}"), with(kMethods[0])));
  Chain first(with(kMethods[1])), slow(with(kMethods[1]));
  first.learn(60);
  slow.learn(100);
  LearningRun fast(first.run.file(), with(faster));
  EXPECT_EQ(fast.hash(), first.run.hash());
  first.run.learner.reset();  // before its mesh
  first.run = std::move(fast);
  first.learn(40);
  EXPECT_NE(first.run.weights(), slow.run.weights());
}

TEST(UnitRenewal, CountsItsStateAsMemory) {
  const mesh::Mesh mesh = must(mesh::Mesh::build(reference_chain().spec(), shape()));
  const auto bytes = [&](const LearningOptions& options) {
    const mesh::MemoryEstimate estimate = must(estimate_memory(mesh.graph(), options, 1, UINT64_MAX));
    for (const auto& [what, size] : estimate.parts)
      if (what == "renewal") return size;
    return std::uint64_t{0};
  };
  EXPECT_EQ(bytes(with("{}")), 0u);
  // A utility and an age of each of 33 units, what is due of each layer; lists of the widest.
  constexpr std::uint64_t kState = 33 * (8 + 4) + 2 * 8;
  EXPECT_GE(bytes(with(kMethods[1])), kState + 24 * 24);
  EXPECT_LE(bytes(with(kMethods[1])), kState + 24 * 24 + 2 * 128);
}

// Sizes are those of the sample whose target came. Taught before the next one enters, it is learned as by `learn`.
TEST(UnitRenewal, AndPullsAreTheSameWhereTargetsComeAtOnceByAnotherCall) {
  const std::string pull = R"(, "plasticity": {"pull": "initial", "every": 30, "share": 0.05})";
  for (const char* const method : kMethods) {
    const std::string late = R"(, "late": "meet", "patience": 8)" + pull;
    Chain plain(with(method, pull)), whole(with(method, late)), split(with(method, late));
    plain.learn(150);
    whole.learn(150, 7);
    split.teach_late(150, 0);
    EXPECT_EQ(whole.run.weights(), plain.run.weights()) << method;
    EXPECT_EQ(split.run.weights(), plain.run.weights()) << method;
  }
}

TEST(UnitRenewal, HasTheSameBitsOnEveryMachineShapeAndThroughAFileWhereTargetsComeLate) {
  for (const char* const method : kMethods) {
    const LearningOptions options =
        with(method, R"(, "late": "meet", "patience": 8, "plasticity": {"pull": "fresh", "every": 30})");
    Chain whole(options), at_once(options);
    whole.teach_late(150, 3);
    at_once.teach_late(150, 0);
    EXPECT_NE(whole.run.weights(), at_once.run.weights());
    for (const kernels::Isa isa : kernels::available_isas()) {
      const ForIsa scope(isa);
      for (const std::size_t threads : {1, 2, 7}) {
        Chain other(options, shape(threads));
        other.teach_late(150, 3);
        ASSERT_EQ(other.run.told(), whole.run.told()) << method << name(isa) << threads;
      }
    }
    Chain first(options);
    first.teach_late(77, 3);
    LearningRun restored(first.run.file(), options);
    first.run.learner.reset();  // before its mesh
    first.run = std::move(restored);
    first.teach_late(150, 3);
    EXPECT_EQ(first.run.hash(), whole.run.hash()) << method;
  }
}

TEST(UnitRenewal, QuantizesWhatIsStoredAnew) {
  auto spec = reference_chain().spec();
  for (auto& layer : spec.layers) layer.dtype = Dtype::int8;
  Chain chain(with(kMethods[0]), shape(), spec);
  const auto answer = [&] {
    const std::vector<float> x{1, -1, 1, -1, 1, -1};
    std::vector<float> y(3);
    const mesh::RunInput input{"x", x};
    const mesh::RunOutput output{"y", y};
    must(chain.run.learner->predict({&input, 1}, 1, {&output, 1}));
    return y;
  };
  chain.learn(100);
  ASSERT_FALSE(chain.without_readers(0).empty() && chain.without_readers(1).empty());
  const std::vector<float> found = answer();
  // Read from a file, all is quantized anew.
  const ByteBuffer file = chain.run.file();
  chain.run.learner.reset();  // before its mesh
  chain.run = LearningRun(file, with(kMethods[0]));
  EXPECT_EQ(answer(), found);
}

TEST(UnitRenewal, LeavesLayersThatCannotTakePartAsTheyAre) {
  auto spec = reference_chain().spec();
  spec.layers[1].is_frozen = true;  // it reads the first one, and is no hidden layer that learns
  const auto refused = [&](const mesh::NetworkSpec& of, const std::string& why) {
    mesh::Mesh mesh = must(mesh::Mesh::build(of, shape()));
    const auto built = Learner::build(mesh, with(kMethods[0]));
    ASSERT_FALSE(built);
    EXPECT_EQ(built.error().code(), Errc::unsupported);
    EXPECT_NE(built.error().text().find(why), std::string::npos) << built.error().text();
  };
  refused(spec, "layers[0] [0,0,0,0]: its reader layers[1] [0,0,1,0] is frozen");
  spec = reference_chain(kernels::Activation::linear).spec();
  Chain chain(with(kMethods[0]), shape(), spec);
  chain.learn(400);
  EXPECT_TRUE(chain.without_readers(0).empty());
  refused(reference_chain(kernels::Activation::linear, kernels::Activation::linear).spec(),
          "layers[0] [0,0,0,0]: it has no activation");
}

TEST(UnitRenewal, RefusesOptionsThatItCannotKeep) {
  const auto text = [](const std::string& json) {
    const auto read = read_learning(json);
    return read ? std::string() : read.error().text();
  };
  EXPECT_EQ(text(R"({"late": "meet", "renew": {"method": "redo"}})"), "");
  EXPECT_EQ(
      text(R"({"late": "again", "renew": {"method": "redo"}})"),
      "learning.renew.method: 'redo' with learning.late 'again', which shows samples anew; give 'meet' or 'none'");
  EXPECT_EQ(text(R"({"late": "meet", "schedule": "pipelined", "renew": {"method": "redo"}})"),
            "learning.renew.method: 'redo' with learning.late 'meet' and learning.schedule 'pipelined', where errors "
            "are on their way between samples; give 'settle'");
  EXPECT_EQ(text(R"({"consolidation": {"method": "ewc"}, "renew": {"method": "continual"}})"),
            "learning.renew.method: 'continual' with learning.consolidation.method 'ewc', which holds weights; give "
            "one of the two");
  EXPECT_NE(text(R"({"renew": {"method": "redo", "rate": 0.5}})"), "");
  EXPECT_NE(text(R"({"renew": {"method": "continual", "rate": 1.5}})"), "");
  EXPECT_EQ(text(R"({"renew": {"method": "continual", "rate": 0.5, "decay": 0, "maturity": 7}})"), "");
  LearningOptions options;
  options.renew.threshold = -1;
  EXPECT_EQ(check_options(options).error().text(), "learning.renew.threshold: -1 is not within [0, 1]");
}

}  // namespace
}  // namespace weft::learning::unit_renewal_test
