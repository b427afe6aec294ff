// SPDX-License-Identifier: Apache-2.0

// A cell that fails at chosen ticks, against a mesh whose same cell simply keeps its output at those ticks.

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/command.hpp"
#include "mesh/runtime/state.hpp"

#include "testing.hpp"
#include <map>

namespace weft::mesh::supervision_test {
namespace {

using actors::ActorStatus;
using actors::FaultKind;
using actors::Policy;
using namespace testing_support;

constexpr Coord kFragile{0, 0, 1, 0};
constexpr actors::ActorId kFragileId = 1;

/// in -> A -> fragile (two levels, reads "fuse" and A) -> C -> A: whatever the fragile cell sent would come round.
NetworkSpec network(actors::SupervisionRule rule, bool remembers = true) {
  register_fragile();
  NetworkSpec spec = NetworkBuilder("fragile", {1, 1, 4, 2})
                         .input("fuse", 1)
                         .input("in", 3)
                         .dense({0, 0, 0, 0}, 4, kernels::Activation::tanh)
                         .from({"in", Coord{0, 0, 2, 0}})
                         .layer(kFragile, "fragile")
                         .from({"fuse", Coord{0, 0, 0, 0}})
                         .option("memory", remembers)
                         .layer({0, 0, 1, 1}, "leaky_integrator")
                         .from({Coord{0, 0, 0, 0}})
                         .dense({0, 0, 2, 0}, 4, kernels::Activation::tanh)
                         .from({kFragile, Coord{0, 0, 1, 1}})
                         .layer({0, 0, 3, 0}, "leaky_integrator")
                         .from({Coord{0, 0, 0, 0}})
                         .output("y", {0, 0, 2, 0})
                         .seed(11)
                         .spec();
  spec.supervision = rule;
  return spec;
}

Mesh mesh_of(actors::SupervisionRule rule, MeshOptions options = {.threads = 1}) {
  return must(Mesh::build(network(rule), options));
}

/// Ticks once with the inputs of `tick`; `fuse` says which session's row fails and how.
Status step(Mesh& mesh, std::uint64_t tick, std::map<std::size_t, float> fuse = {}) {
  for (std::size_t b = 0; b < mesh.sessions(); ++b) {
    must(mesh.set_input("in", noise(3, 100 * b + tick), b));
    must(mesh.set_input("fuse", std::vector<float>{fuse.contains(b) ? fuse[b] : 0.5f}, b));
  }
  return mesh.tick();
}

std::string hashes(const Mesh& mesh) {
  std::string all;
  for (std::size_t b = 0; b < mesh.sessions(); ++b) all += to_string(mesh.state_hash(b)) + " ";
  return all;
}

class EveryFault : public testing::TestWithParam<float> {
 protected:
  FaultKind kind() const { return GetParam() == kThrow ? FaultKind::threw : FaultKind::output_not_finite; }
};

INSTANTIATE_TEST_SUITE_P(Faults, EveryFault, testing::Values(kThrow, kNan, kInfinite, kBadHidden),
                         [](const auto& tested) {
                           return std::string(tested.param == kThrow      ? "Throws"
                                              : tested.param == kNan      ? "EmitsNaN"
                                              : tested.param == kInfinite ? "EmitsInfinity"
                                                                          : "HidesInfinity");
                         });

TEST_P(EveryFault, UnderHoldKeepsTheLastOutputAndComputesAgainOnceItCan) {
  Mesh mesh = mesh_of({.policy = Policy::hold}), calm = mesh_of({.policy = Policy::hold});
  for (std::uint64_t tick = 0; tick < 20; ++tick) {
    const bool fails = tick == 5 || tick == 6 || tick == 11;
    if (fails) post(calm, kFragile, CommandKind::disable, tick);
    if (tick == 7 || tick == 12) post(calm, kFragile, CommandKind::enable, tick);
    ASSERT_TRUE(
        step(mesh, tick, fails ? std::map<std::size_t, float>{{0, GetParam()}} : std::map<std::size_t, float>{}));
    must(step(calm, tick));
    EXPECT_EQ(mesh.registry().status(kFragileId), fails ? ActorStatus::held : ActorStatus::running) << "tick " << tick;
    // The counterpart's cell is disabled, which is part of the state; it is not between faults.
    EXPECT_TRUE(fails || hashes(mesh) == hashes(calm)) << "tick " << tick;
    for (const Coord at : {Coord{0, 0, 0, 0}, kFragile, Coord{0, 0, 1, 1}, Coord{0, 0, 2, 0}, Coord{0, 0, 3, 0}})
      EXPECT_EQ(output_of(mesh, at), output_of(calm, at)) << to_string(at) << " at tick " << tick;
  }
  const auto view = mesh.registry().view(kFragileId);
  EXPECT_EQ(view.faults, 3u);
  EXPECT_EQ(view.last_fault_tick, 11u);
  std::uint64_t first = 0;
  const auto events = mesh.supervisor().events().read(first);
  ASSERT_EQ(events.size(), 3u);
  const std::uint64_t ticks[] = {5, 6, 11};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(events[i].fault.actor, kFragileId);
    EXPECT_EQ(events[i].fault.tick, ticks[i]);
    EXPECT_EQ(events[i].fault.kind, kind());
    EXPECT_EQ(events[i].decision.action, Policy::hold);
  }
  EXPECT_EQ(mesh.registry().count(ActorStatus::running), 4u);
}

TEST_P(EveryFault, UnderIsolateDisablesTheCellUntilItIsEnabled) {
  Mesh mesh = mesh_of({.policy = Policy::isolate}), calm = mesh_of({.policy = Policy::isolate});
  for (std::uint64_t tick = 0; tick < 12; ++tick) {
    if (tick == 5) post(calm, kFragile, CommandKind::disable);
    if (tick == 9) post(calm, kFragile, CommandKind::enable), post(mesh, kFragile, CommandKind::enable);
    must(step(mesh, tick,
              tick == 5 || tick == 6 ? std::map<std::size_t, float>{{0, GetParam()}} : std::map<std::size_t, float>{}));
    must(step(calm, tick));
    EXPECT_EQ(hashes(mesh), hashes(calm)) << "tick " << tick;
    EXPECT_EQ(mesh.registry().status(kFragileId), tick >= 5 && tick < 9 ? ActorStatus::isolated : ActorStatus::running)
        << "tick " << tick;
  }
  EXPECT_EQ(mesh.registry().view(kFragileId).faults, 1u);  // the second trigger met a cell that was asleep
}

TEST_P(EveryFault, UnderHaltStopsTheMeshWithAnErrorThatNamesCoordinateAndTick) {
  Mesh mesh = mesh_of({}), held = mesh_of({.policy = Policy::hold});
  for (std::uint64_t tick = 0; tick < 5; ++tick) must(step(mesh, tick)), must(step(held, tick));
  const std::string_view reason = GetParam() == kThrow ? "threw" : "output_not_finite";
  expect_error(step(mesh, 5, {{0, GetParam()}}), Errc::halted, {"cell [0,0,1,0]", "tick 5", reason, "resume"});
  must(step(held, 5, {{0, GetParam()}}));
  EXPECT_EQ(mesh.ticks(), 6u);
  EXPECT_EQ(hashes(mesh), hashes(held));
  EXPECT_EQ(mesh.registry().status(kFragileId), ActorStatus::halted);

  // It stays halted: nothing moves, whatever is asked for.
  expect_error(step(mesh, 6), Errc::halted, {"tick 5"});
  expect_error(mesh.run({}, 100), Errc::halted, {"tick 5"});
  must(mesh.add_session());
  expect_error(mesh.tick(), Errc::halted, {"tick 5"});
  must(mesh.remove_session(1));
  expect_error(mesh.tick(), Errc::halted, {"tick 5"});
  EXPECT_EQ(mesh.ticks(), 6u);

  mesh.resume();
  for (std::uint64_t tick = 6; tick < 12; ++tick) {
    must(step(mesh, tick));
    must(step(held, tick));
    EXPECT_EQ(hashes(mesh), hashes(held)) << "tick " << tick;
  }
  EXPECT_EQ(mesh.registry().status(kFragileId), ActorStatus::running);
}

TEST_P(EveryFault, UnderRestartGoesBackToTheCheckpoint) {
  Mesh mesh = mesh_of({.policy = Policy::restart});
  for (std::uint64_t tick = 0; tick < 4; ++tick) must(step(mesh, tick));
  MeshAccess::take_cell_snapshots(mesh);
  const auto fragile = output_of(mesh, kFragile), second = output_of(mesh, {0, 0, 1, 1});
  Mesh bystander = mesh_of({.policy = Policy::restart});
  for (std::uint64_t tick = 0; tick < 4; ++tick) must(step(bystander, tick));

  post(mesh, kFragile, {.kind = CommandKind::set_weights, .values = {3.0f}});
  for (std::uint64_t tick = 4; tick < 7; ++tick) must(step(mesh, tick)), must(step(bystander, tick));
  EXPECT_NE(output_of(mesh, kFragile), fragile);
  const auto before = output_of(mesh, {0, 0, 2, 0});
  must(step(mesh, 7, {{0, GetParam()}}));
  // Outputs, weights and hidden state of both levels are those of the checkpoint.
  EXPECT_EQ(output_of(mesh, kFragile), fragile);
  EXPECT_EQ(output_of(mesh, {0, 0, 1, 1}), second);
  EXPECT_EQ(MeshAccess::weights(mesh).read(MeshAccess::weights(mesh).of(*mesh.graph().find_layer(kFragile))[0]),
            std::vector<float>{1.0f});
  EXPECT_NE(output_of(mesh, {0, 0, 2, 0}), before) << "a neighbour that should have gone on";
  const auto h = output_of(mesh, kFragile), x = output_of(mesh, {0, 0, 0, 0});
  must(step(mesh, 8));
  EXPECT_EQ(output_of(mesh, kFragile)[0], 0.5f * h[0] + 0.5f);  // h/2 + fuse: hidden state went back too
  for (std::size_t j = 0; j < x.size(); ++j) EXPECT_EQ(output_of(mesh, kFragile)[1 + j], 0.5f * h[1 + j] + x[j]);
  const auto view = mesh.registry().view(kFragileId);
  EXPECT_EQ(view.status, ActorStatus::restarted);
  EXPECT_EQ(view.restarts, 1u);
  EXPECT_EQ(view.faults, 1u);
}

TEST_P(EveryFault, HoldsOnlyTheFaultySessionsRow) {
  // An exception says nothing about rows, so all of them are held.
  const std::size_t kSessions = 4;
  MeshOptions options{.threads = 1, .sessions = kSessions};
  Mesh mesh = mesh_of({.policy = Policy::hold}, options), calm = mesh_of({.policy = Policy::hold}, options),
       held = mesh_of({.policy = Policy::hold}, options);
  for (std::uint64_t tick = 0; tick < 12; ++tick) {
    if (tick == 5) post(held, kFragile, CommandKind::disable);
    if (tick == 6) post(held, kFragile, CommandKind::enable);
    std::map<std::size_t, float> fuse;
    if (tick == 5) fuse = {{1, GetParam()}, {3, GetParam()}};
    must(step(mesh, tick, fuse));
    must(step(calm, tick));
    must(step(held, tick));
  }
  for (std::size_t b = 0; b < kSessions; ++b) {
    const Mesh& counterpart = GetParam() == kThrow || b % 2 == 1 ? held : calm;
    EXPECT_EQ(to_string(mesh.state_hash(b)), to_string(counterpart.state_hash(b))) << "session " << b;
  }
  EXPECT_NE(calm.state_hash(1), held.state_hash(1));
}

TEST_P(EveryFault, IsMetAlikeTickByTickAndInOneRunOnEveryExecutor) {
  constexpr std::uint64_t kTicks = 40;
  const auto spec = network({.policy = Policy::hold});
  const auto in = noise(3 * kTicks, 5);
  std::vector<float> fuse(kTicks, 0.5f);
  fuse[9] = fuse[10] = fuse[30] = GetParam();
  const RunInput inputs[] = {{"in", in}, {"fuse", fuse}};
  const auto run = [&](MeshOptions options) {
    options.grain_bytes = 0;
    Mesh mesh = must(Mesh::build(spec, options));
    must(mesh.run(inputs, kTicks));
    EXPECT_EQ(mesh.registry().view(kFragileId).faults, 3u);
    return hashes(mesh);
  };
  Mesh ticked = must(Mesh::build(spec, {.threads = 1}));
  for (std::uint64_t tick = 0; tick < kTicks; ++tick) {
    must(ticked.set_input("in", std::span(in).subspan(3 * tick, 3)));
    must(ticked.set_input("fuse", std::span(fuse).subspan(tick, 1)));
    must(ticked.tick());
  }
  for (const std::size_t threads : {1, 2, 7}) EXPECT_EQ(run({.threads = threads}), hashes(ticked));
  for (std::uint64_t seed = 0; seed < 3; ++seed)
    EXPECT_EQ(run({.threads = 4, .executor = ExecutorKind::deterministic, .executor_seed = seed}), hashes(ticked));
}

TEST_P(EveryFault, IsMetInARunThatWouldBeBatched) {
  // No loop here, so the run is tried layer by layer first; supervision must see the same.
  register_fragile();
  const auto spec = [&] {
    NetworkSpec made = NetworkBuilder("batched", {1, 1, 2, 1})
                           .input("fuse", 1)
                           .layer({0, 0, 0, 0}, "fragile")
                           .option("memory", true)
                           .dense({0, 0, 1, 0}, 5)
                           .spec();
    made.supervision.policy = Policy::hold;
    return made;
  }();
  std::vector<float> fuse = noise(40, 3);
  fuse[20] = GetParam();
  Mesh ran = must(Mesh::build(spec)), ticked = must(Mesh::build(spec));
  const RunInput inputs[] = {{"fuse", fuse}};
  must(ran.run(inputs, 40));
  for (std::uint64_t tick = 0; tick < 40; ++tick) {
    must(ticked.set_input("fuse", std::span(fuse).subspan(tick, 1)));
    must(ticked.tick());
  }
  EXPECT_EQ(hashes(ran), hashes(ticked));
  EXPECT_EQ(ran.registry().view(0).faults, 1u);
  EXPECT_EQ(ran.ticks(), 40u);
}

TEST(Supervision, EscalatesWhenTheRestartsAreUsedUp) {
  Mesh mesh = mesh_of({.policy = Policy::restart, .max_restarts = 2, .window = 0, .escalation = Policy::isolate});
  const auto fail_at = [&](std::uint64_t tick) { must(step(mesh, tick, {{0, kNan}})); };
  fail_at(0);
  fail_at(1);
  EXPECT_EQ(mesh.registry().status(kFragileId), ActorStatus::restarted);
  fail_at(2);
  const auto view = mesh.registry().view(kFragileId);
  EXPECT_EQ(view.status, ActorStatus::isolated);
  EXPECT_EQ(view.restarts, 2u);
  EXPECT_EQ(view.faults, 3u);
  std::uint64_t first = 0;
  const auto events = mesh.supervisor().events().read(first);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_FALSE(events[1].decision.escalated);
  EXPECT_TRUE(events[2].decision.escalated);
  EXPECT_FALSE(MeshAccess::cells(mesh)[kFragileId]->is_enabled());
}

TEST(Supervision, ForgetsRestartsOlderThanTheWindow) {
  Mesh mesh = mesh_of({.policy = Policy::restart, .max_restarts = 2, .window = 10, .escalation = Policy::halt});
  for (std::uint64_t tick = 0; tick < 60; ++tick) {
    const bool fails = tick % 6 == 0 && tick < 30;  // two in any 10 ticks
    ASSERT_TRUE(step(mesh, tick, fails ? std::map<std::size_t, float>{{0, kThrow}} : std::map<std::size_t, float>{}));
  }
  EXPECT_EQ(mesh.registry().view(kFragileId).restarts, 5u);
  must(step(mesh, 60, {{0, kThrow}}));
  must(step(mesh, 61, {{0, kThrow}}));
  expect_error(step(mesh, 62, {{0, kThrow}}), Errc::halted, {"cell [0,0,1,0]", "tick 62"});
}

TEST(Supervision, FollowsTheCellsOwnPolicyBeforeTheNetworks) {
  NetworkSpec spec = network({.policy = Policy::halt});
  spec.layers[1].policy = Policy::isolate;
  Mesh mesh = must(Mesh::build(spec));
  must(step(mesh, 0, {{0, kNan}}));
  EXPECT_EQ(mesh.registry().status(kFragileId), ActorStatus::isolated);
}

TEST(Supervision, HaltsAtTheEndOfABlockOfALongRunAndNamesTheFirstFault) {
  Mesh mesh = mesh_of({});
  for (std::uint64_t tick = 0; tick < 4; ++tick) must(step(mesh, tick));
  must(mesh.set_input("fuse", std::vector<float>{kNan}));
  expect_error(mesh.tick(2000), Errc::halted, {"cell [0,0,1,0]", "at tick 4", "stopped at tick 260"});
  EXPECT_EQ(mesh.ticks(), 260u);
}

TEST(Supervision, SaysWhatAnExceptionSaid) {
  Mesh mesh = mesh_of({});
  expect_error(step(mesh, 0, {{0, kThrow}}), Errc::halted, {"the fuse blew"});
}

TEST(Supervision, RefusesAnImpossibleRule) {
  expect_error(Mesh::build(network({.policy = Policy::restart, .max_restarts = 65})), Errc::invalid_argument,
               {"65", "64"});
  expect_error(Mesh::build(network({.policy = Policy::restart, .escalation = Policy::restart})), Errc::invalid_argument,
               {"restart"});
}

TEST(Supervision, KeepsTheWholeHistoryOfARowThatDidNotFire) {
  // Learning pairs an output with the input that made it: both stay when a tick's writes are dropped, and
  // nothing that is not finite is left behind in a ring.
  register_fragile();
  NetworkSpec spec = NetworkBuilder("history", {1, 1, 1, 1})
                         .input("a", 2)
                         .input("b", 2)
                         .layer({0, 0, 0, 0}, "identity")
                         .from({"a", "b"}, Combine::add)
                         .spec();
  spec.supervision.policy = Policy::hold;
  Mesh mesh = must(Mesh::build(spec));
  must(mesh.set_input("a", std::vector<float>{1, 2}));
  must(mesh.tick());
  must(mesh.set_input("a", std::vector<float>{3e38f, 2}));
  must(mesh.set_input("b", std::vector<float>{3e38f, 2}));
  must(mesh.tick());
  EXPECT_EQ(output_of(mesh, {0, 0, 0, 0}), (std::vector<float>{1, 2}));
  const auto input = MeshAccess::state(mesh).input(2, mesh.ticks());
  EXPECT_EQ((std::vector<float>{input.row(0)[0], input.row(0)[1]}), (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace weft::mesh::supervision_test
