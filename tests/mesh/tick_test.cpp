// SPDX-License-Identifier: Apache-2.0

// Definitions of a tick, a run and a combinational pass, and their agreement to the bit.

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/runtime/state.hpp"

#include "topology/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

namespace weft::mesh::tick_test {
namespace {

using kernels::Activation;

std::vector<float> noise(std::size_t n, std::uint64_t place) {
  std::vector<float> values(n);
  RandomStream random(99, place, RandomPurpose::test);
  for (float& v : values) v = random.next_normal();
  return values;
}

TEST(Tick, MovesAValueOneLinkATick) {
  NetworkBuilder network("line", GridShape{1, 1, 5, 1});
  network.input("x", 1);
  for (std::uint32_t i = 0; i < 5; ++i) network.layer({0, 0, i, 0}, "identity");
  auto mesh = Mesh::build(network.spec());
  ASSERT_TRUE(mesh);
  for (std::uint64_t t = 0; t < 12; ++t) {
    const std::vector<float> x{static_cast<float>(t + 1)};
    ASSERT_TRUE(mesh->set_input("x", x));
    ASSERT_TRUE(mesh->tick());
    EXPECT_EQ(mesh->ticks(), t + 1);
    for (std::uint32_t i = 0; i < 5; ++i)
      EXPECT_EQ(mesh->output(Coord{0, 0, i, 0}).value()[0], t >= i ? static_cast<float>(t - i + 1) : 0.0f) << t << i;
  }
}

TEST(Tick, SeesOnlyWhatWasCommittedBefore) {
  // Two cells that read each other swap their values for ever: no order of firing shows.
  NetworkBuilder network("swap", GridShape{1, 1, 2, 1});
  network.input("x", 1);
  network.layer({0, 0, 0, 0}, "residual", 1).from({"x", Coord{0, 0, 1, 0}});
  network.layer({0, 0, 1, 0}, "identity").from({Coord{0, 0, 0, 0}});
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    MeshOptions options;
    options.executor = ExecutorKind::deterministic;
    options.executor_seed = seed;
    options.threads = 2;
    options.grain_bytes = 0;
    auto mesh = Mesh::build(network.spec(), options);
    const std::vector<float> one{1.0f}, zero{0.0f};
    ASSERT_TRUE(mesh->set_input("x", one));
    ASSERT_TRUE(mesh->tick());
    ASSERT_TRUE(mesh->set_input("x", zero));
    for (int t = 0; t < 6; ++t) {
      EXPECT_EQ(mesh->output(Coord{0, 0, 0, 0}).value()[0], t % 2 == 0 ? 1.0f : 0.0f);
      EXPECT_EQ(mesh->output(Coord{0, 0, 1, 0}).value()[0], t % 2 == 0 ? 0.0f : 1.0f);
      ASSERT_TRUE(mesh->tick());
    }
  }
}

TEST(Tick, KeepsHiddenStateFromTickToTick) {
  NetworkBuilder network("leak", GridShape{1, 1, 1, 1});
  network.input("x", 1).layer({0, 0, 0, 0}, "leaky_integrator").option("rate", 0.25);
  auto mesh = Mesh::build(network.spec());
  const std::vector<float> one{1.0f};
  ASSERT_TRUE(mesh->set_input("x", one));
  double h = 0;
  for (int t = 0; t < 20; ++t) {
    ASSERT_TRUE(mesh->tick());
    h += 0.25 * (1 - h);
    EXPECT_NEAR(mesh->output(Coord{0, 0, 0, 0}).value()[0], h, 1e-6);
  }
}

/// Layers outside loops, a loop of two with hidden state in it, a skip, two ports, two outputs.
NetworkSpec wide_network(bool with_loop) {
  NetworkBuilder network("wide", GridShape{1, 2, 3, 2});
  network.input("a", 9).input("b", 4);
  network.dense({0, 0, 0, 0}, 33, Activation::gelu).from({"a", "b"});
  network.layer({0, 0, 0, 1}, "layer_norm");
  network.dense({0, 0, 1, 0}, 33, Activation::tanh);
  network.layer({0, 0, 1, 1}, "residual").from({Coord{0, 0, 1, 0}, Coord{0, 0, 0, 0}});
  if (with_loop) {
    network.dense({0, 0, 2, 0}, 8, Activation::tanh).from({Coord{0, 0, 1, 1}, Coord{0, 1, 0, 0}});
    network.layer({0, 1, 0, 0}, "leaky_integrator").from({Coord{0, 0, 2, 0}});
  } else {
    network.dense({0, 0, 2, 0}, 8, Activation::tanh).from({Coord{0, 0, 1, 1}});
  }
  network.dense({0, 1, 1, 0}, 70, Activation::silu).from({Coord{0, 0, 2, 0}, "b"});
  network.layer({0, 1, 2, 0}, "softmax").from({Coord{0, 1, 1, 0}});
  network.output("p", {0, 1, 2, 0}).output("q", {0, 0, 2, 0}).output("same", {0, 0, 2, 0}).seed(4);
  return network.spec();
}

TEST(Run, EqualsTickingOneByOneHoweverManyTicksAreTakenAtOnce) {
  for (const bool with_loop : {false, true})
    for (const std::size_t sessions : {1, 3})
      for (const std::uint64_t ticks : {1, 7, 8, 63, 64, 65, 200}) {
        MeshOptions options;
        options.sessions = sessions;
        auto by_run = Mesh::build(wide_network(with_loop), options),
             by_tick = Mesh::build(wide_network(with_loop), options);
        ASSERT_TRUE(by_run) << by_run.error().text();
        const auto a = noise(ticks * sessions * 9, 1), b = noise(ticks * sessions * 4, 2);
        std::vector<float> p(ticks * sessions * 70), q(ticks * sessions * 8), same(q.size());
        const RunInput inputs[] = {{"a", a}, {"b", b}};
        const RunOutput outputs[] = {{"p", p}, {"q", q}, {"same", same}};
        // Twice in a row, so that a run also starts from a state that a run left.
        for (int round = 0; round < 2; ++round) {
          ASSERT_TRUE(by_run->run(inputs, ticks, outputs));
          for (std::uint64_t t = 0; t < ticks; ++t) {
            for (std::size_t s = 0; s < sessions; ++s) {
              ASSERT_TRUE(by_tick->set_input("a", std::span(a).subspan((t * sessions + s) * 9, 9), s));
              ASSERT_TRUE(by_tick->set_input("b", std::span(b).subspan((t * sessions + s) * 4, 4), s));
            }
            ASSERT_TRUE(by_tick->tick());
            for (std::size_t s = 0; s < sessions; ++s) {
              const auto want_p = by_tick->output("p", s).value(), want_q = by_tick->output("q", s).value();
              const std::size_t row = t * sessions + s;
              ASSERT_TRUE(std::equal(want_p.begin(), want_p.end(), p.begin() + static_cast<long>(row * 70))) << t;
              ASSERT_TRUE(std::equal(want_q.begin(), want_q.end(), q.begin() + static_cast<long>(row * 8))) << t;
            }
          }
          EXPECT_EQ(same, q) << "the second name of an output";
          // The last inputs stay in the ports.
          for (auto* each : {&by_run, &by_tick}) ASSERT_TRUE((*each)->tick(2));
          for (std::size_t s = 0; s < sessions; ++s)
            ASSERT_EQ(by_run->state_hash(s), by_tick->state_hash(s)) << with_loop << sessions << " " << ticks;
        }
      }
}

TEST(Run, KeepsAPortThatIsNotFedAtItsLastValue) {
  auto mesh = Mesh::build(wide_network(false)), counterpart = Mesh::build(wide_network(false));
  const auto b = noise(4, 5), a = noise(40 * 9, 6);
  std::vector<float> repeated;
  for (int t = 0; t < 40; ++t) repeated.insert(repeated.end(), b.begin(), b.end());
  ASSERT_TRUE(mesh->set_input("b", b));
  const RunInput only_a[] = {{"a", a}}, both[] = {{"a", a}, {"b", repeated}};
  ASSERT_TRUE(mesh->run(only_a, 40));
  ASSERT_TRUE(counterpart->run(both, 40));
  EXPECT_EQ(mesh->state_hash(), counterpart->state_hash());
}

TEST(Forward, EqualsHoldingTheInputUntilItHasSettled) {
  auto mesh = Mesh::build(wide_network(false));
  constexpr std::size_t kRows = 37;
  const auto a = noise(kRows * 9, 7), b = noise(kRows * 4, 8);
  std::vector<float> p(kRows * 70), held(kRows * 70);
  const RunInput inputs[] = {{"a", a}, {"b", b}};
  const RunOutput outputs[] = {{"p", p}}, held_outputs[] = {{"p", held}};
  const auto before = mesh->state_hash();
  ASSERT_TRUE(mesh->forward(inputs, kRows, outputs));
  ASSERT_TRUE(
      MeshAccess::evaluate_copies(*mesh, std::nullopt, inputs, kRows, mesh->graph().settle_ticks(), held_outputs));
  EXPECT_EQ(p, held);
  EXPECT_EQ(mesh->state_hash(), before);
  // And a row alone gives what it gave among others.
  std::vector<float> alone(70);
  const RunInput one[] = {{"a", std::span(a).subspan(20 * 9, 9)}, {"b", std::span(b).subspan(20 * 4, 4)}};
  const RunOutput into[] = {{"p", alone}};
  ASSERT_TRUE(mesh->forward(one, 1, into));
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), p.begin() + 20 * 70));
  for (const std::size_t row : {0, 36}) {
    ASSERT_TRUE(mesh->set_input("a", std::span(a).subspan(row * 9, 9)));
    ASSERT_TRUE(mesh->set_input("b", std::span(b).subspan(row * 4, 4)));
    ASSERT_TRUE(mesh->tick(mesh->graph().settle_ticks()));
    const auto y = mesh->output("p").value();
    EXPECT_TRUE(std::equal(y.begin(), y.end(), p.begin() + static_cast<long>(row * 70))) << row;
  }
}

