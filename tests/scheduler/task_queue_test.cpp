// SPDX-License-Identifier: Apache-2.0

#include "scheduler/internal/task_queue.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace weft::scheduler::internal::task_queue_test {
namespace {

struct Taken {
  std::vector<std::size_t> tasks;
  static void body(void* context, std::size_t index) { static_cast<Taken*>(context)->tasks.push_back(index); }
};

TEST(TaskQueue, GivesThePosterTasksFromTheFrontAndOthersFromTheBack) {
  TaskQueue queue;
  for (const std::size_t count : {1u, 3u, 3u, 2u}) {
    Taken by_poster, by_other;
    queue.post(count, Taken::body, &by_poster);
    EXPECT_EQ(queue.work(true), count);
    queue.await();
    queue.post(count, Taken::body, &by_other);
    EXPECT_EQ(queue.work(false), count);
    queue.await();
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(by_poster.tasks[i], i);
      EXPECT_EQ(by_other.tasks[i], count - 1 - i);
    }
    EXPECT_EQ(queue.work(true) + queue.work(false), 0u);
  }
}

}  // namespace
}  // namespace weft::scheduler::internal::task_queue_test
