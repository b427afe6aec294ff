// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/learner.hpp"

#include "core/philox.hpp"

#include "networks.hpp"
#include <cstddef>
#include <cstdint>
#include <vector>

/// An actor and a critic that learn by traces, and what comes to them.
namespace weft::learning::test::traced {

inline constexpr Coord kHidden{0, 0, 0, 0}, kActor{0, 0, 1, 0}, kCritic{0, 0, 2, 0};
inline constexpr std::size_t kIn = 5, kWidth = 18, kActions = 3;

/// The actor has two layers, the critic one.
inline mesh::NetworkSpec network() {
  return mesh::NetworkBuilder("traces", GridShape{1, 1, 3, 1})
      .input("x", kIn)
      .dense(kHidden, kWidth, kernels::Activation::tanh)
      .from({"x"})
      .dense(kActor, kActions)
      .from({kHidden})
      .dense(kCritic, 1)
      .from({"x"})
      .output("actor", kActor)
      .output("critic", kCritic)
      .seed(5)
      .spec();
}

inline LearningOptions with_traces() {
  LearningOptions options{.optimizer = {.kind = OptimizerKind::sgd, .lr = 1.0f}};
  options.late = Late::meet;
  options.patience = 4;
  options.traces = true;
  return options;
}

/// Sample `s` of a run: numbers of its own for input, gradients and signals.
struct Step {
  std::vector<float> x, actor, critic;
  TraceSignal of_actor, of_critic;

  explicit Step(std::uint64_t s) : x(kIn), actor(kActions), critic(1) {
    RandomStream random(7, s, RandomPurpose::test);
    for (std::vector<float>* const values : {&x, &actor, &critic})
      for (float& value : *values) value = random.next_normal();
    const bool ends = s % 5 == 4;
    of_actor = {0.6f * random.next_normal(), 0.9f, 0.3f, ends};
    of_critic = {1.5f * random.next_normal(), 0.7f, 2.0f, ends};
  }
  /// The critic's target comes alone in every third.
  std::vector<Target> targets(std::uint64_t s) const {
    std::vector<Target> all;
    if (s % 3 != 2) all.push_back({.output = "actor", .gradient = actor, .signal = of_actor});
    all.push_back({.output = "critic", .gradient = critic, .signal = of_critic});
    return all;
  }
};

inline void run(Learner& learner, std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t s = first; s < first + count; ++s) {
    const Step step(s);
    const mesh::RunInput input{"x", step.x};
    const Ticket ticket = mesh::testing_support::must(learner.observe({&input, 1}));
    mesh::testing_support::must(learner.teach(ticket, step.targets(s)));
  }
}

/// Inputs and targets of several sessions: session s of sample t has those of sample 100 s + t.
struct Steps {
  std::vector<float> x, actor, critic;
  std::vector<TraceSignal> of_actor, of_critic;
  Steps(std::uint64_t sample, std::size_t learners) {
    for (std::size_t s = 0; s < learners; ++s) {
      const Step one(100 * s + sample);
      x.insert(x.end(), one.x.begin(), one.x.end());
      actor.insert(actor.end(), one.actor.begin(), one.actor.end());
      critic.insert(critic.end(), one.critic.begin(), one.critic.end());
      of_actor.push_back(one.of_actor);
      of_critic.push_back(one.of_critic);
    }
  }
};

inline void run_sessions(Learner& learner, std::uint64_t first, std::uint64_t count, std::size_t learners) {
  for (std::uint64_t s = first; s < first + count; ++s) {
    const Steps step(s, learners);
    const mesh::RunInput input{"x", step.x};
    std::vector<Target> targets;
    if (s % 3 != 2) targets.push_back({.output = "actor", .gradient = step.actor, .signals = step.of_actor});
    targets.push_back({.output = "critic", .gradient = step.critic, .signals = step.of_critic});
    mesh::testing_support::must(learner.teach(mesh::testing_support::must(learner.observe({&input, 1})), targets));
  }
}

inline LearningOptions of_learners(std::size_t learners) {
  LearningOptions options = with_traces();
  options.learners = learners;
  return options;
}

inline mesh::MeshOptions sessions(std::size_t count, mesh::MeshOptions options = shape()) {
  options.sessions = count;
  return options;
}

}  // namespace weft::learning::test::traced
