// SPDX-License-Identifier: Apache-2.0
// A program of its own: it replaces operator new.

// A mesh that learns goes back in memory and is copied while it learns on: rule, optimiser and what is under way too.

#include "mesh/persistence/snapshot.hpp"

#include "learning/learner_snapshot.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/persistence/checkpoint_snapshot.hpp"

#include "../allocations.hpp"
#include "networks.hpp"
#include <array>
#include <list>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace weft::learning::snapshot_test {
namespace {

using namespace mesh::testing_support;
using namespace test;
using weft::testing_support::allocations_during;

constexpr std::uint64_t kSamples = 120;

/// A learner with its mesh and its samples.
struct SavedRun : LearningRun {
  explicit SavedRun(const LearningOptions& options, std::size_t threads = 2)
      : LearningRun(mixed_network(3), options, shape(threads, 2)), data(mixed_network(3), options, kSamples, 2, 5) {}
  void learn(std::uint64_t first, std::uint64_t count) { data.train(*learner, first, count); }
  std::vector<std::byte> bytes() const {
    const ByteBuffer all = file();
    return {all.begin(), all.end()};
  }
  Samples data;
};

LearningOptions options_of(Rule rule, Schedule schedule) {
  LearningOptions options;
  options.rule = rule;
  options.schedule = schedule;
  options.optimizer.kind = rule == Rule::chain ? OptimizerKind::adamw : OptimizerKind::momentum;
  options.horizon = rule == Rule::backprop ? 7 : 0;
  return options;
}

template <class Check>
void each_rule(Check&& check) {
  for (const Rule rule : test::all_rules())
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      SCOPED_TRACE(std::string(name(rule)) + " " + std::string(name(schedule)));
      check(options_of(rule, schedule));
    }
}

void morph(mesh::Mesh& mesh, Dtype dtype) {
  post(mesh, {0, 0, 1, 0}, {.kind = mesh::CommandKind::morph, .encoding = Encoding(dtype)});
}

TEST(SnapshotsOfLearning, GoesBackToTheSameBitsScoresAndFile) {
  each_rule([](const LearningOptions& options) {
    SavedRun run(options);
    run.learn(0, 37);
    run.learner->clear_scores();
    run.learn(37, 4);  // scores wait
    mesh::Snapshot saved;
    run.mesh->take_snapshot(saved);
    EXPECT_TRUE(saved.holds_weights());
    const std::string before = run.told();
    const auto file = run.bytes();
    std::vector<std::string> first;
    for (int again = 0; again < 3; ++again) {
      std::vector<std::string> now;
      for (std::uint64_t s = 41; s < 90; s += 7) {
        run.learn(s, 7);
        now.push_back(run.told());
      }
      if (again == 0) first = now;
      EXPECT_EQ(now, first);
      // Changes on the way do not matter.
      if (again == 1) morph(*run.mesh, Dtype::ternary);
      if (again == 1) run.learn(90, 9);
      must(run.mesh->restore_snapshot(saved));
      EXPECT_EQ(run.told(), before);
      EXPECT_EQ(run.bytes(), file) << "the checkpoint, byte for byte";
      // Again with other samples in between.
      run.learn(100, 11);
      must(run.mesh->restore_snapshot(saved));
    }
  });
}

TEST(SnapshotsOfLearning, WithoutWeightsLeavesThemAndTheOptimiser) {
  SavedRun run(options_of(Rule::backprop, Schedule::pipelined));
  run.learn(0, 37);
  mesh::Snapshot saved;
  run.mesh->take_snapshot(saved, mesh::SnapshotWeights::never);
  run.learn(37, 20);
  const auto weights = run.weights();
  const std::uint64_t updates = run.learner->optimizer().updates()[3];
  must(run.mesh->restore_snapshot(saved));
  EXPECT_EQ(run.learner->samples(), 37u);
  EXPECT_EQ(run.weights(), weights);
  EXPECT_EQ(run.learner->optimizer().updates()[3], updates);
  EXPECT_GT(updates, 0u);
}