TEST(Copies, AreMadeInPartsOfBoundedMemoryAndAnswerAsAlone) {
  constexpr std::size_t kWidth = 60000;
  const auto mesh = Mesh::build(NetworkBuilder("broad", GridShape{1, 1, 2, 1})
                                    .input("x", kWidth)
                                    .layer({0, 0, 0, 0}, "leaky_integrator")
                                    .layer({0, 0, 1, 0}, "activation")
                                    .output("y", {0, 0, 1, 0})
                                    .spec());
  const std::size_t most = MeshAccess::copies_at_once(*mesh), rows = 2 * most + 1;
  EXPECT_LE(State::bytes_for(mesh->graph(), {most, 2, false}), MeshAccess::kCopyBytes);
  ASSERT_LT(rows, 200u);
  const auto x = noise(rows * kWidth, 7);
  std::vector<float> all(rows * kWidth), alone(kWidth);
  const RunInput input{"x", x};
  const RunOutput output{"y", all};
  ASSERT_TRUE(MeshAccess::evaluate_copies(*mesh, 0, {&input, 1}, rows, 3, {&output, 1}));
  for (const std::size_t row : {std::size_t{0}, most - 1, most, 2 * most - 1, 2 * most}) {
    const RunInput one{"x", std::span(x).subspan(row * kWidth, kWidth)};
    const RunOutput into{"y", alone};
    ASSERT_TRUE(MeshAccess::evaluate_copies(*mesh, 0, {&one, 1}, 1, 3, {&into, 1}));
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + static_cast<long>(row * kWidth))) << row;
  }
}

