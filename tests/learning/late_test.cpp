// SPDX-License-Identifier: Apache-2.0
// Targets that come after the answer, under every rule: what they teach, against learn(); that nothing is lost; and the
// same bits everywhere.

#include "learning/learner_snapshot.hpp"

#include "mesh/persistence/snapshot.hpp"

#include "kernels/isa.hpp"

#include <gtest/gtest.h>

#include "late_script.hpp"
#include <string>

namespace weft::learning::late_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

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
    if (options.schedule == Schedule::settle) {
      ASSERT_EQ(taught.hash(), learned.hash()) << "sample " << s;
    }
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

}  // namespace
}  // namespace weft::learning::late_test
