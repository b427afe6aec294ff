// SPDX-License-Identifier: Apache-2.0

#include "mesh/memory/batch_copy.hpp"

#include "topology/machine.hpp"

#include "core/aligned_buffer.hpp"
#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft::mesh::batch_copy_test {
namespace {

std::unique_ptr<scheduler::Executor> executor(std::size_t threads) {
  auto made =
      scheduler::make_executor(std::move(topology::Machine::discover()).value(), {.threads = threads, .pin = false});
  WEFT_ASSERT(made, made.error().text());
  return *std::move(made);
}

TEST(BatchCopy, CopiesAllBytesAndNoOthersOnAnyThreads) {
  RandomStream random(3, 0, RandomPurpose::test);
  for (const std::size_t threads : {1, 3}) {
    const auto workers = executor(threads);
    BatchCopy list;
    // Below what is shared, above it, and one copy that is larger than the others together.
    for (const std::size_t largest : {std::size_t{100}, std::size_t{100'000}, 3 * BatchCopy::kShared + 77}) {
      AlignedBuffer<unsigned char> from(40 * 100'000 + 4 * BatchCopy::kShared), to(from.size());
      for (unsigned char& byte : from) byte = static_cast<unsigned char>(1 + random.next_below(255));
      std::vector<bool> is_copied(from.size());
      list.clear();
      std::size_t at = 0, bytes = 0;
      for (int i = 0; i < 40; ++i) {
        const std::size_t size =
            i == 20 ? largest : random.next_below(static_cast<std::uint32_t>(std::min<std::size_t>(largest, 100'000)));
        // At least a line between two, so that none are joined.
        list.add(to.data() + at, from.data() + at, size);
        std::fill_n(is_copied.begin() + static_cast<std::ptrdiff_t>(at), size, true);
        at += (size + 63) / 64 * 64 + 64;
        bytes += size;
      }
      EXPECT_EQ(list.bytes(), bytes);
      list.make(*workers);
      for (std::size_t i = 0; i < to.size(); ++i)
        ASSERT_EQ(to[i], is_copied[i] ? from[i] : 0) << i << " of " << largest;
    }
  }
}

TEST(BatchCopy, JoinsWhatFollowsOnBothSides) {
  const auto workers = executor(1);
  std::vector<char> from(1024, 'a'), to(1024, '-');
  BatchCopy list;
  list.add(to.data(), from.data(), 100);
  list.add(to.data() + 128, from.data() + 128, 64);
  EXPECT_EQ(list.count(), 1u);
  EXPECT_EQ(list.bytes(), 192u) << "what pads the first is copied too";
  list.add(to.data() + 192, from.data() + 256, 64);
  list.add(to.data() + 320, from.data() + 320, 64);
  list.add(to.data() + 500, from.data() + 500, 0);
  EXPECT_EQ(list.count(), 3u);
  list.make(*workers);
  const std::string copied(256, 'a'), kept(64, '-');
  EXPECT_EQ(std::string(to.data(), 448), copied + kept + std::string(64, 'a') + kept);
  list.clear();
  EXPECT_EQ(list.count() + list.bytes(), 0u);
}

}  // namespace
}  // namespace weft::mesh::batch_copy_test
