// SPDX-License-Identifier: Apache-2.0

// The promise: one result everywhere. The same training under every thread count, instruction set, number of sessions
// aboard, executor and step length ends in the same state, bit for bit.

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/isa.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <cmath>

namespace weft::learning::exactness_test {
namespace {

// A sanitizer looks for other things and is ten times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSamples = 40;
#else
constexpr std::uint64_t kSamples = 2000;
#endif

struct Setting {
  std::size_t threads = 1, sessions = 1;
  mesh::ExecutorKind executor = mesh::ExecutorKind::tbb;
  bool at_once = true;  // all samples in one call, or one call each
};

std::string describe(const Setting& s) {
  return std::to_string(s.threads) + " threads, " + std::to_string(s.sessions) + " sessions, " +
         (s.executor == mesh::ExecutorKind::tbb ? "tbb" : "deterministic") + (s.at_once ? ", at once" : ", one by one");
}

mesh::MeshOptions mesh_options(const Setting& setting) {
  mesh::MeshOptions options;
  options.threads = setting.threads;
  options.sessions = setting.sessions;
  options.executor = setting.executor;
  options.executor_seed = 7 * setting.threads;
  options.grain_bytes = 0;  // as many regions as threads, however small the mesh
  options.pin = false;
  return options;
}

Hash128 train_mixed(Rule rule, Schedule schedule, OptimizerKind optimizer, const Setting& setting,
                    std::uint64_t samples) {
  auto mesh = mesh::Mesh::build(test::mixed_network(3), mesh_options(setting));
  WEFT_ASSERT(mesh, mesh.error().text());
  LearningOptions options;
  options.rule = rule;
  options.schedule = schedule;
  options.optimizer.kind = optimizer;
  options.optimizer.lr = 0.01f;
  options.optimizer.weight_decay = 0.001f;
  options.horizon = rule == Rule::backprop ? 9 : 0;
  auto learner = Learner::build(*mesh, options);
  WEFT_ASSERT(learner, learner.error().text());
  const test::Samples data(samples, setting.sessions, 11);
  const std::uint64_t step = setting.at_once ? samples : 1;
  for (std::uint64_t s = 0; s < samples; s += step) {
    const mesh::RunInput inputs[] = {
        {"a", std::span(data.a).subspan(s * setting.sessions * 7, step * setting.sessions * 7)},
        {"b", std::span(data.b).subspan(s * setting.sessions * 5, step * setting.sessions * 5)}};
    const Target targets[] = {{"left", std::span(data.left).subspan(s, step), {}},
                              {"right", std::span(data.right).subspan(s, step), {}}};
    const Status learned = (*learner)->learn(inputs, targets, step);
    WEFT_ASSERT(learned, learned.error().text());
    (*learner)->clear_scores();
  }
  const Status drained = (*learner)->drain();
  WEFT_ASSERT(drained, drained.error().text());
  return mesh->state_hash(0);
}

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  for (std::size_t threads : {1, 2, 7})
    for (std::size_t sessions : {1, 5})
      for (const auto executor : {mesh::ExecutorKind::tbb, mesh::ExecutorKind::deterministic})
        for (const bool at_once : {true, false}) settings.push_back({threads, sessions, executor, at_once});
  return settings;
}

class Exactness : public ::testing::TestWithParam<std::tuple<Rule, Schedule>> {};

TEST_P(Exactness, TrainingEndsInTheSameStateOnEveryMachineShape) {
  const auto [rule, schedule] = GetParam();
  const Hash128 reference = train_mixed(rule, schedule, OptimizerKind::momentum, {}, kSamples);
  for (const kernels::Isa isa : kernels::available_isas()) {
    const test::ForIsa scope(isa);
    for (const Setting& setting : all_settings())
      EXPECT_EQ(to_string(train_mixed(rule, schedule, OptimizerKind::momentum, setting, kSamples)),
                to_string(reference))
          << name(isa) << ", " << describe(setting);
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, Exactness,
                         ::testing::Combine(::testing::Values(Rule::backprop, Rule::fw_dtp, Rule::dfa, Rule::gap,
                                                              Rule::chain),
                                            ::testing::Values(Schedule::settle, Schedule::pipelined)),
                         [](const auto& row) {
                           return std::string(name(std::get<0>(row.param))) + "_" +
                                  std::string(name(std::get<1>(row.param)));
                         });

TEST(Exactness, TheHashSeesASingleWeight) {
  auto mesh = mesh::Mesh::build(test::digits_network(1), {});
  const Hash128 before = mesh->state_hash();
  float& weight = mesh::MeshAccess::weights(*mesh).parameters()[2].data[5];
  weight = std::nextafter(weight, 1.0f);
  EXPECT_NE(mesh->state_hash(), before);
}

}  // namespace
}  // namespace weft::learning::exactness_test