TEST(SnapshotsOfLearning, OfAnotherRuleIsRefusedAndChangesNothing) {
  SavedRun run(options_of(Rule::backprop, Schedule::pipelined));
  run.learn(0, 20);
  mesh::Snapshot saved, bare;
  run.mesh->take_snapshot(saved);
  const std::string before = run.told();
  {
    auto plain = must(mesh::Mesh::build(mixed_network(3), {.threads = 2, .sessions = 2, .grain_bytes = 0}));
    plain.take_snapshot(bare, mesh::SnapshotWeights::always);
    expect_error(plain.restore_snapshot(saved), Errc::shape_mismatch, {"that learns", "without a learning rule"});
  }
  expect_error(run.mesh->restore_snapshot(bare), Errc::shape_mismatch, {"without a learning rule", "that learns"});
  // As deep a history and as large arrays, another optimiser.
  LearningOptions others = options_of(Rule::backprop, Schedule::pipelined);
  others.optimizer.kind = OptimizerKind::sgd;
  SavedRun other(others);
  mesh::Snapshot sgd;
  other.mesh->take_snapshot(sgd);
  expect_error(run.mesh->restore_snapshot(sgd), Errc::shape_mismatch, {"snapshot", "learning rule", "optimizer"});
  EXPECT_EQ(run.told(), before);
}

TEST(SnapshotsOfLearning, AllocatesNothingAfterTheFirst) {
  if (!WEFT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer owns the allocator";
  each_rule([](const LearningOptions& options) {
    SavedRun run(options, 1);  // other threads come to rest when they like, and may allocate then
    run.learn(0, 37);
    run.learner->clear_scores();
    std::array<mesh::Snapshot, 2> ring;
    mesh::CheckpointSnapshot snapshot;
    LearnerSnapshot blobs;
    for (mesh::Snapshot& saved : ring) run.mesh->take_snapshot(saved);
    must(mesh::take_checkpoint_snapshot(*run.mesh, true, snapshot));
    blobs.take(*run.learner);
    for (std::uint64_t s = 37; s < 60; s += 5) {
      mesh::Snapshot& saved = ring[s % 2];
      run.learner->clear_scores();
      EXPECT_EQ(allocations_during([&] { run.mesh->take_snapshot(saved); }), 0);
      run.learn(s, 5);
      EXPECT_EQ(allocations_during([&] {
                  must(mesh::take_checkpoint_snapshot(*run.mesh, true, snapshot));
                  blobs.take(*run.learner);
                }),
                0);
      EXPECT_EQ(allocations_during([&] { must(run.mesh->restore_snapshot(saved)); }), 0);
    }
  });
}

TEST(SnapshotsOfLearning, IsTheFileOfThatMomentWhileTheMeshLearnsOn) {
  each_rule([](const LearningOptions& options) {
    SavedRun run(options);
    mesh::CheckpointSnapshot snapshot;
    LearnerSnapshot blobs;
    for (std::uint64_t s = 0; s < 60; s += 20) {
      run.learn(s, 10);
      const auto now = run.bytes();
      const Hash128 hash = run.mesh->state_hash(1);
      must(mesh::take_checkpoint_snapshot(*run.mesh, true, snapshot));
      blobs.take(*run.learner);
      std::vector<std::byte> made;
      Hash128 made_hash;
      std::thread writer([&] {
        const auto bytes =
            must(encode_snapshot(snapshot, {.tensors = blobs.tensors(), .kept_ticks = blobs.kept_ticks()}));
        made.assign(bytes.begin(), bytes.end());
        made_hash = mesh::state_hash(snapshot.view(), 1,
                                     [&](mesh::NodeId node, StateHasher& hasher) { blobs.hash_layer(node, hasher); });
      });
      if (s == 20) morph(*run.mesh, Dtype::int8);
      run.learn(s + 10, 10);
      writer.join();
      EXPECT_EQ(made, now) << s;
      EXPECT_EQ(made_hash, hash) << s;
    }
  });
}

/// A rule's state of two fields, or of one field more.
struct SmallState : mesh::RuleState {
  explicit SmallState(bool has_more) : has_more_(has_more) {}
  std::vector<float> momentum{1, 2};
  std::uint64_t seen = 3;
  std::vector<float> more{4, 5, 6};

  void visit(OutArchive& archive) const override { fields(*this, archive); }
  void visit(InArchive& archive) override { fields(*this, archive); }
  void visit_layer(mesh::NodeId, OutArchive&) const override {}
  void visit_layer(mesh::NodeId, InArchive&) override {}

 private:
  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(Field{"momentum", Scope::optimizer}, std::span(self.momentum));
    archive(Field{"seen", Scope::messages}, self.seen);
    if (self.has_more_) archive(Field{"more", Scope::optimizer, 7}, std::span(self.more));
  }
  bool has_more_;
};

