// SPDX-License-Identifier: Apache-2.0

// Layers inside containers that answer for their own faults. Faults in learning:
// tests/learning/inner_policies_test.cpp.

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/network/network_digest.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/persistence/snapshot.hpp"
#include "mesh/runtime/cell.hpp"

#include "device_pair.hpp"
#include "fault_scenarios.hpp"
#include "fuse_layer.hpp"
#include "testing.hpp"
#include <map>

namespace weft::mesh::inner_policies_test {
namespace {

using namespace testing_support;
using actors::Policy;

/// A container over four inputs, and a cell that reads it.
NetworkSpec network(const std::string& type, const std::string& layers, const std::string& keys = "",
                    actors::SupervisionRule rule = {}) {
  register_fuse();
  NetworkSpec spec = must(read_network(R"({"weft": 2, "seed": 3, "inputs": {"x": [4]}, "chain": [{"type": ")" + type +
                                           R"(", )" + keys + R"("layers": [)" + layers +
                                           R"(]}, {"type": "dense", "out": 3, "activation": "tanh"}]})",
                                       "policies"));
  spec.supervision = rule;
  return spec;
}

std::string fuse(int trigger, const std::string& keys = "") {
  return R"({"type": "fuse", "memory": true, "trigger": )" + std::to_string(trigger) +
         (keys.empty() ? "}" : ", " + keys + "}");
}
const std::string kHalt = R"("policy": "halt")", kHold = R"("policy": "hold")", kRestart = R"("policy": "restart")";

/// The input of a tick; `triggers`: by value.
std::vector<float> input(std::uint64_t tick, const std::map<std::size_t, float>& triggers = {}, std::size_t row = 0) {
  std::vector<float> x = noise(4, 100 * row + tick);
  for (const auto& [at, trigger] : triggers) x[at] = trigger;
  return x;
}
Status step(Mesh& mesh, std::uint64_t tick, const std::map<std::size_t, float>& triggers = {}) {
  must(mesh.set_input("x", input(tick, triggers)));
  return mesh.tick();
}
void write_scale(Mesh& mesh, std::size_t parameter, float scale) {
  WeightStore& weights = MeshAccess::weights(mesh);
  must(weights.write(weights.parameters()[parameter], std::vector<float>{scale}, "w"));
}
float scale_of(const Mesh& mesh, std::size_t parameter) {
  const WeightStore& weights = MeshAccess::weights(mesh);
  return weights.read(weights.parameters()[parameter])[0];
}

class InnerPoliciesOfFirings : public testing::TestWithParam<float> {};
INSTANTIATE_TEST_SUITE_P(Faults, InnerPoliciesOfFirings, testing::Values(kThrow, kNan, kInfinite, kBadHidden),
                         [](const auto& tested) { return "Trigger" + std::to_string(static_cast<int>(tested.param)); });

// Two experts with weights and memories of their own: one goes back, the other keeps what it has.
TEST_P(InnerPoliciesOfFirings, RestartsTheLayerInsideAloneAndTheOthersKeepWhatTheyHave) {
  Mesh mesh = must(Mesh::build(network("parallel", fuse(0, kRestart) + "," + fuse(1, kHold))));
  write_scale(mesh, 0, 2.0f);
  write_scale(mesh, 1, 3.0f);
  float first = 0, second = 0;  // value 3 of the hidden states
  for (std::uint64_t tick = 0; tick < 4; ++tick) {
    must(step(mesh, tick));
    first = 0.5f * first + 2.0f * input(tick)[3];
    second = 0.5f * second + 3.0f * input(tick)[3];
  }
  must(step(mesh, 4, {{0, GetParam()}}));
  EXPECT_EQ(output_of(mesh, {0, 0, 0, 0})[3], first) << "the tick is dropped as a whole";
  EXPECT_EQ(output_of(mesh, {0, 0, 0, 0})[7], second);
  EXPECT_EQ(events_of(mesh), "0@4 " + std::string(GetParam() == kThrow ? "threw" : "output_not_finite") +
                                 " '0,0,0,0.layers[0]" + (GetParam() == kThrow ? ": the fuse blew" : "") +
                                 "' restart 1\n");
  EXPECT_EQ(scale_of(mesh, 0), 1.0f) << "as when the mesh was built";
  EXPECT_EQ(scale_of(mesh, 1), 3.0f);
  must(step(mesh, 5));
  EXPECT_EQ(output_of(mesh, {0, 0, 0, 0})[3], input(5)[3]) << "its memory went back to 0";
  EXPECT_EQ(output_of(mesh, {0, 0, 0, 0})[7], 0.5f * second + 3.0f * input(5)[3]);
}

TEST_P(InnerPoliciesOfFirings, HasTheAnswerOfTheInnermostLayerThatSaysOne) {
  const auto answer = [&](const std::string& type, const std::string& layers, const std::string& keys, int trigger) {
    Mesh mesh = must(Mesh::build(network(type, layers, keys, {.policy = Policy::restart})));
    const Status ended = step(mesh, 0, {{trigger, GetParam()}});
    const std::string events = events_of(mesh);
    EXPECT_EQ(ended.has_value(), events.find(" halt ") == std::string::npos);
    if (!ended) {
      EXPECT_NE(ended.error().text().find("0,0,0,0.layers["), std::string::npos) << ended.error().text();
    }
    const std::size_t quote = events.find('\'') + 1;
    const std::string reason = events.substr(quote, events.find('\'', quote) - quote);
    return reason.substr(0, reason.find(": ")) + events.substr(events.rfind('\'') + 1);
  };
  const std::string nested = R"({"type": "sequential", )" + kHold + R"(, "layers": [)" + fuse(0) + "," +
                             fuse(1, kHalt) + "," + fuse(2, kRestart) + "]}," + fuse(3);
  const std::string whole = GetParam() == kThrow ? "the fuse blew" : "";
  for (const char* type : {"parallel", "sequential"}) {
    EXPECT_EQ(answer(type, nested, "", 0), "0,0,0,0.layers[0] hold 0\n");
    EXPECT_EQ(answer(type, nested, "", 1), "0,0,0,0.layers[0].layers[1] halt 0\n");
    EXPECT_EQ(answer(type, nested, "", 2), "0,0,0,0.layers[0].layers[2] restart 1\n");
    EXPECT_EQ(answer(type, nested, "", 3), whole + " restart 1\n") << "the network's";
    EXPECT_EQ(answer(type, nested, kHold + ", ", 3), whole + " hold 0\n") << "the cell's";
  }
}

TEST(InnerPolicies, FindTheLayerWhereValuesBeginToBeNotFinite) {
  // The first makes an infinity that the cap takes away again; the second's NaN reaches the sum.
  const std::string capped = fuse(0, kHalt) + R"(, {"type": "soft_cap", "cap": 3, "name": "capped"},)" +
                             fuse(1, kRestart + R"(, "from": ["input"], "name": "second")") +
                             R"(,{"type": "residual", "from": ["capped", "second"]})";
  Mesh mesh = must(Mesh::build(network("sequential", capped)));
  must(step(mesh, 0, {{0, kInfinite}}));
  EXPECT_EQ(events_of(mesh), "");
  must(step(mesh, 1, {{0, kInfinite}, {1, kNan}}));
  EXPECT_EQ(events_of(mesh), "0@1 output_not_finite '0,0,0,0.layers[2]' restart 1\n");

  // Two that begin at once both answer, up to one that halts.
  const auto events = [](const std::string& layers, const std::map<std::size_t, float>& triggers) {
    Mesh two = must(Mesh::build(network("parallel", layers)));
    (void)step(two, 0, triggers);
    return events_of(two);
  };
  const std::map<std::size_t, float> both{{0, kNan}, {1, kInfinite}};
  const std::string at = "0@0 output_not_finite '0,0,0,0.layers[";
  EXPECT_EQ(events(fuse(0, kHold) + "," + fuse(1, kRestart), both), at + "0]' hold 0\n" + at + "1]' restart 1\n");
  EXPECT_EQ(events(fuse(0, kHalt) + "," + fuse(1, kRestart), both), at + "0]' halt 0\n");
  EXPECT_EQ(events(fuse(0, kHold) + "," + fuse(1), both), at + "0]' hold 0\n0@0 output_not_finite '' halt 0\n");
}

// An expert with a memory is computed though it is not chosen; what it makes then is nobody's fault.
TEST(InnerPolicies, LookAtChosenExpertsAlone) {
  Mesh mesh = must(
      Mesh::build(network("parallel", fuse(0, kRestart) + "," + fuse(1, kHold), R"("merge": "filter", "top_k": 1, )")));
  WeightStore& weights = MeshAccess::weights(mesh);
  ASSERT_EQ(weights.parameters()[2].spec->name, "gate.weight");
  must(weights.write(weights.parameters()[2], std::vector<float>{0, 0, 1, 0, 0, 0, -1, 0}, "w"));
  const std::string at = "output_not_finite '0,0,0,0.layers[";
  must(step(mesh, 0, {{1, kNan}, {2, 1.0f}}));
  EXPECT_EQ(events_of(mesh), "");
  must(step(mesh, 1, {{0, kNan}, {1, kNan}, {2, 1.0f}}));
  EXPECT_EQ(events_of(mesh), "0@1 " + at + "0]' restart 1\n");
  must(step(mesh, 2, {{0, kNan}, {1, kNan}, {2, -1.0f}}));
  EXPECT_EQ(events_of(mesh), "0@1 " + at + "0]' restart 1\n0@2 " + at + "1]' hold 0\n");
}

TEST(InnerPolicies, CountRestartsWithTheirCell) {
  Mesh mesh = must(Mesh::build(network("parallel", fuse(0, kRestart) + "," + fuse(1, kRestart), kHold + ", ",
                                       {.max_restarts = 2, .window = 0, .escalation = Policy::isolate})));
  for (std::uint64_t tick = 0; tick < 4; ++tick) must(step(mesh, tick, {{tick % 2, kThrow}}));
  EXPECT_EQ(events_of(mesh),
            "0@0 threw '0,0,0,0.layers[0]: the fuse blew' restart 1\n0@1 threw '0,0,0,0.layers[1]: the fuse blew' "
            "restart 2\n0@2 threw '0,0,0,0.layers[0]: the fuse blew' isolate 2 escalated\n");
  EXPECT_EQ(mesh.registry().status(0), actors::ActorStatus::isolated);
  EXPECT_EQ(mesh.registry().view(0).restarts, 2u);
}

NetworkSpec nested_network() {
  return network("sequential",
                 R"({"type": "parallel", "merge": "add", "layers": [)" + fuse(0, kRestart) + "," + fuse(1, kHold) +
                     R"(, {"type": "sequential", )" + kRestart + R"(, "layers": [)" + fuse(2) +
                     R"(, {"type": "dense", "out": 4}]},)" + fuse(3) + R"(]}, {"type": "dense", "out": 4})",
                 kHold + ", ", {.max_restarts = 3, .window = 15, .escalation = Policy::hold});
}

constexpr std::uint64_t kTicks = 24;

/// Ticks [from, to): in some of them some sessions fail, in layers and ways of their own. Hashes, tick by tick.
std::string course_of(Mesh& mesh, std::uint64_t from, std::uint64_t to) {
  constexpr float kWays[] = {kThrow, kNan, kInfinite, kBadHidden};
  std::string course;
  for (std::uint64_t tick = from; tick < to; ++tick) {
    if (tick == 7) MeshAccess::take_cell_snapshots(mesh);
    for (std::size_t b = 0; b < mesh.sessions(); ++b) {
      std::map<std::size_t, float> triggers;
      const std::uint32_t drawn = static_cast<std::uint32_t>(5 * tick + b) * 2654435761u >> 16;
      if (drawn % 5 == 0) triggers[drawn / 5 % 4] = kWays[drawn / 20 % 4];
      must(mesh.set_input("x", input(tick, triggers, b), b));
    }
    if (tick % 5 == 0) write_scale(mesh, tick % 2, 0.25f * static_cast<float>(tick % 7) + 0.5f);
    must(mesh.tick());
    course += hashes(mesh) + "\n";
  }
  return course;
}

TEST(InnerPolicies, AnswerAlikeOnAllThreadsAndExecutors) {
  const auto run = [](MeshOptions options) {
    options.sessions = 5;
    options.grain_bytes = 0;
    options.pin = false;
    Mesh mesh = must(Mesh::build(nested_network(), options));
    const std::string course = course_of(mesh, 0, kTicks);
    return course + events_of(mesh);
  };
  const std::string expected = run({.threads = 1});
  for (const char* found : {"layers[0].layers[0]", "layers[0].layers[1]", "layers[0].layers[2]'", " threw '0,0",
                            " 'the fuse blew' hold", "restart 3", "hold 3 escalated"})
    EXPECT_NE(expected.find(found), std::string::npos) << found << "\n" << expected;
  for (const std::size_t threads : {2, 7}) {
    EXPECT_EQ(run({.threads = threads}), expected) << threads;
    EXPECT_EQ(run({.threads = threads, .wide = true, .wide_from = 0}), expected) << threads << ", wide";
  }
  for (const std::uint64_t seed : {1, 2})
    EXPECT_EQ(run({.threads = 2, .executor = ExecutorKind::deterministic, .executor_seed = seed}), expected) << seed;
}

TEST(InnerPolicies, GoOnFromFilesAndSnapshotsToTheSameBits) {
  const MeshOptions options{.threads = 1, .sessions = 3};
  Mesh mesh = must(Mesh::build(nested_network(), options));
  (void)course_of(mesh, 0, 10);
  const auto file = must(encode_mesh(mesh, true));
  MeshAccess::take_cell_snapshots(mesh);  // an agent does so with each checkpoint
  Snapshot snapshot;
  mesh.take_snapshot(snapshot, SnapshotWeights::always);
  const std::string expected = course_of(mesh, 10, kTicks);
  ASSERT_GT(mesh.registry().view(0).restarts, 3u);
  must(mesh.restore_snapshot(snapshot));
  EXPECT_EQ(course_of(mesh, 10, kTicks), expected);
  Mesh again = mesh_of_file(file);
  EXPECT_EQ(course_of(again, 10, kTicks), expected);
  EXPECT_EQ(again.registry().view(0).restarts, mesh.registry().view(0).restarts);
}

TEST(InnerPolicies, AreReadWrittenAndRefused) {
  const NetworkSpec spec = nested_network();
  const std::string text = must(write_network(spec));
  EXPECT_EQ(must(write_network(must(read_network(text, "again")))), text);
  EXPECT_EQ(spec.layers[0].layers[0].layers[0].policy, Policy::restart);
  EXPECT_EQ(spec.layers[0].layers[1].policy, std::nullopt);
  const auto digest = [](const std::string& keys) {
    return network_digest(must(Graph::build(network("sequential", fuse(0, keys)))));
  };
  EXPECT_EQ(digest(kHold), digest("")) << "as with the policy of a cell";
  expect_error(Graph::build(network("sequential", fuse(0, R"("policy": "isolate")"))), Errc::unsupported,
               {"layers[0].layers[0].policy", "disabled alone", "container"});
  expect_error(Graph::build(must(read_network(R"({"weft": 2, "inputs": {"x": [4]}, "grid": {"x": 2}, "layers": [
                   {"at": [0, 0, 0, 0], "type": "dense", "out": 4, "from": ["x"]},
                   {"at": [0, 0, 1, 0], "type": "sequential", "layers": [
                     {"type": "shared", "at": [0, 0, 0, 0], "policy": "hold"}]}]})",
                                              "shared"))),
               Errc::unsupported, {"layers[1].layers[0].policy", "shared", "container"});
}

