// SPDX-License-Identifier: Apache-2.0
// Targets that come after the answer: what they teach, against learn(), float64 and river's order; that nothing is
// lost; and the same bits everywhere.

#include "learning/learner_snapshot.hpp"
#include "learning/one_sample.hpp"

#include "mesh/persistence/snapshot.hpp"

#include "kernels/isa.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include "late_script.hpp"
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

namespace weft::learning::late_test {
namespace {

using namespace mesh::testing_support;
using namespace test;
using kernels::Activation;

class LateRules : public ::testing::TestWithParam<LateCase> {
 protected:
  static LearningOptions without(LearningOptions options) {
    options.late = Late::none;
    return options;
  }
};

TEST_P(LateRules, TeachingAtOnceIsLearning) {
  const LearningOptions options = GetParam().options();
  if (options.late == Late::again) GTEST_SKIP() << "shown twice";
  const Samples data(mixed_network(3), options, 40);
  LearningRun learned(mixed_network(3), without(options)), taught(mixed_network(3), options);
  for (std::uint64_t s = 0; s < data.count; ++s) {
    data.train(*learned.learner, s, 1);
    const Samples::Batch batch = data.batch(s, 1);
    const Ticket ticket = must(taught.learner->observe(batch.inputs));
    EXPECT_EQ(ticket, s);
    must(taught.learner->teach(ticket, batch.targets));
    // A pipelined sample is open until its answer is there.
    ASSERT_EQ(taught.weights(), learned.weights()) << "sample " << s;
    if (options.schedule == Schedule::settle) ASSERT_EQ(taught.hash(), learned.hash()) << "sample " << s;
  }
  must(learned.learner->drain());
  must(taught.learner->drain());
  EXPECT_EQ(taught.hash(), learned.hash());
  const auto a = learned.learner->scores(), b = taught.learner->scores();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].sample, b[i].sample);
    EXPECT_EQ(a[i].label, b[i].label);
    if (a[i].label == kNoLabel) continue;
    EXPECT_EQ(a[i].prediction, b[i].prediction) << i;
    EXPECT_EQ(a[i].loss, b[i].loss) << i;
  }
}

// Late::again is learn(), of that sample, at that time.
TEST_P(LateRules, ShowingAgainIsLearningThen) {
  const LearningOptions options = GetParam().options();
  if (options.late == Late::meet) GTEST_SKIP() << "not shown again";
  const Samples data(mixed_network(3), options, 40);
  LearningRun learned(mixed_network(3), without(options)), taught(mixed_network(3), options);
  const auto show = [&](std::uint64_t s) {
    must(learned.learner->learn(data.batch(s, 1).inputs, {}, 1));
    EXPECT_EQ(must(taught.learner->observe(data.batch(s, 1).inputs)), s);
  };
  for (std::uint64_t s = 0; s < data.count; ++s) {
    show(s);
    if (s < 3) continue;
    must(taught.learner->teach(s - 3, data.batch(s - 3, 1).targets));
    data.train(*learned.learner, s - 3, 1);
    ASSERT_EQ(taught.mesh->ticks(), learned.mesh->ticks());
    ASSERT_EQ(taught.weights(), learned.weights()) << "sample " << s;
  }
}

TEST_P(LateRules, EndsInTheSameStateOnEveryMachineShape) {
  LearningOptions options = GetParam().options();
  options.learners = 2;
  const auto run = [&](const mesh::MeshOptions& wanted) {
    LearningRun made(mixed_network(3), options, wanted);
    LateScript script(mixed_network(3), options, 40, wanted.sessions);
    script.run(*made.learner, 0, 40);
    return made.told();
  };
  const std::string alone = run(shape(1, 2));
  for (const kernels::Isa isa : kernels::available_isas()) {
    const ForIsa scope(isa);
    for (const std::size_t threads : {1, 2, 7}) EXPECT_EQ(run(shape(threads, 2)), alone) << name(isa) << threads;
  }
}

