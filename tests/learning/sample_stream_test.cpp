// SPDX-License-Identifier: Apache-2.0

#include "learning/sample_stream.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <set>

namespace weft::learning::sample_stream_test {
namespace {

struct StreamRun {
  std::unique_ptr<mesh::Mesh> mesh;
  std::unique_ptr<Learner> learner;
  std::unique_ptr<SampleStream> stream;
};

StreamRun make_run(Rule rule, Schedule schedule, StreamOptions options) {
  StreamRun run;
  run.mesh = std::make_unique<mesh::Mesh>(*mesh::Mesh::build(test::digits_network(options.seed), {}));
  LearningOptions learning;
  learning.rule = rule;
  learning.schedule = schedule;
  run.learner = *Learner::build(*run.mesh, learning);
  auto stream = SampleStream::build(*run.learner, test::digits(), options);
  WEFT_ASSERT(stream, stream.error().text());
  run.stream = std::make_unique<SampleStream>(*std::move(stream));
  return run;
}

TEST(Digits, AreTheUciTestSet) {
  const Dataset data = test::digits();
  EXPECT_EQ(data.size, 1797u);
  EXPECT_EQ(data.features, 64u);
  EXPECT_EQ(data.classes, 10u);
  std::size_t counts[10] = {};
  for (std::uint32_t label : data.labels) ++counts[label];
  // Class sizes as published with the set (UCI 80, optdigits.names).
  const std::size_t published[] = {178, 182, 177, 183, 181, 182, 181, 179, 174, 180};
  for (int c = 0; c < 10; ++c) EXPECT_EQ(counts[c], published[c]) << c;
}

TEST(SampleStream, HoldsOutTheStatedShareAndNothingTwice) {
  StreamOptions options;
  options.held_out = 0.2;
  const StreamRun run = make_run(Rule::backprop, Schedule::settle, options);
  EXPECT_EQ(run.stream->held_out_size(), 359u);
  EXPECT_EQ(run.stream->train_size(), 1438u);
}

TEST(SampleStream, RefusesWhatDoesNotFitTheNetwork) {
  auto mesh = mesh::Mesh::build(test::mixed_network(1), {});
  auto learner = *Learner::build(*mesh, {});
  EXPECT_EQ(SampleStream::build(*learner, test::digits(), {}).error().code(), Errc::invalid_argument);
  StreamOptions options;
  options.input = "a";
  options.output = "left";
  const auto refused = SampleStream::build(*learner, test::digits(), options);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text().find("64 values a sample; input 'a' takes 7"), std::string::npos)
      << refused.error().text();
}

TEST(SampleStream, GoesOnFromItsCursorAsIfNeverStopped) {
  StreamOptions options;
  options.epochs = 2;
  options.max_samples = 900;
  options.drift = Drift::labels;
  StreamRun whole = make_run(Rule::fw_dtp, Schedule::settle, options);
  ASSERT_TRUE(whole.stream->advance(900));
  StreamRun parts = make_run(Rule::fw_dtp, Schedule::settle, options);
  ASSERT_TRUE(parts.stream->advance(333));
  const std::string cursor = parts.stream->save_cursor();
  auto again = SampleStream::build(*parts.learner, test::digits(), options);
  ASSERT_TRUE(again->load_cursor(cursor));
  ASSERT_TRUE(again->advance(1000));
  EXPECT_TRUE(again->is_done());
  EXPECT_EQ(parts.mesh->state_hash(), whole.mesh->state_hash());
  EXPECT_EQ(again->progress().prequential_accuracy, whole.stream->progress().prequential_accuracy);
  EXPECT_FALSE(again->load_cursor("{\"total\":5}"));
  EXPECT_FALSE(again->load_cursor("nonsense"));
}

/// A stream of several learners over more sessions than those.
StreamRun make_batches(Schedule schedule, std::size_t learners, std::size_t sessions, StreamOptions options) {
  StreamRun run;
  mesh::MeshOptions shape;
  shape.sessions = sessions;
  run.mesh = std::make_unique<mesh::Mesh>(*mesh::Mesh::build(test::digits_network(options.seed), shape));
  LearningOptions learning;
  learning.schedule = schedule;
  learning.learners = learners;
  run.learner = *Learner::build(*run.mesh, learning);
  run.stream = std::make_unique<SampleStream>(*SampleStream::build(*run.learner, test::digits(), options));
  return run;
}

// The samples are those that one learner would be given, in its order; the reference puts them together by hand.
TEST(SampleStream, GivesEachLearnerASampleOfItsOwn) {
  constexpr std::size_t kLearners = 3, kSessions = 4, kSamples = 200, kSteps = kSamples / kLearners;
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    StreamOptions options;
    options.max_samples = kSamples;
    std::vector<float> pixels;
    std::vector<std::uint32_t> labels;
    StreamRun one = make_run(Rule::backprop, schedule, options);
    one.stream->go_through({[&](auto inputs, auto targets, std::uint64_t) -> Status {
                              pixels.insert(pixels.end(), inputs[0].values.begin(), inputs[0].values.end());
                              labels.insert(labels.end(), targets[0].labels.begin(), targets[0].labels.end());
                              return {};
                            },
                            nullptr});
    ASSERT_TRUE(one.stream->advance(kSamples));
    ASSERT_EQ(labels.size(), kSamples);

    StreamRun by_hand = make_batches(schedule, kLearners, kSessions, options);
    std::vector<float> batches;
    for (std::size_t step = 0; step < kSteps; ++step)
      for (std::size_t session = 0; session < kSessions; ++session) {
        const auto first = pixels.begin() + static_cast<std::ptrdiff_t>((step * kLearners + session % kLearners) * 64);
        batches.insert(batches.end(), first, first + 64);
      }
    const mesh::RunInput input{"pixels", batches};
    const Target target{"digit", std::span(labels).first(kSteps * kLearners), {}};
    ASSERT_TRUE(by_hand.learner->learn({&input, 1}, {&target, 1}, kSteps));

    StreamRun run = make_batches(schedule, kLearners, kSessions, options);
    EXPECT_EQ(run.stream->at_once(), kLearners);
    EXPECT_EQ(run.stream->total(), kSteps * kLearners) << "a rest of the samples makes no update";
    ASSERT_TRUE(run.stream->advance(1));
    EXPECT_EQ(run.stream->samples(), kLearners) << "as many as enter together";
    ASSERT_TRUE(run.stream->advance(50));
    EXPECT_EQ(run.stream->samples(), kLearners + 48);
    ASSERT_TRUE(run.stream->advance(kSamples));
    EXPECT_TRUE(run.stream->is_done());
    for (std::size_t session = 0; session < kSessions; ++session)
      EXPECT_EQ(run.mesh->state_hash(session), by_hand.mesh->state_hash(session)) << session;
    // Each learner's answer is scored.
    std::uint64_t hits = 0, scored = 0;
    for (const Score& score : by_hand.learner->scores()) hits += score.prediction == score.label, ++scored;
    EXPECT_DOUBLE_EQ(run.stream->progress().overall_accuracy, static_cast<double>(hits) / static_cast<double>(scored));
  }
}

