// SPDX-License-Identifier: Apache-2.0
// Cells that fail while they fire and while they learn: under every policy, on every executor, the fault stays where it
// happened, and everybody agrees on what came of it.

#include "learning/learner.hpp"

#include "mesh/memory/byte_archive.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/command.hpp"
#include "mesh/runtime/engine.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace weft::learning::supervision_test {
namespace {

using actors::ActorStatus;
using actors::FaultKind;
using actors::Policy;
using namespace mesh::testing_support;
using namespace test;

constexpr Coord kBrittle{0, 0, 1, 0};
constexpr actors::ActorId kBrittleId = 1;

// Fault that the first value of the input makes a brittle layer show.
enum Trigger { kNone, kThrowsForward, kEmitsNan, kThrowsBackward, kBadGradient, kBadMessage };

/// y = scale * x on the values from the second on; does what the first one says, forwards or backwards.
class Brittle final : public mesh::Layer {
 public:
  explicit Brittle(std::size_t width) : Layer(width, width) {
    parameters_.push_back({"scale", 1, 0, false, [](RandomStream&, std::span<float> v) { v[0] = 0.9f; }});
  }
  const std::vector<mesh::ParameterSpec>& parameters() const noexcept override { return parameters_; }

  void forward(kernels::OpStream&, const mesh::ForwardArgs& args) const override {
    for (std::size_t b = 0; b < args.x.rows; ++b) {
      const float* const x = args.x.row(b);
      for (std::size_t j = 0; j < in(); ++j) args.y.row(b)[j] = j == 0 ? 0.0f : args.weights.vector(0)[0] * x[j];
      if (is(x, kEmitsNan)) args.y.row(b)[1] = std::numeric_limits<float>::quiet_NaN();
      if (is(x, kThrowsForward)) throw std::runtime_error("forwards it broke");
    }
  }
  void backward(kernels::OpStream&, const mesh::BackwardArgs& args) const override {
    for (std::size_t b = 0; b < args.x.rows; ++b) {
      const float* const x = args.x.row(b);
      for (std::size_t j = 0; j < in(); ++j) {
        if (args.gradients.data && j > 0) args.gradients[0][0] += args.dy.row(b)[j] * x[j];
        if (args.dx.data) args.dx.row(b)[j] = j == 0 ? 0.0f : args.weights.vector(0)[0] * args.dy.row(b)[j];
      }
      constexpr float kInf = std::numeric_limits<float>::infinity();
      if (is(x, kBadGradient) && args.gradients.data) args.gradients[0][0] = kInf;
      if (is(x, kBadMessage) && args.dx.data) args.dx.row(b)[1] = -kInf;
      if (is(x, kThrowsBackward)) throw std::runtime_error("backwards it broke");
    }
  }

