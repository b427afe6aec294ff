// SPDX-License-Identifier: Apache-2.0

// Stored samples and held weights against formulas written out again in float64; exactness_test.cpp has their bits on
// every machine shape, through files and back.

#include "learning/internal/packed_words.hpp"
#include "learning/learner_snapshot.hpp"

#include "mesh/persistence/entity_model.hpp"
#include "mesh/persistence/snapshot.hpp"

#include "formats/entity/entity.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace weft::learning::past_test {
namespace {

using namespace test;
using mesh::testing_support::must;

/// One dense layer 3 -> 2, whose gradients are known in closed form.
mesh::NetworkSpec line(std::uint64_t seed = 5) {
  return mesh::NetworkBuilder("line", GridShape{1, 1, 1, 1})
      .input("x", 3)
      .dense({0, 0, 0, 0}, 2)
      .output("y", {0, 0, 0, 0})
      .seed(seed)
      .spec();
}

void expect_failure(const Result<std::unique_ptr<Learner>>& built, Errc code, const std::string& words) {
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code(), code);
  EXPECT_NE(built.error().text().find(words), std::string::npos) << built.error().text();
}

LearningOptions plain(float lr = 0.1f) {
  LearningOptions options;
  options.optimizer = kernels::default_options(OptimizerKind::sgd);
  options.optimizer.lr = lr;
  return options;
}

LearningOptions with(const ReplayOptions& replay, float lr = 0.1f) {
  LearningOptions options = plain(lr);
  options.replay = replay;
  return options;
}

std::vector<float> draw(std::uint64_t number) {
  RandomStream random(77, number, RandomPurpose::test);
  return {random.next_normal(), random.next_normal(), random.next_normal()};
}

