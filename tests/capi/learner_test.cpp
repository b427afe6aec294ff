// SPDX-License-Identifier: Apache-2.0
// Learning through C: the same bits as in C++.

#include "learning/learner.hpp"

#include "learning/layer_monitor.hpp"
#include "learning/one_sample.hpp"

#include "mesh/mesh.hpp"
#include "mesh/network/network_json.hpp"

#include "calls.hpp"
#include <array>
#include <cmath>
#include <span>

namespace weft::capi::learner_test {
namespace {

using namespace testing_support;

constexpr std::array<float, 8> kBits{0, 0, 0, 1, 1, 0, 1, 1};
constexpr std::array<std::uint32_t, 4> kLabels{0, 1, 1, 0};
constexpr const char* kLate = R"({"optimizer": {"type": "sgd", "lr": 0.1}, "late": "meet", "patience": 2})";

struct Native {
  explicit Native(const char* section = R"({"optimizer": {"type": "sgd", "lr": 0.1}})")
      : mesh(mesh::Mesh::build(mesh::read_network(kXor, "test").value(), {.threads = 1}).value()),
        learner(learning::Learner::build(mesh, learning::read_learning(section).value()).value()) {}
  mesh::Mesh mesh;
  std::unique_ptr<learning::Learner> learner;
};

weft_target target_of(const std::uint32_t* labels, std::size_t count) {
  weft_target target{};
  target.size = sizeof target;
  target.output = "answer";
  target.labels = labels;
  target.label_count = count;
  return target;
}

TEST(CLearner, LearnsTheBitsOfCpp) {
  Native native;
  weft_mesh* const mesh = make_mesh();
  weft_learner* learner = nullptr;
  WEFT_ASSERT_OK(weft_learner_build(mesh, nullptr, &learner));
  const weft_input input{"bits", kBits.data(), kBits.size()};
  const weft_target target = target_of(kLabels.data(), 4);
  const mesh::RunInput native_input{"bits", kBits};
  const learning::Target native_target{.output = "answer", .labels = kLabels};
  for (int i = 0; i < 25; ++i) {
    WEFT_ASSERT_OK(weft_learner_learn(learner, &input, 1, &target, 1, 4));
    ASSERT_TRUE(native.learner->learn({&native_input, 1}, {&native_target, 1}, 4));
  }
  EXPECT_EQ(hash_of(mesh), to_string(native.mesh.state_hash()));

  std::size_t needed = 0;
  WEFT_ASSERT_OK(weft_learner_scores(learner, nullptr, 0, &needed));
  ASSERT_EQ(needed, native.learner->scores().size());
  std::vector<weft_score> scores(needed);
  WEFT_ASSERT_OK(weft_learner_scores(learner, scores.data(), scores.size(), nullptr));
  for (std::size_t i = 0; i < needed; ++i) {
    const learning::Score& wanted = native.learner->scores()[i];
    EXPECT_EQ(scores[i].sample, wanted.sample);
    EXPECT_EQ(scores[i].prediction, wanted.prediction);
    EXPECT_EQ(scores[i].label, wanted.label);
    EXPECT_EQ(scores[i].loss, wanted.loss);
  }
  WEFT_ASSERT_OK(weft_learner_clear_scores(learner));
  WEFT_ASSERT_OK(weft_learner_scores(learner, nullptr, 0, &needed));
  EXPECT_EQ(needed, 0u);

  std::array<float, 2> one{}, wanted{}, rows{};
  WEFT_ASSERT_OK(weft_learner_predict_one(learner, kBits.data(), 2, one.data(), 2));
  ASSERT_TRUE(learning::predict_one(*native.learner, std::span(kBits).first(2), wanted));
  EXPECT_EQ(one, wanted);
  const weft_input first{"bits", kBits.data(), 2};
  const weft_output answer{"answer", rows.data(), 2};
  WEFT_ASSERT_OK(weft_learner_predict(learner, &first, 1, 1, &answer, 1, 0));
  EXPECT_EQ(rows, wanted);
  WEFT_EXPECT_OK(weft_learner_predict(learner, &first, 1, 1, &answer, 1, WEFT_NO_SESSION));
  WEFT_EXPECT_FAILS(weft_learner_predict(learner, &first, 1, 1, &answer, 1, 5), WEFT_OUT_OF_RANGE, "session 5");

  WEFT_ASSERT_OK(weft_learner_learn_one(learner, &kBits[2], 2, 1));
  ASSERT_TRUE(learning::learn_one(*native.learner, std::span(kBits).subspan(2, 2), 1u));
  EXPECT_EQ(hash_of(mesh), to_string(native.mesh.state_hash()));
  WEFT_EXPECT_FAILS(weft_learner_learn_one(learner, kBits.data(), 2, 9), WEFT_OUT_OF_RANGE, "9");
  WEFT_EXPECT_FAILS(weft_learner_learn_one(learner, kBits.data(), 3, 1), WEFT_SHAPE_MISMATCH, "3");
  weft_learner_counts counts{};
  WEFT_EXPECT_FAILS(weft_learner_count(learner, &counts), WEFT_INVALID_ARGUMENT, "size");
  counts.size = sizeof counts;
  WEFT_ASSERT_OK(weft_learner_count(learner, &counts));
  EXPECT_EQ(counts.samples, 101u);
  EXPECT_EQ(counts.hold, native.learner->hold());
  WEFT_EXPECT_OK(weft_learner_destroy(learner));
  WEFT_EXPECT_OK(weft_mesh_tick(mesh, 1));  // its own again
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
}

TEST(CLearner, ScoresSamplesLikeCpp) {
  const auto both = [](const char* section, const auto& work) {
    Native native(section);
    weft_mesh* const mesh = make_mesh();
    weft_learner* learner = nullptr;
    WEFT_ASSERT_OK(weft_learner_build(mesh, section, &learner));
    work(native, learner);
    EXPECT_EQ(hash_of(mesh), to_string(native.mesh.state_hash()));
    WEFT_EXPECT_OK(weft_learner_destroy(learner));
    WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
  };
  const std::span<const float> bits(kBits);
  float score = -1;
  both(R"({"optimizer": {"type": "sgd", "lr": 0.1}, "anomaly": {"score": "deviation"}})",
       [&](Native& native, weft_learner* learner) {
         for (std::size_t i = 0; i < 20; ++i) {
           const std::size_t at = i % 4;
           WEFT_ASSERT_OK(weft_learner_score_one(learner, &kBits[2 * at], 2, kLabels[at], &score));
           EXPECT_EQ(score, learning::score_one(*native.learner, bits.subspan(2 * at, 2), kLabels[at]).value());
           WEFT_ASSERT_OK(weft_learner_learn_one(learner, &kBits[2 * at], 2, kLabels[at]));
           ASSERT_TRUE(learning::learn_one(*native.learner, bits.subspan(2 * at, 2), kLabels[at]));
         }
         EXPECT_NE(score, 0.0f);
         std::array<weft_score, 20> scores{};
         WEFT_ASSERT_OK(weft_learner_scores(learner, scores.data(), scores.size(), nullptr));
         for (std::size_t i = 0; i < scores.size(); ++i)
           EXPECT_EQ(scores[i].anomaly, native.learner->scores()[i].anomaly) << i;
         EXPECT_NE(scores[19].anomaly, 0.0f);
         WEFT_EXPECT_FAILS(weft_learner_score_one(learner, kBits.data(), 2, 2, &score), WEFT_SHAPE_MISMATCH, "below 2");
         WEFT_EXPECT_FAILS(weft_learner_score_one(learner, kBits.data(), 3, 1, &score), WEFT_SHAPE_MISMATCH, "3");
         WEFT_EXPECT_FAILS(weft_learner_score_one(learner, kBits.data(), 2, 1, nullptr), WEFT_INVALID_ARGUMENT,
                           "out_score: NULL");
         WEFT_EXPECT_FAILS(weft_learner_score_one_values(learner, kBits.data(), 2, kBits.data(), 2, &score),
                           WEFT_SHAPE_MISMATCH, "label");
       });
  constexpr float kValues[] = {0.25f, -1.5f}, kNone[] = {0, NAN};
  both(R"({"loss": "mse", "anomaly": {"score": "loss"}})", [&](Native& native, weft_learner* learner) {
    WEFT_ASSERT_OK(weft_learner_score_one_values(learner, kBits.data(), 2, kValues, 2, &score));
    EXPECT_EQ(score, learning::score_one(*native.learner, bits.first(2), kValues).value());
    EXPECT_GT(score, 0.0f);
    WEFT_EXPECT_FAILS(weft_learner_score_one_values(learner, kBits.data(), 2, kNone, 2, &score), WEFT_NOT_FINITE,
                      "value 1 is nan");
    WEFT_EXPECT_FAILS(weft_learner_score_one_values(learner, kBits.data(), 2, nullptr, 2, &score),
                      WEFT_INVALID_ARGUMENT, "values: NULL");
  });
  both(R"({"optimizer": {"type": "sgd", "lr": 0.1}})", [&](Native&, weft_learner* learner) {
    WEFT_EXPECT_FAILS(weft_learner_score_one(learner, kBits.data(), 2, 1, &score), WEFT_INVALID_ARGUMENT, "anomaly");
  });
}

TEST(CLearner, MeasuresLayers) {
  constexpr const char* kTargets = R"({"rule": "fw_dtp", "schedule": "pipelined", "weights": true})";
  Native native(kTargets);
  learning::LayerMonitor monitor(*native.learner);
  monitor.measure(true);
  weft_mesh* const mesh = make_mesh();
  weft_learner* learner = nullptr;
  WEFT_ASSERT_OK(weft_learner_build(mesh, kTargets, &learner));
  std::size_t needed = 99;
  WEFT_ASSERT_OK(weft_learner_diagnostics(learner, nullptr, 0, &needed));
  EXPECT_EQ(needed, 0u) << "nobody measures yet";
  WEFT_ASSERT_OK(weft_learner_measure(learner, 1));
  const weft_input input{"bits", kBits.data(), kBits.size()};
  const std::array<float, 4> weights{1, 0.5f, 2, 0};
  weft_target target = target_of(kLabels.data(), 4);
  target.weights = weights.data();
  target.weight_count = weights.size();
  const mesh::RunInput native_input{"bits", kBits};
  const learning::Target native_target{.output = "answer", .labels = kLabels, .weights = weights};
  for (int i = 0; i < 5; ++i) {
    WEFT_ASSERT_OK(weft_learner_learn(learner, &input, 1, &target, 1, 4));
    ASSERT_TRUE(native.learner->learn({&native_input, 1}, {&native_target, 1}, 4));
  }
  EXPECT_EQ(hash_of(mesh), to_string(native.mesh.state_hash()));
  const auto wanted = monitor.read();
  ASSERT_GT(wanted.size(), 1u);
  WEFT_ASSERT_OK(weft_learner_diagnostics(learner, nullptr, 0, &needed));
  ASSERT_EQ(needed, wanted.size());
  std::vector<weft_layer_diagnostics> layers(needed);
  WEFT_EXPECT_FAILS(weft_learner_diagnostics(learner, layers.data(), needed, nullptr), WEFT_INVALID_ARGUMENT, "size");
  layers[0].size = sizeof layers[0];
  WEFT_EXPECT_FAILS(weft_learner_diagnostics(learner, layers.data(), needed - 1, &needed), WEFT_TOO_SMALL, "");
  WEFT_ASSERT_OK(weft_learner_diagnostics(learner, layers.data(), needed, nullptr));
  for (std::size_t i = 0; i < needed; ++i) {
    EXPECT_EQ(layers[i].size, sizeof layers[i]);
    EXPECT_EQ((Coord{layers[i].at.z, layers[i].at.y, layers[i].at.x, layers[i].at.layer}), wanted[i].at);
    EXPECT_EQ(layers[i].error, wanted[i].error);
    EXPECT_EQ(layers[i].budget, wanted[i].budget.value_or(-1.0f));
    EXPECT_GE(layers[i].budget, 0.0f);
    EXPECT_EQ(layers[i].update, wanted[i].update);
    EXPECT_EQ(layers[i].relative_update, wanted[i].relative_update);
    EXPECT_EQ(layers[i].weight, wanted[i].weight);
    EXPECT_EQ(layers[i].error_age, wanted[i].error_age);
    EXPECT_GT(layers[i].weight, 0.0f);
  }
  // A caller that knows fewer fields.
  struct Older {
    std::size_t size;
    weft_coord at;
    float error, budget;
  };
  std::vector<Older> older(needed);
  older[0].size = sizeof(Older);
  WEFT_ASSERT_OK(
      weft_learner_diagnostics(learner, reinterpret_cast<weft_layer_diagnostics*>(older.data()), needed, nullptr));
  EXPECT_EQ(older[1].budget, layers[1].budget);
  EXPECT_EQ(older[1].size, sizeof(Older));
  WEFT_ASSERT_OK(weft_learner_measure(learner, 0));
  WEFT_ASSERT_OK(weft_learner_learn(learner, &input, 1, &target, 1, 4));
  std::vector<weft_layer_diagnostics> later = layers;
  WEFT_ASSERT_OK(weft_learner_diagnostics(learner, later.data(), needed, nullptr));
  EXPECT_EQ(later[1].error, layers[1].error) << "it is measured no more";
  WEFT_EXPECT_OK(weft_learner_destroy(learner));
  WEFT_EXPECT_FAILS(weft_learner_measure(learner, 1), WEFT_BAD_HANDLE, "");
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
}

TEST(CLearner, TargetsComeLater) {
  Native native(kLate);
  weft_mesh* const mesh = make_mesh();
  weft_learner* learner = nullptr;
  WEFT_ASSERT_OK(weft_learner_build(mesh, kLate, &learner));
  for (std::uint64_t i = 0; i < 12; ++i) {
    const weft_input input{"bits", &kBits[2 * (i % 4)], 2};
    const mesh::RunInput native_input{"bits", std::span(kBits).subspan(2 * (i % 4), 2)};
    std::uint64_t ticket = 99;
    WEFT_ASSERT_OK(weft_learner_observe(learner, &input, 1, &ticket));
    EXPECT_EQ(ticket, native.learner->observe({&native_input, 1}).value());
    std::array<float, 2> answer{};
    WEFT_ASSERT_OK(weft_learner_answer(learner, ticket, "answer", answer.data(), 2, nullptr));
    const auto wanted = native.learner->answer(ticket, "answer").value();
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), answer.begin()));
    if (i % 3 == 0) {
      weft_target target = target_of(nullptr, 0);
      const std::array<float, 2> gradient{0.5f, -0.5f};
      const float weight = 2;
      target.gradient = gradient.data();
      target.gradient_count = 2;
      target.weights = &weight;
      target.weight_count = 1;
      const learning::Target native_target{.output = "answer", .gradient = gradient, .weights = {&weight, 1}};
      WEFT_ASSERT_OK(weft_learner_teach(learner, ticket, &target, 1));
      ASSERT_TRUE(native.learner->teach(ticket, {&native_target, 1}));
      WEFT_EXPECT_FAILS(weft_learner_teach(learner, ticket, &target, 1), WEFT_INVALID_ARGUMENT, "taught");
    } else if (i % 3 == 1) {
      WEFT_ASSERT_OK(weft_learner_forgo(learner, ticket));
      ASSERT_TRUE(native.learner->forgo(ticket));
    }
  }
  EXPECT_EQ(hash_of(mesh), to_string(native.mesh.state_hash()));
  weft_learner_counts counts{};
  counts.size = sizeof counts;
  WEFT_ASSERT_OK(weft_learner_count(learner, &counts));
  EXPECT_EQ(counts.observed, 12u);
  EXPECT_EQ(counts.taught, 4u);
  EXPECT_EQ(counts.forgone, 4u);
  EXPECT_EQ(counts.expired, native.learner->late_counts().expired);
  std::vector<std::uint64_t> expired(counts.expired);
  WEFT_ASSERT_OK(weft_learner_expired(learner, expired.data(), expired.size(), nullptr));
  ASSERT_FALSE(expired.empty());
  EXPECT_EQ(expired[0], 2u);
  const weft_target target = target_of(kLabels.data(), 1);
  WEFT_EXPECT_FAILS(weft_learner_teach(learner, 2, &target, 1), WEFT_TIMED_OUT, "");
  WEFT_EXPECT_FAILS(weft_learner_teach(learner, 77, &target, 1), WEFT_OUT_OF_RANGE, "77");
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
  WEFT_EXPECT_OK(weft_learner_destroy(learner));
}