 private:
  static bool is(const float* x, Trigger trigger) { return x[0] == 100.0f + static_cast<float>(trigger); }
  std::vector<mesh::ParameterSpec> parameters_;
};

/// in -> A -> brittle (which also reads the port "fuse") -> C -> y, C feeds back to A; a bystander reads A.
mesh::NetworkSpec network(actors::SupervisionRule rule) {
  static const Status done = mesh::register_layer(
      "brittle", [](const Shape& in, std::size_t, mesh::OptionReader&) -> Result<std::unique_ptr<mesh::Layer>> {
        return std::unique_ptr<mesh::Layer>(new Brittle(in.at(0)));
      });
  must(done);
  using kernels::Activation;
  mesh::NetworkSpec spec = mesh::NetworkBuilder("brittle", {1, 1, 4, 1})
                               .input("fuse", 1)
                               .input("in", 3)
                               .dense({0, 0, 0, 0}, 4, Activation::tanh)
                               .from({"in", Coord{0, 0, 2, 0}})
                               .layer(kBrittle, "brittle")
                               .from({"fuse", Coord{0, 0, 0, 0}})
                               .dense({0, 0, 2, 0}, 4)
                               .dense({0, 0, 3, 0}, 4, Activation::tanh)
                               .from({Coord{0, 0, 0, 0}})
                               .output("y", {0, 0, 2, 0})
                               .output("beside", {0, 0, 3, 0})
                               .seed(11)
                               .spec();
  spec.supervision = rule;
  return spec;
}

LearningRun learning_by(actors::SupervisionRule supervision, Schedule schedule, Rule rule = Rule::backprop,
                        mesh::MeshOptions options = {.threads = 1}) {
  LearningOptions learning{.rule = rule, .schedule = schedule};
  learning.optimizer.lr = 0.05f;
  learning.horizon = 4;  // the brittle layer passes errors on to A, which hears of them from the bystander sooner
  options.grain_bytes = 0;
  options.pin = false;
  return LearningRun(network(supervision), learning, options);
}

/// One sample; errors of a halted mesh are handed back.
Status learn_sample(LearningRun& one, std::uint64_t sample, Trigger trigger) {
  const std::vector<float> in = noise(3, 900 + sample),
                           fuse{trigger == kNone ? 0.5f : 100.0f + static_cast<float>(trigger)};
  const std::vector<std::uint32_t> y{static_cast<std::uint32_t>(sample % 4)},
      beside{static_cast<std::uint32_t>(sample % 3)};
  const mesh::RunInput inputs[] = {{"in", in}, {"fuse", fuse}};
  const Target targets[] = {{"y", y, {}}, {"beside", beside, {}}};
  return one.learner->learn(inputs, targets, 1);
}

struct Met {
  std::string course;  // hashes, sample by sample
  std::string events;
  actors::SupervisionCounters counters;
  ActorStatus status = ActorStatus::running;
};

struct Way {
  Policy policy;
  Schedule schedule;
  Rule rule = Rule::backprop;
};

Met outcome_of(const Way& run, Trigger trigger, mesh::MeshOptions options) {
  LearningRun one = learning_by({.policy = run.policy, .max_restarts = 2, .window = 0, .escalation = Policy::isolate},
                                run.schedule, run.rule, options);
  Met met;
  for (std::uint64_t sample = 0; sample < 40; ++sample) {
    if (sample == 8) mesh::MeshAccess::take_cell_snapshots(*one.mesh);
    const bool fails = sample == 12 || sample == 20 || sample == 21 || sample == 30;
    if (const Status learned = learn_sample(one, sample, fails ? trigger : kNone); !learned) {
      met.course += "halted ";
      one.mesh->resume();
    }
    met.course += one.hash() + " ";
    for (const auto& cell : mesh::MeshAccess::cells(*one.mesh))
      for (const float value : output_of(*one.mesh, cell->at()))
        EXPECT_TRUE(std::isfinite(value)) << to_string(cell->at());
  }
  for (const auto& weights : one.weights())
    for (const double value : weights) EXPECT_TRUE(std::isfinite(value));
  std::uint64_t first = 0;
  for (const auto& [fault, decision] : one.mesh->supervisor().events().read(first)) {
    EXPECT_EQ(fault.actor, kBrittleId) << "a neighbour failed too, of " << name(fault.kind) << " at " << fault.tick;
    met.events += std::to_string(fault.actor) + "@" + std::to_string(fault.tick) + " " + std::string(name(fault.kind)) +
                  " '" + fault.reason.data() + "' " + std::string(name(decision.action)) + " " +
                  std::to_string(decision.restarts_used) + (decision.escalated ? " escalated\n" : "\n");
  }
  met.counters = one.mesh->supervisor().counters();
  met.status = one.mesh->registry().status(kBrittleId);
  for (const actors::ActorId other : {0u, 2u, 3u})
    EXPECT_EQ(one.mesh->registry().view(other).faults, 0u) << "cell " << other;
  return met;
}

FaultKind kind_of(Trigger trigger) {
  if (trigger == kThrowsForward || trigger == kThrowsBackward) return FaultKind::threw;
  return trigger == kEmitsNan ? FaultKind::output_not_finite : FaultKind::update_not_finite;
}

std::string trigger_name(Trigger trigger) {
  const char* const names[] = {"None", "ThrowsForward", "EmitsNaN", "ThrowsBackward", "BadGradient", "BadMessage"};
  return names[trigger];
}

class EveryFault : public testing::TestWithParam<Trigger> {};
INSTANTIATE_TEST_SUITE_P(Faults, EveryFault,
                         testing::Values(kThrowsForward, kEmitsNan, kThrowsBackward, kBadGradient, kBadMessage),
                         [](const auto& tested) { return trigger_name(tested.param); });

TEST_P(EveryFault, StaysInItsCellAndIsAnsweredAlikeEverywhere) {
  for (const Policy policy : {Policy::halt, Policy::hold, Policy::restart, Policy::isolate})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      const Way run{policy, schedule};
      const std::string where = std::string(name(policy)) + ", " + std::string(name(schedule));
      const Met expected = outcome_of(run, GetParam(), {.threads = 1});
      const auto faults = expected.counters.faults;
      EXPECT_GT(faults[static_cast<std::size_t>(kind_of(GetParam()))], 0u) << where;
      std::uint64_t all = 0;
      for (const std::uint64_t each : faults) all += each;
      EXPECT_EQ(all, faults[static_cast<std::size_t>(kind_of(GetParam()))]) << where << "\n" << expected.events;
      if (policy == Policy::restart) {
        EXPECT_EQ(expected.counters.decisions[static_cast<std::size_t>(Policy::restart)], 2u) << expected.events;
        EXPECT_EQ(expected.counters.decisions[static_cast<std::size_t>(Policy::isolate)], 1u) << expected.events;
        EXPECT_EQ(expected.counters.escalations, 1u) << where;
        EXPECT_EQ(expected.status, ActorStatus::isolated) << where;
      } else if (policy == Policy::isolate) {
        EXPECT_EQ(all, 1u) << where << "\n" << expected.events;
        EXPECT_EQ(expected.status, ActorStatus::isolated) << where;
      } else {
        EXPECT_EQ(expected.counters.decisions[static_cast<std::size_t>(policy)], all) << where;
        EXPECT_EQ(expected.status, ActorStatus::running) << where << ": it computes well again";
      }
      EXPECT_EQ(expected.course.find("halted") != std::string::npos, policy == Policy::halt) << where;
      EXPECT_EQ(expected.events.find("wards it broke'") != std::string::npos, kind_of(GetParam()) == FaultKind::threw)
          << expected.events;

      std::vector<mesh::MeshOptions> others{{.threads = 2}, {.threads = 3}};
      for (const std::size_t threads : {1, 2})
        for (const std::uint64_t seed : {0, 5})
          others.push_back({.threads = threads, .executor = mesh::ExecutorKind::deterministic, .executor_seed = seed});
      for (const mesh::MeshOptions& other : others) {
        const Met met = outcome_of(run, GetParam(), other);
        EXPECT_EQ(met.course, expected.course) << where << ", " << other.threads << " threads";
        EXPECT_EQ(met.events, expected.events) << where << ", " << other.threads << " threads";
        EXPECT_EQ(met.counters, expected.counters) << where;
        EXPECT_EQ(met.status, expected.status) << where;
      }
    }
}