/// The layer in float64.
struct Reference {
  std::vector<double> w, b;
  static Reference of(const LearningRun& run) {
    const auto all = run.weights();
    return {all[0], all[1]};
  }
  std::vector<double> answer(const std::vector<float>& x) const {
    std::vector<double> y = b;
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t j = 0; j < 3; ++j) y[i] += w[3 * i + j] * static_cast<double>(x[j]);
    return y;
  }
  static std::vector<double> slope(const std::vector<double>& y, std::uint32_t label) {
    const double e0 = std::exp(y[0]), e1 = std::exp(y[1]);
    std::vector<double> g{e0 / (e0 + e1), e1 / (e0 + e1)};
    g[label] -= 1.0;
    return g;
  }
  void add(const std::vector<float>& x, const std::vector<double>& g, double factor) {
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t j = 0; j < 3; ++j) w[3 * i + j] += factor * g[i] * static_cast<double>(x[j]);
      b[i] += factor * g[i];
    }
  }
  void expect_near(const LearningRun& run, double tolerance) const {
    const auto all = run.weights();
    for (std::size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(all[0][i], w[i], tolerance) << i;
    for (std::size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(all[1][i], b[i], tolerance) << i;
  }
};

// With a capacity of one sample, what is learned beside the second sample is known: the first one.
TEST(Replay, LearnsTheStoredSampleBesideTheNewOneAndItsAnswerOfThen) {
  for (const ReplayMethod method : {ReplayMethod::er, ReplayMethod::der}) {
    LearningRun run(line(), with({method, 1, 1, 0.3f, 0.7f}), shape(1, 2));
    const std::vector<float> first = draw(1), second = draw(2);
    Reference reference = Reference::of(run);
    const std::vector<double> then = reference.answer(first);
    const auto mean = 1.0 / static_cast<double>(2);  // of the rows
    run.train(first, {1});
    reference.add(first, Reference::slope(then, 1), -0.1 * mean);
    reference.expect_near(run, 1e-6);
    run.train(second, {0});
    std::vector<double> old = Reference::slope(reference.answer(first), 1);
    const std::vector<double> now = reference.answer(first);
    for (std::size_t i = 0; i < 2; ++i)
      // The mean square over two values: 2 alpha / 2.
      old[i] = 0.7 * old[i] + (method == ReplayMethod::der ? 0.3 * (now[i] - then[i]) : 0.0);
    const std::vector<double> fresh = Reference::slope(reference.answer(second), 0);
    reference.add(first, old, -0.1 * mean);
    reference.add(second, fresh, -0.1 * mean);
    reference.expect_near(run, 1e-6);
    // One score a sample that was given.
    EXPECT_EQ(run.learner->scores().size(), 2u);
  }
}

TEST(Replay, ASampleWithoutALabelIsNotStoredAndMovesNothing) {
  LearningRun run(line(), with({ReplayMethod::er, 2, 4}), shape(1, 3));
  run.train(draw(1), {1});
  const auto before = run.weights();
  run.train(draw(2), {kNoLabel});
  EXPECT_EQ(run.weights(), before);
  EXPECT_EQ(stored_samples(*run.learner).size(), 1u);
}

// Each of 400 samples is among 20 with a probability of 1 / 20, whenever it came: over 300 seeds 15 times, +- 3.8.
TEST(Reservoir, KeepsEachSampleWithTheSameProbability) {
  std::vector<int> kept(400, 0);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    LearningRun run(line(seed), with({ReplayMethod::er, 1, 20}, 0.001f), shape(1, 2));
    for (std::uint64_t block = 0; block < 4; ++block) {
      std::vector<float> x;
      for (std::uint64_t s = 0; s < 100; ++s) {
        const auto one = draw(block * 100 + s);
        x.insert(x.end(), one.begin(), one.end());
      }
      run.train(x, std::vector<std::uint32_t>(100, 0), {}, 100);
    }
    const auto numbers = stored_samples(*run.learner);
    EXPECT_EQ(std::set<std::uint64_t>(numbers.begin(), numbers.end()).size(), 20u);
    for (const std::uint64_t number : numbers) ++kept[number];
  }
  // Of 20 equal parts 300 are expected in each: chi squared with 19 degrees of freedom, 0.001 at 43.8.
  double chi = 0;
  for (std::size_t part = 0; part < 20; ++part) {
    double found = 0;
    for (std::size_t i = 0; i < 20; ++i) found += kept[20 * part + i];
    chi += (found - 300) * (found - 300) / 300;
  }
  EXPECT_LT(chi, 43.8);
  EXPECT_GT(chi, 2.0);
}

TEST(Reservoir, ContentFollowsFromSeedAndOrderAlone) {
  const auto numbers_of = [](std::uint64_t seed, std::uint64_t at_once, float lr) {
    LearningRun run(line(seed), with({ReplayMethod::er, 2, 8}, lr), shape(1, 3));
    for (std::uint64_t s = 0; s < 60; s += at_once) {
      std::vector<float> x;
      for (std::uint64_t i = 0; i < at_once; ++i) {
        const auto one = draw(s + i);
        x.insert(x.end(), one.begin(), one.end());
      }
      run.train(x, std::vector<std::uint32_t>(at_once, 1), {}, at_once);
    }
    const auto numbers = stored_samples(*run.learner);
    return std::vector<std::uint64_t>(numbers.begin(), numbers.end());
  };
  EXPECT_EQ(numbers_of(3, 1, 0.1f), numbers_of(3, 20, 0.001f));
  EXPECT_NE(numbers_of(3, 1, 0.1f), numbers_of(4, 1, 0.1f));
}

