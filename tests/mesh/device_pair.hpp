// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_statistics.hpp"
#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/persistence/snapshot.hpp"
#include "mesh/runtime/cell.hpp"

#include <gtest/gtest.h>

#include "fault_scenarios.hpp"
#include "on_device.hpp"
#include <functional>
#include <optional>
#include <string>
#include <vector>

/// A mesh on the CPU and the same one on a device, which run the same.
namespace weft::mesh::testing_support {

inline Mesh mesh_on(const NetworkSpec& spec, const std::string& where, std::size_t sessions,
                    MeshOptions options = {.threads = 1}) {
  options.sessions = sessions;
  options.device = where;
  return must(Mesh::build(spec, options));
}

class DevicePair : public ::testing::Test {
 protected:
  void SetUp() override { need_device(); }
  void build(const NetworkSpec& spec, std::size_t sessions = 1) {
    cpu_.emplace(mesh_on(spec, "cpu", sessions));
    gpu_.emplace(mesh_on(spec, device_name(), sessions));
    ASSERT_EQ(cpu_->device_statistics(), nullptr);
    ASSERT_NE(gpu_->device_statistics(), nullptr);
  }
  const DeviceStatistics& statistics() const { return *gpu_->device_statistics(); }

  template <class Act>
  void both(Act&& act) {
    act(*cpu_);
    act(*gpu_);
  }
  /// Both do it and say the same of it: done, or the same error.
  void both_say_the_same(const std::function<Status(Mesh&)>& act) {
    const Status here = act(*cpu_), there = act(*gpu_);
    ASSERT_EQ(here.has_value(), there.has_value()) << (here ? there.error().text() : here.error().text());
    if (here) return;
    EXPECT_EQ(there.error().code(), here.error().code());
    EXPECT_EQ(there.error().text(), here.error().text());
  }
  void set_inputs(std::uint64_t seed) {
    for (std::size_t session = 0; session < cpu_->sessions(); ++session)
      both([&](Mesh& mesh) {
        must(mesh.set_input("a", noise(7, seed + 1000 * session), session));
        must(mesh.set_input("b", noise(5, seed + 1000 * session + 500), session));
      });
  }
  void tick(std::uint64_t n) {
    both([&](Mesh& mesh) { must(mesh.tick(n)); });
  }
  /// Rounds of other inputs and a few ticks.
  void run_rounds(std::uint64_t rounds, std::uint64_t ticks) {
    for (std::uint64_t t = 0; t < rounds; ++t) {
      set_inputs(t);
      tick(ticks);
      expect_outputs();
    }
  }
  void expect_outputs() {
    for (const char* output : {"left", "right"})
      for (std::size_t session = 0; session < cpu_->sessions(); ++session)
        EXPECT_EQ(bits(must(gpu_->output(output, session))), bits(must(cpu_->output(output, session))))
            << output << ", session " << session << ", tick " << cpu_->ticks();
  }
  void expect_equal(const std::string& when) {
    EXPECT_EQ(gpu_->ticks(), cpu_->ticks()) << when;
    EXPECT_EQ(hashes(*gpu_), hashes(*cpu_)) << when;
  }
  /// A run with inputs and outputs. Of ticks behind a halt nothing is said.
  void run_both(std::uint64_t ticks, const std::vector<float>& a, const std::vector<float>& b) {
    const std::uint64_t before = cpu_->ticks();
    std::vector<float> left[2], right[2];
    std::size_t which = 0;
    both_say_the_same([&](Mesh& mesh) {
      const std::size_t rows = ticks * mesh.sessions();
      left[which].assign(rows * must(mesh.output("left")).size(), 0.0f);
      right[which].assign(rows * must(mesh.output("right")).size(), 0.0f);
      const RunInput inputs[] = {{"a", a}, {"b", b}};
      const RunOutput outputs[] = {{"left", left[which]}, {"right", right[which]}};
      ++which;
      return mesh.run(inputs, ticks, outputs);
    });
    for (const auto* const outputs : {left, right}) {
      const std::size_t values = outputs[0].size() / ticks * (cpu_->ticks() - before);
      EXPECT_EQ(bits(std::span(outputs[1]).first(values)), bits(std::span(outputs[0]).first(values)));
    }
  }
  void move_sessions_about() {
    set_inputs(1);
    tick(9);
    both([](Mesh& mesh) { EXPECT_EQ(must(mesh.add_session()), 2u); });
    set_inputs(2);
    tick(5);
    expect_equal("added");
    tick(3);
    both([](Mesh& mesh) { must(mesh.remove_session(0)); });
    tick(4);
    expect_outputs();
    both([](Mesh& mesh) { must(mesh.reset_session(1)); });
    tick(4);
    expect_outputs();
    SessionSnapshot state;
    must(gpu_->take_session_snapshot(1, state));
    tick(3);
    both([&](Mesh& mesh) { must(mesh.restore_session_snapshot(0, state)); });
    tick(3);
    expect_equal("loaded from memory");
  }
  void go_back_to_saved_states(SnapshotWeights weights) {
    set_inputs(1);
    tick(10);
    Snapshot here, there;
    cpu_->take_snapshot(here, weights);
    gpu_->take_snapshot(there, weights);
    tick(7);
    set_inputs(2);
    tick(2);
    const std::string after = hashes(*gpu_);
    tick(5);
    must(cpu_->restore_snapshot(here));
    must(gpu_->restore_snapshot(there));
    expect_equal("back");
    tick(7);
    set_inputs(2);
    tick(2);
    expect_equal("again");
    EXPECT_EQ(hashes(*gpu_), after);
    if (weights != SnapshotWeights::always) return;
    // And a state of the CPU's mesh goes on here.
    must(gpu_->restore_snapshot(here));
    must(cpu_->restore_snapshot(here));
    tick(4);
    expect_equal("the other's");
  }
  /// Cells failed, and both say the same of it.
  void expect_same_supervision() {
    const auto &here = cpu_->supervisor().events(), &there = gpu_->supervisor().events();
    EXPECT_GT(here.appended(), 0u);
    EXPECT_EQ(there.appended(), here.appended());
    for (actors::ActorId cell = 0; cell < MeshAccess::cells(*cpu_).size(); ++cell) {
      const actors::ActorView a = cpu_->registry().view(cell), b = gpu_->registry().view(cell);
      EXPECT_EQ(b.status, a.status) << cell;
      EXPECT_EQ(b.faults, a.faults) << cell;
      EXPECT_EQ(b.restarts, a.restarts) << cell;
      EXPECT_EQ(b.last_fault_tick, a.last_fault_tick) << cell;
    }
  }
  /// All steps ran on the device, beside so many cells on the host.
  void expect_on_device(std::uint64_t steps, std::uint64_t host_cells = 0) {
    EXPECT_EQ(statistics().why_host, "");
    EXPECT_EQ(statistics().device_steps, steps);
    EXPECT_EQ(statistics().host_steps, 0u);
    EXPECT_EQ(statistics().replays, 0u);
    EXPECT_EQ(statistics().exchanged_bytes > 0, host_cells > 0);
    EXPECT_EQ(statistics().host_cells, host_cells);
  }