TEST_P(EveryFault, StaysInItsCellUnderEveryRule) {
  for (const Rule rule : test::target_rules()) {
    const Met one = outcome_of({Policy::hold, Schedule::pipelined, rule}, GetParam(), {.threads = 1});
    const Met two = outcome_of({Policy::hold, Schedule::pipelined, rule}, GetParam(), {.threads = 2});
    EXPECT_EQ(one.course, two.course) << name(rule);
    EXPECT_EQ(one.events, two.events) << name(rule);
  }
}

class EverySchedule : public testing::TestWithParam<Schedule> {};
INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedule, testing::Values(Schedule::settle, Schedule::pipelined),
                         [](const auto& tested) { return std::string(name(tested.param)); });

TEST_P(EverySchedule, ARestartTakesWeightsOptimiserAndOutputsBackToTheCheckpoint) {
  for (const Trigger trigger : {kEmitsNan, kThrowsBackward, kBadGradient, kBadMessage}) {
    LearningRun one = learning_by({.policy = Policy::restart, .max_restarts = 64}, GetParam());
    for (std::uint64_t sample = 0; sample < 10; ++sample) must(learn_sample(one, sample, kNone));
    mesh::MeshAccess::take_cell_snapshots(*one.mesh);
    const mesh::NodeId node = one.node(kBrittle);
    const auto kept = [&] {
      const std::vector<float> weights = one.weights(kBrittle)[0];
      mesh::ByteArchive all;
      all.put(std::span(weights));
      mesh::WriteArchive archive(all, scopes::kRestart);
      std::as_const(*one.learner->saved()).visit_layer(node, archive);
      return std::vector<std::byte>(all.bytes().begin(), all.bytes().end());
    };
    const auto saved = kept();
    const auto output = output_of(*one.mesh, kBrittle);
    for (std::uint64_t sample = 10; sample < 15; ++sample) must(learn_sample(one, sample, kNone));
    EXPECT_NE(kept(), saved);
    bool has_restarted = false;
    // A pipelined layer learns from a sample a few ticks after it was shown.
    for (std::uint64_t sample = 15; sample < 25 && !has_restarted; ++sample) {
      must(learn_sample(one, sample, sample == 15 ? trigger : kNone));
      has_restarted = one.mesh->registry().view(kBrittleId).restarts > 0;
    }
    ASSERT_TRUE(has_restarted) << trigger;
    // A cell that fails while it fires goes on to learn in the same step, or later under settle.
    if (trigger == kEmitsNan) continue;
    EXPECT_EQ(kept(), saved) << trigger;
    EXPECT_EQ(output_of(*one.mesh, kBrittle), output) << trigger;
    EXPECT_EQ(one.mesh->registry().status(kBrittleId), ActorStatus::restarted);
  }
}