// A reservoir in a file takes room for what is stored. Files of before had all of it.
TEST(Reservoir, PlacesThatAreEmptyTakeNoRoomInFiles) {
  const LearningOptions options = with({ReplayMethod::er, 2, 100000});
  LearningRun run(line(), options, shape(1, 3));
  for (std::uint64_t s = 0; s < 50; ++s) run.train(draw(s), {static_cast<std::uint32_t>(s % 2)});
  const ByteBuffer file = run.file();
  EXPECT_LT(file.size(), 32u << 10);  // 24 bytes for each of 100,000 places are 2.4 MB
  std::vector<formats::Tensor> tensors = learner_tensors(*run.learner);
  const LearnerSnapshot snapshot(*run.learner);
  EXPECT_EQ(tensors.back().type, "u64");
  EXPECT_EQ(snapshot.tensors().back().shape, tensors.back().shape);
  const std::span packed(reinterpret_cast<const std::uint64_t*>(snapshot.tensors().back().bytes.data()),
                         snapshot.tensors().back().bytes.size() / sizeof(std::uint64_t));
  const std::vector<std::uint32_t> words = must(unpack_words(packed, packed[0], packed[0]));
  EXPECT_GT(words.size(), 600000u);
  const auto with_flight = [&](formats::Tensor flight) {
    tensors.back() = std::move(flight);
    return must(mesh::encode_mesh(*run.mesh, true, {tensors, "{}"}));
  };
  const auto plain_form =
      with_flight(formats::make_tensor("learning/in_flight", std::span<const std::uint32_t>(words)));
  EXPECT_GT(plain_form.size(), 2400000u);
  LearningRun from_packed(file, options, shape(1, 3)), from_plain(plain_form, options, shape(1, 3));
  for (LearningRun* const again : {&from_packed, &from_plain}) {
    EXPECT_EQ(again->hash(), run.hash());
    const ByteBuffer written = again->file();
    EXPECT_TRUE(std::equal(written.begin(), written.end(), file.begin(), file.end()));
    EXPECT_EQ(stored_samples(*again->learner).size(), 50u);
  }
  run.train(draw(60), {1});
  from_packed.train(draw(60), {1});
  EXPECT_EQ(from_packed.hash(), run.hash());
  // Refuses what no run writes.
  const auto restored = [&](std::vector<std::uint64_t> forged) -> Status {
    const ByteBuffer bytes =
        with_flight(formats::make_tensor("learning/in_flight", std::span<const std::uint64_t>(forged)));
    WEFT_TRY(const auto read, formats::decode_entity(ByteSpan(bytes), "forged"));
    auto mesh = must(mesh::Mesh::build(line(), shape(1, 3)));
    const auto learner = must(Learner::build(mesh, options));
    WEFT_CHECK(mesh::restore_weights(mesh, read));
    WEFT_CHECK(mesh::restore_live(mesh, read));
    return restore_learner(*learner, read);
  };
  const std::vector<std::uint64_t> good(packed.begin(), packed.end());
  EXPECT_TRUE(restored(good));
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}, good.size() - 2, good.size() - 1})
    for (const std::uint64_t value : {good[at] + 1, std::uint64_t{1} << 62, UINT64_MAX}) {
      std::vector<std::uint64_t> forged = good;
      forged[at] = value;
      const Status status = restored(forged);
      // Another word in a place where nothing is stored is seen by nobody.
      if (at + 1 == good.size() && value == good[at] + 1) continue;
      EXPECT_FALSE(status) << at << " " << value;
    }
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, good.size() / 2, good.size() - 1})
    EXPECT_FALSE(restored({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)})) << size;
}

TEST(PackedWords, ComeBackAsTheyWere) {
  RandomStream random(5, 1, RandomPurpose::test);
  for (const std::size_t size : {0, 1, 63, 64, 65, 1000, 4097})
    for (const std::size_t alike : {1, 40, 64, 300, 5000}) {
      std::vector<std::uint32_t> words;
      while (words.size() < size) {
        const std::uint32_t word = random.next_u32();
        for (std::size_t i = 0; i < alike && words.size() < size; ++i) words.push_back(alike > 1 ? word & 1 : word);
      }
      std::vector<std::uint64_t> packed{7, 7};
      pack_words(words, packed);
      if (packed.empty()) continue;  // it would not have been half as long
      EXPECT_LE(packed.size() * 4, words.size()) << size << " " << alike;
      EXPECT_EQ(must(unpack_words(packed, size, size)), words) << size << " " << alike;
      EXPECT_EQ(must(unpack_words(packed, size / 2, size)),
                std::vector<std::uint32_t>(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(size / 2)));
    }
}

