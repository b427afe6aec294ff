// SPDX-License-Identifier: Apache-2.0

#include "server/numa.hpp"

#include "storage/file_system.hpp"

#include <gtest/gtest.h>

#include "tests/server/serving.hpp"
#include "tests/server/stories.hpp"
#include "tests/support/temporary_directory.hpp"
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace weft;
using namespace weft::testing;
using server::NumaMode;

topology::Machine nodes(int count) {
  return topology::Machine::synthetic("node:" + std::to_string(count) + " core:2 pu:1").value();
}

/// A server of the small language model on a machine with so many nodes.
class OnNodes {
 public:
  OnNodes(NumaMode mode, int count, std::size_t slots = 2)
      : serving_([&] {
          server::Service::Options options;
          options.models.serving.engine = {.slots = slots, .context = 128};
          options.numa = mode;
          options.machine = nodes(count);
          return options;
        }()) {
    EXPECT_TRUE(models().load(storage::real_file_system(), "stories", shared_data("stories260K/derived")));
  }
  server::ModelTable& models() { return serving_.service().models(); }
  Serving& serving() noexcept { return serving_; }
  std::string text(int seed) const {
    const Json body{{"prompt", "Once"}, {"seed", seed}, {"max_tokens", 24}, {"model", "stories"}};
    const Reply reply = serving_.ask("POST", "/v1/completions", body.dump());
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.json()["choices"][0]["text"].text();
  }
  /// Texts of seeds, four clients at once.
  std::vector<std::string> texts(int seeds) const {
    std::vector<std::string> all(static_cast<std::size_t>(seeds));
    std::vector<std::thread> clients;
    for (int first = 0; first < 4; ++first)
      clients.emplace_back([&, first] {
        for (int seed = first; seed < seeds; seed += 4) all[static_cast<std::size_t>(seed)] = text(seed);
      });
    for (std::thread& each : clients) each.join();
    return all;
  }

 private:
  Serving serving_;
};

TEST(Numa, TextsAreTheSameBitsUnderAnyNumberOfReplicas) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  constexpr int kSeeds = 24;
  const std::vector<std::string> alone = OnNodes(NumaMode::off, 1).texts(kSeeds);
  for (const int count : {1, 2, 4, 8}) {
    OnNodes on(NumaMode::replicas, count);
    EXPECT_EQ(on.texts(kSeeds), alone) << count << " replicas";
    const auto replicas = on.models().replicas("stories");
    ASSERT_EQ(replicas.size(), static_cast<std::size_t>(count));
    std::uint64_t written = 0;
    for (std::size_t i = 0; i < replicas.size(); ++i) {
      ASSERT_TRUE(replicas[i]->node());
      EXPECT_EQ(replicas[i]->node()->index, i);
      EXPECT_EQ(replicas[i]->model().mesh->plan().regions[0].assignment.node, i) << "weights lie there";
      EXPECT_EQ(replicas[i]->counters().weights_read.remote, 0u);
      written += replicas[i]->counters().generated_tokens;
    }
    EXPECT_EQ(written, std::uint64_t{24} * kSeeds);
    EXPECT_GT(replicas[0]->counters().weights_read.local, 0u);
    EXPECT_EQ(on.models().all().size(), 1u) << "one model, whatever it takes";
    EXPECT_EQ(on.serving().ask("GET", "/slots").json().size(), 2u * replicas.size());
    EXPECT_EQ(on.serving().ask("GET", "/props").json()["total_slots"], 2u * replicas.size());
    const std::string metrics = on.serving().ask("GET", "/metrics").body;
    EXPECT_NE(metrics.find(R"(weft_numa_bytes_total{mesh="stories",node="0",access="remote"} 0)"), metrics.npos);
    EXPECT_NE(metrics.find("node=\"" + std::to_string(count - 1) + '"'), metrics.npos);
  }
}