TEST_P(EverySchedule, AResumedRunRestartsAsTheUnbrokenOneDoes) {
  LearningRun unbroken = learning_by({.policy = Policy::restart, .max_restarts = 64}, GetParam());
  for (std::uint64_t sample = 0; sample < 12; ++sample)
    must(learn_sample(unbroken, sample, sample == 5 ? kBadGradient : kNone));
  LearningRun resumed(unbroken.file(), unbroken.learner->options(), shape(2));
  for (std::uint64_t sample = 12; sample < 40; ++sample) {
    const Trigger trigger = sample == 18   ? kBadGradient
                            : sample == 19 ? kThrowsForward
                            : sample == 27 ? kBadMessage
                                           : kNone;
    must(learn_sample(unbroken, sample, trigger));
    must(learn_sample(resumed, sample, trigger));
    ASSERT_EQ(unbroken.hash(), resumed.hash()) << "sample " << sample;
  }
  EXPECT_GE(unbroken.mesh->registry().view(kBrittleId).restarts, 4u);
  EXPECT_EQ(unbroken.mesh->registry().view(kBrittleId).restarts, resumed.mesh->registry().view(kBrittleId).restarts);
}

TEST_P(EverySchedule, AnIsolatedCellLearnsNothingUntilItIsEnabled) {
  LearningRun one = learning_by({.policy = Policy::isolate}, GetParam());
  const auto scale = [&] { return one.weights(kBrittle)[0][0]; };
  for (std::uint64_t sample = 0; sample < 10; ++sample)
    must(learn_sample(one, sample, sample == 5 ? kEmitsNan : kNone));
  EXPECT_EQ(one.mesh->registry().status(kBrittleId), ActorStatus::isolated);
  const float frozen = scale();
  for (std::uint64_t sample = 10; sample < 20; ++sample) must(learn_sample(one, sample, kBadGradient));
  EXPECT_EQ(scale(), frozen);
  EXPECT_EQ(one.mesh->registry().view(kBrittleId).faults, 1u);
  post(*one.mesh, kBrittle, mesh::CommandKind::enable);
  for (std::uint64_t sample = 20; sample < 40; ++sample) must(learn_sample(one, sample, kNone));
  EXPECT_NE(scale(), frozen);
  EXPECT_EQ(one.mesh->registry().status(kBrittleId), ActorStatus::running);
}

TEST(Supervision, AnOperatorsReportIsAnsweredBetweenRuns) {
  for (const Policy policy : {Policy::halt, Policy::hold, Policy::restart, Policy::isolate}) {
    LearningRun one = learning_by({.policy = policy}, Schedule::pipelined, Rule::backprop, {.threads = 2});
    for (std::uint64_t sample = 0; sample < 5; ++sample) must(learn_sample(one, sample, kNone));
    mesh::MeshAccess::take_cell_snapshots(*one.mesh);
    const auto output = output_of(*one.mesh, kBrittle);
    for (std::uint64_t sample = 5; sample < 8; ++sample) must(learn_sample(one, sample, kNone));
    const mesh::NodeId node = one.node(kBrittle);
    mesh::MeshAccess::engine(*one.mesh).report_fault(node, one.mesh->ticks(), FaultKind::reported, "a hunch");
    EXPECT_EQ(one.mesh->supervisor().counters().faults[static_cast<std::size_t>(FaultKind::reported)], 1u);
    EXPECT_EQ(output_of(*one.mesh, kBrittle) == output, policy == Policy::restart);
    const Status next = learn_sample(one, 8, kNone);
    EXPECT_EQ(next.has_value(), policy != Policy::halt);
    if (policy == Policy::halt) {
      EXPECT_NE(next.error().text().find("reported: a hunch"), std::string::npos) << next.error().text();
    }
    EXPECT_EQ(one.mesh->registry().status(kBrittleId), policy == Policy::halt      ? ActorStatus::halted
                                                       : policy == Policy::isolate ? ActorStatus::isolated
                                                       : policy == Policy::hold    ? ActorStatus::running
                                                                                   : ActorStatus::restarted);
  }
}

}  // namespace
}  // namespace weft::learning::supervision_test