  std::optional<Mesh> cpu_, gpu_;
};

/// Every other cell stays on the host, as squares of one colour of a board do; of a third colour there are none.
inline NetworkSpec checkered(NetworkSpec spec, std::uint32_t colour) {
  for (LayerSpec& layer : spec.layers)
    if ((layer.at.z + layer.at.y + layer.at.x) % 2 == colour) layer.device = Placement::cpu;
  return spec;
}

/// in -> a -> b -> c -> a, the middle one multiplies by what overflows.
inline NetworkSpec explosive(actors::Policy policy) {
  NetworkSpec spec = NetworkBuilder("explosive", {1, 1, 4, 1})
                         .input("a", 7)
                         .input("b", 5)
                         .dense({0, 0, 0, 0}, 6, kernels::Activation::tanh)
                         .from({"a", "b", Coord{0, 0, 2, 0}})
                         .dense({0, 0, 1, 0}, 6)
                         .dense({0, 0, 2, 0}, 6, kernels::Activation::tanh)
                         .dense({0, 0, 3, 0}, 4)
                         .from({Coord{0, 0, 1, 0}, "b"})
                         .output("left", {0, 0, 2, 0})
                         .output("right", {0, 0, 3, 0})
                         .seed(11)
                         .spec();
  spec.supervision = {policy, 3, 50, actors::Policy::isolate};
  return spec;
}

}  // namespace weft::mesh::testing_support
