// SPDX-License-Identifier: Apache-2.0

#include "agent/disk_room.hpp"

#include <gtest/gtest.h>

namespace weft::agent::test::disk_room_test {
namespace {

TEST(DiskRoom, OfTwoCheckpointsIsWanted) {
  constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
  EXPECT_TRUE(check_disk_room(0, 0, "d"));
  EXPECT_TRUE(check_disk_room(50 * kMebibyte, 100 * kMebibyte, "d"));
  const Status refused = check_disk_room(51 * kMebibyte, 100 * kMebibyte, "d");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::too_large);
  for (const char* const words : {"learning.replay.capacity", "51.0 MiB", "100.0 MiB", "disk of d"})
    EXPECT_NE(refused.error().text().find(words), std::string::npos) << refused.error().text();
}

}  // namespace
}  // namespace weft::agent::test::disk_room_test