TEST(Numa, ASessionStaysWhereItIsAndMovesWhereItsNodeIsBusy) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  OnNodes on(NumaMode::replicas, 4, 1);
  const auto home = on.models().choose("stories", "conversation").value();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(on.models().choose("stories", "conversation").value(), home);
  std::set<server::ServedModel*> places;
  for (int i = 0; i < 64; ++i) places.insert(on.models().choose("stories", std::to_string(i)).value().get());
  EXPECT_EQ(places.size(), 4u) << "sessions are spread";
  // Paused, what it was given stays in its queue.
  home->pause();
  std::thread waits([&] {
    const Json body{{"prompt", "Once"}, {"max_tokens", 4}, {"prompt_cache_key", "conversation"}};
    EXPECT_EQ(on.serving().ask("POST", "/v1/completions", body.dump()).status, 200);
  });
  while (home->waiting() == 0) std::this_thread::yield();
  EXPECT_NE(on.models().choose("stories", "conversation").value(), home);
  EXPECT_NE(on.models().choose("stories").value(), home) << "the one with the least to do";
  home->resume();
  waits.join();
}

TEST(Numa, DistributePutsEachOnANodeInTurn) {
  server::Service::Options options;
  options.numa = NumaMode::distribute;
  options.machine = nodes(3);
  Serving serving(std::move(options));
  for (const char* const name : {"a", "b", "c", "d"}) serving.make(name);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const auto mesh = serving.service().meshes().find(std::string(1, static_cast<char>('a' + i))).value();
    ASSERT_TRUE(mesh->node());
    EXPECT_EQ(mesh->node()->index, i % 3);
  }
  const char* const row = R"({"inputs":{"x":[[1,2,3,4]]}})";
  Serving plain;
  plain.make("a");
  const Json expected = plain.ask("POST", "/api/v1/meshes/a/forward", row).json();
  for (const char* const name : {"a", "b", "c", "d"})
    EXPECT_EQ(serving.ask("POST", std::string("/api/v1/meshes/") + name + "/forward", row).json()["outputs"],
              expected["outputs"]);
}

/// Learns, adds a session, and learns again: hashes after each step. `move`: is called between them.
std::vector<std::string> hashes_of(Serving& serving, bool learns, const std::function<void(int)>& move) {
  std::vector<std::string> hashes;
  const std::string mesh = "/api/v1/meshes/a";
  for (int i = 0; i < 8; ++i) {
    move(i);
    const std::string value = std::to_string(i);
    if (i == 3 && !learns)
      EXPECT_EQ(serving.ask("POST", mesh + "/sessions", R"({"name":"b","from":"clone:0"})").status, 201);
    else if (learns)
      EXPECT_EQ(serving
                    .ask("POST", mesh + "/learn",
                         R"({"wait":"durable","samples":[{"inputs":{"x":[1,0.5,-1,)" + value + R"(]},"targets":{"y":)" +
                             std::to_string(i % 3) + "}}]}")
                    .status,
                200);
    else
      EXPECT_EQ(serving.ask("POST", mesh + "/tick", R"({"n":3,"inputs":{"x":[1,0.5,-1,)" + value + "]}}").status, 200);
    hashes.push_back(serving.ask("GET", mesh + "/hash").json()["hash"].text());
  }
  return hashes;
}