/// Two updates of one task, then two of another, by the equations of consolidator.hpp.
TEST(Consolidation, HoldsWeightsAsItsEquationsSay) {
  for (const Consolidation method : {Consolidation::ewc, Consolidation::si}) {
    LearningOptions options = plain();
    options.consolidation = {method, 2, 40.0f, 0.5f, 0.1f};
    LearningRun run(line(), options);
    Reference reference = Reference::of(run), anchor = reference;
    std::vector<double> f(8, 0.0), sum(8, 0.0);
    const auto each = [](Reference& of, std::size_t i) -> double& { return i < 6 ? of.w[i] : of.b[i - 6]; };
    for (std::uint64_t update = 1; update <= 5; ++update) {
      const std::vector<float> x = draw(update);
      const std::uint32_t label = update % 2;
      const Reference before = reference;
      Reference gradient{std::vector<double>(6, 0.0), std::vector<double>(2, 0.0)};
      gradient.add(x, Reference::slope(reference.answer(x), label), 1.0);
      for (std::size_t i = 0; i < 8; ++i) {
        const double g = each(gradient, i);
        each(reference, i) -= 0.1 * g;
        sum[i] += method == Consolidation::ewc ? g * g : 0.1 * g * g;
        if (update > 2) {
          const double t = 0.1 * 40.0 * f[i];
          each(reference, i) -= (each(reference, i) - each(anchor, i)) * t / (1.0 + t);
        }
      }
      run.train(x, {label});
      reference.expect_near(run, 2e-6);
      if (update % 2 != 0) continue;
      for (std::size_t i = 0; i < 8; ++i) {
        const double way = each(reference, i) - each(anchor, i);
        f[i] =
            method == Consolidation::ewc ? 0.5 * f[i] + sum[i] / 2 : f[i] + std::max(sum[i], 0.0) / (way * way + 0.1);
        sum[i] = 0;
      }
      anchor = reference;
    }
  }
}

TEST(Consolidation, AnswersOfThenAreKept) {
  LearningOptions options = plain();
  options.consolidation = {Consolidation::lwf, 1, 0.8f};
  LearningRun run(line(), options);
  Reference reference = Reference::of(run);
  const std::vector<float> first = draw(1), second = draw(2);
  run.train(first, {1});
  reference.add(first, Reference::slope(reference.answer(first), 1), -0.1);
  const Reference then = reference;
  run.train(second, {0});
  // Of the update after a consolidation both answers are the same, so that nothing is added.
  reference.add(second, Reference::slope(reference.answer(second), 0), -0.1);
  reference.expect_near(run, 1e-6);
  LearningOptions late = options;
  late.consolidation.every = 2;
  LearningRun other(line(), late);
  Reference slow = Reference::of(other);
  Reference kept = slow;
  for (std::uint64_t update = 1; update <= 5; ++update) {
    const std::vector<float> x = draw(update);
    std::vector<double> g = Reference::slope(slow.answer(x), 0);
    if (update > 2) {
      const auto soft = [](std::vector<double> y) {
        const double e0 = std::exp(y[0] / 2), e1 = std::exp(y[1] / 2);
        return std::vector<double>{e0 / (e0 + e1), e1 / (e0 + e1)};
      };
      const auto now = soft(slow.answer(x)), before = soft(kept.answer(x));
      for (std::size_t i = 0; i < 2; ++i) g[i] += 0.8 * 2 * (now[i] - before[i]);
    }
    slow.add(x, g, -0.1);
    other.train(x, {0});
    slow.expect_near(other, 1e-6);
    if (update % 2 == 0) kept = slow;
  }
}

