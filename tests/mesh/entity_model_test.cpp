// SPDX-License-Identifier: Apache-2.0

#include "mesh/persistence/entity_model.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/weights/weight_store.hpp"

#include "fault_scenarios.hpp"
#include <algorithm>
#include <cstring>
#include <map>

namespace weft::mesh::entity_model_test {
namespace {

using actors::Policy;
using formats::EntityFile;
using namespace testing_support;

EntityFile decode(const ByteBuffer& bytes) { return must(formats::decode_entity(ByteSpan(bytes), "test")); }

std::vector<std::byte> plain(const ByteBuffer& bytes) { return {bytes.begin(), bytes.end()}; }

class BreakAt : public testing::TestWithParam<std::uint64_t> {};

TEST_P(BreakAt, ContinuesToTheHashOfTheUnbrokenRun) {
  Mesh unbroken = started(3);
  run_with_faults(unbroken, 0, GetParam());
  const ByteBuffer bytes = must(encode_mesh(unbroken, true));
  Mesh resumed = mesh_of_file(bytes, {.threads = 2, .grain_bytes = 0});
  EXPECT_EQ(hashes(resumed), hashes(unbroken));
  run_with_faults(unbroken, GetParam(), 24);
  run_with_faults(resumed, GetParam(), 24);
  EXPECT_EQ(hashes(resumed), hashes(unbroken));
  for (const auto& cell : MeshAccess::cells(unbroken)) {
    const auto a = unbroken.registry().view(cell->id()), b = resumed.registry().view(cell->id());
    EXPECT_EQ(a.status, b.status) << to_string(cell->at());
    EXPECT_EQ(a.faults, b.faults) << to_string(cell->at());
    EXPECT_EQ(a.restarts, b.restarts) << to_string(cell->at());
    EXPECT_EQ(a.messages, b.messages) << to_string(cell->at());
    EXPECT_EQ(a.last_fault_tick, b.last_fault_tick) << to_string(cell->at());
    EXPECT_TRUE(
        std::ranges::equal(unbroken.supervisor().restarts(cell->id()), resumed.supervisor().restarts(cell->id())));
  }
  EXPECT_EQ(plain(must(encode_mesh(resumed, true))), plain(must(encode_mesh(unbroken, true))));
}

// Around the commands at 3 and 6, and the faults at 4, 9, 13 to 15.
INSTANTIATE_TEST_SUITE_P(Ticks, BreakAt, testing::Values(1, 3, 7, 10, 14, 15, 23));

TEST(EntityModel, CarriesOnAMeshWithoutFeedback) {
  const auto spec = NetworkBuilder("straight", {1, 1, 2, 1})
                        .input("in", 3)
                        .dense({0, 0, 0, 0}, 5, kernels::Activation::tanh)
                        .layer({0, 0, 1, 0}, "rms_norm")
                        .spec();
  Mesh unbroken = must(Mesh::build(spec));
  must(unbroken.set_input("in", noise(3, 1)));
  must(unbroken.tick());
  Mesh resumed = mesh_of_file(must(encode_mesh(unbroken, true)));
  must(unbroken.run({}, 30));
  must(resumed.run({}, 30));
  EXPECT_EQ(hashes(resumed), hashes(unbroken));
}

TEST(EntityModel, WritesTheSameBytesForTheSameState) {
  Mesh one = started(2), two = started(2);
  run_with_faults(one, 0, 10);
  run_with_faults(two, 0, 10);
  const auto bytes = plain(must(encode_mesh(one, true)));
  EXPECT_EQ(plain(must(encode_mesh(two, true))), bytes);
  EXPECT_EQ(plain(must(encode_mesh(one, true))), bytes) << "saving changed the state";
  run_with_faults(two, 10, 11);
  EXPECT_NE(plain(must(encode_mesh(two, true))), bytes);
}

TEST(EntityModel, KeepsCommandsThatAreNotDueYet) {
  Mesh unbroken = started(2);
  const auto weights =
      post(unbroken, {1, 1, 0, 0}, {.kind = CommandKind::set_weights, .not_before = 10, .values = noise(4 * 19, 3)});
  run_with_faults(unbroken, 0, 2);
  // Sent after the last tick, and not yet taken by any: due at the next one.
  post(unbroken, {0, 1, 0, 0}, CommandKind::reset);
  Mesh resumed = mesh_of_file(must(encode_mesh(unbroken, true)));
  run_with_faults(unbroken, 2, 12);
  run_with_faults(resumed, 2, 12);
  EXPECT_EQ(hashes(resumed), hashes(unbroken));
  EXPECT_TRUE(weights->is_done());
  const auto moved = MeshAccess::weights(resumed).of(*resumed.graph().find_layer({1, 1, 0, 0}))[0];
  EXPECT_EQ(MeshAccess::weights(resumed).read(moved), weights->values);
}

TEST(EntityModel, WithoutLiveStateHoldsNetworkAndWeights) {
  Mesh mesh = started(2);
  run_with_faults(mesh, 0, 8);
  auto weight = MeshAccess::weights(mesh).of(*mesh.graph().find_layer({1, 1, 0, 0}))[0];
  must(MeshAccess::weights(mesh).write(weight, noise(4 * 19, 5), "test"));
  const EntityFile file = decode(must(encode_mesh(mesh, false)));
  EXPECT_FALSE(holds_live_state(file));
  EXPECT_EQ(sessions_of(file), 1u);
  Mesh fresh = must(Mesh::build(must(network_of(file))));
  must(restore_weights(fresh, file));
  for (std::size_t i = 0; i < MeshAccess::weights(mesh).parameters().size(); ++i)
    EXPECT_EQ(MeshAccess::weights(fresh).read(MeshAccess::weights(fresh).parameters()[i]),
              MeshAccess::weights(mesh).read(MeshAccess::weights(mesh).parameters()[i]));
  EXPECT_EQ(fresh.ticks(), 0u);
  expect_error(restore_live(fresh, file), Errc::not_found, {"no live state"});
}

TEST(EntityModel, CarriesWhatOthersKeepBesideAMesh) {
  Mesh mesh = started(1);
  run_with_faults(mesh, 0, 7);
  const std::vector<float> velocity = noise(9, 1);
  const ByteBuffer bytes = must(encode_mesh(
      mesh, true, {{formats::make_tensor("learner/v", std::span<const float>(velocity))}, R"({"step":7})"}));
  const EntityFile file = decode(bytes);
  EXPECT_EQ(extras_of(file), R"({"step":7})");
  const auto read = must(file.values<float>("learner/v"));
  EXPECT_EQ(std::vector<float>(read.begin(), read.end()), velocity);
  EXPECT_EQ(hashes(mesh_of_file(bytes)), hashes(mesh));
}

NetworkSpec small(std::size_t out, bool bias = true) {
  return NetworkBuilder("small", {1, 1, 1, 1}).input("in", 2).dense({0, 0, 0, 0}, out).option("bias", bias).spec();
}

TEST(EntityModel, RefusesAMeshThatIsNotTheFiles) {
  Mesh mesh = must(Mesh::build(small(3), {.sessions = 2}));
  const EntityFile file = decode(must(encode_mesh(mesh, true)));
  Mesh wider = must(Mesh::build(small(4))), single = must(Mesh::build(small(3)));
  expect_error(restore_weights(wider, file), Errc::shape_mismatch, {"weights/0,0,0,0/weight", "[3, 2]", "[4, 2]"});
  expect_error(restore_live(single, file), Errc::shape_mismatch, {"2 sessions", "1 with"});
  EXPECT_EQ(single.ticks(), 0u);
  Mesh moved = must(Mesh::build(NetworkBuilder("n", {1, 1, 2, 1}).input("in", 2).dense({0, 0, 1, 0}, 3).spec()));
  expect_error(restore_weights(moved, file), Errc::not_found, {"weights/0,0,1,0/weight"});
  Mesh deeper = must(Mesh::build(small(3), {.sessions = 2}));
  must(MeshAccess::attach(deeper, nullptr, 8));
  expect_error(restore_live(deeper, file), Errc::shape_mismatch, {"2 ticks of history", "8"});
}

/// The file again with the bytes of one blob changed, and all checksums right.
EntityFile with_blob(const ByteBuffer& bytes, std::string_view blob_name, auto&& change) {
  const EntityFile file = decode(bytes);
  std::vector<formats::Tensor> blobs = file.tensors();
  std::vector<std::byte> changed;
  for (formats::Tensor& blob : blobs) {
    if (blob.name != blob_name) continue;
    changed.assign(blob.bytes.begin(), blob.bytes.end());
    change(changed);
    if (changed.size() != blob.bytes.size()) blob.shape = {changed.size() / (blob.type == "u64" ? 8 : 4)};
    blob.bytes = changed;
  }
  return decode(must(formats::encode_entity(file.network(), file.meta(), blobs)));
}

template <class T>
auto put(std::size_t index, T value) {
  return [=](std::vector<std::byte>& bytes) { std::memcpy(bytes.data() + index * sizeof value, &value, sizeof value); };
}

TEST(EntityModel, RefusesValuesThatAreNotFinite) {
  Mesh mesh = must(Mesh::build(small(3)));
  const ByteBuffer bytes = must(encode_mesh(mesh, true));
  const EntityFile weights = with_blob(bytes, "weights/0,0,0,0/weight", put(4, NAN));
  expect_error(restore_weights(mesh, weights), Errc::corrupt, {"layers[0] [0,0,0,0]", "'weight'", "value 4", "nan"});
  const EntityFile state = with_blob(bytes, "state/session/0", put(2, -INFINITY));
  expect_error(restore_live(mesh, state), Errc::corrupt, {"state/session/0", "value 2", "inf"});
}

TEST(EntityModel, RefusesStateThatNoMeshCouldHave) {
  Mesh mesh = must(Mesh::build(small(3)));
  const ByteBuffer bytes = must(encode_mesh(mesh, true));
  const auto refused = [&](auto&& change) { return restore_live(mesh, with_blob(bytes, "state/cells", change)); };
  expect_error(refused(put(0, std::uint64_t{2})), Errc::corrupt, {"state/cells", "[0,0,0,0]"});  // enabled
  expect_error(refused(put(1, std::uint64_t{0})), Errc::corrupt, {"state/cells"});               // period
  expect_error(refused(put(2, std::uint64_t{5})), Errc::corrupt, {"state/cells"});               // status
  expect_error(refused(put(7, std::uint64_t{1} << 60)), Errc::corrupt, {"state/cells"});         // restarts
  expect_error(refused(put(8, std::uint64_t{2})), Errc::corrupt, {"state/cells"});               // reset sent
  expect_error(refused(put(9, ~std::uint64_t{0})), Errc::corrupt, {"state/cells"});              // commands
  expect_error(refused([](auto& b) { b.resize(b.size() - 8); }), Errc::corrupt, {"state/cells", "short"});
  expect_error(refused([](auto& b) { b.resize(b.size() + 8); }), Errc::corrupt, {"state/cells", "longer"});
  expect_error(restore_live(mesh, with_blob(bytes, "state/session/0", [](auto& b) { b.resize(b.size() - 4); })),
               Errc::shape_mismatch, {"session state", "values"});
}

TEST(EntityModel, ComesBackAfterAFaultThatOverflowedAnInput) {
  // 3e38 + 3e38 overflows in the combined input, which is kept beside the output.
  NetworkSpec spec = NetworkBuilder("overflow", {1, 1, 1, 1})
                         .input("a", 2)
                         .input("b", 2)
                         .layer({0, 0, 0, 0}, "layer_norm")
                         .from({"a", "b"}, Combine::add)
                         .spec();
  spec.supervision.policy = Policy::hold;
  Mesh mesh = must(Mesh::build(spec));
  must(mesh.set_input("a", std::vector<float>{3e38f, 1}));
  must(mesh.set_input("b", std::vector<float>{3e38f, 1}));
  must(mesh.tick(3));
  EXPECT_EQ(mesh.registry().view(0).faults, 3u);
  Mesh resumed = mesh_of_file(must(encode_mesh(mesh, true)));
  EXPECT_EQ(resumed.registry().status(0), actors::ActorStatus::held);
  for (Mesh* each : {&mesh, &resumed}) {
    must(each->set_input("b", std::vector<float>{1, 2}));
    must(each->tick());
  }
  EXPECT_EQ(hashes(resumed), hashes(mesh));
  EXPECT_EQ(resumed.registry().status(0), actors::ActorStatus::running);
}

TEST(EntityModel, KeepsAFaultThatHaltedTheMesh) {
  register_fragile();
  Mesh mesh = must(Mesh::build(NetworkBuilder("n", {1, 1, 1, 1}).input("in", 1).layer({0, 0, 0, 0}, "fragile").spec()));
  must(mesh.set_input("in", std::vector<float>{kNan}));
  EXPECT_FALSE(mesh.tick().has_value());
  Mesh resumed = mesh_of_file(must(encode_mesh(mesh, true)));
  expect_error(resumed.tick(), Errc::halted, {"cell [0,0,0,0]", "tick 0"});
  resumed.resume();
  must(resumed.set_input("in", std::vector<float>{2.0f}));
  must(resumed.tick());
  EXPECT_EQ(output_of(resumed, {0, 0, 0, 0}), std::vector<float>{2.0f});
}

TEST(EntityModel, RefusesEveryTruncationOfItsFile) {
  Mesh mesh = must(Mesh::build(small(3)));
  must(mesh.tick(2));
  const ByteBuffer bytes = must(encode_mesh(mesh, true));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto file = formats::decode_entity(ByteSpan(bytes.data(), size), "cut");
    ASSERT_FALSE(file.has_value()) << size << " of " << bytes.size() << " bytes";
  }
}

TEST(EntityModel, SurvivesAnyFlippedBit) {
  Mesh mesh = must(Mesh::build(small(3)));
  const ByteBuffer bytes = must(encode_mesh(mesh, true));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    ByteBuffer flipped = bytes;
    flipped.data()[i] ^= std::byte{static_cast<unsigned char>(1u << (i % 8))};
    EXPECT_FALSE(formats::decode_entity(ByteSpan(flipped), "flipped").has_value()) << "byte " << i;
  }
}

TEST(EntityModel, HoldsCommandsThatWereDueWhenItWasTaken) {
  Mesh mesh = must(Mesh::build(NetworkBuilder("n", {1, 1, 1, 1}).input("in", 4).dense({0, 0, 0, 0}, 3).spec()));
  must(mesh.tick(2));
  const auto weights = post(mesh, {0, 0, 0, 0}, {.kind = CommandKind::set_weights, .values = noise(12, 5)});
  const auto type = post(mesh, {0, 0, 0, 0}, {.kind = CommandKind::morph, .encoding = Encoding(Dtype::int8)});
  const ByteBuffer bytes = must(encode_mesh(mesh, true, {}));
  EXPECT_TRUE(weights->is_done() && type->is_done());
  EXPECT_EQ(hashes(mesh_of_file(bytes)), hashes(mesh));
}

}  // namespace
}  // namespace weft::mesh::entity_model_test
