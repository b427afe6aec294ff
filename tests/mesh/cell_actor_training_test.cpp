// SPDX-License-Identifier: Apache-2.0

// Actors that send targets to layers.

#include "mesh/persistence/snapshot.hpp"

#include "clerks.hpp"

namespace weft::mesh::cell_actor_training_test {
namespace {

using namespace clerk_network;
using testing_support::output_of;

/// A clerk that trains the layer that it reads.
class Trainer final : public CellActorOf<Trainer> {
 public:
  template <class Self, class Archive>
  static void fields(Self&, Archive&) {}
  void on_activation(const message::Activation& seen, CellContext& self) override {
    if (seen.session == 0) sent(self.tell(seen.from, make_target({1.0f, -0.5f}, 0.125f)));
  }
};

TEST(CellActorTraining, TrainsALayerByTheDeltaRule) {
  static const Status done = register_cell<Trainer>("trainer");
  must(done);
  const NetworkSpec spec = NetworkBuilder("school", {1, 1, 2, 1})
                               .input("in", 2)
                               .dense({0, 0, 0, 0}, 2)
                               .layer({0, 0, 1, 0}, "trainer")
                               .from({Coord{0, 0, 0, 0}})
                               .option("trains", std::vector<double>{0, 0, 0, 0})
                               .seed(3)
                               .spec();
  Mesh mesh = mesh_of(spec);
  const auto set = [&](std::uint32_t parameter, std::vector<float> values) {
    auto weights = std::make_shared<Command>();
    weights->kind = CommandKind::set_weights;
    weights->parameter = parameter;
    weights->values = std::move(values);
    must(mesh.post({0, 0, 0, 0}, weights));
  };
  set(0, {0.5f, 0.25f, -1.0f, 2.0f});
  set(1, {0.0f, 0.5f});
  const float x[2] = {1.0f, -2.0f};
  must(mesh.set_input("in", std::vector<float>{x[0], x[1]}));
  must(mesh.tick());
  // y = W x + b; w -= rate (y - t) x, b -= rate (y - t): by hand, every number exact in binary.
  float w[4] = {0.5f, 0.25f, -1.0f, 2.0f}, b[2] = {0.0f, 0.5f};
  const float t[2] = {1.0f, -0.5f};
  EXPECT_EQ(output_of(mesh, {0, 0, 0, 0}), (std::vector<float>{0.0f, -4.5f}));
  for (int step = 0; step < 6; ++step) {
    must(mesh.tick());
    float y[2];
    for (int o = 0; o < 2; ++o) y[o] = w[2 * o] * x[0] + w[2 * o + 1] * x[1] + b[o];
    ASSERT_EQ(output_of(mesh, {0, 0, 0, 0}), (std::vector<float>{y[0], y[1]})) << step;
    for (int o = 0; o < 2; ++o) {
      const float d = y[o] - t[o];
      for (int i = 0; i < 2; ++i) w[2 * o + i] -= 0.125f * (d * x[i]);
      b[o] -= 0.125f * d;
    }
  }
  for (const std::size_t threads : {1, 2}) {
    Mesh again = mesh_of(spec, threads);
    Mesh other = mesh_of(spec, 1);
    for (Mesh* each : {&again, &other}) {
      must(each->set_input("in", std::vector<float>{0.7f, 0.1f}));
      must(each->tick(50));
    }
    EXPECT_EQ(again.state_hash(), other.state_hash());
    EXPECT_NEAR(output_of(again, {0, 0, 0, 0})[0], 1.0f, 0.1f);
    // Snapshots hold the weights, since ticks change them.
    Snapshot saved;
    again.take_snapshot(saved);
    EXPECT_TRUE(saved.holds_weights());
    must(again.tick(5));
    const Hash128 then = again.state_hash();
    must(again.restore_snapshot(saved));
    must(again.tick(5));
    EXPECT_EQ(again.state_hash(), then);
  }
}

/// One scale that learns, and no way back.
class OneWay final : public Layer {
 public:
  OneWay() : Layer(std::size_t{2}, std::size_t{2}) {
    parameters_.push_back({"scale", 1, 0, true, [](RandomStream&, std::span<float> values) { values[0] = 1.0f; }});
  }
  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  void forward(kernels::OpStream&, const ForwardArgs& args) const override {
    for (std::size_t b = 0; b < args.x.rows; ++b)
      for (std::size_t j = 0; j < 2; ++j) args.y.row(b)[j] = args.weights.vector(0)[0] * args.x.row(b)[j];
  }
  void backward(kernels::OpStream&, const BackwardArgs&) const override { throw std::runtime_error("no way back"); }

 private:
  std::vector<ParameterSpec> parameters_;
};

TEST(CellActorTraining, ATargetWhoseLayerThrowsIsAnsweredAndAFaultOfItsCell) {
  register_clerk();
  static const Status done =
      register_layer("one_way", [](const Shape&, std::size_t, OptionReader&) -> Result<std::unique_ptr<Layer>> {
        return std::unique_ptr<Layer>(new OneWay);
      });
  must(done);
  const Coord layer{0, 0, 0, 0};
  NetworkSpec spec = NetworkBuilder("one_way", {1, 1, 2, 1})
                         .input("in", 2)
                         .layer(layer, "one_way")
                         .from({"in"})
                         .layer({0, 0, 1, 0}, "clerk")
                         .from({layer})
                         .option("friend", 0.0)
                         .option("trains", std::vector<double>{0, 0, 0, 0})
                         .spec();
  spec.supervision.policy = actors::Policy::hold;
  Mesh mesh = mesh_of(spec);
  const MailPointer bad = make_target({1, 1}, 0.5f), next = make_target({1}, 0.5f);
  must(mesh.tell(layer, bad));
  must(mesh.tell(layer, next));
  must(mesh.tick());
  ASSERT_TRUE(bad->is_done());
  testing_support::expect_error(bad->status(), Errc::internal, {"threw", "no way back"});
  EXPECT_EQ(view_of(mesh, layer).faults, 1u);
  EXPECT_FALSE(next->is_done()) << "mail behind it waits";
  must(mesh.tick());
  testing_support::expect_error(next->status(), Errc::shape_mismatch, {"1 values"});
}

}  // namespace
}  // namespace weft::mesh::cell_actor_training_test
