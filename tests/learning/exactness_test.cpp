// SPDX-License-Identifier: Apache-2.0

// The promise: one result everywhere. The same training under every thread count, instruction set, number of sessions
// aboard, executor and step length, through a file and back in memory, ends in the same state, bit for bit.

#include "mesh/persistence/snapshot.hpp"

#include "kernels/isa.hpp"

#include <gtest/gtest.h>

#include "cases.hpp"
#include "tests/thorough.hpp"
#include <cmath>
#include <map>

namespace weft::learning::exactness_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

using mesh::ExecutorKind;

struct Setting {
  std::size_t threads, sessions;
  ExecutorKind executor;
  bool at_once;
};

std::string describe(const Setting& s) {
  return std::to_string(s.threads) + " threads, " + std::to_string(s.sessions) + " sessions, " +
         std::string(name(s.executor)) + (s.at_once ? ", at once" : ", one by one");
}

// Ten times slower under sanitizers: there the shapes that differ in memory and threads, one instruction set.
#ifdef WEFT_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

std::vector<kernels::Isa> isas() {
  auto all = kernels::available_isas();
  if (kSanitized) all.erase(all.begin(), all.end() - 1);
  return all;
}

/// All machine shapes, an eleventh of them in turn, or three.
std::vector<Setting> settings_of(const Case& row) {
  if (row.falls_to > 0) return {{2, 1, ExecutorKind::graph, true}};
  if (!row.is_whole || kSanitized) {
    return {{1, 5, ExecutorKind::deterministic, false},
            {2, 1, ExecutorKind::resident, true},
            {7, 5, ExecutorKind::graph, true}};
  }
  std::vector<Setting> settings;
  for (const std::size_t threads : {1, 2, 7})
    for (const std::size_t sessions : {1, 5})
      for (const auto executor : {ExecutorKind::resident, ExecutorKind::graph, ExecutorKind::deterministic})
        for (const bool at_once : {true, false})
          // One thread has no graph.
          if (threads > 1 || executor != ExecutorKind::graph)
            settings.push_back({threads, sessions, executor, at_once});
  return in_slice(settings, 11);
}

class Exactness : public ::testing::TestWithParam<Case> {
 protected:
  static Samples samples(std::size_t sessions) {
    const Case& row = GetParam();
    return {row.spec, row.options, row.samples, sessions, 11, row.falls_to > 0};
  }
  static LearningRun trained(const Setting& setting) {
    mesh::MeshOptions options = shape(setting.threads, setting.sessions + GetParam().options.replay.rows());
    options.executor = setting.executor;
    options.executor_seed = 7 * setting.threads;
    LearningRun run(GetParam().spec, GetParam().options, options);
    samples(setting.sessions).train(*run.learner, 0, GetParam().samples, setting.at_once);
    must(run.learner->drain());
    return run;
  }
};

TEST_P(Exactness, TrainingEndsInTheSameStateOnEveryMachineShape) {
  const LearningRun alone = trained({1, 1, ExecutorKind::resident, true});
  for (const kernels::Isa isa : isas()) {
    const ForIsa scope(isa);
    for (const Setting& setting : settings_of(GetParam()))
      EXPECT_EQ(trained(setting).hash(), alone.hash()) << name(isa) << ", " << describe(setting);
  }
  if (GetParam().ends_alone) {
    static std::map<std::string, std::string> ends;
    const auto other = ends.emplace(alone.hash(), GetParam().name);
    EXPECT_TRUE(other.second) << "the same weights as with " << other.first->second;
  }
  for (const auto& weights : alone.weights())
    for (const double weight : weights) ASSERT_TRUE(std::isfinite(weight));
  if (GetParam().falls_to == 0) return;
  double first = 0, last = 0;
  const auto scores = alone.learner->scores();
  for (std::size_t i = 0; i < 200; ++i) first += scores[i].loss, last += scores[scores.size() - 1 - i].loss;
  EXPECT_LT(last, GetParam().falls_to * first);
}

// Saved in the middle of a stream, put into a new process's mesh, and gone on with; and gone back to in memory.
TEST_P(Exactness, GoesOnFromAFileAndFromASnapshotToTheSameState) {
  const Samples data = samples(2);
  const std::uint64_t cut = data.count / 2 + 7, rest = data.count - cut;
  LearningRun unbroken(GetParam().spec, GetParam().options, shape(1, 2 + GetParam().options.replay.rows()));
  data.train(*unbroken.learner, 0, cut);
  const ByteBuffer bytes = unbroken.file();
  mesh::Snapshot saved;
  unbroken.mesh->take_snapshot(saved, mesh::SnapshotWeights::always);
  const std::string before = unbroken.told();
  data.train(*unbroken.learner, cut, rest);
  const std::string after = unbroken.told();

  LearningRun resumed(bytes, GetParam().options, shape(2));
  data.train(*resumed.learner, cut, rest);
  for (const std::size_t session : {0, 1}) EXPECT_EQ(resumed.hash(session), unbroken.hash(session));

  must(unbroken.mesh->restore_snapshot(saved));
  EXPECT_EQ(unbroken.told(), before);
  data.train(*unbroken.learner, cut, rest);
  EXPECT_EQ(unbroken.told(), after);
}

INSTANTIATE_TEST_SUITE_P(Of, Exactness, ::testing::ValuesIn(cases()),
                         [](const auto& row) { return name_of(row.param); });

TEST(State, HashSeesASingleWeight) {
  LearningRun run(digits_network(1), {});
  const std::string before = run.hash();
  float& weight = run.store().parameters()[2].data[5];
  weight = std::nextafter(weight, 1.0f);
  EXPECT_NE(run.hash(), before);
}

}  // namespace
}  // namespace weft::learning::exactness_test
