// SPDX-License-Identifier: Apache-2.0

#include "models/prefix_cache.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace weft::models::prefix_cache_test {
namespace {

constexpr std::size_t kFloats = 3;
constexpr std::uint64_t kBytes = kFloats * sizeof(float);

/// So many blocks of ids, other ones for each number.
std::vector<text::TokenId> ids_of(std::size_t number, std::size_t blocks, std::size_t more = 0) {
  std::vector<text::TokenId> ids;
  for (std::size_t i = 0; i < blocks * PrefixCache::kBlock + more; ++i)
    ids.push_back(static_cast<text::TokenId>(i < PrefixCache::kBlock ? i + number : i));
  return ids;
}

/// Adds the blocks of `ids` one after the other; block i is filled with value + i. Those that were filled.
std::size_t add(PrefixCache& cache, std::string_view tenant, const std::vector<text::TokenId>& ids, float value) {
  std::size_t filled = 0;
  for (std::size_t i = 0; (i + 1) * PrefixCache::kBlock <= ids.size(); ++i)
    cache.add(tenant, std::span(ids).first((i + 1) * PrefixCache::kBlock), [&](float* to) {
      for (std::size_t j = 0; j < kFloats; ++j) to[j] = value + static_cast<float>(i);
      ++filled;
    });
  return filled;
}

std::vector<float> values_of(PrefixCache& cache, std::string_view tenant, const std::vector<text::TokenId>& ids) {
  std::vector<float> values;
  for (const float* const block : cache.find(tenant, ids)) values.push_back(block[kFloats - 1]);
  return values;
}

TEST(PrefixCache, FindsTheBlocksThatATextBeginsWith) {
  PrefixCache cache(10 * kBytes, kFloats);
  EXPECT_EQ(add(cache, "", ids_of(1, 3), 10), 3u);
  EXPECT_EQ(cache.bytes(), 3 * kBytes);
  EXPECT_EQ(values_of(cache, "", ids_of(1, 3, 9)), (std::vector<float>{10, 11, 12}));
  EXPECT_EQ(values_of(cache, "", ids_of(1, 2)), (std::vector<float>{10, 11}));
  EXPECT_EQ(values_of(cache, "", ids_of(1, 1, 63)), (std::vector<float>{10}));
  EXPECT_TRUE(values_of(cache, "", ids_of(1, 0, 63)).empty());
  // The second block has the same ids and another beginning.
  EXPECT_TRUE(values_of(cache, "", ids_of(2, 3)).empty());
  auto changed = ids_of(1, 3);
  changed[PrefixCache::kBlock] += 1;
  EXPECT_EQ(values_of(cache, "", changed), (std::vector<float>{10}));
  // A block that is known is not filled again.
  EXPECT_EQ(add(cache, "", ids_of(1, 4), 20), 1u);
  EXPECT_EQ(values_of(cache, "", ids_of(1, 4)), (std::vector<float>{10, 11, 12, 23}));
}

TEST(PrefixCache, GivesATenantItsOwnBlocksAlone) {
  PrefixCache cache(10 * kBytes, kFloats);
  add(cache, "one", ids_of(1, 2), 10);
  EXPECT_TRUE(values_of(cache, "two", ids_of(1, 2)).empty());
  EXPECT_TRUE(values_of(cache, "", ids_of(1, 2)).empty());
  EXPECT_EQ(add(cache, "two", ids_of(1, 2), 30), 2u);
  EXPECT_EQ(values_of(cache, "one", ids_of(1, 2)), (std::vector<float>{10, 11}));
  EXPECT_EQ(values_of(cache, "two", ids_of(1, 2)), (std::vector<float>{30, 31}));
}

TEST(PrefixCache, LetsThoseGoThatWereUsedLongestAgoTheEndsOfTextsFirst) {
  PrefixCache cache(4 * kBytes + kBytes / 2, kFloats);
  add(cache, "", ids_of(1, 2), 10);
  add(cache, "", ids_of(2, 2), 20);
  EXPECT_EQ(values_of(cache, "", ids_of(1, 2)).size(), 2u);  // now the other text was used longest ago
  add(cache, "", ids_of(3, 1), 30);
  EXPECT_EQ(cache.evicted(), 1u);
  EXPECT_EQ(cache.blocks(), 4u);
  EXPECT_EQ(values_of(cache, "", ids_of(2, 2)), (std::vector<float>{20}));
  EXPECT_EQ(values_of(cache, "", ids_of(1, 2)), (std::vector<float>{10, 11}));
  EXPECT_EQ(values_of(cache, "", ids_of(3, 1)), (std::vector<float>{30}));
  cache.clear();
  EXPECT_EQ(cache.bytes(), 0u);
  EXPECT_TRUE(values_of(cache, "", ids_of(1, 2)).empty());
  // Of a text longer than the cache the beginning stays.
  EXPECT_EQ(add(cache, "", ids_of(1, 7), 40), 4u);
  EXPECT_EQ(values_of(cache, "", ids_of(1, 7)), (std::vector<float>{40, 41, 42, 43}));
  EXPECT_EQ(cache.evicted(), 1u);
}

TEST(PrefixCache, KeepsNothingWithoutRoomForABlock) {
  PrefixCache cache(kBytes - 1, kFloats);
  EXPECT_EQ(add(cache, "", ids_of(1, 2), 10), 0u);
  EXPECT_TRUE(values_of(cache, "", ids_of(1, 2)).empty());
}

}  // namespace
}  // namespace weft::models::prefix_cache_test