TEST_P(LateRules, GoesOnFromAFileAndFromASnapshotWithSamplesOpen) {
  const LearningOptions options = GetParam().options();
  LearningRun unbroken(mixed_network(3), options);
  LateScript script(mixed_network(3), options, 60);
  script.run(*unbroken.learner, 0, 25);
  ASSERT_GT(unbroken.learner->late_counts().open(), 0u);
  const ByteBuffer bytes = unbroken.file();
  mesh::Snapshot saved;
  unbroken.mesh->take_snapshot(saved, mesh::SnapshotWeights::always);
  const std::string at_cut = unbroken.hash();
  LateScript second = script, third = script;
  unbroken.learner->clear_scores();
  script.run(*unbroken.learner, 25, 35);
  const std::string after = unbroken.told();

  LearningRun resumed(bytes, options, shape(2));
  EXPECT_EQ(resumed.hash(), at_cut);
  second.run(*resumed.learner, 25, 35);
  EXPECT_EQ(resumed.told(), after);

  must(unbroken.mesh->restore_snapshot(saved));
  EXPECT_EQ(unbroken.hash(), at_cut);
  unbroken.learner->clear_scores();
  third.run(*unbroken.learner, 25, 35);
  EXPECT_EQ(unbroken.told(), after);
}

// A checkpoint is taken beside the ticks; its hash is the mesh's.
TEST_P(LateRules, SnapshotsHashTheOpenSamples) {
  const LearningOptions options = GetParam().options();
  LearningRun run(mixed_network(3), options);
  const Samples data(mixed_network(3), options, 8);
  const auto hash = [&] {
    LearnerSnapshot snapshot(*run.learner);
    StateHasher hasher;
    for (mesh::NodeId node = 0; node < run.mesh->graph().nodes().size(); ++node) snapshot.hash_layer(node, hasher);
    return to_string(hasher.digest());
  };
  for (std::uint64_t s = 0; s < 4; ++s) must(run.learner->observe(data.batch(s, 1).inputs));
  const std::string before = run.hash(), snapshot_before = hash();
  must(run.learner->forgo(1));
  EXPECT_NE(run.hash(), before);
  EXPECT_NE(hash(), snapshot_before);
}

INSTANTIATE_TEST_SUITE_P(Of, LateRules, ::testing::ValuesIn(late_cases()),
                         [](const auto& row) { return row.param.name(); });

// --- against float64 (tools/make_late_goldens.py)

Json goldens() {
  std::stringstream text;
  text << std::ifstream(source_path("tests/data/late.json")).rdbuf();
  return parse_json(text.str(), "late.json").value();
}

std::vector<float> flat(const Json& values) {
  std::vector<float> all;
  for (const Json& row : values) {
    if (!row.is_array()) {
      all.push_back(static_cast<float>(row.get<double>()));
      continue;
    }
    for (const Json& value : row) all.push_back(static_cast<float>(value.get<double>()));
  }
  return all;
}

void write(LearningRun& run, Coord at, std::size_t index, const std::vector<float>& values) {
  mesh::WeightStore& store = run.store();
  must(store.write(store.parameters()[store.first(run.node(at)) + index], values, "golden"));
}

LearningOptions plain(Schedule schedule, Late late, const Json& golden) {
  LearningOptions options{.schedule = schedule, .optimizer = {.kind = OptimizerKind::sgd}};
  options.optimizer.lr = static_cast<float>(golden["rate"].get<double>());
  options.late = late;
  return options;
}

constexpr Coord kFirst{0, 0, 0, 0}, kSecond{0, 0, 1, 0};

class Meet : public ::testing::TestWithParam<Schedule> {};

