// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/command.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/weights/weight_store.hpp"

#include "testing.hpp"
#include <thread>

namespace weft::mesh::command_test {
namespace {

using namespace testing_support;

constexpr Coord kCell{0, 0, 0, 0};

/// An integrator towards 1 that halves what is missing each time it fires: after n firings it holds 1 - 2^-n exactly.
Mesh counter() {
  Mesh mesh = must(Mesh::build(NetworkBuilder("counter", {1, 1, 2, 1})
                                   .input("in", 1)
                                   .layer(kCell, "leaky_integrator")
                                   .layer({0, 0, 1, 0}, "identity")
                                   .output("count", kCell)
                                   .spec(),
                               {.threads = 1}));
  must(mesh.set_input("in", std::vector<float>{1.0f}));
  return mesh;
}

/// Number of times the counter has fired.
int firings(const Mesh& mesh) { return static_cast<int>(-std::log2(1.0f - output_of(mesh, kCell)[0])); }

TEST(Command, DisablesAndEnablesACellAtExactlyTheTickNamed) {
  Mesh mesh = counter();
  const auto off = post(mesh, kCell, CommandKind::disable, 3), on = post(mesh, kCell, CommandKind::enable, 8);
  EXPECT_FALSE(off->is_done());
  for (int tick = 0; tick < 12; ++tick) {
    EXPECT_EQ(firings(mesh), tick <= 3 ? tick : tick <= 8 ? 3 : tick - 5) << "tick " << tick;
    EXPECT_EQ(off->is_done(), tick > 3);
    must(mesh.tick());
    // The neighbour goes on, and sees the output that was kept.
    EXPECT_EQ(output_of(mesh, {0, 0, 1, 0})[0], 1.0f - std::ldexp(1.0f, -(tick <= 3   ? tick
                                                                          : tick <= 8 ? 3
                                                                                      : tick - 5)));
  }
  ASSERT_TRUE(off->is_done() && on->is_done());
  EXPECT_EQ(off->done_at(), 3u);
  EXPECT_EQ(on->done_at(), 8u);
  EXPECT_TRUE(off->status().has_value());
}

TEST(Command, ActsInTheMiddleOfALongRunAsItDoesTickByTick) {
  Mesh mesh = counter();
  const auto off = post(mesh, kCell, CommandKind::disable, 5);
  must(mesh.run({}, 20));
  EXPECT_EQ(firings(mesh), 5);
  EXPECT_EQ(off->done_at(), 5u);
}

TEST(Command, ExecutesACommandAtTheNextBoundaryWhenNoTickIsNamed) {
  Mesh mesh = counter();
  must(mesh.tick(4));
  const auto off = post(mesh, kCell, CommandKind::disable);
  must(mesh.tick(3));
  EXPECT_EQ(off->done_at(), 4u);
  EXPECT_EQ(firings(mesh), 4);
}

TEST(Command, FiresAtMultiplesOfThePeriod) {
  Mesh mesh = counter();
  const auto slow = post(mesh, kCell, CommandKind::set_period, 2, 3);
  const auto never = post(mesh, kCell, CommandKind::set_period, 2, 0);
  must(mesh.tick(14));  // fires at 0, 1, then 3, 6, 9, 12
  EXPECT_EQ(firings(mesh), 6);
  EXPECT_EQ(slow->done_at(), 2u);
  expect_error(never->status(), Errc::invalid_argument,
               {"cell [0,0,0,0]", "set_period", "period of 0", "1 is every tick"});
}

TEST(Command, ResetsOutputAndHiddenStateAndNothingElse) {
  Mesh mesh = counter();
  const auto zero = post(mesh, kCell, CommandKind::reset, 4);
  must(mesh.tick(5));
  EXPECT_EQ(output_of(mesh, kCell), std::vector<float>{0.0f});
  EXPECT_EQ(output_of(mesh, {0, 0, 1, 0}), std::vector<float>{1.0f - 0.0625f});  // what stood at tick 4
  must(mesh.tick(3));
  EXPECT_EQ(firings(mesh), 3);
  EXPECT_EQ(zero->done_at(), 4u);
}

Mesh weighted(std::size_t sessions = 1) {
  return must(Mesh::build(
      NetworkBuilder("weighted", {1, 1, 1, 2}).input("in", 2).dense({0, 0, 0, 0}, 3).dense({0, 0, 0, 1}, 1).spec(),
      {.threads = 1, .sessions = sessions}));
}

TEST(Command, ReplacesWeightsBetweenTwoTicks) {
  Mesh mesh = weighted();
  must(mesh.set_input("in", std::vector<float>{1.0f, 10.0f}));
  const auto send_command = [&](std::uint64_t tick, std::uint32_t parameter, std::vector<float> values) {
    return post(
        mesh, kCell,
        {.kind = CommandKind::set_weights, .not_before = tick, .values = std::move(values), .parameter = parameter});
  };
  send_command(0, 0, {1, 2, 3, 4, 5, 6});  // row-major [3, 2]
  send_command(2, 1, {100, 200, 300});
  must(mesh.tick(1));
  EXPECT_EQ(output_of(mesh, kCell), (std::vector<float>{21, 43, 65}));
  must(mesh.tick(1));
  EXPECT_EQ(output_of(mesh, kCell), (std::vector<float>{21, 43, 65}));
  must(mesh.tick(1));
  EXPECT_EQ(output_of(mesh, kCell), (std::vector<float>{121, 243, 365}));
  const auto snapshot = post(mesh, kCell, CommandKind::snapshot);
  must(mesh.tick());
  EXPECT_EQ(snapshot->answer(), (std::vector<float>{1, 2, 3, 4, 5, 6, 100, 200, 300}));
}

TEST(Command, RefusesCommandsThatDoNotFitAndChangesNothing) {
  Mesh mesh = weighted(2);
  const auto refused = [&](auto&& fill) {
    auto control = std::make_shared<Command>();
    fill(*control);
    const auto before = mesh.state_hash();
    const std::uint64_t ticks = mesh.ticks();
    Mesh counterpart = weighted(2);
    must(counterpart.tick(ticks));
    EXPECT_EQ(counterpart.state_hash(), before);
    must(mesh.post(kCell, control));
    must(mesh.tick());
    must(counterpart.tick());
    EXPECT_EQ(counterpart.state_hash(), mesh.state_hash());
    EXPECT_TRUE(control->is_done());
    return control->status();
  };
  expect_error(refused([](Command& c) {
                 c.kind = CommandKind::set_weights, c.values = {1, 2};
               }),
               Errc::shape_mismatch, {"cell [0,0,0,0]", "set_weights", "'weight'", "2 values", "6"});
  expect_error(refused([](Command& c) { c.kind = CommandKind::set_weights, c.values = {1, 2, 3, 4, NAN, 6}; }),
               Errc::not_finite, {"'weight'", "value 4", "nan"});
  expect_error(refused([](Command& c) { c.kind = CommandKind::set_weights, c.parameter = 2; }), Errc::out_of_range,
               {"parameter 2", "2"});
  expect_error(refused([](Command& c) { c.kind = CommandKind::disable, c.level = 2; }), Errc::out_of_range,
               {"level 2", "2 layers"});
  EXPECT_TRUE(refused([](Command& c) { c.kind = CommandKind::morph; }).has_value());
  expect_error(mesh.post({0, 0, 7, 0}, std::make_shared<Command>()), Errc::out_of_range, {"[0,0,7,0]", "1x1x1x2"});
  expect_error(mesh.post(kCell, nullptr), Errc::invalid_argument, {"[0,0,0,0]"});
}

TEST(Command, MorphsALayerAtATickBoundary) {
  Mesh mesh = must(Mesh::build(NetworkBuilder("n", {1, 1, 1, 2})
                                   .input("in", 40)
                                   .dense({0, 0, 0, 0}, 20, kernels::Activation::tanh)
                                   .layer({0, 0, 0, 1}, "layer_norm")
                                   .spec()));
  must(mesh.set_input("in", noise(40, 1)));
  must(mesh.tick(2));
  Mesh counterpart = must(Mesh::build(mesh.spec()));
  must(counterpart.set_input("in", noise(40, 1)));
  must(counterpart.tick(2));
  const auto command =
      post(mesh, kCell, {.kind = CommandKind::morph, .not_before = 4, .encoding = Encoding(Dtype::int4)});
  must(mesh.tick(5));
  ASSERT_TRUE(command->is_done());
  EXPECT_EQ(command->done_at(), 4u);
  must(command->status());
  // The same by hand, between two ticks.
  must(counterpart.tick(2));
  must(MeshAccess::weights(counterpart).morph(1, "layer", Encoding(Dtype::int4)));
  must(counterpart.tick(3));
  EXPECT_EQ(counterpart.state_hash(), mesh.state_hash());

  const auto wrong = post(mesh, kCell, {.kind = CommandKind::morph, .encoding = Encoding(Dtype::int8), .level = 1});
  must(mesh.tick());
  must(counterpart.tick());
  expect_error(wrong->status(), Errc::unsupported, {"cell [0,0,0,0]", "morph", "no weight matrix", "int8/channel"});
  EXPECT_EQ(counterpart.state_hash(), mesh.state_hash());
}

TEST(Command, RefusesACommandToAnEmptyCell) {
  Mesh mesh = must(Mesh::build(NetworkBuilder("n", {1, 2, 2, 1}).input("in", 2).dense({0, 1, 0, 0}, 3).spec()));
  expect_error(mesh.post({0, 0, 1, 0}, std::make_shared<Command>()), Errc::unknown_name, {"[0,0,1,0]"});
  EXPECT_TRUE(mesh.post({0, 1, 0, 0}, std::make_shared<Command>()).has_value());
}

TEST(Command, ProbesWhatASessionCommittedAtThatTick) {
  Mesh mesh = weighted(3);
  for (std::size_t b = 0; b < 3; ++b) must(mesh.set_input("in", noise(2, b), b));
  must(mesh.tick(2));
  const auto probe = post(mesh, kCell, {.number = 2, .level = 1});
  const auto committed = output_of(mesh, {0, 0, 0, 1}, 2);
  must(mesh.set_input("in", noise(2, 77), 2));
  must(mesh.tick(3));
  EXPECT_EQ(probe->answer(), committed);
  EXPECT_EQ(probe->done_at(), 2u);
}

TEST(Command, SaysWhenTheMailboxIsFullAndTakesCommandsAgainAfterATick) {
  Mesh mesh = counter();
  for (std::size_t i = 0; i < Cell::kMailboxCapacity; ++i) post(mesh, kCell, CommandKind::probe);
  expect_error(mesh.post(kCell, std::make_shared<Command>()), Errc::full, {"cell [0,0,0,0]", "16", "tick"});
  must(mesh.tick());
  const auto later = post(mesh, kCell, CommandKind::probe);
  must(mesh.tick());
  EXPECT_TRUE(later->is_done());
  EXPECT_EQ(mesh.registry().view(0).messages, Cell::kMailboxCapacity + 1);
}

TEST(Command, ExecutesCommandsOfOneTickAsTheyWereSent) {
  Mesh mesh = counter();
  // Sent first but due at tick 6, beside one sent later without a date: the later one has the last word.
  const auto first = post(mesh, kCell, CommandKind::disable, 6);
  must(mesh.tick(6));
  const auto second = post(mesh, kCell, CommandKind::enable);
  must(mesh.tick(4));
  EXPECT_EQ(first->done_at(), 6u);
  EXPECT_EQ(second->done_at(), 6u);
  EXPECT_EQ(firings(mesh), 10);
}

TEST(Command, KeepsCommandsWhileSessionsComeAndGo) {
  Mesh mesh = counter();
  const auto dated = post(mesh, kCell, CommandKind::disable, 5);
  must(mesh.tick(2));
  const auto waiting = post(mesh, {0, 0, 1, 0}, CommandKind::disable);
  must(mesh.add_session());
  must(mesh.tick(8));
  ASSERT_TRUE(waiting->is_done());
  EXPECT_EQ(waiting->done_at(), 2u);
  ASSERT_TRUE(dated->is_done());
  EXPECT_EQ(dated->done_at(), 5u);
  EXPECT_EQ(firings(mesh), 5);
}

struct Posted {
  Coord cell;
  CommandKind kind;
  std::uint64_t number;
  std::vector<float> values;
};

std::vector<Posted> commands() {
  std::vector<Posted> all;
  const Coord cells[] = {{0, 0, 0, 0}, {0, 1, 0, 0}, {0, 1, 1, 0}, {1, 0, 1, 0}};
  for (std::uint64_t i = 0; i < 40; ++i) {
    const Coord cell = cells[i % 4];
    const CommandKind kinds[] = {CommandKind::disable, CommandKind::set_period, CommandKind::enable,
                                 CommandKind::reset};
    if (i % 10 == 7) {
      all.push_back({{1, 1, 0, 0}, CommandKind::set_weights, 0, noise(4 * 19, i)});
    } else {
      all.push_back({cell, kinds[i / 4 % 4], 1 + i % 3, {}});
    }
  }
  return all;
}

CommandMessage send(Mesh& mesh, const Posted& posted, std::uint64_t not_before) {
  for (;;) {
    auto control = std::make_shared<Command>();
    control->kind = posted.kind;
    control->number = posted.number;
    control->values = posted.values;
    control->not_before = not_before;
    if (auto sent = mesh.post(posted.cell, control)) return *sent;
    std::this_thread::yield();
  }
}

void feed(Mesh& mesh) {
  for (std::size_t b = 0; b < mesh.sessions(); ++b) {
    must(mesh.set_input("a", noise(7, 2 * b), b));
    must(mesh.set_input("b", noise(5, 2 * b + 1), b));
  }
}

TEST(Command, ReplaysCommandsThatAnotherThreadSentInTheMiddleOfARun) {
  Mesh mesh = must(Mesh::build(mixed_network().spec(), {.threads = 2, .grain_bytes = 0}));
  feed(mesh);
  std::vector<CommandMessage> sent;
  std::atomic<bool> is_over{false};
  std::thread sender([&] {
    for (const Posted& posted : commands()) {
      sent.push_back(send(mesh, posted, 0));
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    is_over = true;
  });
  while (!is_over) must(mesh.tick(50));
  sender.join();
  must(mesh.tick(50));

  Mesh replay =
      must(Mesh::build(mixed_network().spec(), {.executor = ExecutorKind::deterministic, .executor_seed = 5}));
  feed(replay);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    ASSERT_TRUE(sent[i]->is_done());
    EXPECT_TRUE(sent[i]->status().has_value());
    send(replay, commands()[i], sent[i]->done_at());
  }
  must(replay.tick(mesh.ticks()));
  EXPECT_EQ(to_string(replay.state_hash()), to_string(mesh.state_hash()));
}

TEST(Command, GivesTheSameBitsOnEveryThreadCountAndExecutor) {
  const auto run = [](MeshOptions options, bool in_one_run) {
    options.grain_bytes = 0;
    options.sessions = 2;
    Mesh mesh = must(Mesh::build(mixed_network().spec(), options));
    feed(mesh);
    std::uint64_t at = 0;
    for (const Posted& posted : commands()) send(mesh, posted, at += 3);
    if (in_one_run) {
      must(mesh.run({}, 200));
    } else {
      for (int i = 0; i < 200; ++i) must(mesh.tick());
    }
    return to_string(mesh.state_hash(0)) + to_string(mesh.state_hash(1));
  };
  const std::string reference = run({.threads = 1}, false);
  for (const std::size_t threads : {1, 2, 7})
    for (const bool in_one_run : {false, true})
      EXPECT_EQ(run({.threads = threads}, in_one_run), reference) << threads << " threads";
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    EXPECT_EQ(run({.threads = 7, .executor = ExecutorKind::deterministic, .executor_seed = seed}, seed % 2), reference)
        << "seed " << seed;
}

}  // namespace
}  // namespace weft::mesh::command_test
