// SPDX-License-Identifier: Apache-2.0
// A learner's scores under a detector of drift: it sees a change of the task, is part of hash, snapshot and file, and
// of the same bits on every machine shape.

#include "learning/drift/drift_watch.hpp"

#include "learning/learner_snapshot.hpp"

#include "mesh/persistence/snapshot.hpp"

#include "kernels/isa.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <string>
#include <vector>

namespace weft::learning::drift_watch_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

LearningOptions watched(DetectorKind kind, Schedule schedule = Schedule::settle) {
  LearningOptions options{.schedule = schedule};
  options.drift.detector.kind = kind;
  return options;
}

/// Digits, whose labels are others from sample `change` on.
struct Digits {
  explicit Digits(const LearningOptions& options, std::uint64_t change = 700, std::size_t threads = 1)
      : run(digits_network(1), options, shape(threads)), data(digits()), first_changed(change) {}

  void learn(std::uint64_t samples) {
    for (std::uint64_t s = 0; s < samples; ++s, ++seen) {
      const std::size_t row = seen % data.labels.size();
      const std::vector<float> x(data.inputs.begin() + static_cast<std::ptrdiff_t>(row * data.features),
                                 data.inputs.begin() + static_cast<std::ptrdiff_t>((row + 1) * data.features));
      const std::uint32_t label = (data.labels[row] + (seen >= first_changed ? 3 : 0)) % 10;
      run.train(x, {label});
    }
  }
  const DriftWatch& drift() const { return drift_of(std::as_const(*run.learner)); }

  LearningRun run;
  Dataset data;
  std::uint64_t first_changed, seen = 0;
};

TEST(DriftWatch, SeesAChangeOfTheTask) {
  for (const DetectorKind kind : {DetectorKind::adwin, DetectorKind::ddm, DetectorKind::hddm_w, DetectorKind::kswin})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      Digits digits(watched(kind, schedule));
      digits.learn(900);
      const auto seen = [&](std::uint64_t from, std::uint64_t to) {
        std::size_t changes = 0;
        for (const DriftEvent& event : digits.drift().events())
          changes += event.level == static_cast<std::uint64_t>(DriftLevel::change) && event.sample >= from &&
                     event.sample < to;
        return changes;
      };
      EXPECT_GE(seen(700, 800), 1u) << name(kind) << " " << name(schedule);
      EXPECT_EQ(digits.drift().scores(), digits.run.learner->scored());
      digits.run.learner->clear_scores();
      EXPECT_TRUE(digits.drift().events().empty());
    }
}

// Another detector, or none, leaves the learning as it is and shows in the hash.
TEST(DriftWatch, IsPartOfTheHashAndChangesNothingElse) {
  Digits plain(LearningOptions{}), adwin(watched(DetectorKind::adwin)), ddm(watched(DetectorKind::ddm));
  for (Digits* const each : {&plain, &adwin, &ddm}) each->learn(60);
  EXPECT_EQ(plain.run.weights(), adwin.run.weights());
  EXPECT_EQ(plain.run.weights(), ddm.run.weights());
  EXPECT_NE(plain.run.hash(), adwin.run.hash());
  EXPECT_NE(plain.run.hash(), ddm.run.hash());
  EXPECT_NE(adwin.run.hash(), ddm.run.hash());
}

TEST(DriftWatch, GoesBackWithASnapshotAndOnFromAFile) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    const LearningOptions options = watched(DetectorKind::adwin, schedule);
    Digits digits(options);
    digits.learn(717);
    const auto events = digits.drift().events().size();
    mesh::Snapshot before;
    digits.run.mesh->take_snapshot(before);
    const ByteBuffer file = digits.run.file();
    digits.learn(100);
    const std::string after = digits.run.hash();
    EXPECT_GT(digits.drift().events().size(), events);

    must(digits.run.mesh->restore_snapshot(before));
    digits.seen = 717;
    EXPECT_EQ(digits.drift().events().size(), events);
    digits.learn(100);
    EXPECT_EQ(digits.run.hash(), after);

    Digits other(options);
    other.run.learner.reset();  // before its mesh
    other.run = LearningRun(file, options);
    other.seen = 717;
    other.learn(100);
    EXPECT_EQ(other.run.hash(), after);
    EXPECT_EQ(other.drift().changes(), digits.drift().changes());
  }
}

TEST(DriftWatch, RefusesAFileOfAnotherDetector) {
  Digits digits(watched(DetectorKind::hddm_a));
  digits.learn(5);
  const ByteBuffer bytes = digits.run.file();
  const auto load = [&](DetectorKind kind) {
    const auto file = must(formats::decode_entity(bytes, "file"));
    LearningRun run(digits_network(1), watched(kind));
    return restore_learner(*run.learner, file);
  };
  EXPECT_TRUE(load(DetectorKind::hddm_a));
  EXPECT_FALSE(load(DetectorKind::ddm));  // as many numbers
  EXPECT_FALSE(load(DetectorKind::none));
}

TEST(DriftWatch, HasTheSameBitsOnEveryMachineShape) {
  const auto told = [](std::size_t threads, Schedule schedule) {
    Digits digits(watched(DetectorKind::adwin, schedule), 200, threads);
    digits.learn(300);
    std::string text = digits.run.hash();
    for (const DriftEvent& event : digits.drift().events()) text += " " + std::to_string(event.sample);
    return text;
  };
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    const std::string alone = told(1, schedule);
    EXPECT_NE(alone.find(' '), std::string::npos);
    for (const kernels::Isa isa : kernels::available_isas()) {
      const ForIsa scope(isa);
      for (const std::size_t threads : {1, 2, 7}) EXPECT_EQ(told(threads, schedule), alone) << name(isa) << threads;
    }
  }
}

TEST(DriftWatch, WantsARateThatHalvesUntilItIsOne) {
  DriftOptions options;
  options.detector = {.kind = DetectorKind::ddm, .warm_up = 5};
  options.rate_boost = 4;
  options.boost_samples = 3;
  DriftWatch watch(options, 0);
  const auto add = [&](bool hit) { watch.add(Score{.prediction = hit ? 1u : 0u, .label = 1}); };
  for (int i = 0; i < 6; ++i) add(true);
  EXPECT_FALSE(watch.due().is_due());
  add(false);
  ASSERT_EQ(watch.changes(), 1u);  // without an error so far, one is beyond any deviation
  EXPECT_EQ(watch.due().rate_factor, 4.0f);
  watch.reacted();
  EXPECT_FALSE(watch.due().is_due());
  for (int i = 0; i < 2; ++i) add(true);
  EXPECT_FALSE(watch.due().is_due());
  add(true);
  EXPECT_EQ(watch.due().rate_factor, 0.5f);
  watch.reacted();
  for (int i = 0; i < 3; ++i) add(true);
  EXPECT_EQ(watch.due().rate_factor, 0.5f);
  watch.reacted();
  for (int i = 0; i < 20; ++i) add(true);
  EXPECT_FALSE(watch.due().is_due());
}

}  // namespace
}  // namespace weft::learning::drift_watch_test