TEST_P(Meet, MovesAsTheReferenceInFloat64) {
  const Json golden = goldens();
  const auto spec = mesh::NetworkBuilder("meet", GridShape{1, 1, 2, 1})
                        .input("x", 5)
                        .dense(kFirst, 7, Activation::tanh)
                        .dense(kSecond, 3)
                        .output("y", kSecond)
                        .spec();
  LearningRun run(spec, plain(GetParam(), Late::meet, golden));
  write(run, kFirst, 0, flat(golden["weights"][0]));
  write(run, kFirst, 1, flat(golden["weights"][1]));
  write(run, kSecond, 0, flat(golden["weights"][2]));
  write(run, kSecond, 1, flat(golden["weights"][3]));
  std::size_t taught = 0;
  for (const Json& event : golden["events"]) {
    const auto number = event[1].get<std::uint64_t>();
    if (event[0] == "observe") {
      const std::vector<float> x = flat(golden["x"][number]);
      const mesh::RunInput input{"x", x};
      ASSERT_EQ(must(run.learner->observe({&input, 1})), number);
    } else if (event[0] == "forgo") {
      must(run.learner->forgo(number));
    } else {
      const auto weight = static_cast<float>(event[4].get<double>());
      Target target{.output = "y", .weights = {&weight, 1}};
      std::vector<float> gradient;
      std::uint32_t label = 0;
      if (event[2] == "gradient")
        target.gradient = gradient = flat(event[3]);
      else
        target.labels = {&(label = event[3].get<std::uint32_t>()), 1};
      must(run.learner->teach(number, {&target, 1}));
      if (GetParam() == Schedule::settle) {
        EXPECT_NEAR(run.learner->scores().back().loss, golden["losses"][taught].get<double>(), 2e-5) << number;
        ++taught;
      }
    }
  }
  must(run.learner->drain());
  const Json& end = golden[GetParam() == Schedule::settle ? "settled" : "pipelined"];
  const auto weights = run.weights();
  ASSERT_EQ(weights.size(), 4u);
  for (std::size_t p = 0; p < 4; ++p) {
    const std::vector<float> wanted = flat(end[p]);
    ASSERT_EQ(weights[p].size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(weights[p][i], wanted[i], 3e-5) << p << ", " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Meet, ::testing::Values(Schedule::settle, Schedule::pipelined),
                         [](const auto& row) { return std::string(name(row.param)); });

TEST(LateAgain, IsRiversDelayedProgressiveValidationToTheSample) {
  const Json golden = goldens();
  for (const Json& river : golden["river"]) {
    const auto spec = mesh::NetworkBuilder("softmax", GridShape{1, 1, 1, 1})
                          .input("x", 5)
                          .dense(kFirst, 3)
                          .output("y", kFirst)
                          .spec();
    LearningRun run(spec, plain(Schedule::settle, Late::again, golden));
    write(run, kFirst, 0, std::vector<float>(15));
    write(run, kFirst, 1, std::vector<float>(3));
    const auto delay = river["delay"].get<std::uint64_t>(), count = std::uint64_t{golden["x"].size()};
    const auto teach = [&](std::uint64_t sample) {
      const auto label = golden["labels"][sample].get<std::uint32_t>();
      const Target target{"y", {&label, 1}};
      must(run.learner->teach(sample, {&target, 1}));
    };
    for (std::uint64_t s = 0; s < count; ++s) {
      if (s >= delay) teach(s - delay);
      const std::vector<float> x = flat(golden["x"][s]);
      const mesh::RunInput input{"x", x};
      ASSERT_EQ(must(run.learner->observe({&input, 1})), s);
      const auto y = must(run.learner->answer(s, "y"));
      EXPECT_EQ(std::max_element(y.begin(), y.end()) - y.begin(), river["predictions"][s].get<int>()) << s;
    }
    for (std::uint64_t s = count - delay; s < count; ++s) teach(s);
    const auto scores = run.learner->scores();
    ASSERT_EQ(scores.size(), count);
    double hits = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      EXPECT_EQ(scores[i].sample, river["order"][i].get<std::uint64_t>());
      hits += scores[i].prediction == scores[i].label;
      EXPECT_DOUBLE_EQ(hits / static_cast<double>(i + 1), river["accuracy"][i].get<double>()) << i;
    }
    const std::vector<float> wanted = flat(river["w"]);
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(run.weights()[0][i], wanted[i], 3e-5);
  }
}

// --- calls

LearningOptions meeting(Late late = Late::meet, Schedule schedule = Schedule::settle, std::uint32_t patience = 3) {
  LearningOptions options{.schedule = schedule};
  options.late = late;
  options.patience = patience;
  return options;
}

struct Digits {
  explicit Digits(const LearningOptions& options) : run(digits_network(1), options), x(64, 0.25f) {}
  Ticket observe() {
    x[seen % 64] += 0.125f;
    ++seen;
    const mesh::RunInput input{"pixels", x};
    return must(run.learner->observe({&input, 1}));
  }
  Status teach(Ticket ticket, std::uint32_t label) {
    const Target target{"digit", {&label, 1}};
    return run.learner->teach(ticket, {&target, 1});
  }
  Status teach(Ticket ticket, const Target& target) { return run.learner->teach(ticket, {&target, 1}); }
  LearningRun run;
  std::vector<float> x;
  std::size_t seen = 0;
};

void expect_error(const Status& status, Errc code, const std::string& part) {
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), code) << status.error().text();
  EXPECT_NE(status.error().text().find(part), std::string::npos) << status.error().text();
}

