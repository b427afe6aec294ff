// SPDX-License-Identifier: Apache-2.0

#include "topology/machine.hpp"

#include "topology/core_assignment.hpp"

#include <gtest/gtest.h>

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

namespace weft::topology::machine_test {
namespace {

std::set<int> own_mask() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  std::set<int> cpus;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) cpus.insert(i);
  }
  return cpus;
}

TEST(Machine, DiscoversWhatTheKernelSays) {
  const auto machine = Machine::discover();
  ASSERT_TRUE(machine) << machine.error().text();
  const MachineInfo& info = machine->info();
  const std::set<int> mask = own_mask();
  EXPECT_EQ(std::set<int>(info.affinity.begin(), info.affinity.end()), mask);
  EXPECT_GE(info.cpus, mask.size());
  EXPECT_GE(info.nodes.size(), 1u);
  EXPECT_GE(machine->usable_cpus(), 1u);
  EXPECT_LE(machine->usable_cpus(), mask.size());
  EXPECT_EQ(info.page_bytes, static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
  std::uint64_t memory = 0;
  for (const NodeInfo& node : info.nodes) memory += node.memory_bytes;
  EXPECT_GT(memory, 64u << 20);
  EXPECT_NE(machine->describe().find("NUMA node"), std::string::npos);
}

TEST(Machine, SmallerAffinityLeavesFewerUsableCpus) {
  const std::set<int> mask = own_mask();
  if (mask.size() < 2) GTEST_SKIP() << "one CPU only";
  std::thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(*mask.rbegin(), &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    const auto machine = Machine::discover();
    ASSERT_TRUE(machine);
    EXPECT_EQ(machine->usable_cpus(), 1u);
    EXPECT_EQ(machine->usable_cores(), 1u);
    EXPECT_EQ(machine->info().affinity, std::vector<std::uint32_t>{static_cast<std::uint32_t>(*mask.rbegin())});
    EXPECT_GT(machine->info().cpus, 1u);
  }).join();
}

TEST(Machine, SyntheticTwoNodesOfEight) {
  const auto machine = Machine::synthetic("node:2 core:8 pu:1");
  ASSERT_TRUE(machine) << machine.error().text();
  const MachineInfo& info = machine->info();
  EXPECT_TRUE(info.synthetic);
  ASSERT_EQ(info.nodes.size(), 2u);
  EXPECT_EQ(info.cores.size(), 16u);
  EXPECT_EQ(info.nodes[1].cores, 8u);
  EXPECT_EQ(info.cores[7].node, 0u);
  EXPECT_EQ(info.cores[8].node, 1u);
  EXPECT_EQ(machine->usable_cpus(), 16u);
}

TEST(Machine, SyntheticEightNodesOfSixteenWithThreads) {
  const auto machine = Machine::synthetic("pack:2 node:4 l3:1(size=33554432) core:16 l2:1(size=1048576) pu:2");
  ASSERT_TRUE(machine) << machine.error().text();
  const MachineInfo& info = machine->info();
  EXPECT_EQ(info.packages, 2u);
  EXPECT_EQ(info.nodes.size(), 8u);
  EXPECT_EQ(info.cores.size(), 128u);
  EXPECT_EQ(info.cpus, 256u);
  EXPECT_EQ(info.cores[64].package, 1u);
  EXPECT_EQ(info.cores[5].cpus, (std::vector<std::uint32_t>{10, 11}));
  EXPECT_EQ(info.l3.bytes, 33554432u);
  EXPECT_EQ(info.l3.count, 8u);
  EXPECT_EQ(info.l2.count, 128u);
  EXPECT_EQ(machine->usable_cores(), 128u);
}

TEST(Machine, MaskedNodeStaysVisible) {
  Machine::SyntheticOptions options;
  for (std::uint32_t cpu = 8; cpu < 16; ++cpu) options.masked_cpus.push_back(cpu);
  const auto machine = Machine::synthetic("node:2 core:8 pu:1", options);
  ASSERT_TRUE(machine);
  ASSERT_EQ(machine->info().nodes.size(), 2u);
  EXPECT_FALSE(machine->info().nodes[0].masked());
  EXPECT_TRUE(machine->info().nodes[1].masked());
  EXPECT_EQ(machine->info().nodes[1].cores, 8u);
  EXPECT_EQ(machine->usable_cpus(), 8u);
  EXPECT_NE(machine->describe().find("masked"), std::string::npos);
}

TEST(Machine, QuotaBoundsUsableCpusRoundedUp) {
  EXPECT_EQ(Machine::synthetic("core:16 pu:2", {.masked_cpus = {}, .quota_cpus = 2.5})->usable_cpus(), 3u);
  EXPECT_EQ(Machine::synthetic("core:16 pu:2", {.masked_cpus = {}, .quota_cpus = 0.25})->usable_cpus(), 1u);
  EXPECT_EQ(Machine::synthetic("core:2 pu:1", {.masked_cpus = {}, .quota_cpus = 64})->usable_cpus(), 2u);
  EXPECT_EQ(core_assignments(*Machine::synthetic("core:16 pu:2", {.masked_cpus = {}, .quota_cpus = 2.5}), 0).size(),
            3u);
}

