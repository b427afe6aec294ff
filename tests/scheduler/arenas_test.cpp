// SPDX-License-Identifier: Apache-2.0

#include "scheduler/internal/arenas.hpp"

#include <gtest/gtest.h>

#include <future>
#include <optional>

namespace weft::scheduler::internal::arenas_test {
namespace {

std::optional<std::size_t> worker_of_task(NodeArena& node) {
  std::promise<std::optional<std::size_t>> found;
  node.arena.enqueue([&] { found.set_value(node.workers.worker_here()); });
  return found.get_future().get();
}

TEST(Arenas, KnowWhoseThePlaceOfAThreadIs) {
  const auto machine = topology::Machine::discover().value();
  const Arenas arenas(machine, topology::core_assignments(machine, 3), false);
  const auto worker = worker_of_task(*arenas.nodes().front());
  ASSERT_TRUE(worker);
  EXPECT_TRUE(*worker == 1 || *worker == 2);
  arenas.nodes().front()->arena.execute([&] { EXPECT_EQ(arenas.nodes().front()->workers.worker_here(), 0u); });
}

// oneTBB lends a thread for what is enqueued even where the caller's is the only place.
TEST(Arenas, HasNoWorkerWhereThereIsNoPlaceForOne) {
  const auto machine = topology::Machine::discover().value();
  for (const bool pin : {false, true}) {
    const Arenas arenas(machine, topology::core_assignments(machine, 1), pin);
    EXPECT_EQ(worker_of_task(*arenas.nodes().front()), std::nullopt);
  }
}

}  // namespace
}  // namespace weft::scheduler::internal::arenas_test
