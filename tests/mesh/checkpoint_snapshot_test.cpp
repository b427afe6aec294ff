// SPDX-License-Identifier: Apache-2.0
// A program of its own: it replaces operator new.

// A mesh is copied first and its file made later, on any thread: the same file as if it had stood still.
// Learning: tests/learning/capture_test.cpp.

#include "mesh/persistence/checkpoint_snapshot.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/persistence/snapshot.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/command.hpp"
#include "mesh/runtime/engine.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/weight.hpp"

#include "core/json.hpp"

#include "../allocations.hpp"
#include "fault_scenarios.hpp"
#include <deque>
#include <thread>

namespace weft::mesh::checkpoint_snapshot_test {
namespace {

using formats::Tensor;
using namespace testing_support;
using weft::testing_support::allocations_during;

std::vector<std::byte> plain(const ByteBuffer& bytes) { return {bytes.begin(), bytes.end()}; }

/// One session as a live state has it: node by node, ring by ring, oldest tick first.
std::vector<float> session_values(Mesh& mesh, std::size_t session) {
  using Ring = kernels::MatrixView (State::*)(NodeId, std::uint64_t) const;
  const State& state = MeshAccess::state(mesh);
  std::vector<float> values;
  for (NodeId node = 0; node < mesh.graph().nodes().size(); ++node)
    for (const Ring ring : {&State::output, &State::input, &State::preactivation, &State::cache, &State::hidden})
      for (std::uint64_t back = state.depth(); back-- > 0;) {
        const kernels::MatrixView rows = (state.*ring)(node, mesh.ticks() - back);
        if (rows.data) values.insert(values.end(), rows.row(session), rows.row(session) + rows.cols);
      }
  return values;
}

/// The file as docs/formats/entity.md describes it, made of what the mesh's own interface tells while it does not run.
std::vector<std::byte> described(Mesh& mesh, bool live) {
  if (live) MeshAccess::engine(mesh).commands().deliver_all(mesh.ticks());
  std::deque<std::vector<float>> floats;
  std::deque<QuantizedWeight::Ordered> codes;
  std::vector<Tensor> blobs;
  const auto add_floats = [&](std::string name, Shape shape, std::vector<float> values) {
    const auto& kept = floats.emplace_back(std::move(values));
    blobs.push_back(formats::make_tensor(std::move(name), std::move(shape), std::span<const float>(kept)));
  };
  for (std::size_t i = 0; i < MeshAccess::weights(mesh).parameters().size(); ++i) {
    const auto& parameter = MeshAccess::weights(mesh).parameters()[i];
    const ParameterSpec& spec = *parameter.spec;
    const Coord at = mesh.graph().nodes()[parameter.node].at;
    const std::string name = "weights/" + std::to_string(at.z) + "," + std::to_string(at.y) + "," +
                             std::to_string(at.x) + "," + std::to_string(at.l) + "/" + spec.name;
    const Shape shape = spec.is_matrix() ? Shape{spec.out, spec.in} : Shape{spec.out};
    const QuantizedWeight* stored = MeshAccess::weights(mesh).stored(i);
    if (stored) {
      const Encoding encoding = stored->encoding();
      const Shape groups = encoding.granularity == Granularity::tensor    ? Shape{1}
                           : encoding.granularity == Granularity::channel ? Shape{spec.out}
                                                                          : Shape{spec.out, (spec.in + 31) / 32};
      const QuantizedWeight::Ordered& arrays = codes.emplace_back(stored->ordered());
      blobs.push_back({name, std::string(weft::name(encoding.dtype)), shape, arrays.codes});
      if (has_scale(encoding.dtype))
        blobs.push_back({name + ".scales",
                         has_double_scale(encoding.dtype)                   ? "float64"
                         : encoding.granularity == Granularity::block32_f16 ? "float16"
                                                                            : "float32",
                         groups, arrays.scales});
      if (has_zero_point(encoding.dtype))
        blobs.push_back({name + ".zero_points",
                         std::string(weft::name(bits(encoding.dtype) < 8 ? Dtype::uint8 : encoding.dtype)), groups,
                         arrays.zero_points});
    }
    if (!stored || (live && parameter.data))
      add_floats(stored ? name + ".master" : name, shape, MeshAccess::weights(mesh).read(parameter));
  }
  Json meta{{"extras", Json::object()}};
  std::vector<std::uint64_t> cells;
  if (live) {
    meta["live"] = {{"ticks", mesh.ticks()},
                    {"sessions", mesh.sessions()},
                    {"sessions_created", MeshAccess::sessions_created(mesh)},
                    {"depth", MeshAccess::state(mesh).depth()},
                    {"keeps_history", MeshAccess::state(mesh).options().keeps_history}};
    if (const auto halt = MeshAccess::engine(mesh).halt())
      meta["live"]["halt"] = {{"tick", halt->tick},
                              {"cell", halt->cell},
                              {"kind", static_cast<int>(halt->kind)},
                              {"reason", halt->reason.data()}};
    for (std::size_t s = 0; s < mesh.sessions(); ++s) {
      auto values = session_values(mesh, s);
      const Shape shape{values.size()};
      add_floats("state/session/" + std::to_string(s), shape, std::move(values));
    }
    for (const auto& cell : MeshAccess::cells(mesh)) {
      const actors::ActorView view = mesh.registry().view(cell->id());
      const auto restarts = mesh.supervisor().restarts(cell->id());
      for (const std::uint64_t word :
           {std::uint64_t{cell->is_enabled()}, cell->period(), static_cast<std::uint64_t>(view.status), view.messages,
            view.faults, view.restarts, view.last_fault_tick, std::uint64_t{restarts.size()},
            std::uint64_t{cell->is_reset_pending()}, std::uint64_t{cell->deferred().size()}})
        cells.push_back(word);
      cells.insert(cells.end(), restarts.begin(), restarts.end());
      for (const CommandMessage& command : cell->deferred()) {
        const auto encoding = static_cast<std::uint64_t>(command->encoding.dtype) |
                              static_cast<std::uint64_t>(command->encoding.granularity) << 8;
        for (const std::uint64_t word :
             {static_cast<std::uint64_t>(command->kind), std::uint64_t{command->sender} << 32 | command->level,
              std::uint64_t{command->parameter}, command->number, encoding, command->not_before,
              std::uint64_t{command->values.size()}})
          cells.push_back(word);
        for (const std::uint32_t word : bits(command->values)) cells.push_back(word);
      }
      for (const CellObserver& each : cell->observers()) {
        std::vector<std::uint64_t> words;
        each.observer->save(words);
        cells.insert(cells.end(), words.begin(), words.end());
      }
    }
    blobs.push_back(formats::make_tensor("state/cells", std::span<const std::uint64_t>(cells)));
  }
  const Json network = must(parse_json(must(write_network(mesh.current_spec(), -1)), "network"));
  return plain(must(formats::encode_entity(network, meta, blobs)));
}

void send_later(Mesh& mesh, Coord cell, CommandKind kind, std::uint64_t not_before, std::vector<float> values = {}) {
  post(mesh, cell,
       {.kind = kind, .not_before = not_before, .encoding = Encoding(Dtype::int8), .values = std::move(values)});
}

TEST(CheckpointSnapshots, HoldsTheFileThatTheMeshDescribes) {
  for (const std::size_t sessions : {std::size_t{1}, std::size_t{3}})
    for (const std::uint64_t ticks : {0u, 5u, 10u, 15u}) {
      Mesh mesh = started(sessions);
      send_later(mesh, {0, 1, 1, 0}, CommandKind::set_weights, 12, noise(19 * 19, 4));
      send_later(mesh, {0, 0, 1, 0}, CommandKind::morph, 8);
      run_with_faults(mesh, 0, ticks);
      for (const bool live : {true, false})
        EXPECT_EQ(plain(must(encode_mesh(mesh, live))), described(mesh, live))
            << sessions << " at " << ticks << " " << live;
    }
}

TEST(CheckpointSnapshots, HoldsEveryTypeAndHashesAsTheMesh) {
  CheckpointSnapshot snapshot;
  for (int i = 0; i < kDtypeCount; ++i)
    for (const bool keeps_masters : {true, false}) {
      const auto dtype = static_cast<Dtype>(i);
      const bool in_half = keeps_masters && check_granularity(dtype, Granularity::block32_f16);
      const Granularity blocks = in_half ? Granularity::block32_f16 : Granularity::block32;
      Mesh mesh = must(Mesh::build(NetworkBuilder("types", {1, 1, 3, 1})
                                       .input("x", 5)
                                       .dense({0, 0, 0, 0}, 40, kernels::Activation::tanh)
                                       .dtype(dtype)
                                       .layer({0, 0, 1, 0}, "gru", 33)
                                       .dtype(dtype, has_scale(dtype) ? std::optional(blocks) : std::nullopt)
                                       .dense({0, 0, 2, 0}, 7)
                                       .from({Coord{0, 0, 1, 0}, Coord{0, 0, 0, 0}})
                                       .output("y", {0, 0, 2, 0})
                                       .seed(5)
                                       .spec(),
                                   {.threads = 1, .sessions = 2, .keeps_masters = keeps_masters}));
      run_ticks(mesh, 0, 9);
      for (const bool live : {true, false}) {
        must(take_checkpoint_snapshot(mesh, live, snapshot));
        EXPECT_EQ(plain(must(encode_snapshot(snapshot))), described(mesh, live)) << name(dtype) << " " << live;
      }
      must(take_checkpoint_snapshot(mesh, true, snapshot));
      for (std::size_t b = 0; b < 2; ++b)
        EXPECT_EQ(state_hash(snapshot.view(), b, {}), mesh.state_hash(b)) << name(dtype);
    }
}

TEST(CheckpointSnapshots, StaysAsItWasWhileTheMeshGoesOn) {
  Mesh mesh = started(2, {.threads = 2, .grain_bytes = 0});
  CheckpointSnapshot snapshot;
  for (std::uint64_t tick = 0; tick < 20; ++tick) {
    must(take_checkpoint_snapshot(mesh, true, snapshot));
    const auto now = described(mesh, true);
    const std::string hash = to_string(mesh.state_hash(1));
    std::vector<std::byte> made;
    std::string made_hash;
    std::thread writer([&] {
      made = plain(must(encode_snapshot(snapshot)));
      made_hash = to_string(state_hash(snapshot.view(), 1, {}));
    });
    run_with_faults(mesh, tick, tick + 1);
    if (tick == 7) send_later(mesh, {0, 0, 1, 0}, CommandKind::morph, 0);
    run_with_faults(mesh, tick, tick + 1);
    writer.join();
    EXPECT_EQ(made, now) << tick;
    EXPECT_EQ(made_hash, hash) << tick;
  }
}

TEST(CheckpointSnapshots, IsUsedAgainForAnotherMeshAndOtherSessions) {
  CheckpointSnapshot snapshot;
  Mesh one = started(2), two = must(Mesh::build(mixed_network().spec(), {.threads = 1}));
  must(take_checkpoint_snapshot(one, true, snapshot));
  must(take_checkpoint_snapshot(two, true, snapshot));
  EXPECT_EQ(plain(must(encode_snapshot(snapshot))), described(two, true));
  must(two.add_session());
  must(take_checkpoint_snapshot(two, true, snapshot));
  EXPECT_EQ(snapshot.sessions(), 2u);
  EXPECT_EQ(plain(must(encode_snapshot(snapshot))), described(two, true));
  must(take_checkpoint_snapshot(two, false, snapshot));
  EXPECT_EQ(plain(must(encode_snapshot(snapshot))), described(two, false));
}

/// A snapshot that was used before, against one that copies everything.
void expect_whole(Mesh& mesh, CheckpointSnapshot& used, std::uint64_t copied_weights, const std::string& what) {
  must(take_checkpoint_snapshot(mesh, true, used));
  const std::uint64_t state = MeshAccess::state(std::as_const(mesh)).bytes();
  EXPECT_EQ(used.copied_bytes(), state + copied_weights) << what;
  CheckpointSnapshot fresh;
  must(take_checkpoint_snapshot(mesh, true, fresh));
  EXPECT_EQ(fresh.copied_bytes(), fresh.bytes()) << what;
  EXPECT_EQ(plain(must(encode_snapshot(used))), plain(must(encode_snapshot(fresh)))) << what;
}

TEST(CheckpointSnapshots, CopiesOnlyWeightsThatMoved) {
  const auto send_command = [](Mesh& mesh, Coord cell, CommandKind kind, std::vector<float> values = {}) {
    send_later(mesh, cell, kind, 0, std::move(values));
    must(mesh.tick());
  };
  const NetworkSpec spec = NetworkBuilder("still", {1, 1, 2, 1})
                               .input("x", 16)
                               .dense({0, 0, 0, 0}, 16, kernels::Activation::tanh)
                               .dense({0, 0, 1, 0}, 32)
                               .output("y", {0, 0, 1, 0})
                               .seed(3)
                               .spec();
  Mesh mesh = must(Mesh::build(spec, {.threads = 1}));
  constexpr std::uint64_t kFirst = 16 * 16 * 4, kSecond = 32 * 16 * 4;
  CheckpointSnapshot snapshot;
  must(take_checkpoint_snapshot(mesh, true, snapshot));
  must(mesh.tick(3));
  expect_whole(mesh, snapshot, 0, "ticks move nothing");
  send_command(mesh, {0, 0, 0, 0}, CommandKind::set_weights, noise(16 * 16, 4));
  expect_whole(mesh, snapshot, kFirst, "one matrix was set");
  expect_whole(mesh, snapshot, 0, "and no more");

  Snapshot saved;
  mesh.take_snapshot(saved, SnapshotWeights::always);
  send_command(mesh, {0, 0, 0, 0}, CommandKind::set_weights, noise(16 * 16, 5));
  expect_whole(mesh, snapshot, kFirst, "set again");
  const std::uint64_t all = snapshot.bytes() - MeshAccess::state(std::as_const(mesh)).bytes();
  must(mesh.restore_snapshot(saved));
  expect_whole(mesh, snapshot, all, "all were put back");
  // The version that it had with other values.
  send_command(mesh, {0, 0, 0, 0}, CommandKind::set_weights, noise(16 * 16, 6));
  expect_whole(mesh, snapshot, kFirst, "a version that comes again");

  // Codes come before the master, and all that follows stands elsewhere then.
  send_command(mesh, {0, 0, 1, 0}, CommandKind::morph);
  must(take_checkpoint_snapshot(mesh, true, snapshot));
  EXPECT_GE(snapshot.copied_bytes(), MeshAccess::state(std::as_const(mesh)).bytes() + kSecond + kSecond / 4);
  expect_whole(mesh, snapshot, 0, "after a morph");

  Mesh other = must(Mesh::build(spec, {.threads = 1}));
  expect_whole(other, snapshot, kFirst + kSecond + 2 * 64 + 64, "another mesh has the same versions");
}

TEST(CheckpointSnapshots, TakesAMeshThatThreadsShareTheCopyingOf) {
  // 4 MiB of weights and three regions.
  NetworkBuilder builder("large", {1, 1, 16, 1});
  builder.input("x", 256);
  for (std::uint32_t x = 0; x < 16; ++x) builder.dense({0, 0, x, 0}, 256, kernels::Activation::tanh);
  builder.output("y", {0, 0, 15, 0}).seed(8);
  Mesh mesh = must(Mesh::build(builder.spec(), {.threads = 3, .sessions = 2}));
  CheckpointSnapshot snapshot;
  must(mesh.tick(4));
  must(take_checkpoint_snapshot(mesh, true, snapshot));
  EXPECT_GT(snapshot.copied_bytes(), BatchCopy::kShared);
  EXPECT_EQ(plain(must(encode_snapshot(snapshot))), described(mesh, true));
  Snapshot saved;
  mesh.take_snapshot(saved, SnapshotWeights::always);
  const std::string then = hashes(mesh);
  for (WeightStore::Parameter& parameter : MeshAccess::weights(mesh).parameters())
    must(MeshAccess::weights(mesh).write(parameter, noise(parameter.spec->is_matrix() ? 256 * 256 : 256, 9), "w"));
  must(mesh.tick(3));
  EXPECT_NE(hashes(mesh), then);
  must(mesh.restore_snapshot(saved));
  EXPECT_EQ(hashes(mesh), then);
}

TEST(CheckpointSnapshots, MarksTheCheckpointThatRestartGoesBackTo) {
  const auto after = [](bool live) {
    Mesh mesh = started(2);
    run_with_faults(mesh, 0, 8);
    CheckpointSnapshot snapshot;
    must(take_checkpoint_snapshot(mesh, live, snapshot));
    run_with_faults(mesh, 8, 12);  // the restart at 9
    return hashes(mesh);
  };
  EXPECT_NE(after(true), after(false));
}

TEST(CheckpointSnapshots, AllocatesNothingAfterTheFirst) {
  if (!WEFT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer owns the allocator";
  Mesh mesh = started(3);
  run_with_faults(mesh, 0, 8);
  CheckpointSnapshot snapshot;
  must(take_checkpoint_snapshot(mesh, true, snapshot));
  run_with_faults(mesh, 8, 10);
  // The room of what restarts grow is there from the second on.
  must(take_checkpoint_snapshot(mesh, true, snapshot));
  run_with_faults(mesh, 10, 12);
  EXPECT_EQ(allocations_during([&] { must(take_checkpoint_snapshot(mesh, true, snapshot)); }), 0);
}

TEST(CheckpointSnapshots, RefusesWhatWouldNotBeReadBack) {
  Mesh mesh =
      must(Mesh::build(NetworkBuilder("n", {1, 1, 1, 1}).input("x", 4).dense({0, 0, 0, 0}, 3).spec(), {.threads = 1}));
  MeshAccess::weights(mesh).parameters()[0].data[0] = std::numeric_limits<float>::infinity();
  must(MeshAccess::weights(mesh).morph(1, "layers[0]", Encoding(Dtype::float16), true));
  CheckpointSnapshot snapshot;
  must(take_checkpoint_snapshot(mesh, true, snapshot));
  expect_error(encode_snapshot(snapshot), Errc::not_finite, {"layers[0]", "weight 0"});
}

}  // namespace
}  // namespace weft::mesh::checkpoint_snapshot_test