TEST(SampleStream, RefusesMoreLearnersThanSamples) {
  StreamOptions options;
  options.max_samples = 7;
  auto mesh = mesh::Mesh::build(test::digits_network(0), {.sessions = 8});
  LearningOptions learning;
  learning.learners = 8;
  auto learner = *Learner::build(*mesh, learning);
  const auto refused = SampleStream::build(*learner, test::digits(), options);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text().find("8 learners"), std::string::npos) << refused.error().text();
}

mesh::NetworkSpec chain_of(const std::string& in, const std::string& layers) {
  return mesh::testing_support::must(mesh::read_network(
      R"({"weft": 2, "name": "n", "inputs": {"x": [)" + in + R"(]}, "chain": [)" + layers + "]}", "n"));
}

/// y1 = 2 a - 3 b + 1 and y2 = -a / 2 + 4, over a grid.
Dataset plane() {
  Dataset data;
  data.features = data.targets = 2;
  for (int a = -3; a <= 3; ++a)
    for (int b = -3; b <= 3; ++b, ++data.size) {
      const auto x = static_cast<float>(a) / 2, z = static_cast<float>(b) / 2;
      data.inputs.insert(data.inputs.end(), {x, z});
      data.values.insert(data.values.end(), {2 * x - 3 * z + 1, -x / 2 + 4});
    }
  return data;
}