TEST(Late, RefusesWhatMeansNothingAndChangesNothing) {
  Digits d(meeting());
  const Ticket ticket = d.observe();
  const std::string before = d.run.hash();
  expect_error(d.teach(7, 1), Errc::out_of_range, "sample 7: unknown; 1 samples have entered");
  expect_error(d.teach(ticket, 10), Errc::out_of_range, "label 10 of sample 0 is not below the output's width 10");
  const std::uint32_t label = 1;
  const float negative = -0.5f, nan = std::numeric_limits<float>::quiet_NaN();
  expect_error(d.teach(ticket, {.output = "digit", .labels = {&label, 1}, .weights = {&negative, 1}}),
               Errc::out_of_range, "weight -0.5");
  expect_error(d.teach(ticket, {.output = "digit", .labels = {&label, 1}, .weights = {&nan, 1}}), Errc::not_finite,
               "weight");
  std::vector<float> gradient(10, 0.5f);
  gradient[3] = nan;
  expect_error(d.teach(ticket, {.output = "digit", .gradient = gradient}), Errc::not_finite, "gradient 3 is");
  gradient[3] = 0;
  expect_error(d.teach(ticket, {.output = "digit", .labels = {&label, 1}, .gradient = gradient}),
               Errc::invalid_argument, "a gradient beside labels");
  expect_error(d.teach(ticket, {.output = "digit", .labels = {&label, 1}, .values = gradient}), Errc::invalid_argument,
               "1 labels beside 10 values");
  gradient.pop_back();
  expect_error(d.teach(ticket, {.output = "digit", .gradient = gradient}), Errc::shape_mismatch, "a gradient of 9");
  expect_error(d.teach(ticket, {.output = "digits", .labels = {&label, 1}}), Errc::unknown_name, "'digits'");
  EXPECT_EQ(d.run.hash(), before);
  EXPECT_TRUE(d.run.learner->scores().empty());
  must(d.teach(ticket, 1));
  expect_error(d.teach(ticket, 1), Errc::invalid_argument, "sample 0: has been taught already");
  const Ticket next = d.observe();
  must(d.run.learner->forgo(next));
  expect_error(d.teach(next, 1), Errc::invalid_argument, "sample 1: has been forgone");
  expect_error(d.run.learner->forgo(next), Errc::invalid_argument, "has been forgone");
}

TEST(Late, RefusesWithoutTheOptionAndWhereARuleHasNoUseForIt) {
  Digits none({});
  const mesh::RunInput input{"pixels", none.x};
  const auto refused = none.run.learner->observe({&input, 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::unsupported);
  expect_error(none.teach(0, 1), Errc::unsupported, "learning.late is 'none'");
  LearningOptions local = meeting(Late::meet, Schedule::pipelined);
  local.rule = Rule::local_ce;
  expect_error(check_options(local), Errc::invalid_argument, "keeps no past; use 'again'");
  for (const Rule rule : {Rule::gap, Rule::local_ce}) {
    LearningOptions options = meeting();
    options.rule = rule;
    Digits d(options);
    const Ticket ticket = d.observe();
    const std::vector<float> gradient(10, 0.5f);
    expect_error(d.teach(ticket, {.output = "digit", .gradient = gradient}), Errc::invalid_argument,
                 "learns from what the output should say");
  }
  const std::uint32_t label = 1;
  const float weight = 1;
  const Target target{.output = "digit", .labels = {&label, 1}, .weights = {&weight, 1}};
  expect_error(none.run.learner->learn({&input, 1}, {&target, 1}, 1), Errc::invalid_argument, "Learner::teach");
}

TEST(Late, CountsAndTellsWhatExpires) {
  for (const Late late : {Late::meet, Late::again})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      Digits d(meeting(late, schedule, 3));
      const std::uint64_t delay = schedule == Schedule::pipelined ? d.run.learner->latency() : 1;
      // The last sample that may be taught: three others have entered since its answer.
      for (std::uint64_t s = 0; s < delay + 3; ++s) d.observe();
      EXPECT_EQ(d.run.learner->late_counts().expired, 0u) << name(late) << name(schedule);
      const std::string before = d.run.hash();
      d.observe();
      EXPECT_EQ(d.run.learner->late_counts().expired, 1u) << name(late) << name(schedule);
      ASSERT_EQ(d.run.learner->expired().size(), 1u);
      EXPECT_EQ(d.run.learner->expired()[0], 0u);
      const std::string weights = d.run.hash();
      expect_error(d.teach(0, 1), Errc::timed_out, "sample 0: expired");
      EXPECT_EQ(d.run.hash(), weights);
      must(d.teach(1, 1));
      const LateCounts counts = d.run.learner->late_counts();
      EXPECT_EQ(counts.observed, delay + 4);
      EXPECT_EQ(counts.taught + counts.open(), delay + 3);
      for (int s = 0; s < 40; ++s) d.observe();
      expect_error(d.teach(2, 1), Errc::timed_out, "expired");
      d.run.learner->clear_scores();
      EXPECT_TRUE(d.run.learner->expired().empty());
    }
}

