// SPDX-License-Identifier: Apache-2.0
// Agents that act, with their networks on a device: the state that they have on the CPU, to the bit, wherever they are
// killed and whatever goes on with them. Skipped (77) where there is no Vulkan device; WEFT_TEST_DEVICE names one.

#include "agent/environment_loop.hpp"
#include "agent/replay.hpp"
#include "learning/drift/drift_watch.hpp"

#include "mesh/device/device_statistics.hpp"

#include "tests/agent/acting.hpp"
#include "tests/mesh/faulty_device.hpp"
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weft::agent::test::device_acting_test {
namespace {

using mesh::testing_support::device_name;
using mesh::testing_support::DriverFault;
using mesh::testing_support::FaultsTest;
using mesh::testing_support::must;
using storage::MemoryFileSystem;

mesh::NetworkSpec on(mesh::NetworkSpec spec, std::string device) {
  spec.device = std::move(device);
  return spec;
}

/// Each algorithm alone, and one of several environments; half of them a run, in turn.
std::vector<std::pair<std::string, mesh::NetworkSpec>> agents() {
  const std::vector<std::pair<std::string, mesh::NetworkSpec>> all = {
      {"actor_critic", network(kCartPole)},
      {"actor_critic of three", network(R"({"environment": {"type": "cartpole"}, "seed": 5, "environments": 3})")},
      {"real values", swinging()},
      {"q", by_values("q", 10)},
      {"sarsa", by_values("sarsa", 10)}};
  return in_slice(all, 2);
}

class DeviceActing : public FaultsTest {};

TEST_F(DeviceActing, EndsInTheStateOfTheCpu) {
  const std::uint64_t steps = is_thorough() ? 4000 : 400;
  for (const auto& [name, spec] : agents()) {
    SCOPED_TRACE(name);
    auto cpu = must(ReplayableMesh::begin(on(spec, "cpu"), true, shape(1)));
    auto gpu = must(ReplayableMesh::begin(on(spec, device_name()), true, shape(1)));
    for (int part = 0; part < 4; ++part) {
      must(cpu.loop()->run(steps / 4));
      must(gpu.loop()->run(steps / 4));
      ASSERT_EQ(to_string(gpu.hash()), to_string(cpu.hash())) << part;
    }
    EXPECT_EQ(gpu.loop()->mean_return(), cpu.loop()->mean_return());
    EXPECT_GE(cpu.loop()->episodes(), 2u);
    const mesh::DeviceStatistics& statistics = *std::as_const(gpu).mesh().device_statistics();
    EXPECT_EQ(statistics.why_host, "");
    EXPECT_EQ(statistics.host_steps, 0u);
    EXPECT_EQ(statistics.replays, 0u);
    EXPECT_GT(statistics.device_steps, steps);
  }
}

// Reactions are commands to layers, which a device has too.
TEST_F(DeviceActing, ReactsToDriftAsTheCpuDoes) {
  const auto spec = network_of(4, 2, kCartPole, 12, R"("optimizer": {"type": "sgd", "lr": 1}, "drift": {
      "input": "td_error", "detector": "page_hinkley", "threshold": 2, "tolerance": 0, "rate_boost": 2,
      "boost_samples": 20, "react_every": 8})");
  auto cpu = must(ReplayableMesh::begin(on(spec, "cpu"), true, shape(1)));
  auto gpu = must(ReplayableMesh::begin(on(spec, device_name()), true, shape(1)));
  must(cpu.act(300));
  must(gpu.act(300));
  EXPECT_EQ(to_string(gpu.hash()), to_string(cpu.hash()));
  EXPECT_GT(learning::drift_of(*cpu.learner()).changes(), 0u);
  auto plain = must(ReplayableMesh::begin(on(spec, "cpu"), true, shape(1)));
  must(plain.loop()->run(300));
  EXPECT_NE(to_string(plain.hash()), to_string(cpu.hash())) << "nothing was done";
}

// Begun on the one, killed, gone on with on the other, and so on: one end, and one record that both replay.
TEST_F(DeviceActing, GoesOnFromAnyCallOnTheOther) {
  for (const auto& [name, spec] : agents()) {
    SCOPED_TRACE(name);
    const std::vector<Call> calls = acting_script(60);
    MemoryFileSystem whole;
    Acting unbroken(whole, on(spec, "cpu"));
    unbroken.run(calls.size(), calls);
    const std::string wanted = to_string(unbroken.agent->hash());
    RandomStream random(31, name.size(), RandomPurpose::test);
    for (int run = 0; run < (is_thorough() ? 10 : 2); ++run) {
      MemoryFileSystem files;
      std::uint64_t cut = 0;
      for (int part = run; cut < calls.size(); ++part) {
        cut = std::min<std::uint64_t>(cut + 1 + random.next_below(20), calls.size());
        Acting acting(files, on(spec, part % 2 ? "cpu" : device_name()));
        acting.run(cut, calls);
        if (cut == calls.size()) {
          EXPECT_EQ(to_string(acting.agent->hash()), wanted);
        }
        files.process_crash();
      }
    }
  }
}

class DeviceActingFaults : public FaultsTest, public ::testing::WithParamInterface<DriverFault> {};

TEST_P(DeviceActingFaults, LoseNoStep) {
  const DriverFault fault = GetParam();
  const auto run_on = [&](const std::string& where) {
    auto made = must(ReplayableMesh::begin(on(network(kCartPole), where), true, shape(1)));
    must(made.loop()->run(20));
    std::string all = to_string(made.hash());
    must(made.loop()->run(15));
    all += to_string(made.hash()) + std::to_string(made.loop()->mean_return());
    const auto* const told = std::as_const(made).mesh().device_statistics();
    const Outcome outcome{all, told ? *told : mesh::DeviceStatistics()};
    plan().clear();
    return outcome;
  };
  EXPECT_GT(expect_nothing_lost(fault, run_on, false, is_thorough() ? 13 : 211), 0);
}

INSTANTIATE_TEST_SUITE_P(Of, DeviceActingFaults,
                         ::testing::Values(DriverFault::no_room, DriverFault::lost_at_submit,
                                           DriverFault::lost_at_wait),
                         [](const auto& row) { return std::string(mesh::testing_support::name(row.param)); });

}  // namespace
}  // namespace weft::agent::test::device_acting_test