TEST(Tick, ThousandsOfCellsAgreeOnAnyNumberOfThreads) {
  NetworkBuilder network("field", GridShape{4, 8, 8, 1});
  network.input("x", 16);
  for (std::uint32_t z = 0; z < 4; ++z)
    for (std::uint32_t y = 0; y < 8; ++y)
      for (std::uint32_t x = 0; x < 8; ++x) {
        network.dense({z, y, x, 0}, 16, Activation::tanh).neighbours(Neighbourhood::von_neumann);
        if (z == 0) network.from({"x"});
      }
  network.seed(3);
  std::optional<Hash128> reference;
  for (const std::size_t threads : {1, 2, 3, 7}) {
    MeshOptions options;
    options.threads = threads;
    options.grain_bytes = 0;
    options.pin = false;
    auto mesh = Mesh::build(network.spec(), options);
    ASSERT_TRUE(mesh) << mesh.error().text();
    EXPECT_EQ(mesh->plan().regions.size(), threads);
    ASSERT_TRUE(mesh->set_input("x", noise(16, 9)));
    ASSERT_TRUE(mesh->tick(300));
    if (!reference) reference = mesh->state_hash();
    EXPECT_EQ(mesh->state_hash(), *reference) << threads;
  }
}

}  // namespace
}  // namespace weft::mesh::tick_test