TEST(Late, AnswersAreTheOutputsOfAMeshThatDoesNotLearn) {
  for (const Late late : {Late::meet, Late::again})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      Digits d(meeting(late, schedule, 40));
      mesh::Mesh mesh = must(mesh::Mesh::build(digits_network(1), shape()));
      std::vector<std::vector<float>> outputs;  // by tick
      for (int s = 0; s < 20; ++s) {
        d.observe();
        must(mesh.set_input("pixels", d.x));
        const std::uint64_t ticks = schedule == Schedule::settle ? d.run.learner->hold() : 1;
        for (std::uint64_t t = 0; t < ticks; ++t) {
          must(mesh.tick());
          const auto y = must(mesh.output("digit"));
          outputs.emplace_back(y.begin(), y.end());
        }
      }
      for (Ticket ticket = 0; ticket < 20; ++ticket) {
        const std::uint64_t end =
            schedule == Schedule::settle ? (ticket + 1) * d.run.learner->hold() : ticket + d.run.learner->latency();
        const auto y = d.run.learner->answer(ticket, "digit");
        ASSERT_EQ(y.has_value(), end <= outputs.size());
        if (!y) {
          EXPECT_EQ(y.error().code(), Errc::not_found);
          continue;
        }
        EXPECT_EQ(std::vector<float>(y->begin(), y->end()), outputs[end - 1]) << ticket;
      }
    }
}

TEST(Late, WeightsScaleAndZeroScoresAlone) {
  Digits a(meeting()), b(meeting()), c(meeting());
  std::vector<float> gradient(10, 0.25f), twice(10, 0.5f);
  const float two = 2, zero = 0;
  must(a.teach(a.observe(), {.output = "digit", .gradient = gradient, .weights = {&two, 1}}));
  must(b.teach(b.observe(), {.output = "digit", .gradient = twice}));
  EXPECT_EQ(a.run.weights(), b.run.weights());
  const auto before = c.run.weights();
  const std::uint32_t label = 4;
  must(c.teach(c.observe(), {.output = "digit", .labels = {&label, 1}, .weights = {&zero, 1}}));
  EXPECT_EQ(c.run.weights(), before);
  ASSERT_EQ(c.run.learner->scores().size(), 1u);
  EXPECT_EQ(c.run.learner->scores()[0].label, 4u);
  EXPECT_EQ(c.run.learner->late_counts().taught, 1u);
}

// Sessions that come or go take the kept past with them: nothing is met that is not there.
TEST(Late, SessionsThatComeExpireWhatIsOpen) {
  Digits d(meeting());
  const Ticket ticket = d.observe();
  must(d.run.mesh->add_session());
  const std::string before = d.run.hash();
  expect_error(d.teach(ticket, 1), Errc::timed_out, "sessions were added or removed");
  EXPECT_EQ(d.run.hash(), before) << "refused";
  d.x.resize(128);
  d.observe();
  EXPECT_EQ(d.run.learner->late_counts().expired, 1u);
  expect_error(d.teach(ticket, 1), Errc::timed_out, "expired");
}

TEST(Late, SugarIsPredictAndLearn) {
  Digits d({}), e({});
  std::vector<float> y(10), z(10);
  const mesh::RunInput input{"pixels", d.x};
  const mesh::RunOutput output{"digit", z};
  must(predict_one(*d.run.learner, d.x, y));
  must(e.run.learner->predict({&input, 1}, 1, {&output, 1}, 0));
  EXPECT_EQ(y, z);
  must(learn_one(*d.run.learner, d.x, 3u));
  e.run.train(e.x, {3});
  EXPECT_EQ(d.run.hash(), e.run.hash());
}

}  // namespace
}  // namespace weft::learning::late_test
