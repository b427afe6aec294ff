// SPDX-License-Identifier: Apache-2.0
// A program of its own: it replaces operator new.
// Embedding a mesh: loading one, ticking within a budget, places as sources, memory asked for beforehand.

#include "mesh/memory/memory_estimate.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include <unistd.h>

#include "../allocations.hpp"
#include "testing.hpp"
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>

namespace weft::mesh::mesh_load_test {
namespace {

using namespace std::chrono_literals;
using namespace testing_support;
using weft::testing_support::allocations_during;

/// A file of a test's own.
class File {
 public:
  explicit File(const std::string& name)
      : path_((std::filesystem::temp_directory_path() / ("weft_" + std::to_string(getpid()) + "_" + name)).string()) {}
  ~File() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }
  template <class Bytes>
  void write(const Bytes& bytes) const {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::string path_;
};

/// A loop of two layers, one with a hidden state, and an answer.
NetworkSpec looped() {
  return NetworkBuilder("looped", {.x = 3})
      .input("in", 4)
      .dense({0, 0, 0, 0}, 8, kernels::Activation::tanh)
      .from({"in", {0, 0, 1, 0}})
      .layer({0, 0, 1, 0}, "gru", 5)
      .from({{0, 0, 0, 0}})
      .dense({0, 0, 2, 0}, 3)
      .from({{0, 0, 1, 0}})
      .output("y", {0, 0, 2, 0})
      .seed(7)
      .spec();
}

const std::vector<float> kInput{0.5f, -1.0f, 0.25f, 2.0f};

TEST(Load, OfANetworkFileIsWhatBuildMakes) {
  const File file("network.json");
  file.write(must(write_network(looped())));
  const Mesh loaded = must(Mesh::load(file.path()));
  EXPECT_EQ(loaded.state_hash(), must(Mesh::build(looped())).state_hash());
}

TEST(Load, OfAnEntityFileHasItsWeightsAndItsLiveState) {
  Mesh mesh = must(Mesh::build(looped(), {.threads = 1, .sessions = 2}));
  auto weights = MeshAccess::weights(mesh).parameters();
  std::vector<float> values = MeshAccess::weights(mesh).read(weights[0]);
  for (float& value : values) value *= 0.5f;
  must(MeshAccess::weights(mesh).write(weights[0], values, "test"));
  must(mesh.set_input("in", kInput, 1));
  must(mesh.tick(5));
  const File live("live.entity"), weights_only("weights.entity");
  live.write(must(encode_mesh(mesh, true)));
  weights_only.write(must(encode_mesh(mesh, false)));

  Mesh loaded = must(Mesh::load(live.path()));
  EXPECT_EQ(loaded.ticks(), 5u);
  ASSERT_EQ(loaded.sessions(), 2u);
  for (const std::size_t session : {0, 1}) EXPECT_EQ(loaded.state_hash(session), mesh.state_hash(session));
  must(mesh.tick(7));
  must(loaded.tick(7));
  EXPECT_EQ(loaded.state_hash(1), mesh.state_hash(1));

  Mesh fresh = must(Mesh::load(weights_only.path()));
  EXPECT_EQ(fresh.ticks(), 0u);
  EXPECT_EQ(fresh.sessions(), 1u);
  EXPECT_EQ(MeshAccess::weights(fresh).read(MeshAccess::weights(fresh).parameters()[0]), values);
}

TEST(Load, NamesTheFileThatItRefuses) {
  const File file("bad.json");
  file.write(std::string(R"({"weft": 2, "grid": {}, "layers": [{"at": [0,0,0,9], "type": "dense", "out": 2}]})"));
  expect_error(Mesh::load(file.path()), Errc::out_of_range, {file.path() + ": layers[0]", "outside the grid"});
  expect_error(Mesh::load(file.path() + ".none"), Errc::not_found, {file.path() + ".none"});
}

TEST(TickFor, DoesAtLeastOneTickWithABudgetAndNoneWithout) {
  Mesh mesh = must(Mesh::build(looped(), {.threads = 1}));
  must(mesh.set_input("in", kInput));
  EXPECT_EQ(must(mesh.tick_for(1ns)), 1u);  // no tick is that short: the budget is passed by one of them, and no more
  EXPECT_EQ(must(mesh.tick_for(0ns)), 0u);
  EXPECT_EQ(must(mesh.tick_for(-1s)), 0u);
  // Ticks of some microseconds: a call that does one alone was interrupted all that time.
  std::uint64_t ticks = 0, most = 0;
  for (int calls = 0; calls < 100 && most < 2; ++calls) {
    most = must(mesh.tick_for(20ms));
    ASSERT_GE(most, 1u);
    ticks += most;
  }
  EXPECT_GE(most, 2u);
  EXPECT_EQ(mesh.ticks(), ticks + 1);

  Mesh counted = must(Mesh::build(looped(), {.threads = 1}));
  must(counted.set_input("in", kInput));
  must(counted.tick(ticks + 1));
  EXPECT_EQ(counted.state_hash(), mesh.state_hash());
}

TEST(TickFor, AllocatesNothing) {
  if (!WEFT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer's operators are in place";
  Mesh mesh = must(Mesh::build(looped(), {.threads = 1}));
  must(mesh.tick(4));
  EXPECT_EQ(allocations_during([&] { must(mesh.tick_for(2ms)); }), 0);
}

TEST(Sources, OfFourNumbersAreAPlace) {
  const auto spec = NetworkBuilder("x", {.x = 2}).input("in", 4).dense({0, 0, 1, 0}, 2).from({{0, 0, 0, 0}}).spec();
  ASSERT_EQ(spec.layers[0].from.size(), 1u);
  EXPECT_FALSE(spec.layers[0].from[0].is_port());
  EXPECT_EQ(spec.layers[0].from[0].at, (Coord{0, 0, 0, 0}));
  const auto both = NetworkBuilder("x", {.x = 2}).dense({0, 0, 1, 0}, 2).from({{0, 0, 0, 0}, {0, 0, 1, 0}}).spec();
  EXPECT_EQ(both.layers[0].from.size(), 2u);
}

TEST(Sources, WithoutANameAreRefusedByTheNetwork) {
  const char* const none = nullptr;
  for (const Source& source : {Source(none), Source(""), Source(std::string())}) {
    const auto spec = NetworkBuilder("x", {}).input("in", 4).dense({0, 0, 0, 0}, 2).from({source}).spec();
    expect_error(Mesh::build(spec), Errc::out_of_range, {"layers[0].from[0]", "outside the grid"});
  }
}

TEST(MemoryEstimate, IsWhatIsAllocated) {
  for (const std::size_t sessions : {1, 3}) {
    const Mesh mesh = must(Mesh::build(looped(), {.threads = 1, .sessions = sessions}));
    const MemoryEstimate estimate = estimate_memory(mesh.graph(), {.sessions = sessions});
    std::uint64_t states = 0, weights = 0;
    for (const auto& [part, bytes] : estimate.parts) {
      if (part == "states") states = bytes;
      if (part == "weights") weights = bytes;
    }
    EXPECT_EQ(states, MeshAccess::state(mesh).bytes());
    EXPECT_EQ((weights + 4095) / 4096 * 4096, MeshAccess::weights(mesh).allocated_bytes());
    EXPECT_EQ(estimate.total(), [&] {
      std::uint64_t sum = 0;
      for (const auto& part : estimate.parts) sum += part.second;
      return sum;
    }());
  }
}

TEST(MemoryEstimate, AboveItsBoundIsRefusedWithBothSizes) {
  NetworkSpec wide = NetworkBuilder("wide", {}).input("in", 1 << 20).dense({0, 0, 0, 0}, 1 << 12).spec();
  expect_error(Mesh::build(wide, {.max_memory = std::uint64_t{1} << 30}), Errc::too_large,
               {"network 'wide'", "weights 16.0 GiB", "1.0 GiB are allowed (max_memory)", "smaller"});
  // Counted without an overflow, and more than any machine has.
  wide.layers[0].out = 1 << 20;
  expect_error(Mesh::build(wide, {.sessions = 65536}), Errc::too_large, {"weights 4.0 TiB"});
}

}  // namespace
}  // namespace weft::mesh::mesh_load_test
