// SPDX-License-Identifier: Apache-2.0

#include "learning/learner.hpp"

#include "learning/learner_snapshot.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/persistence/entity_model.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <cmath>

namespace weft::learning::learner_test {
namespace {

TEST(Learner, RefusesWhatCannotBeLearned) {
  auto spec = test::digits_network(1);
  spec.outputs.clear();
  auto mesh = mesh::Mesh::build(spec, {});
  ASSERT_TRUE(mesh);
  EXPECT_EQ(Learner::build(*mesh, {}).error().code(), Errc::invalid_argument);

  auto whole = mesh::Mesh::build(test::digits_network(1), {});
  LearningOptions options;
  options.learners = 2;
  EXPECT_NE(Learner::build(*whole, options).error().text().find("2 of 1 sessions"), std::string::npos);
}

TEST(Learner, RefusesBadSamplesAndChangesNothing) {
  auto mesh = mesh::Mesh::build(test::digits_network(1), {});
  auto learner = *Learner::build(*mesh, {});
  const auto before = mesh->state_hash();
  std::vector<float> x(64, 0.5f);
  std::vector<std::uint32_t> label{3};
  const auto learn = [&](std::string_view port, std::string_view output) {
    const mesh::RunInput input{port, x};
    const Target target{output, label, {}};
    return learner->learn({&input, 1}, {&target, 1}, 1);
  };
  EXPECT_EQ(learn("nose", "digit").error().code(), Errc::unknown_name);
  EXPECT_EQ(learn("pixels", "letter").error().code(), Errc::unknown_name);
  label[0] = 10;
  EXPECT_EQ(learn("pixels", "digit").error().code(), Errc::out_of_range);
  label[0] = 3;
  x[7] = NAN;
  EXPECT_EQ(learn("pixels", "digit").error().code(), Errc::not_finite);
  x.pop_back();
  EXPECT_EQ(learn("pixels", "digit").error().code(), Errc::shape_mismatch);
  EXPECT_EQ(mesh->state_hash(), before);
}

TEST(Learner, AnUnlabelledSampleIsRunAndNotLearnedFrom) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    auto mesh = mesh::Mesh::build(test::digits_network(1), {});
    LearningOptions options;
    options.schedule = schedule;
    auto learner = *Learner::build(*mesh, options);
    const auto weights = mesh::MeshAccess::weights(*mesh).read(mesh::MeshAccess::weights(*mesh).parameters()[0]);
    const std::vector<float> x(64 * 20, 0.5f);
    const std::vector<std::uint32_t> labels(20, kNoLabel);
    const mesh::RunInput input{"pixels", x};
    const Target target{"digit", labels, {}};
    ASSERT_TRUE(learner->learn({&input, 1}, {&target, 1}, 20));
    EXPECT_GE(mesh->ticks(), 20u);
    EXPECT_EQ(mesh::MeshAccess::weights(*mesh).read(mesh::MeshAccess::weights(*mesh).parameters()[0]), weights);
  }
}

// Slots of scores are used again every few hundred samples; those without a label kept what had stood there.
TEST(Learner, ASampleWithoutALabelHasAScoreWithoutOne) {
  constexpr std::uint64_t kSamples = 1500;
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    auto mesh = mesh::Mesh::build(test::mixed_network(3), {});
    LearningOptions options;
    options.schedule = schedule;
    auto learner = *Learner::build(*mesh, options);
    test::Samples data(kSamples, 1, 5);
    for (std::uint64_t s = 0; s < kSamples; ++s)
      if (s % 5 != 2) data.left[s] = data.right[s] = kNoLabel;
    const mesh::RunInput inputs[] = {{"a", data.a}, {"b", data.b}};
    const Target targets[] = {{"left", data.left, {}}, {"right", data.right, {}}};
    ASSERT_TRUE(learner->learn(inputs, targets, kSamples));
    ASSERT_TRUE(learner->drain());
    ASSERT_EQ(learner->scores().size(), 2 * kSamples);
    for (std::uint64_t s = 0; s < kSamples; ++s)
      for (const bool is_right : {false, true}) {
        const Score& score = learner->scores()[2 * s + is_right];
        ASSERT_EQ(score.sample, s);
        // A mesh's first ticks lie too close to its start to be learned from.
        if (s < 20) continue;
        ASSERT_EQ(score.label, (is_right ? data.right : data.left)[s]) << s;
        ASSERT_EQ(score.loss != 0.0f, score.label != kNoLabel) << s;
      }
  }
}

