// SPDX-License-Identifier: Apache-2.0

#include "topology/plan.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <set>

namespace weft::topology::plan_test {
namespace {

Machine machine(const char* description, Machine::SyntheticOptions options = {}) {
  return Machine::synthetic(description, options).value();
}

// A chain: each cell talks to the next.
Workload chain(std::size_t cells, std::size_t threads, std::uint64_t bytes = 16384) {
  Workload workload;
  workload.vertices.assign(cells, {bytes, 1.0});
  for (std::uint32_t i = 1; i < cells; ++i) workload.links.emplace_back(i - 1, i);
  workload.threads = threads;
  return workload;
}

// Properties of every plan, for any workload.
void expect_sound(const Plan& plan, const Workload& workload) {
  ASSERT_FALSE(plan.regions.empty());
  std::uint32_t next = 0;
  std::uint64_t bytes = 0, all_bytes = 0;
  for (const auto& region : plan.regions) {
    EXPECT_EQ(region.begin, next);
    EXPECT_LT(region.begin, region.end);
    next = region.end;
    bytes += region.bytes;
  }
  EXPECT_EQ(next, workload.vertices.size());
  for (const auto& vertex : workload.vertices) all_bytes += vertex.bytes;
  EXPECT_EQ(bytes, all_bytes);
  std::set<std::pair<std::uint32_t, std::uint32_t>> expected, found;
  std::uint64_t cut = 0;
  for (const auto& [a, b] : workload.links) {
    const std::uint32_t from = plan.region_of(a), to = plan.region_of(b);
    EXPECT_TRUE(plan.regions[from].begin <= a && a < plan.regions[from].end);
    if (from == to) continue;
    ++cut;
    expected.insert({from, to});
    expected.insert({to, from});
  }
  for (std::uint32_t r = 0; r < plan.regions.size(); ++r) {
    for (const std::uint32_t n : plan.regions[r].neighbours) EXPECT_TRUE(found.insert({r, n}).second);
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(plan.cut_links, cut);
}

TEST(Plan, OneCoreHoldsEverything) {
  const Workload workload = chain(256, 0);
  const auto plan = place(machine("core:1 pu:1"), workload);
  ASSERT_TRUE(plan);
  expect_sound(*plan, workload);
  EXPECT_EQ(plan->regions.size(), 1u);
  EXPECT_EQ(plan->cut_links, 0u);
}

TEST(Plan, TwoNodesOfEightAreBalancedAndLocal) {
  const Workload workload = chain(256, 0);
  const auto plan = place(machine("node:2 core:8 pu:1"), workload);
  ASSERT_TRUE(plan);
  expect_sound(*plan, workload);
  ASSERT_EQ(plan->regions.size(), 16u);
  for (std::uint32_t r = 0; r < 16; ++r) {
    EXPECT_EQ(plan->regions[r].end - plan->regions[r].begin, 16u);
    EXPECT_EQ(plan->regions[r].assignment, (CoreAssignment{r, r / 8}));
  }
  EXPECT_EQ(plan->cut_links, 15u);  // a chain cut into 16 pieces
}

TEST(Plan, CutsSeveralRegionsForEachCore) {
  Workload workload = chain(256, 0);
  workload.regions_each = 8;
  const auto plan = place(machine("node:2 core:8 pu:1"), workload);
  ASSERT_TRUE(plan);
  expect_sound(*plan, workload);
  ASSERT_EQ(plan->regions.size(), 128u);
  for (std::uint32_t r = 0; r < 128; ++r) {
    EXPECT_EQ(plan->regions[r].end - plan->regions[r].begin, 2u);
    EXPECT_EQ(plan->regions[r].assignment, (CoreAssignment{r / 8, r / 64}));
  }
  // Fewer cells than that: one each.
  Workload few = chain(20, 4);
  few.regions_each = 8;
  const auto cut = place(machine("core:4 pu:1"), few);
  ASSERT_TRUE(cut);
  expect_sound(*cut, few);
  ASSERT_EQ(cut->regions.size(), 20u);
  for (std::uint32_t r = 0; r < 20; ++r) EXPECT_EQ(cut->regions[r].assignment.core, r / 5);
}

TEST(Plan, EightNodesOfSixteenUseEachCoreOnceAndNotItsThreads) {
  const Workload workload = chain(4096, 0);
  const auto plan = place(machine("node:8 core:16 pu:2"), workload);
  ASSERT_TRUE(plan);
  expect_sound(*plan, workload);
  ASSERT_EQ(plan->regions.size(), 128u);
  std::set<std::uint32_t> cores;
  for (const auto& region : plan->regions) {
    EXPECT_TRUE(cores.insert(region.assignment.core).second);
    EXPECT_EQ(region.assignment.node, region.assignment.core / 16);
    EXPECT_EQ(region.bytes, 32u * 16384);
  }
}

TEST(Plan, MaskedNodeGetsNothing) {
  const Workload workload = chain(256, 0);
  const auto plan =
      place(machine("node:2 core:8 pu:1", {.masked_cpus = {0, 1, 2, 3, 4, 5, 6, 7}, .quota_cpus = 0}), workload);
  ASSERT_TRUE(plan);
  expect_sound(*plan, workload);
  ASSERT_EQ(plan->regions.size(), 8u);
  for (const auto& region : plan->regions) {
    EXPECT_EQ(region.assignment.node, 1u);
    EXPECT_GE(region.assignment.core, 8u);
  }
}

TEST(Plan, MoreThreadsThanCoresShareCores) {
  const Workload workload = chain(70, 7);
  const auto plan = place(machine("core:2 pu:1"), workload);
  ASSERT_TRUE(plan);
  expect_sound(*plan, workload);
  ASSERT_EQ(plan->regions.size(), 7u);
  EXPECT_EQ(plan->regions[0].assignment.core, 0u);
  EXPECT_EQ(plan->regions[3].assignment.core, 0u);
  EXPECT_EQ(plan->regions[4].assignment.core, 1u);
}

TEST(Plan, FewerCellsThanThreadsGiveOneRegionACellOnCoresOfItsOwn) {
  const Workload workload = chain(3, 7);
  const auto plan = place(machine("core:4 pu:1"), workload);
  ASSERT_TRUE(plan);
  expect_sound(*plan, workload);
  ASSERT_EQ(plan->regions.size(), 3u);
  for (std::uint32_t r = 0; r < 3; ++r) EXPECT_EQ(plan->regions[r].assignment.core, r);
  EXPECT_EQ(plan->threads, 7u);
}

TEST(Plan, SmallMeshesStayOnOneCoreUnlessAsked) {
  EXPECT_EQ(place(machine("core:8 pu:1"), chain(8, 0, 1000))->regions.size(), 1u);
  EXPECT_EQ(place(machine("core:8 pu:1"), chain(8, 2, 1000))->regions.size(), 2u);
  EXPECT_EQ(place(machine("core:8 pu:1"), chain(8, 0, 32768))->regions.size(), 4u);  // 256 KiB by grains of 64 KiB
}

TEST(Plan, BoundaryMovesToWhereFewerLinksAreCut) {
  // Two cliques of 19 and 21 cells joined by one link: the exact middle would cut 20 links of the larger one.
  Workload workload;
  workload.vertices.assign(40, {100, 1.0});
  for (std::uint32_t a = 0; a < 40; ++a) {
    for (std::uint32_t b = a + 1; b < 40; ++b) {
      if ((a < 19) == (b < 19)) workload.links.emplace_back(a, b);
    }
  }
  workload.links.emplace_back(30, 5);
  workload.threads = 2;
  const auto plan = place(machine("core:2 pu:1"), workload);
  ASSERT_TRUE(plan);
  expect_sound(*plan, workload);
  EXPECT_EQ(plan->regions[0].end, 19u);
  EXPECT_EQ(plan->cut_links, 1u);
}

TEST(Plan, BalancesUnequalCells) {
  // Brute force over all cuts is the reference: the heaviest region is at most one slack and one cell above the best.
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    RandomStream random(seed, 0, RandomPurpose::test);
    Workload workload;
    std::uint64_t total = 0, largest = 0;
    for (int i = 0; i < 60; ++i) {
      const std::uint64_t bytes = 1 + random.next_below(1000);
      workload.vertices.push_back({bytes, 0.0});
      total += bytes;
      largest = std::max(largest, bytes);
    }
    workload.threads = 4;
    const auto plan = place(machine("core:4 pu:1"), workload);
    ASSERT_TRUE(plan);
    expect_sound(*plan, workload);
    for (const auto& region : plan->regions) {
      EXPECT_LE(static_cast<double>(region.bytes), total / 4.0 + static_cast<double>(largest)) << "seed " << seed;
    }
  }
}

TEST(Plan, WeighsWorkBesideBytes) {
  Workload workload;
  for (int i = 0; i < 10; ++i) workload.vertices.push_back({0, i < 2 ? 40.0 : 1.0});
  workload.threads = 2;
  const auto plan = place(machine("core:2 pu:1"), workload);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->regions[0].end, 1u);
}

TEST(Plan, RandomDemandsGiveSoundAndRepeatablePlans) {
  const Machine machines[] = {machine("core:1 pu:1"), machine("node:2 core:8 pu:2"), machine("node:3 core:5 pu:1")};
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    RandomStream random(seed, 1, RandomPurpose::test);
    Workload workload;
    const std::uint32_t cells = 1 + random.next_below(100);
    for (std::uint32_t i = 0; i < cells; ++i) {
      workload.vertices.push_back({random.next_below(3) ? random.next_below(5000) : 0u, double(random.next_below(50))});
    }
    for (std::uint32_t i = random.next_below(300); i > 0; --i) {
      workload.links.emplace_back(random.next_below(cells), random.next_below(cells));
    }
    workload.threads = random.next_below(40);
    workload.grain_bytes = random.next_below(3) * 500;
    const Machine& on = machines[seed % 3];
    const auto plan = place(on, workload);
    ASSERT_TRUE(plan);
    expect_sound(*plan, workload);
    EXPECT_EQ(*plan, *place(on, workload));
    if (workload.threads) {
      EXPECT_EQ(plan->regions.size(), std::min<std::size_t>(workload.threads, cells));
    }
  }
}

TEST(Plan, NoCellsNoRegions) {
  const auto plan = place(machine("core:2 pu:1"), {});
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->regions.empty());
}

TEST(Plan, RefusesLinksOutOfRangeAndImpossibleWork) {
  Workload workload = chain(4, 1);
  workload.links.emplace_back(0, 4);
  EXPECT_EQ(place(machine("core:2 pu:1"), workload).error().code(), Errc::out_of_range);
  workload = chain(4, 1);
  workload.vertices[2].work = -1;
  EXPECT_EQ(place(machine("core:2 pu:1"), workload).error().code(), Errc::invalid_argument);
}

TEST(Plan, Prints) {
  const std::string text = place(machine("core:2 pu:1"), chain(8, 2))->describe();
  EXPECT_NE(text.find("region 1: cells 4..7"), std::string::npos) << text;
}

}  // namespace
}  // namespace weft::topology::plan_test
