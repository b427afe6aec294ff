// SPDX-License-Identifier: Apache-2.0

#include "core/philox.hpp"

#include <gtest/gtest.h>

namespace weft::philox_test {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Random123's published known-answer vectors (kat_vectors, philox4x32 10).
TEST(Philox, EqualsPublishedVectors) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, SeekReplaysTheSameNumbers) {
  RandomStream stream(7, 42, RandomPurpose::test);
  for (int i = 0; i < 5; ++i) stream.next_u32();
  const auto position = stream.position();
  const Words first{stream.next_u32(), stream.next_u32(), stream.next_u32(), stream.next_u32()};
  stream.seek(position);
  const Words again{stream.next_u32(), stream.next_u32(), stream.next_u32(), stream.next_u32()};
  EXPECT_EQ(first, again);
}

TEST(RandomStream, PurposesAndPlacesDoNotShareNumbers) {
  RandomStream a(1, 0, RandomPurpose::init), b(1, 0, RandomPurpose::feedback), c(1, 1, RandomPurpose::init);
  const auto first = a.next_u32();
  EXPECT_NE(first, b.next_u32());
  EXPECT_NE(first, c.next_u32());
}

TEST(RandomStream, NormalHasUnitMoments) {
  RandomStream stream(3, 0, RandomPurpose::test);
  double sum = 0, squares = 0;
  constexpr int kDraws = 200000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = stream.next_normal();
    sum += x;
    squares += x * x;
  }
  // Five standard errors of the mean (1/sqrt n) and of the second moment (sqrt(2/n)).
  EXPECT_NEAR(sum / kDraws, 0.0, 5.0 / 447.0);
  EXPECT_NEAR(squares / kDraws, 1.0, 5.0 * 1.414 / 447.0);
}

TEST(RandomStream, BelowStaysBelowAndReachesAll) {
  RandomStream stream(3, 1, RandomPurpose::test);
  int counts[7] = {};
  for (int i = 0; i < 7000; ++i) {
    const auto x = stream.next_below(7);
    ASSERT_LT(x, 7u);
    ++counts[x];
  }
  for (int count : counts) EXPECT_NEAR(count, 1000, 150);
}

}  // namespace
}  // namespace weft::philox_test
