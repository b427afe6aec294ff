// SPDX-License-Identifier: Apache-2.0
// Changes of a task and alarms as events of a stream: at which samples, saved, and told once.

#include "learning/drift/stream_event.hpp"

#include "learning/sample_stream.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace weft::learning::stream_event_test {
namespace {

using namespace test;
using mesh::testing_support::must;

using Samples = std::vector<std::uint64_t>;
constexpr auto kChange = StreamEventKind::change, kWarning = StreamEventKind::warning, kAlarm = StreamEventKind::alarm;

Samples samples_of(const std::vector<StreamEvent>& events, StreamEventKind kind) {
  Samples samples;
  for (const StreamEvent& event : events)
    if (event.kind == kind) samples.push_back(event.sample);
  return samples;
}
Samples samples_of(const StreamEventLog& log, StreamEventKind kind) {
  return {log.samples(kind).begin(), log.samples(kind).end()};
}

TEST(StreamEventLog, TellsOnceAndKeepsTheLatest) {
  StreamEventLog log;
  EXPECT_TRUE(log.is_empty());
  log.add({kChange, 5, 0.5});
  log.add({kAlarm, 9, 0.25});
  const std::vector<StreamEvent> told = log.take();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[1].kind, kAlarm);
  EXPECT_EQ(told[1].sample, 9u);
  EXPECT_EQ(told[1].accuracy, 0.25);
  EXPECT_TRUE(log.take().empty());
  EXPECT_EQ(samples_of(log, kChange), Samples{5});
  for (std::uint64_t i = 0; i < StreamEventLog::kMost; ++i) log.add({kAlarm, 10 + i, 0});
  EXPECT_EQ(log.samples(kAlarm).size(), StreamEventLog::kMost);
  EXPECT_EQ(log.samples(kAlarm)[0], 10u);
  EXPECT_EQ(samples_of(log, kChange), Samples{5});
}

TEST(StreamEventLog, IsPutBackAsItWasSaved) {
  StreamEventLog log, loaded;
  log.add({kChange, 5, 0.5});
  log.add({kWarning, 7, 0.5});
  log.add({kChange, 11, 0.5});
  const Json saved = log.save();
  EXPECT_EQ(saved.dump(), R"({"change":[5,11],"warning":[7]})");
  loaded.add({kAlarm, 1, 0});
  must(loaded.load(JsonValue(saved, "events")));
  EXPECT_EQ(loaded.save().dump(), saved.dump());
  EXPECT_TRUE(loaded.take().empty());
  for (const char* const wrong : {R"({"change":[-1]})", R"({"change":3})", R"({"changes":[3]})", "[]"}) {
    const Json document = *parse_json(wrong, "events");
    EXPECT_FALSE(loaded.load(JsonValue(document, "events"))) << wrong;
  }
  EXPECT_EQ(loaded.save().dump(), saved.dump()) << "a list that is refused changes nothing";
}

/// Digits, learned by some learners.
struct Stream {
  std::unique_ptr<mesh::Mesh> mesh;
  std::unique_ptr<Learner> learner;
  std::unique_ptr<SampleStream> stream;

  Stream(const StreamOptions& options, const LearningOptions& learning) {
    mesh::MeshOptions shape;
    shape.sessions = learning.learners;
    mesh = std::make_unique<mesh::Mesh>(*mesh::Mesh::build(digits_network(options.seed), shape));
    learner = *Learner::build(*mesh, learning);
    build(options);
  }
  void build(const StreamOptions& options) {
    stream = std::make_unique<SampleStream>(*SampleStream::build(*learner, digits(), options));
  }
};

LearningOptions learning_of(Schedule schedule, std::size_t learners, DetectorKind detector = DetectorKind::none) {
  LearningOptions learning{.schedule = schedule};
  learning.learners = learners;
  learning.drift.detector.kind = detector;
  return learning;
}

