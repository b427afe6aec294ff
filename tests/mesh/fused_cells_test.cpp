// SPDX-License-Identifier: Apache-2.0
// Cells that are one product of one row each are computed many by one call (mesh/runtime/fused_cells.cpp); with two
// sessions they are not. So a mesh of one session must run as each session of its counterpart does.

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/runtime/command.hpp"

#include "kernels/isa.hpp"

#include "testing.hpp"
#include <cmath>
#include <optional>

namespace weft::mesh::fused_cells_test {
namespace {

using kernels::Activation;
using namespace testing_support;

constexpr std::uint32_t kCells = 40;
constexpr Coord cell(std::uint32_t x) { return {0, 0, x, 0}; }

/// A ring of cells: batches of one shape, of others, and cells of other kinds between them.
NetworkSpec ring() {
  NetworkBuilder network("ring", GridShape{1, 1, kCells, 2});
  network.input("x", 64);
  network.dense(cell(0), 64, Activation::tanh).from({"x", cell(kCells - 1)});
  for (std::uint32_t x = 1; x < kCells; ++x) {
    if (x == 9) {
      network.layer(cell(x), "layer_norm");
    } else if (x == 15) {
      network.dense(cell(x), 64, Activation::gelu).layer({0, 0, x, 1}, "residual").from({cell(x), cell(x - 1)});
      network.layer(cell(16), "identity").from({Coord{0, 0, x, 1}});
      ++x;
    } else if (x >= 20 && x < 24) {
      network.dense(cell(x), 128, Activation::relu);
    } else if (x == 28) {
      network.dense(cell(x), 30, Activation::silu);
    } else if (x == 32) {
      network.dense(cell(x), 64, Activation::tanh).option("bias", false);
    } else {
      network.dense(cell(x), 64, x % 12 == 0 ? Activation::linear : Activation::tanh);
    }
  }
  NetworkSpec spec = network.output("y", cell(kCells - 1)).output("inner", cell(5)).seed(8).spec();
  spec.supervision = {.policy = actors::Policy::hold};
  return spec;
}

void send_command(Mesh& mesh, std::uint32_t x, CommandKind kind, std::uint64_t number = 0) {
  post(mesh, cell(x), kind, 0, number);
}

/// Disturbs the mesh before tick `tick`.
void disturb(Mesh& mesh, std::uint64_t tick) {
  const auto weights = [&](std::uint32_t x, bool overflow) {
    auto control = std::make_shared<Command>();
    control->kind = CommandKind::set_weights;
    control->values = noise(64 * 64, x, 0.2f);
    for (float& w : control->values) w = overflow ? std::copysign(3e38f, w) : w;
    must(mesh.post(cell(x), control));
  };
  if (tick == 3) send_command(mesh, 4, CommandKind::disable);
  if (tick == 6) send_command(mesh, 4, CommandKind::enable), send_command(mesh, 6, CommandKind::reset);
  if (tick == 8) send_command(mesh, 30, CommandKind::set_period, 3);
  if (tick == 14) send_command(mesh, 30, CommandKind::set_period, 1);
  if (tick == 16) weights(12, true);  // its sums overflow, as it is linear, and it holds its last output
  if (tick == 20) weights(12, false);
  if (tick == 22) {
    post(mesh, cell(35), {.kind = CommandKind::morph, .encoding = Encoding(Dtype::int8)});
  }
  if (tick == 24)
    must(MeshAccess::weights(mesh).morph(*mesh.graph().find_layer(cell(2)), "layer", Encoding(Dtype::bfloat16)));
}

TEST(RowCells, LiveAsOneByOneOnEveryIsaAndThreadCount) {
  std::optional<Hash128> reference;
  for (const kernels::Isa isa : kernels::available_isas())
    for (const std::size_t threads : {1, 2, 7}) {
      ASSERT_TRUE(kernels::set_active_isa(isa));
      const std::string what = std::string(kernels::name(isa)) + " on " + std::to_string(threads);
      MeshOptions options;
      options.threads = threads;
      options.grain_bytes = 0;
      options.pin = false;
      Mesh mesh = must(Mesh::build(ring(), options));
      options.sessions = 2;
      Mesh counterpart = must(Mesh::build(ring(), options));
      for (std::uint64_t tick = 0; tick < 30; ++tick) {
        const auto x = noise(64, tick);
        must(mesh.set_input("x", x));
        for (const std::size_t session : {0, 1}) must(counterpart.set_input("x", x, session));
        for (Mesh* each : {&mesh, &counterpart}) {
          disturb(*each, tick);
          must(each->tick());
        }
        ASSERT_EQ(output_bits(mesh, 0), output_bits(counterpart, 1)) << what << ", tick " << tick;
      }
      EXPECT_EQ(mesh.registry().view(12).faults, 4u) << what;
      EXPECT_EQ(counterpart.registry().view(12).faults, 4u) << what;
      if (!reference) reference = mesh.state_hash();
      EXPECT_EQ(mesh.state_hash(), *reference) << what;
    }
  ASSERT_TRUE(kernels::set_active_isa(kernels::best_isa()));
}

TEST(RowCells, PutOutWhatARunAsksFor) {
  constexpr std::size_t kTicks = 9;
  Mesh by_run = must(Mesh::build(ring())), by_tick = must(Mesh::build(ring()));
  std::vector<float> y(kTicks * 64), inner(kTicks * 64);
  const RunOutput outputs[] = {{"y", y}, {"inner", inner}};
  for (int round = 0; round < 2; ++round) {
    const auto x = noise(kTicks * 64, static_cast<std::uint64_t>(round));
    const RunInput inputs[] = {{"x", x}};
    must(by_run.run(inputs, kTicks, outputs));
    for (std::size_t t = 0; t < kTicks; ++t) {
      must(by_tick.set_input("x", std::span(x).subspan(t * 64, 64)));
      must(by_tick.tick());
      const auto want = output_of(by_tick, cell(kCells - 1)), want_inner = output_of(by_tick, cell(5));
      EXPECT_TRUE(std::equal(want.begin(), want.end(), y.begin() + static_cast<long>(t * 64))) << t;
      EXPECT_TRUE(std::equal(want_inner.begin(), want_inner.end(), inner.begin() + static_cast<long>(t * 64))) << t;
    }
    EXPECT_EQ(by_run.state_hash(), by_tick.state_hash());
  }
}

}  // namespace
}  // namespace weft::mesh::fused_cells_test
