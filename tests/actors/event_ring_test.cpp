// SPDX-License-Identifier: Apache-2.0

#include "actors/event_ring.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace weft::actors::event_ring_test {
namespace {

struct Wide {
  std::uint64_t a = 0, b = 0, c = 0;
  std::uint32_t d = 0;
};

TEST(EventRing, KeepsTheLastOnes) {
  EventRing<int> ring(4);
  for (int i = 0; i < 10; ++i) ring.append(i);
  std::uint64_t first = 0;
  EXPECT_EQ(ring.read(first), (std::vector<int>{6, 7, 8, 9}));
  EXPECT_EQ(first, 10u);
  EXPECT_TRUE(ring.read(first).empty());
  ring.append(10);
  EXPECT_EQ(ring.read(first), std::vector<int>{10});
}

TEST(EventRing, ReadersNeverSeeTornEvents) {
  EventRing<Wide> ring(8);
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (std::uint64_t writer = 0; writer < 3; ++writer) {
    writers.emplace_back([&, writer] {
      for (std::uint64_t i = 0; i < 20000; ++i) {
        const std::uint64_t value = i * 3 + writer;
        ring.append({value, value * 7, ~value, static_cast<std::uint32_t>(value)});
      }
    });
  }
  std::uint64_t seen = 0, torn = 0;
  std::thread reader([&] {
    std::uint64_t first = 0;
    for (bool last = false; !last;) {
      last = stop;
      for (const Wide& event : ring.read(first)) {
        ++seen;
        torn += event.b != event.a * 7 || event.c != ~event.a || event.d != static_cast<std::uint32_t>(event.a);
      }
    }
  });
  for (std::thread& writer : writers) writer.join();
  stop = true;
  reader.join();
  EXPECT_EQ(torn, 0u);
  EXPECT_GT(seen, 0u);
  EXPECT_EQ(ring.appended(), 60000u);
}

}  // namespace
}  // namespace weft::actors::event_ring_test
