// SPDX-License-Identifier: Apache-2.0
// Meshes with actors beside a device: their cells stay on the host, the others do not, and the bits are the CPU's.
// Skipped where no Vulkan device opens; WEFT_TEST_DEVICE names one.

#include "mesh/mesh.hpp"
#include "mesh/runtime/cell_actor.hpp"

#include "device_pair.hpp"
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace weft::mesh::actor_placement_test {
namespace {

using testing_support::must;

/// Counts what it sees and is sent, writes to the other one in every third tick, and shuts its first source for a
/// while in every twentieth.
class Warden final : public CellActorOf<Warden> {
 public:
  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(Field{"level", Scope::control}, self.level_);
  }
  void on_activation(const message::Activation& seen, CellContext& self) override {
    if (seen.session == 0) level_ = 0.75f * level_ + 0.125f * seen.values[0];
    const Coord other{0, 1, self.at().x == 2 ? 0u : 2u, 0};
    if (seen.source == 0 && seen.session == 0 && self.tick() % 3 == 0) check(self.tell(other, make_mail(1, {level_})));
    if (seen.source == 0 && seen.session == 0 && self.tick() % 20 == 7) {
      check(self.tell(seen.from, make_command(CommandKind::disable)));
      check(self.tell(seen.from, make_command(CommandKind::enable, self.tick() + 6)));
    }
    check(self.publish(std::vector<float>{level_}, seen.session));
  }
  void on_message(const message::User& mail, CellContext& self) override {
    level_ += 0.5f * mail.values[0];
    if (mail.number == 2) throw std::runtime_error("as it was told");
    self.reply({level_});
  }

 private:
  template <class T>
  static void check(const Result<T>& result) {
    if (!result) throw std::runtime_error(result.error().text());
  }
  float level_ = 0.0f;
};

NetworkSpec network(actors::Policy policy = actors::Policy::halt) {
  static const Status done = register_cell<Warden>("warden");
  must(done);
  NetworkSpec spec = NetworkBuilder("guarded", GridShape{1, 2, 3, 1})
                         .input("a", 7)
                         .input("b", 5)
                         .dense({0, 0, 0, 0}, 21, kernels::Activation::tanh)
                         .from({"a", "b", Coord{0, 1, 1, 0}})
                         .dense({0, 0, 1, 0}, 9, kernels::Activation::tanh)
                         .dense({0, 0, 2, 0}, 4)
                         .from({Coord{0, 0, 1, 0}, Coord{0, 1, 2, 0}})
                         .layer({0, 1, 0, 0}, "warden")
                         .from({Coord{0, 0, 0, 0}})
                         .option("tells", std::vector<double>{0, 1, 2, 0})
                         .dense({0, 1, 1, 0}, 3, kernels::Activation::tanh)
                         .from({Coord{0, 1, 0, 0}, Coord{0, 0, 1, 0}})
                         .layer({0, 1, 2, 0}, "warden")
                         .from({Coord{0, 0, 1, 0}, "b"})
                         .output("left", {0, 0, 2, 0})
                         .output("right", {0, 1, 1, 0})
                         .seed(31)
                         .spec();
  spec.supervision = {policy, 3, 50, actors::Policy::isolate};
  return spec;
}

class ActorPlacement : public testing_support::DevicePair {};

TEST_F(ActorPlacement, KeepsActorsOnTheHostAndTheOthersOnTheDevice) {
  build(network(), 2);
  for (std::uint64_t t = 0; t < 30; ++t) {
    if (t % 3 != 1) set_inputs(t);
    if (t % 5 == 2) both([&](Mesh& mesh) { must(mesh.tell({0, 1, 0, 0}, make_mail(1, {0.25f}))); });
    tick(1 + t % 4);
    expect_outputs();
  }
  expect_equal("at the end");
  EXPECT_GT(statistics().device_steps, 0u);
  EXPECT_EQ(statistics().host_cells, 2u);
  EXPECT_NE(statistics().why_host_cells.find("'warden' is not one of Weft's own"), std::string::npos);
}

TEST_F(ActorPlacement, GoesBackToSavedStates) {
  build(network());
  go_back_to_saved_states(SnapshotWeights::always);
}

TEST_F(ActorPlacement, AFaultIsSeenAsOnTheCpu) {
  for (const auto policy : {actors::Policy::halt, actors::Policy::hold, actors::Policy::restart}) {
    SCOPED_TRACE(std::string(name(policy)));
    build(network(policy));
    set_inputs(1);
    tick(9);
    both([](Mesh& mesh) { must(mesh.tell({0, 1, 2, 0}, make_mail(2, {1.0f}))); });
    both_say_the_same([](Mesh& mesh) { return mesh.tick(3); });
    expect_equal("after the fault");
    expect_same_supervision();
    both([](Mesh& mesh) { mesh.resume(); });
    tick(11);
    expect_equal("later");
  }
}

}  // namespace
}  // namespace weft::mesh::actor_placement_test
