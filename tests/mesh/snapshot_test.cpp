// SPDX-License-Identifier: Apache-2.0
// A program of its own: it replaces operator new.

// States in memory: going back leads to the same bits, costs no memory, and refuses what is not its own.
// Learning: tests/learning/saved_state_test.cpp.

#include "mesh/persistence/snapshot.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/network_digest.hpp"

#include "../allocations.hpp"
#include "fault_scenarios.hpp"
#include <algorithm>
#include <array>
#include <functional>

namespace weft::mesh::snapshot_test {
namespace {

using actors::Policy;
using namespace testing_support;
using weft::testing_support::allocations_during;

/// Hashes, outputs and supervision after each tick [from, to).
std::vector<std::string> hashes_of_run(Mesh& mesh, std::uint64_t from, std::uint64_t to) {
  std::vector<std::string> all;
  for (std::uint64_t tick = from; tick < to; ++tick) {
    run_with_faults(mesh, tick, tick + 1);
    std::string now = hashes(mesh);
    for (std::size_t b = 0; b < mesh.sessions(); ++b)
      for (const char* const output : {"left", "right"})
        for (const std::uint32_t word : bits(must(mesh.output(output, b)))) now += std::to_string(word) + " ";
    for (const auto& cell : MeshAccess::cells(mesh)) {
      const actors::ActorView view = mesh.registry().view(cell->id());
      for (const std::uint64_t figure : {static_cast<std::uint64_t>(view.status), view.messages, view.faults,
                                         view.restarts, view.last_fault_tick, cell->deferred().size()})
        now += std::to_string(figure) + ",";
      for (const std::uint64_t restart : mesh.supervisor().restarts(cell->id())) now += std::to_string(restart);
    }
    all.push_back(std::move(now));
  }
  return all;
}

class GoingBack : public testing::TestWithParam<std::tuple<std::uint64_t, std::size_t, std::size_t>> {
 protected:
  std::uint64_t at() const { return std::get<0>(GetParam()); }
  MeshOptions options() const {
    MeshOptions made{.threads = std::get<2>(GetParam())};
    if (made.threads > 1) made.grain_bytes = 0;
    return made;
  }
  std::size_t sessions() const { return std::get<1>(GetParam()); }
};

TEST_P(GoingBack, LeadsToTheSameBitsEachTick) {
  Mesh mesh = started(sessions(), options());
  run_with_faults(mesh, 0, at());
  Snapshot saved;
  mesh.take_snapshot(saved);
  EXPECT_EQ(saved.ticks(), at());
  const std::string before = hashes(mesh);
  const auto first = hashes_of_run(mesh, at(), at() + 14);
  for (int again = 0; again < 2; ++again) {
    must(mesh.restore_snapshot(saved));
    EXPECT_EQ(hashes(mesh), before);
    EXPECT_EQ(hashes_of_run(mesh, at(), at() + 14), first);
  }
}

// The commands come due at 3 and 6, the faults come at 4, 9, 13 to 15.
INSTANTIATE_TEST_SUITE_P(Runs, GoingBack,
                         testing::Combine(testing::Values(0, 1, 4, 5, 7, 13, 14, 16), testing::Values(2, 5),
                                          testing::Values(1, 2)));

TEST(Snapshot, OfARingOfThemEachIsGoneBackTo) {
  Mesh mesh = started(2);
  std::array<Snapshot, 12> ring;
  std::vector<std::string> before(24);
  std::vector<std::string> after(24);
  const auto step = [&](std::uint64_t tick) {
    mesh.take_snapshot(ring[tick % ring.size()]);
    before[tick] = hashes(mesh);
    after[tick] = hashes_of_run(mesh, tick, tick + 1).front();
  };
  for (std::uint64_t tick = 0; tick < 24; ++tick) step(tick);
  // In an order of no kind, so that every load stands at another tick than it leads to.
  for (const std::uint64_t tick : {20u, 12u, 23u, 13u, 22u, 14u, 21u, 15u, 16u}) {
    must(mesh.restore_snapshot(ring[tick % ring.size()]));
    EXPECT_EQ(hashes(mesh), before[tick]) << tick;
    EXPECT_EQ(hashes_of_run(mesh, tick, tick + 1).front(), after[tick]) << tick;
  }
}

TEST(Snapshot, HoldsCommandsThatWaitAndTheWeightsThatTheyChange) {
  Mesh mesh = started(2);
  run_with_faults(mesh, 0, 2);
  auto weights = make_command({CommandKind::set_weights, 9});
  weights->values = noise(19 * 19, 3);
  must(mesh.post({0, 1, 1, 0}, weights));
  auto morph = make_command({CommandKind::morph, 8});
  morph->encoding = Encoding(Dtype::int4);
  must(mesh.post({0, 0, 1, 0}, morph));
  const auto reset = must(mesh.post({0, 1, 0, 0}, make_command({CommandKind::reset, 5})));
  Snapshot saved;
  mesh.take_snapshot(saved);
  EXPECT_TRUE(saved.holds_weights()) << "commands that change weights wait";
  const auto first = hashes_of_run(mesh, 2, 14);
  EXPECT_TRUE(reset->is_done());
  EXPECT_TRUE(weights->is_done());
  EXPECT_EQ(MeshAccess::weights(mesh).encoding(*mesh.graph().find_layer({0, 0, 1, 0})), Encoding(Dtype::int4));
  must(mesh.restore_snapshot(saved));
  EXPECT_EQ(MeshAccess::weights(mesh).encoding(*mesh.graph().find_layer({0, 0, 1, 0})), Encoding(Dtype::float32));
  EXPECT_EQ(reset->done_at(), 5u);
  EXPECT_EQ(hashes_of_run(mesh, 2, 14), first);
}

TEST(Snapshot, AnswersCommandsThatCameAfterIt) {
  Mesh mesh = started(1);
  Snapshot saved;
  mesh.take_snapshot(saved);
  const auto waits = must(mesh.post({0, 0, 0, 0}, make_command({CommandKind::probe, 90})));
  must(mesh.tick());
  const auto unread = must(mesh.post({0, 0, 0, 0}, make_command({CommandKind::disable, 0})));
  must(mesh.restore_snapshot(saved));
  for (const CommandMessage& command : {waits, unread}) {
    ASSERT_TRUE(command->is_done());
    expect_error(command->status(), Errc::not_found, {"cell [0,0,0,0]", name(command->kind), "went back to tick 0"});
  }
  run_with_faults(mesh, 0, 3);
  EXPECT_TRUE(MeshAccess::cells(mesh).front()->is_enabled()) << "the command was taken back";
  // The mailbox counts right afterwards.
  const auto fresh = must(mesh.post({0, 0, 0, 0}, make_command({CommandKind::probe, 0})));
  must(mesh.tick());
  EXPECT_TRUE(fresh->is_done());
  must(fresh->status());
}

TEST(Snapshot, PutsEveryTypeBack) {
  for (int from = 0; from < kDtypeCount; ++from)
    for (const bool keeps_masters : {true, false}) {
      const auto first = static_cast<Dtype>(from), other = static_cast<Dtype>((from + 5) % kDtypeCount);
      NetworkSpec spec = NetworkBuilder("types", {1, 1, 3, 1})
                             .input("x", 5)
                             .dense({0, 0, 0, 0}, 40, kernels::Activation::tanh)
                             .dtype(first)
                             .dense({0, 0, 1, 0}, 33, kernels::Activation::tanh)
                             .dense({0, 0, 2, 0}, 7)
                             .dtype(first)
                             .output("y", {0, 0, 2, 0})
                             .seed(5)
                             .spec();
      Mesh mesh = must(Mesh::build(spec, {.threads = 1, .keeps_masters = keeps_masters}));
      run_ticks(mesh, 0, 4);
      Snapshot saved;
      mesh.take_snapshot(saved, SnapshotWeights::always);
      const auto tell = [&](std::uint64_t to) {
        run_ticks(mesh, 4, to);
        return hashes(mesh) + std::to_string(MeshAccess::weights(mesh).parameters()[0].version);
      };
      const std::string same = tell(9);
      must(mesh.restore_snapshot(saved));
      for (const std::uint32_t x : {0u, 2u}) {
        auto morph = make_command({CommandKind::morph, 0});
        morph->encoding = Encoding(other);
        must(mesh.post({0, 0, x, 0}, morph));
      }
      EXPECT_NE(tell(9), same) << name(first);
      must(mesh.restore_snapshot(saved));
      EXPECT_EQ(MeshAccess::weights(mesh).encoding(1), Encoding(first)) << name(first);
      EXPECT_EQ(tell(9), same) << name(first) << (keeps_masters ? " with" : " without") << " masters";
    }
}

TEST(Snapshot, PutsMastersBackThatWereReleased) {
  NetworkSpec spec =
      NetworkBuilder("masters", {1, 1, 1, 1}).input("x", 5).dense({0, 0, 0, 0}, 40).dtype(Dtype::int4).spec();
  Mesh mesh = must(Mesh::build(spec, {.threads = 1}));
  const std::vector<NodeId> nodes{1};
  Snapshot with, without;
  mesh.take_snapshot(with, SnapshotWeights::always);
  const std::string hash_with = hashes(mesh);
  must(MeshAccess::weights(mesh).release_masters(mesh.graph(), nodes));
  mesh.take_snapshot(without, SnapshotWeights::always);
  const std::string hash_without = hashes(mesh);
  EXPECT_NE(hash_with, hash_without);
  must(mesh.restore_snapshot(with));
  EXPECT_TRUE(MeshAccess::weights(mesh).learns(1));
  EXPECT_EQ(hashes(mesh), hash_with);
  must(mesh.restore_snapshot(without));
  EXPECT_FALSE(MeshAccess::weights(mesh).learns(1));
  EXPECT_EQ(hashes(mesh), hash_without);
  must(mesh.restore_snapshot(with));
  EXPECT_EQ(hashes(mesh), hash_with);
}

TEST(Snapshot, WithoutWeightsRefusesWhenTheyHaveChanged) {
  Mesh mesh = started(1);
  Snapshot saved, never;
  mesh.take_snapshot(saved);
  mesh.take_snapshot(never, SnapshotWeights::never);
  EXPECT_FALSE(saved.holds_weights());
  auto command = make_command({CommandKind::set_weights, 0});
  command->values = noise(19 * 19, 4);
  must(mesh.post({0, 1, 1, 0}, command));
  run_with_faults(mesh, 0, 3);
  must(command->status());
  const std::string before = hashes(mesh);
  expect_error(mesh.restore_snapshot(saved), Errc::invalid_argument, {"since tick 0", "SnapshotWeights::always"});
  EXPECT_EQ(hashes(mesh), before) << "a load that fails changes nothing";
  must(mesh.restore_snapshot(never));
  EXPECT_EQ(mesh.ticks(), 0u);
  EXPECT_NE(hashes(mesh), before);
}

TEST(Snapshot, OfAnotherShapeIsRefusedAndChangesNothing) {
  Mesh mesh = started(2);
  run_with_faults(mesh, 0, 5);
  const std::string before = hashes(mesh);
  const auto refuses = [&](const Snapshot& saved, Errc code, std::initializer_list<std::string_view> fragments) {
    expect_error(mesh.restore_snapshot(saved), code, fragments);
    EXPECT_EQ(hashes(mesh), before);
  };
  Snapshot saved;
  refuses(saved, Errc::invalid_argument, {"nothing was taken"});
  started(3).take_snapshot(saved, SnapshotWeights::always);
  refuses(saved, Errc::shape_mismatch, {"3 sessions with 2 ticks", "2 sessions with 2 ticks"});
  Mesh other = must(Mesh::build(mixed_network().spec(), {.threads = 1, .sessions = 2}));
  other.take_snapshot(saved, SnapshotWeights::always);
  refuses(saved, Errc::shape_mismatch, {to_string(other.network_digest()), to_string(mesh.network_digest())});
  Mesh threads = started(2, {.threads = 2, .grain_bytes = 0});
  ASSERT_GT(threads.plan().regions.size(), 1u);
  threads.take_snapshot(saved, SnapshotWeights::always);
  refuses(saved, Errc::shape_mismatch, {"placed", "1 regions"});
  started(2).take_snapshot(saved);
  refuses(saved, Errc::invalid_argument, {"another mesh", "SnapshotWeights::always"});
  // Also of itself, when sessions have come since.
  mesh.take_snapshot(saved);
  must(mesh.add_session());
  expect_error(mesh.restore_snapshot(saved), Errc::shape_mismatch, {"2 sessions", "3 sessions"});
}

TEST(Snapshot, GoesIntoAnotherMeshOfTheSameNetwork) {
  Mesh one = started(3), two = must(Mesh::build(fragile_network(), {.threads = 1, .sessions = 3}));
  run_with_faults(one, 0, 2);
  auto command = must(one.post({1, 1, 1, 0}, make_command({CommandKind::disable, 12})));
  Snapshot saved;
  one.take_snapshot(saved, SnapshotWeights::always);
  must(two.restore_snapshot(saved));
  EXPECT_EQ(hashes(two), hashes(one));
  const auto first = hashes_of_run(one, 2, 16);
  ASSERT_TRUE(command->is_done());
  EXPECT_EQ(hashes_of_run(two, 2, 16), first);
  must(two.restore_snapshot(saved));
  EXPECT_EQ(hashes_of_run(two, 2, 16), first);
}

TEST(Snapshot, HoldsAHaltAndItsAbsence) {
  register_fragile();
  Mesh mesh = must(Mesh::build(
      NetworkBuilder("halts", {1, 1, 1, 1}).input("fuse", 1).layer({0, 0, 0, 0}, "fragile").spec(), {.threads = 1}));
  const auto feed = [&](float value) {
    must(mesh.set_input("fuse", std::vector<float>{value}));
    return mesh.tick();
  };
  must(feed(1.0f));
  Snapshot before, halted;
  mesh.take_snapshot(before);
  expect_error(feed(kThrow), Errc::halted, {"the fuse blew"});
  mesh.take_snapshot(halted);
  must(mesh.restore_snapshot(before));
  must(feed(2.0f));
  must(mesh.restore_snapshot(halted));
  expect_error(feed(2.0f), Errc::halted, {"the fuse blew", "at tick 1"});
  mesh.resume();
  must(feed(2.0f));
}

TEST(Snapshot, GoesBackBehindACheckpoint) {
  // The cell restarts from the checkpoint that counted then, not from a later one.
  Mesh mesh = started(2);
  run_with_faults(mesh, 0, 8);
  Snapshot saved;
  mesh.take_snapshot(saved);
  const auto first = hashes_of_run(mesh, 8, 16);
  must(mesh.restore_snapshot(saved));
  MeshAccess::take_cell_snapshots(mesh);
  const auto with_mark = hashes_of_run(mesh, 8, 16);
  EXPECT_NE(with_mark, first) << "the checkpoint matters to the restart at tick 9";
  must(mesh.restore_snapshot(saved));
  EXPECT_EQ(hashes_of_run(mesh, 8, 16), first);
}

TEST(Snapshot, HoldsWhatMetacognitionRemembersAndMorphs) {
  NetworkSpec spec = NetworkBuilder("aware", {1, 1, 3, 1})
                         .input("x", 5)
                         .dense({0, 0, 0, 0}, 24, kernels::Activation::tanh)
                         .dense({0, 0, 1, 0}, 9)
                         .layer({0, 0, 2, 0}, "metacognition")
                         .from({Coord{0, 0, 0, 0}})
                         .option("statistic", std::string("rms"))
                         .option("above", 0.1)
                         .option("action", std::string("morph"))
                         .option("to", std::string("int8"))
                         .option("min_ticks", 5.0)
                         .option("cooldown", 50.0)
                         .output("y", {0, 0, 1, 0})
                         .seed(3)
                         .spec();
  Mesh mesh = must(Mesh::build(spec, {.threads = 1}));
  for (std::uint64_t at = 0; at < 12; ++at) {
    Snapshot saved;
    mesh.take_snapshot(saved);
    EXPECT_TRUE(saved.holds_weights());
    std::array<std::string, 2> runs;
    for (std::string& run : runs) {
      must(mesh.restore_snapshot(saved));
      for (std::uint64_t tick = at; tick < at + 12; ++tick) {
        run_ticks(mesh, tick, tick + 1);
        run += hashes(mesh);
      }
      EXPECT_EQ(MeshAccess::weights(mesh).encoding(1), Encoding(Dtype::int8)) << at;
    }
    EXPECT_EQ(runs[0], runs[1]) << at;
    must(mesh.restore_snapshot(saved));
    run_ticks(mesh, at, at + 1);
  }
}

TEST(SessionStates, RefuseWhatDoesNotFit) {
  Mesh one = must(Mesh::build(mixed_network().spec(), {.threads = 1, .sessions = 3}));
  SessionSnapshot saved;
  must(one.take_session_snapshot(2, saved));
  expect_error(one.take_session_snapshot(3, saved), Errc::out_of_range, {"3 of 3"});
  expect_error(one.restore_session_snapshot(3, saved), Errc::out_of_range, {"3 of 3"});
  expect_error(one.restore_session_snapshot(0, SessionSnapshot()), Errc::invalid_argument, {"nothing"});
  expect_error(started(1).restore_session_snapshot(0, saved), Errc::shape_mismatch, {to_string(one.network_digest())});
}

TEST(Snapshot, AllocatesNothingAfterTheFirst) {
  if (!WEFT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer owns the allocator";
  for (const std::size_t sessions : {std::size_t{1}, std::size_t{4}})
    for (const SnapshotWeights weights : {SnapshotWeights::automatic, SnapshotWeights::always}) {
      Mesh mesh = started(sessions);
      run_with_faults(mesh, 0, 8);
      std::array<Snapshot, 3> ring;
      std::array<SessionSnapshot, 2> one;
      for (Snapshot& saved : ring) mesh.take_snapshot(saved, weights);
      for (SessionSnapshot& saved : one) must(mesh.take_session_snapshot(0, saved));
      // Faults come at 9, 13, 14 and 15: what they change is copied too.
      for (std::uint64_t tick = 8; tick < 17; ++tick) {
        Snapshot& saved = ring[tick % ring.size()];
        EXPECT_EQ(allocations_during([&] { mesh.take_snapshot(saved, weights); }), 0) << "save at " << tick;
        run_with_faults(mesh, tick, tick + 1);
        EXPECT_EQ(allocations_during([&] { must(mesh.restore_snapshot(saved)); }), 0) << "load at " << tick;
        run_with_faults(mesh, tick, tick + 1);
        EXPECT_EQ(allocations_during([&] {
                    must(mesh.take_session_snapshot(0, one[tick % 2]));
                    must(mesh.restore_session_snapshot(0, one[tick % 2]));
                  }),
                  0);
      }
    }
}

TEST(NetworkDigest, TellsNetworksApartAndNotTheirTypesOrNames) {
  const NetworkSpec base = mixed_network().spec();
  const auto digest = [](const NetworkSpec& spec) { return to_string(network_digest(must(Graph::build(spec)))); };
  const std::string same = digest(base);
  const auto changed = [&](const std::function<void(NetworkSpec&)>& change) {
    NetworkSpec spec = base;
    change(spec);
    return digest(spec);
  };
  EXPECT_EQ(changed([](auto& s) { s.name = "other", s.seed = 99; }), same);
  EXPECT_EQ(changed([](auto& s) { s.layers[0].dtype = Dtype::int4; }), same);
  EXPECT_EQ(changed([](auto& s) { s.layers[0].quantization_aware = true; }), same);
  EXPECT_EQ(changed([](auto& s) { s.supervision.policy = Policy::hold; }), same);
  EXPECT_EQ(changed([](auto& s) { s.device = "vulkan"; }), same);
  EXPECT_EQ(changed([](auto& s) { std::swap(s.outputs[0], s.outputs[1]); }), same);
  EXPECT_NE(changed([](auto& s) { s.layers[0].activations = Activations::float32; }), same);
  EXPECT_NE(changed([](auto& s) { s.layers[0].options["activation"] = std::string("tanh"); }), same);
  EXPECT_NE(changed([](auto& s) { s.outputs[0].name = "up"; }), same);
  EXPECT_NE(changed([](auto& s) { std::swap(s.layers[0].from[0], s.layers[0].from[1]); }), same);
  // With noise, the seed counts.
  const auto noisy = [&](std::uint64_t seed) {
    return digest(NetworkBuilder("n", {1, 1, 1, 1}).input("x", 4).layer({0, 0, 0, 0}, "dropout").seed(seed).spec());
  };
  EXPECT_NE(noisy(1), noisy(2));
}

}  // namespace
}  // namespace weft::mesh::snapshot_test
