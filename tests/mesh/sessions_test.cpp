// SPDX-License-Identifier: Apache-2.0

#include "mesh/mesh.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/persistence/snapshot.hpp"

#include "testing.hpp"
#include <set>

namespace weft::mesh::sessions_test {
namespace {

using namespace testing_support;

Mesh mesh_of(std::size_t sessions) {
  return must(Mesh::build(mixed_network().spec(), {.threads = 1, .sessions = sessions}));
}

/// Input of sequence `sequence` at `tick`.
void feed(Mesh& mesh, std::size_t session, std::uint64_t sequence, std::uint64_t tick) {
  must(mesh.set_input("a", noise(7, 1000 * sequence + 2 * tick), session));
  must(mesh.set_input("b", noise(5, 1000 * sequence + 2 * tick + 1), session));
}

TEST(Sessions, LiveAsIfAloneWhoeverElseIsAboard) {
  Mesh together = mesh_of(5);
  std::vector<Mesh> alone;
  for (int i = 0; i < 5; ++i) alone.push_back(mesh_of(1));
  for (std::uint64_t tick = 0; tick < 20; ++tick) {
    for (std::size_t b = 0; b < 5; ++b) {
      feed(together, b, b, tick);
      feed(alone[b], 0, b, tick);
      must(alone[b].tick());
    }
    must(together.tick());
  }
  for (std::size_t b = 0; b < 5; ++b) {
    EXPECT_EQ(output_bits(together, b), output_bits(alone[b], 0)) << "session " << b;
    EXPECT_EQ(together.state_hash(b), alone[b].state_hash());
  }
  EXPECT_NE(output_bits(together, 0), output_bits(together, 1));
}

TEST(Sessions, ComeAndGoWithoutTouchingTheOthers) {
  Mesh together = mesh_of(2), first = mesh_of(1), second = mesh_of(1), third = mesh_of(1);
  const auto tick = [&](std::uint64_t t) {
    for (Mesh* mesh : {&together, &first, &second, &third}) must(mesh->tick());
    return t + 1;
  };
  std::uint64_t t = 0;
  while (t < 7) {
    feed(together, 0, 1, t), feed(together, 1, 2, t), feed(first, 0, 1, t), feed(second, 0, 2, t);
    t = tick(t);
  }
  EXPECT_EQ(must(together.add_session()), 2u);
  EXPECT_EQ(together.sessions(), 3u);
  must(third.reset_session(0));  // a new session is at zero state
  EXPECT_EQ(output_bits(together, 2), std::vector<std::uint32_t>(output_bits(third, 0).size(), 0u));
  while (t < 14) {
    feed(together, 0, 1, t), feed(together, 1, 2, t), feed(together, 2, 3, t);
    feed(first, 0, 1, t), feed(second, 0, 2, t), feed(third, 0, 3, t);
    t = tick(t);
  }
  EXPECT_EQ(output_bits(together, 2), output_bits(third, 0));
  must(together.remove_session(1));
  while (t < 21) {
    feed(together, 0, 1, t), feed(together, 1, 3, t), feed(first, 0, 1, t), feed(third, 0, 3, t);
    t = tick(t);
  }
  EXPECT_EQ(together.state_hash(0), first.state_hash());
  EXPECT_EQ(together.state_hash(1), third.state_hash());
}

TEST(Sessions, KeepTheInputTheyWereGivenWhenOthersCome) {
  Mesh mesh = mesh_of(1), alone = mesh_of(1);
  feed(mesh, 0, 1, 0), feed(alone, 0, 1, 0);
  must(mesh.add_session());
  must(mesh.tick(5));
  must(alone.tick(5));
  EXPECT_EQ(output_bits(mesh, 0), output_bits(alone, 0));
}

TEST(Sessions, ResetAloneToTheirBirth) {
  Mesh mesh = mesh_of(2), other = mesh_of(1), fresh = mesh_of(1);
  for (std::uint64_t t = 0; t < 6; ++t) {
    feed(mesh, 0, 1, t), feed(mesh, 1, 2, t), feed(other, 0, 2, t);
    must(mesh.tick());
    must(other.tick());
  }
  must(mesh.reset_session(0));
  for (std::uint64_t t = 0; t < 6; ++t) {
    feed(mesh, 0, 3, t), feed(mesh, 1, 2, t), feed(other, 0, 2, t), feed(fresh, 0, 3, t);
    must(mesh.tick());
    must(other.tick());
    must(fresh.tick());
  }
  EXPECT_EQ(output_bits(mesh, 0), output_bits(fresh, 0));
  EXPECT_EQ(output_bits(mesh, 1), output_bits(other, 0));
}

TEST(Sessions, RefuseWhatDoesNotFit) {
  Mesh mesh = mesh_of(2);
  expect_error(mesh.set_input("a", std::vector<float>(7), 2), Errc::out_of_range, {"'a'", "session 2 of 2"});
  expect_error(mesh.set_input("a", std::vector<float>(6)), Errc::shape_mismatch, {"'a'", "6", "7"});
  expect_error(mesh.set_input("c", std::vector<float>(6)), Errc::unknown_name, {"'c'"});
  expect_error(mesh.set_input("b", std::vector<float>{1, 2, INFINITY, 4, 5}), Errc::not_finite,
               {"'b'", "value 2", "inf"});
  expect_error(mesh.output("left", 2), Errc::out_of_range, {"session 2 of 2"});
  expect_error(mesh.output("middle"), Errc::unknown_name, {"'middle'"});
  expect_error(mesh.output(Coord{1, 1, 1, 1}), Errc::unknown_name, {"[1,1,1,1]"});
  expect_error(mesh.output(Coord{5, 1, 1, 1}), Errc::unknown_name, {"[5,1,1,1]"});
  expect_error(mesh.remove_session(2), Errc::out_of_range, {"session 2 of 2"});
  expect_error(mesh.reset_session(9), Errc::out_of_range, {"session 9 of 2"});
  must(mesh.remove_session(1));
  expect_error(mesh.remove_session(0), Errc::invalid_argument, {"session 0", "last"});
  expect_error(Mesh::build(mixed_network().spec(), {.sessions = 0}), Errc::invalid_argument,
               {"sessions", "0", "65536"});
  expect_error(Mesh::build(mixed_network().spec(), {.sessions = 65537}), Errc::invalid_argument, {"65537"});
  expect_error(Mesh::build(mixed_network().spec(), {.device_timeout = std::chrono::milliseconds(-1)}),
               Errc::out_of_range, {"device_timeout: -1 ms; 0 or more are expected"});
}

TEST(Runs, RefuseInputsAndOutputsThatDoNotFit) {
  Mesh mesh = mesh_of(2);
  const std::vector<float> a(2 * 3 * 7);
  std::vector<float> left(2 * 3 * 4);
  const auto run = [&](std::vector<RunInput> inputs, std::vector<RunOutput> outputs) {
    const auto status = mesh.run(inputs, 3, outputs);
    EXPECT_EQ(mesh.ticks(), 0u);
    return status;
  };
  expect_error(run({{"z", a}}, {}), Errc::unknown_name, {"'z'"});
  expect_error(run({{"a", std::span(a).first(40)}}, {}), Errc::shape_mismatch, {"'a'", "40", "42"});
  expect_error(run({{"a", a}, {"a", a}}, {}), Errc::duplicate_name, {"'a'"});
  expect_error(run({}, {{"up", left}}), Errc::unknown_name, {"'up'"});
  expect_error(run({}, {{"left", std::span(left).first(23)}}), Errc::shape_mismatch, {"'left'", "23", "24"});
  std::vector<float> bad(a);
  bad[5] = -INFINITY;
  expect_error(run({{"a", bad}}, {}), Errc::not_finite, {"'a'", "value 5", "inf"});
}

TEST(Forward, NamesTheLayerThatFails) {
  register_fragile();
  Mesh mesh = must(Mesh::build(NetworkBuilder("n", {1, 1, 2, 1})
                                   .input("in", 1)
                                   .layer({0, 0, 0, 0}, "identity")
                                   .layer({0, 0, 1, 0}, "fragile")
                                   .spec()));
  const auto forward = [&](float value) {
    const RunInput inputs[] = {{"in", {&value, 1}}};
    return mesh.forward(inputs, 1, {});
  };
  EXPECT_TRUE(forward(1.0f).has_value());
  expect_error(forward(kNan), Errc::not_finite, {"[0,0,1,0]", "not finite"});
  expect_error(forward(kThrow), Errc::internal, {"[0,0,1,0]", "the fuse blew"});
}

}  // namespace
}  // namespace weft::mesh::sessions_test