TEST(Past, OptionsThatContradictAreRefused) {
  const auto refused = [](const LearningOptions& options, const std::string& words, std::size_t sessions = 8) {
    mesh::Mesh mesh = must(mesh::Mesh::build(line(), shape(1, sessions)));
    expect_failure(Learner::build(mesh, options), Errc::invalid_argument, words);
  };
  LearningOptions options = with({ReplayMethod::er, 4, 10});
  refused(options, "learning.replay.samples: 4 stored samples beside 1 learners take 5 sessions; the mesh has 4", 4);
  options.late = Late::meet;
  refused(options, "learning.replay.method: 'er' with learning.late 'meet'");
  options = with({ReplayMethod::der, 1, 10});
  options.schedule = Schedule::pipelined;
  refused(options, "learning.replay.method: 'der++' with learning.schedule 'pipelined'");
  options = with({ReplayMethod::der, 1, 10});
  options.rule = Rule::dfa;
  refused(options, "learning.replay.method: 'der++' with learning.rule 'dfa'");
  options = with({});
  options.consolidation.method = Consolidation::si;
  options.rule = Rule::fw_dtp;
  refused(options, "learning.consolidation.method: 'si' with learning.rule 'fw_dtp'");
  options = with({ReplayMethod::er, 1, 10});
  options.consolidation.method = Consolidation::lwf;
  refused(options, "learning.replay.method: 'er' with learning.consolidation.method 'lwf'");
  options = with({ReplayMethod::der, 1, 10, std::nanf("")});
  mesh::Mesh mesh = must(mesh::Mesh::build(line(), shape(1, 2)));
  expect_failure(Learner::build(mesh, options), Errc::out_of_range, "learning.replay.alpha: nan is not within");
}

TEST(Past, NumbersInFilesAreChecked) {
  for (const auto& [text, words] : std::map<std::string, std::string>{
           {R"({"replay": {"method": "er", "capacity": -5}})", "learning.replay.capacity"},
           {R"({"replay": {"method": "er", "samples": 0}})", "learning.replay.samples"},
           {R"({"replay": {"method": "der++", "alpha": -1}})", "learning.replay.alpha"},
           {R"({"replay": {"method": "gem"}})", "learning.replay.method"},
           {R"({"replay": {"method": "er", "size": 5}})", "learning.replay.size"},
           {R"({"consolidation": {"method": "ewc", "every": 0}})", "learning.consolidation.every"},
           {R"({"consolidation": {"method": "ewc", "decay": 1.5}})", "learning.consolidation.decay"},
           {R"({"consolidation": {"method": "si", "damping": 0}})", "learning.consolidation.damping"}}) {
    const auto read = read_learning(text);
    ASSERT_FALSE(read) << text;
    EXPECT_NE(read.error().text().find(words), std::string::npos) << read.error().text();
  }
  const std::string all = R"({"replay": {"method": "der++", "samples": 3, "capacity": 50, "alpha": 0.25, "beta": 2},)"
                          R"("consolidation": {"method": "ewc", "every": 9, "strength": 3, "decay": 0.5}})";
  const LearningOptions read = must(read_learning(all));
  EXPECT_EQ(must(read_learning(write_learning(read))), read);
}

TEST(Past, StoredSamplesThatDoNotFitAreRefusedWithBothSizes) {
  mesh::MeshOptions machine = shape(1, 2);
  machine.max_memory = std::uint64_t{64} << 20;
  mesh::Mesh mesh = must(mesh::Mesh::build(line(), machine));
  expect_failure(Learner::build(mesh, with({ReplayMethod::er, 1, 1u << 24})), Errc::too_large,
                 "stored samples 640.0 MiB");
}

}  // namespace
}  // namespace weft::learning::past_test