TEST(StreamEvents, StandAtTheFirstSampleOfAChangedTask) {
  StreamOptions options;
  options.max_samples = 400;
  options.change_every = 150;
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined})
    for (const std::size_t learners : {1, 2}) {
      Stream run(options, learning_of(schedule, learners));
      must(run.stream->advance(400));
      must(run.stream->finish());
      const auto told = take_stream_events(*run.stream);
      EXPECT_EQ(samples_of(told, kChange), (Samples{150, 300})) << learners;
      EXPECT_EQ(told.size(), 2u);
      // Another stream of the same learner begins at 0 again.
      run.build(options);
      must(run.stream->advance(200));
      must(run.stream->finish());
      EXPECT_EQ(samples_of(take_stream_events(*run.stream), kChange), Samples{150});
    }
}

TEST(StreamEvents, OfTasksInTurnAndOfADrift) {
  StreamOptions options;
  options.max_samples = 400;
  options.drift = Drift::labels;
  Stream drifting(options, learning_of(Schedule::settle, 1));
  must(drifting.stream->advance(400));
  EXPECT_EQ(samples_of(take_stream_events(*drifting.stream), kChange), Samples{200});
  options = {};
  options.tasks.kind = TaskKind::permuted;
  options.tasks.scenario = Scenario::domain;
  options.tasks.count = 3;
  options.tasks.samples = 100;
  Stream in_turn(options, learning_of(Schedule::settle, 1));
  must(in_turn.stream->advance(300));
  EXPECT_EQ(samples_of(take_stream_events(*in_turn.stream), kChange), (Samples{100, 200}));
  ASSERT_EQ(in_turn.stream->adaptation().changes().size(), 2u);
  EXPECT_EQ(in_turn.stream->adaptation().changes()[1].at, 200u);
  EXPECT_TRUE(in_turn.stream->adaptation().changes()[1].is_declared);
}

TEST(StreamEvents, OfADetectorAreItsAlarms) {
  StreamOptions options;
  options.max_samples = 1200;
  options.drift = Drift::labels;
  for (const std::size_t learners : {1, 2}) {
    Stream run(options, learning_of(Schedule::pipelined, learners, DetectorKind::ddm));
    must(run.stream->advance(1200));
    must(run.stream->finish());
    Samples warnings, alarms;
    for (const DriftEvent& event : run.stream->take_drift_events())
      (event.level == static_cast<std::uint64_t>(DriftLevel::warning) ? warnings : alarms).push_back(event.sample);
    const auto told = take_stream_events(*run.stream);
    EXPECT_EQ(samples_of(told, kWarning), warnings);
    EXPECT_EQ(samples_of(told, kAlarm), alarms);
    EXPECT_EQ(samples_of(told, kChange), Samples{600});
    EXPECT_TRUE(std::any_of(alarms.begin(), alarms.end(), [](auto at) { return at >= 600 && at < 800; })) << learners;
  }
}

TEST(StreamEvents, GoOnFromTheCursor) {
  StreamOptions options;
  options.max_samples = 600;
  options.change_every = 100;
  Stream whole(options, learning_of(Schedule::settle, 1)), parts(options, learning_of(Schedule::settle, 1));
  must(whole.stream->advance(600));
  must(parts.stream->advance(256));
  const std::string cursor = parts.stream->save_cursor();
  EXPECT_EQ(samples_of(take_stream_events(*parts.stream), kChange), (Samples{100, 200}));
  parts.build(options);
  must(parts.stream->load_cursor(cursor));
  must(parts.stream->advance(600));
  EXPECT_EQ(samples_of(take_stream_events(*parts.stream), kChange), (Samples{300, 400, 500}));
  EXPECT_EQ(parts.stream->save_cursor(), whole.stream->save_cursor());
}

TEST(StreamEvents, AreThereWhereATaskCanChange) {
  StreamOptions stream;
  LearningOptions learning;
  EXPECT_FALSE(has_stream_events(stream, learning));
  learning.drift.detector.kind = DetectorKind::adwin;
  EXPECT_TRUE(has_stream_events(stream, learning));
  learning = {};
  stream.change_every = 5;
  EXPECT_TRUE(has_stream_events(stream, learning));
}

}  // namespace
}  // namespace weft::learning::stream_event_test