TEST(Machine, RefusesBadDescriptions) {
  EXPECT_EQ(Machine::synthetic("core:banana").error().code(), Errc::parse_failed);
  EXPECT_EQ(Machine::synthetic("core:2 pu:1", {.masked_cpus = {0, 1}, .quota_cpus = 0}).error().code(),
            Errc::invalid_argument);
}

TEST(CoreAssignment, OnePerCoreThenShared) {
  const auto machine = Machine::synthetic("node:2 core:4 pu:2");
  ASSERT_TRUE(machine);
  EXPECT_EQ(core_assignments(*machine, 0).size(), 8u);  // cores, not hardware threads
  EXPECT_EQ(core_assignments(*machine, 5)[4], (CoreAssignment{4, 1}));
  const auto shared = core_assignments(*machine, 16);
  for (std::uint32_t i = 0; i < 16; ++i) EXPECT_EQ(shared[i], (CoreAssignment{i / 2, i / 8}));
}

TEST(Machine, OfOneNodeHasItsCoresAlone) {
  const auto machine = Machine::synthetic("node:4 core:3 pu:2").value();
  EXPECT_EQ(machine.usable_nodes(), (std::vector<std::uint32_t>{0, 1, 2, 3}));
  const auto part = machine.on_node(2).value();
  EXPECT_EQ(part.usable_nodes(), (std::vector<std::uint32_t>{2}));
  EXPECT_EQ(part.usable_cores(), 3u);
  EXPECT_EQ(part.usable_cpus(), 6u);
  EXPECT_EQ(part.info().nodes.size(), 4u) << "masked parts stay visible";
  EXPECT_TRUE(part.info().nodes[1].masked());
  for (const CoreAssignment each : core_assignments(part, 0)) EXPECT_EQ(each.node, 2u);
  EXPECT_FALSE(ThreadBinding::pin_to_node(part, 2)) << "a synthetic machine has no threads";
}

TEST(ThreadBinding, StaysOnANode) {
  const auto machine = Machine::discover().value();
  const std::set<int> before = own_mask();
  const std::uint32_t node = machine.usable_nodes().back();
  {
    const auto part = machine.on_node(node).value();
    const auto binding = ThreadBinding::pin_to_node(part, node);
    if (!binding) GTEST_SKIP() << binding.error().text();
    EXPECT_EQ(current_node(machine), node);
    EXPECT_LE(own_mask().size(), before.size());
  }
  EXPECT_EQ(own_mask(), before);
}

TEST(ThreadBinding, PinsAndRestores) {
  const auto machine = Machine::discover();
  ASSERT_TRUE(machine);
  const std::set<int> before = own_mask();
  const CoreAssignment last = core_assignments(*machine, 0).back();
  const auto& usable = machine->info().cores[last.core].usable;
  {
    auto binding = ThreadBinding::pin(*machine, last.core);
    if (!binding) GTEST_SKIP() << binding.error().text();
    EXPECT_EQ(own_mask(), std::set<int>(usable.begin(), usable.end()));
    EXPECT_TRUE(is_on_core(*machine, last.core));
    ThreadBinding moved = std::move(*binding);
    EXPECT_EQ(own_mask().size(), usable.size());
  }
  EXPECT_EQ(own_mask(), before);
}

TEST(ThreadBinding, MovesAThreadOnlyWhereItMayGo) {
  const auto machine = Machine::discover();
  ASSERT_TRUE(machine);
  const std::set<int> before = own_mask();
  for (const CoreAssignment assignment : core_assignments(*machine, 0)) {
    EXPECT_TRUE(move_to_core(*machine, assignment.core));
    EXPECT_EQ(own_mask(), before);
  }
  const auto places = core_assignments(*machine, 0);
  if (places.size() > 1) {
    std::thread([&] {
      auto binding = ThreadBinding::pin(*machine, places[0].core);
      if (!binding) GTEST_SKIP() << binding.error().text();
      EXPECT_FALSE(move_to_core(*machine, places[1].core));
      EXPECT_TRUE(is_on_core(*machine, places[0].core));
    }).join();
  }
  EXPECT_FALSE(move_to_core(*Machine::synthetic("core:2 pu:1"), 0));
}

TEST(ThreadBinding, RefusesSyntheticAndMaskedCores) {
  EXPECT_EQ(ThreadBinding::pin(*Machine::synthetic("core:2 pu:1"), 0).error().code(), Errc::unsupported);
  EXPECT_EQ(
      ThreadBinding::pin(*Machine::synthetic("core:2 pu:1", {.masked_cpus = {1}, .quota_cpus = 0}), 1).error().code(),
      Errc::invalid_argument);
}

}  // namespace
}  // namespace weft::topology::machine_test