/// Tensors in memory as a file of them.
class TensorsInMemory final : public formats::TensorFile {
 public:
  explicit TensorsInMemory(const std::vector<formats::Tensor>& from) : tensors_(from) {
    for (formats::Tensor& tensor : tensors_) {
      auto& bytes = bytes_.emplace_back();
      if (tensor.produce)
        must(tensor.produce([&](ByteSpan part) -> Status {
          bytes.insert(bytes.end(), part.begin(), part.end());
          return {};
        }));
      else
        bytes.assign(tensor.bytes.begin(), tensor.bytes.end());
      tensor.bytes = bytes;
    }
  }
  const std::vector<formats::Tensor>& tensors() const noexcept override { return tensors_; }
  bool contains(std::string_view name) const noexcept override { return find(name).has_value(); }
  Result<formats::Tensor> describe(std::string_view name) const override { return find(name); }
  Result<formats::Tensor> find(std::string_view name) const override {
    for (const formats::Tensor& tensor : tensors_)
      if (tensor.name == name) return tensor;
    return fail(Errc::not_found, "no tensor " + std::string(name));
  }
  Status read(std::string_view name, std::size_t, const ByteSource::Sink& sink) const override {
    WEFT_TRY(const formats::Tensor tensor, find(name));
    return sink(tensor.bytes);
  }
  void forget(std::string_view) const noexcept override {}
  Status intact() const override { return {}; }

 private:
  std::vector<formats::Tensor> tensors_;
  std::list<std::vector<std::byte>> bytes_;
};

TEST(LearnersInFiles, HaveEveryFieldThatARuleVisits) {
  const SmallState plain(false), larger(true);
  const auto names = [](const std::vector<formats::Tensor>& tensors) {
    std::vector<std::string> all;
    for (const formats::Tensor& tensor : tensors) all.push_back(tensor.name);
    return all;
  };
  EXPECT_EQ(names(rule_tensors(plain)), (std::vector<std::string>{"learning/momentum", "learning/in_flight"}));
  EXPECT_EQ(names(rule_tensors(larger)),
            (std::vector<std::string>{"learning/momentum", "learning/more/7", "learning/in_flight"}));
  const TensorsInMemory file(rule_tensors(larger));
  SmallState back(true);
  back.momentum = {0, 0};
  back.more = {0, 0, 0};
  back.seen = 0;
  must(restore_rule(back, file));
  EXPECT_EQ(back.momentum, larger.momentum);
  EXPECT_EQ(back.more, larger.more);
  EXPECT_EQ(back.seen, larger.seen);
  expect_error(restore_rule(back, TensorsInMemory(rule_tensors(plain))), Errc::not_found, {"learning/more/7"});
}

}  // namespace
}  // namespace weft::learning::snapshot_test