class InnerPoliciesOnADevice : public DevicePair {
 protected:
  /// Rounds of ticks of which some fail: `value` in input "a" of session 1.
  void run_with(
      const NetworkSpec& spec, const std::vector<float>& values,
      const std::function<void(Mesh&)>& prepare = [](Mesh&) {}) {
    build(spec, 2);
    both(prepare);
    for (std::uint64_t round = 0; round < 2 * values.size(); ++round) {
      set_inputs(round);
      std::vector<float> a = noise(7, round);
      if (round % 2 == 1) a[round / 2 % 3] = values[round / 2];
      both([&](Mesh& mesh) { must(mesh.set_input("a", a, 1)); });
      both_say_the_same([](Mesh& mesh) { return mesh.tick(3); });
      expect_equal("round " + std::to_string(round));
      both([](Mesh& mesh) { mesh.resume(); });
    }
    expect_same_supervision();
    EXPECT_EQ(events_of(*gpu_), events_of(*cpu_));
  }
};

NetworkSpec device_network(const std::string& layers) {
  register_fuse();
  NetworkSpec spec = must(read_network(R"({"weft": 2, "seed": 5, "grid": {"x": 3}, "inputs": {"a": [7], "b": [5]},
    "layers": [{"at": [0, 0, 0, 0], "type": "parallel", "merge": "add", "from": ["a"], "layers": [)" +
                                           layers + R"(]},
      {"at": [0, 0, 1, 0], "type": "dense", "out": 4, "from": ["b"]},
      {"at": [0, 0, 2, 0], "type": "dense", "out": 4, "activation": "tanh", "from": [[0, 0, 0, 0], [0, 0, 1, 0]]}],
    "outputs": {"left": [0, 0, 1, 0], "right": [0, 0, 2, 0]}})",
                                       "device"));
  spec.supervision = {Policy::hold, 3, 50, Policy::isolate};
  return spec;
}