TEST(Numa, AMeshMovesWithItsSessionsAndGoesOnToTheSameBits) {
  for (const bool learns : {false, true})
    for (const bool is_kept : {false, true}) {
      const storage::TemporaryDirectory stays_in, moves_in;
      const auto options = [&](const storage::TemporaryDirectory& folder) {
        server::Service::Options of;
        of.numa = NumaMode::distribute;
        of.machine = nodes(4);
        if (is_kept) of.meshes.state = folder.path();
        return of;
      };
      Serving plain(options(stays_in));
      plain.make("a", learns);
      const std::vector<std::string> expected = hashes_of(plain, learns, [](int) {});
      {
        Serving serving(options(moves_in));
        serving.make("a", learns);
        const auto mesh = serving.service().meshes().find("a").value();
        EXPECT_EQ(hashes_of(serving, learns,
                            [&](int step) {
                              const int node = (step + 1) % 4;
                              const Reply moved = serving.ask("POST", "/api/v1/meshes/a/move",
                                                              "{\"node\":" + std::to_string(node) + "}");
                              ASSERT_EQ(moved.status, 200) << moved.body;
                              EXPECT_EQ(moved.json()["node"].get<int>(), node);
                              EXPECT_EQ(mesh->node()->index, static_cast<std::uint32_t>(node));
                              EXPECT_EQ(serving.ask("GET", "/api/v1/meshes/a").json()["node"].get<int>(), node);
                              EXPECT_EQ(serving.ask("GET", "/api/v1/meshes/a/heatmap?metric=faults").status, 200);
                            }),
                  expected)
            << "learns " << learns << ", kept " << is_kept;
        EXPECT_EQ(mesh->counters().weights_read.remote, 0u);
        EXPECT_GT(mesh->counters().weights_read.local, 0u);
        EXPECT_EQ(serving.ask("POST", "/api/v1/meshes/a/move", R"({"node":4})").status, 422);
        EXPECT_EQ(serving.ask("POST", "/api/v1/meshes/a/move", "{}").status, 400);
        EXPECT_EQ(serving.ask("POST", "/api/v1/meshes/z/move", R"({"node":1})").status, 404);
        if (is_kept) {
          ASSERT_EQ(serving.ask("POST", "/api/v1/meshes/a/mark").status, 201);
        }
      }
      if (!is_kept) continue;
      Serving again(options(moves_in));  // as after a kill: no checkpoint was taken
      ASSERT_TRUE(again.service().meshes().resume_all());
      EXPECT_EQ(again.ask("GET", "/api/v1/meshes/a/hash").json()["hash"].text(), expected.back());
    }
}

TEST(Numa, AMeshOnNoNodeCannotMove) {
  Serving serving;
  serving.make("a");
  EXPECT_EQ(serving.ask("POST", "/api/v1/meshes/a/move", R"({"node":0})").status, 501);
  EXPECT_TRUE(serving.ask("GET", "/api/v1/meshes/a").json()["node"].is_null());
}

TEST(Numa, CountsWeightsByTheNodesOfTheThreadsThatReadThem) {
  topology::Plan plan;
  const auto region = [](std::uint32_t node, std::uint64_t bytes) {
    topology::Plan::Region made;
    made.assignment.node = node;
    made.bytes = bytes;
    return made;
  };
  plan.regions = {region(1, 800)};
  const std::vector<std::uint32_t> near{1, 1}, apart{0, 1, 1, 1}, away{0, 0};
  EXPECT_EQ(server::local_share(plan, near), 1.0);
  EXPECT_EQ(server::local_share(plan, apart), 0.75) << "each reads a quarter of the only region";
  EXPECT_EQ(server::local_share(plan, away), 0.0);
  plan.regions = {region(0, 300), region(1, 100)};
  const std::vector<std::uint32_t> both{0, 1};
  EXPECT_EQ(server::local_share(plan, both), 1.0) << "each region has a thread of its own";
  EXPECT_EQ(server::local_share(plan, away), 0.75);
  server::NumaBytes read;
  read.add(1000, 0.75);
  EXPECT_EQ(read.local, 750u);
  EXPECT_EQ(read.remote, 250u);
}

TEST(Numa, ReadsModesAndLeavesOutNodesThatAreMasked) {
  EXPECT_EQ(server::parse_numa_mode("replicas"), NumaMode::replicas);
  EXPECT_EQ(server::parse_numa_mode("all"), std::nullopt);
  const auto machine = topology::Machine::synthetic("node:3 core:2 pu:1", {.masked_cpus = {2, 3}}).value();
  const auto placement = server::NumaPlacement::make(NumaMode::replicas, machine).value();
  ASSERT_EQ(placement.nodes.size(), 2u);
  EXPECT_EQ(placement.nodes[1].index, 2u);
  EXPECT_EQ(placement.nodes[1].machine.usable_cores(), 2u);
  EXPECT_FALSE(machine.on_node(1));
  EXPECT_FALSE(machine.on_node(7));
  EXPECT_TRUE(server::NumaPlacement::make(NumaMode::off, machine).value().nodes.empty());
}

}  // namespace