// An agent may take a checkpoint with the record of a call, and saves the place of the stream with it.
TEST(SampleStream, StandsBehindSamplesWhileTheyAreLearned) {
  StreamOptions options;
  options.max_samples = 40;
  StreamRun run = make_run(Rule::backprop, Schedule::settle, options);
  std::vector<std::uint64_t> places;
  bool refuses = false;
  run.stream->go_through({[&](auto inputs, auto targets, std::uint64_t samples) -> Status {
                            places.push_back(run.stream->progress().samples);
                            if (refuses) return fail(Errc::halted, "for this test");
                            return run.learner->learn(inputs, targets, samples);
                          },
                          [] { return Status(); }});
  ASSERT_TRUE(run.stream->advance(10));
  refuses = true;
  EXPECT_FALSE(run.stream->advance(10));
  EXPECT_EQ(run.stream->progress().samples, 10u);
  EXPECT_EQ(places, (std::vector<std::uint64_t>{10, 20}));
}

TEST(SampleStream, LearnsValuesToTheirClosedForm) {
  for (const Loss loss : {Loss::mse, Loss::huber}) {
    StreamRun run;
    run.mesh = std::make_unique<mesh::Mesh>(
        *mesh::Mesh::build(chain_of("2", R"({"type": "dense", "out": 2})"), mesh::MeshOptions{}));
    LearningOptions learning;
    learning.loss = loss;
    learning.optimizer.lr = 0.1f;
    run.learner = *Learner::build(*run.mesh, learning);
    StreamOptions options;
    options.epochs = 200;
    options.table.target_mean = {1, 4};
    options.table.target_deviation = {3.6f, 0.5f};
    run.stream = std::make_unique<SampleStream>(*SampleStream::build(*run.learner, plane(), options));
    ASSERT_TRUE(run.stream->advance(100));
    EXPECT_FALSE(run.stream->progress().has_accuracy);
    const std::string cursor = run.stream->save_cursor();
    ASSERT_TRUE(run.stream->load_cursor(cursor));
    ASSERT_TRUE(run.stream->advance(run.stream->total()));
    const Evaluation measured = *run.stream->measure_held_out();
    ASSERT_EQ(measured.values().size(), 2u);
    EXPECT_LT(measured.values()[0].mae(), 1e-4);
    EXPECT_LT(measured.values()[1].mae(), 1e-4);
    EXPECT_GT(*measured.values()[0].r2(), 0.999999);
    EXPECT_LT(run.stream->progress().mean_loss, 1e-9);
    // (2 a - 3 b + 1 - 1) / 3.6 and (-a / 2 + 4 - 4) / 0.5 at (0, 0), (1, 0), (0, 1).
    const std::vector<float> x{0, 0, 1, 0, 0, 1};
    std::vector<float> y(6);
    const mesh::RunInput in{run.stream->options().input, x};
    const mesh::RunOutput out{run.stream->options().output, y};
    ASSERT_TRUE(run.learner->predict({&in, 1}, 3, {&out, 1}));
    const double expected[] = {0, 0, 2 / 3.6, -1, -3 / 3.6, 0};
    for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(y[i], expected[i], 1e-4) << i;
  }
}

TEST(SampleStream, LearnsSeveralLabelsASample) {
  // Signs of two values, each a label: heads of classes of their own, or places of a sequence.
  Dataset data;
  data.features = data.targets = 2;
  for (int i = 0; i < 64; ++i, ++data.size) {
    const float a = i % 2 ? 1.0f : -1.0f, b = i / 2 % 2 ? 0.5f : -0.5f;
    data.inputs.insert(data.inputs.end(), {a, b});
    data.labels.insert(data.labels.end(), {a > 0, b > 0 ? 0u : 1u});
  }
  data.heads = {{2, {}}, {2, {"plus", "minus"}}};
  StreamOptions options;
  options.epochs = 20;
  options.window = 50;
  LearningOptions learning;
  learning.loss = Loss::multi_head_cross_entropy;
  learning.heads = {2, 2};
  mesh::Mesh mesh = *mesh::Mesh::build(chain_of("2", R"({"type": "dense", "out": 4})"), {});
  auto learner = *Learner::build(mesh, learning);
  SampleStream stream = *SampleStream::build(*learner, data, options);
  ASSERT_TRUE(stream.advance(stream.total()));
  EXPECT_EQ(stream.progress().prequential_accuracy, 1.0);
  const Evaluation measured = *stream.measure_held_out();
  EXPECT_EQ(measured.accuracy(), 1.0);
  ASSERT_EQ(measured.heads().size(), 2u);
  EXPECT_EQ(measured.heads()[1].samples(), stream.held_out_size());
  ASSERT_TRUE(stream.load_cursor(stream.save_cursor()));
  options.drift = Drift::labels;
  EXPECT_NE(SampleStream::build(*learner, data, options).error().text().find("stream.drift"), std::string::npos);
  options.drift = Drift::none;
  options.stratified = true;
  EXPECT_NE(SampleStream::build(*learner, data, options).error().text().find("stream.stratified"), std::string::npos);
}