TEST_F(InnerPoliciesOnADevice, AnswerOverflowsAsOnTheCpu) {
  // The second of two layers overflows at 1e30, the first one at 3e38, until it goes back; the other expert never does.
  run_with(
      device_network(R"({"type": "sequential", "layers": [{"type": "dense", "out": 6, "policy": "restart"},
                               {"type": "dense", "out": 4, "policy": "halt"}]},
                             {"type": "rnn", "out": 4, "policy": "hold"})"),
      {1e30f, 3e38f}, [](Mesh& mesh) {
        WeightStore& weights = MeshAccess::weights(mesh);
        must(weights.write(weights.of(*mesh.graph().find_layer({0, 0, 0, 0}))[0], std::vector<float>(42, 2.0f), "w"));
        must(weights.write(weights.of(*mesh.graph().find_layer({0, 0, 0, 0}))[2], std::vector<float>(24, 1e10f), "w"));
      });
  for (const char* found : {"'0,0,0,0.layers[0].layers[1]' halt", "'0,0,0,0.layers[0].layers[0]' restart"})
    EXPECT_NE(events_of(*cpu_).find(found), std::string::npos) << events_of(*cpu_);
}

TEST_F(InnerPoliciesOnADevice, AnswerForTypesOfUsersAsOnTheCpu) {
  run_with(device_network(fuse(0, kRestart) + "," + fuse(1, kHalt) + "," + fuse(2)),
           {kNan, kThrow, kBadHidden, kThrow});
}

}  // namespace
}  // namespace weft::mesh::inner_policies_test