// Saved in the middle of a stream, put into a new process's mesh, and gone on with: the same end.
TEST(Learner, ResumedFromAFileEndsInTheSameState) {
  constexpr std::uint64_t kSamples = 300, kCut = 137;
  for (const Rule rule : {Rule::backprop, Rule::gap, Rule::chain, Rule::fw_dtp, Rule::dfa})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      LearningOptions options;
      options.rule = rule;
      options.schedule = schedule;
      options.optimizer.kind = rule == Rule::chain ? OptimizerKind::adamw : OptimizerKind::momentum;
      options.horizon = rule == Rule::backprop ? 7 : 0;
      const test::Samples data(kSamples, 2, 5);
      const auto learn = [&](Learner& learner, std::uint64_t first, std::uint64_t count) {
        const mesh::RunInput inputs[] = {{"a", std::span(data.a).subspan(first * 14, count * 14)},
                                         {"b", std::span(data.b).subspan(first * 10, count * 10)}};
        const Target targets[] = {{"left", std::span(data.left).subspan(first, count), {}},
                                  {"right", std::span(data.right).subspan(first, count), {}}};
        const Status learned = learner.learn(inputs, targets, count);
        ASSERT_TRUE(learned) << learned.error().text();
      };
      mesh::MeshOptions shape;
      shape.sessions = 2;
      auto unbroken = mesh::Mesh::build(test::mixed_network(3), shape);
      auto learner = *Learner::build(*unbroken, options);
      learn(*learner, 0, kSamples);

      ByteBuffer bytes;
      {
        auto first = mesh::Mesh::build(test::mixed_network(3), shape);
        auto first_learner = *Learner::build(*first, options);
        learn(*first_learner, 0, kCut);
        const LearnerSnapshot blobs(*first_learner);
        bytes = *mesh::encode_mesh(*first, true, {blobs.tensors(), "{}"});
      }
      const auto file = formats::decode_entity(std::move(bytes));
      ASSERT_TRUE(file) << file.error().text();
      shape.threads = 2;
      shape.grain_bytes = 0;
      auto second = mesh::Mesh::build(*mesh::network_of(*file), shape);
      auto second_learner = *Learner::build(*second, options);
      ASSERT_TRUE(mesh::restore_weights(*second, *file));
      const Status live = mesh::restore_live(*second, *file);
      ASSERT_TRUE(live) << live.error().text();
      const Status restored = restore_learner(*second_learner, *file);
      ASSERT_TRUE(restored) << restored.error().text();
      learn(*second_learner, kCut, kSamples - kCut);
      for (std::size_t session : {0, 1})
        EXPECT_EQ(second->state_hash(session), unbroken->state_hash(session))
            << name(rule) << " " << name(schedule) << " session " << session;
    }
}

TEST(Learner, MeanSquaredErrorLearnsAFunction) {
  auto mesh = mesh::Mesh::build(mesh::NetworkBuilder("sine", GridShape{1, 1, 2, 1})
                                    .input("x", 1)
                                    .dense({0, 0, 0, 0}, 32, kernels::Activation::tanh)
                                    .dense({0, 0, 1, 0}, 1)
                                    .output("y", {0, 0, 1, 0})
                                    .seed(2)
                                    .spec(),
                                {});
  LearningOptions options;
  options.loss = Loss::mse;
  options.optimizer.kind = OptimizerKind::adamw;
  options.optimizer.lr = 0.01f;
  auto learner = *Learner::build(*mesh, options);
  RandomStream random(4, 0, RandomPurpose::test);
  double first = 0, last = 0;
  constexpr int kSamples = 6000;
  for (int s = 0; s < kSamples; ++s) {
    const std::vector<float> x{4.0f * random.next_uniform() - 2.0f};
    const std::vector<float> y{static_cast<float>(std::sin(2.0 * x[0]))};
    const mesh::RunInput input{"x", x};
    const Target target{"y", {}, y};
    ASSERT_TRUE(learner->learn({&input, 1}, {&target, 1}, 1));
    (s < 200               ? first
     : s >= kSamples - 200 ? last
                           : first) += s < 200 || s >= kSamples - 200 ? learner->scores()[0].loss : 0;
    learner->clear_scores();
  }
  EXPECT_LT(last, first / 50);
}

TEST(Learner, AnUpdateThatIsNotFiniteIsDroppedAndHaltsTheMesh) {
  auto mesh = mesh::Mesh::build(mesh::NetworkBuilder("line", GridShape{1, 1, 1, 1})
                                    .input("x", 2)
                                    .dense({0, 0, 0, 0}, 1)
                                    .option("init", std::string("zero"))
                                    .output("y", {0, 0, 0, 0})
                                    .spec(),
                                {});
  LearningOptions options;
  options.loss = Loss::mse;
  auto learner = *Learner::build(*mesh, options);
  // Output 0 is finite; the gradient 2 (0 - 10) 3e38 is not.
  const std::vector<float> x{3e38f, 1.0f}, y{10.0f};
  const mesh::RunInput input{"x", x};
  const Target target{"y", {}, y};
  const Status learned = learner->learn({&input, 1}, {&target, 1}, 1);
  ASSERT_FALSE(learned);
  EXPECT_EQ(learned.error().code(), Errc::halted);
  EXPECT_NE(learned.error().text().find("[0,0,0,0]"), std::string::npos) << learned.error().text();
  EXPECT_NE(learned.error().text().find("update_not_finite"), std::string::npos) << learned.error().text();
  for (const auto& parameter : mesh::MeshAccess::weights(*mesh).parameters())
    for (float v : mesh::MeshAccess::weights(*mesh).read(parameter)) EXPECT_EQ(v, 0.0f);
}

}  // namespace
}  // namespace weft::learning::learner_test