// One head has its classes among the heads; the map of labels that a drift turns had none.
TEST(SampleStream, TurnsTheLabelsOfASingleHead) {
  Dataset data;
  data.features = 1;
  for (int i = 0; i < 20; ++i, ++data.size) {
    data.inputs.push_back(i % 2 ? 1.0f : -1.0f);
    data.labels.push_back(static_cast<std::uint32_t>(i % 2));
  }
  data.heads = {{2, {}}};
  LearningOptions learning;
  learning.loss = Loss::multi_head_cross_entropy;
  learning.heads = {2};
  mesh::Mesh mesh = *mesh::Mesh::build(chain_of("1", R"({"type": "dense", "out": 2})"), {});
  auto learner = *Learner::build(mesh, learning);
  StreamOptions options;
  options.held_out = 0;
  options.epochs = 2;
  options.drift = Drift::labels;
  SampleStream stream = *SampleStream::build(*learner, data, options);
  std::vector<bool> are_turned;
  stream.go_through({[&](std::span<const mesh::RunInput> inputs, std::span<const Target> targets, std::uint64_t n) {
                       for (std::uint64_t i = 0; i < n; ++i)
                         are_turned.push_back((inputs[0].values[i] > 0) != (targets[0].labels[i] == 1));
                       return Status();
                     },
                     [] { return Status(); }});
  ASSERT_TRUE(stream.advance(stream.total()));
  std::vector<bool> expected(20, false);
  expected.insert(expected.end(), 20, true);
  EXPECT_EQ(are_turned, expected);
}

// The bounds are those of the issue (means of five seeds after twenty passes); here two seeds, so that a slow machine
// does not wait, and bounds two points lower, the spread of single seeds.
class Learns : public ::testing::TestWithParam<std::tuple<Rule, Schedule, double>> {};
TEST_P(Learns, Digits) {
  const auto [rule, schedule, bound] = GetParam();
  double mean = 0;
  for (std::uint64_t seed : {0, 1}) {
    StreamOptions options;
    options.epochs = 20;
    options.seed = seed;
    StreamRun run = make_run(rule, schedule, options);
    ASSERT_TRUE(run.stream->advance(run.stream->total()));
    ASSERT_TRUE(run.stream->finish());
    mean += *run.stream->held_out_accuracy() / 2;
  }
  EXPECT_GE(mean, bound);
}
INSTANTIATE_TEST_SUITE_P(Rules, Learns,
                         ::testing::Values(std::tuple(Rule::backprop, Schedule::settle, 0.95),
                                           std::tuple(Rule::backprop, Schedule::pipelined, 0.95),
                                           std::tuple(Rule::dfa, Schedule::settle, 0.95),
                                           std::tuple(Rule::fw_dtp, Schedule::settle, 0.94),
                                           std::tuple(Rule::fw_dtp, Schedule::pipelined, 0.935)));

TEST(SampleStream, RecoversFromAShiftAndSaysSo) {
  for (const Drift drift : {Drift::labels, Drift::pixels}) {
    StreamOptions options;
    options.epochs = 8;
    options.drift = drift;
    StreamRun run = make_run(Rule::fw_dtp, Schedule::pipelined, options);
    const std::uint64_t at = run.stream->total() / 2;
    ASSERT_TRUE(run.stream->advance(at + 100));
    const double lowest_accuracy = run.stream->progress().prequential_accuracy;
    ASSERT_TRUE(run.stream->advance(run.stream->total()));
    ASSERT_TRUE(run.stream->finish());
    const StreamProgress end = run.stream->progress();
    ASSERT_TRUE(end.before_drift);
    EXPECT_GT(*end.before_drift, 0.9);
    EXPECT_LT(lowest_accuracy, *end.before_drift - 0.2) << name(drift);
    ASSERT_TRUE(end.recovery_samples) << name(drift);
    EXPECT_LT(*end.recovery_samples, run.stream->total() - at);
  }
}

}  // namespace
}  // namespace weft::learning::sample_stream_test