TEST(CLearner, TargetsOfOtherSizesAreChecked) {
  weft_mesh* const mesh = make_mesh();
  weft_learner* learner = nullptr;
  WEFT_EXPECT_FAILS(weft_learner_build(mesh, R"({"rle": 1})", &learner), WEFT_UNKNOWN_NAME, "rle");
  WEFT_ASSERT_OK(weft_learner_build(mesh, nullptr, &learner));
  const weft_input input{"bits", kBits.data(), kBits.size()};
  weft_target targets[2] = {target_of(kLabels.data(), 4), target_of(kLabels.data(), 4)};
  targets[1].size = 8;
  WEFT_EXPECT_FAILS(weft_learner_learn(learner, &input, 1, targets, 2, 4), WEFT_INVALID_ARGUMENT, "targets[1].size");
  targets[0].size = 3;
  WEFT_EXPECT_FAILS(weft_learner_learn(learner, &input, 1, targets, 1, 4), WEFT_INVALID_ARGUMENT, "targets.size");
  WEFT_EXPECT_FAILS(weft_learner_learn(learner, &input, 1, nullptr, 1, 4), WEFT_INVALID_ARGUMENT, "targets: NULL");
  WEFT_EXPECT_OK(weft_learner_learn(learner, &input, 1, nullptr, 0, 4));  // run, not learned from
  WEFT_EXPECT_OK(weft_learner_destroy(learner));
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
}

}  // namespace
}  // namespace weft::capi::learner_test
