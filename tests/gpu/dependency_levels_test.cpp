// SPDX-License-Identifier: Apache-2.0
// Needs no device: the order that a command graph's operations must keep.

#include "gpu/internal/dependency_levels.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace weft::gpu::dependency_levels_test {
namespace {

enum Access { kReads, kWrites, kFlags };
struct Touch {
  Access access;
  Range range;
};

/// Bytes of the first `size` that a range touches, by its definition.
std::vector<bool> bytes_of(const Range& r, std::size_t size) {
  std::vector<bool> touched(size);
  for (std::uint64_t at = r.begin; at < r.end; ++at)
    touched[at] = r.stride == 0 || (at - r.begin) % r.stride < r.row_bytes;
  return touched;
}

bool conflict(const Touch& a, const Touch& b, std::size_t size) {
  if (a.access == b.access && a.access != kWrites) return false;
  const auto x = bytes_of(a.range, size), y = bytes_of(b.range, size);
  for (std::size_t i = 0; i < size; ++i)
    if (x[i] && y[i]) return true;
  return false;
}

// Against all pairs: an operation stands just after the last that it conflicts with.
TEST(DependencyLevels, AreThoseOfAllPairsOfRandomOperations) {
  constexpr std::size_t kBytes = 96, kOperations = 120;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    RandomStream random(700, seed, RandomPurpose::test);
    const auto draw = [&](Access access) {
      Range r;
      if (random.next_below(3) == 0) {
        r.row_bytes = 1 + random.next_below(5), r.stride = r.row_bytes + 1 + random.next_below(6);
        const std::uint64_t rows = 2 + random.next_below(4), bytes = (rows - 1) * r.stride + r.row_bytes;
        r.begin = random.next_below(static_cast<std::uint32_t>(kBytes - bytes));
        r.end = r.begin + bytes;
      } else {
        r.begin = random.next_below(kBytes);
        r.end =
            r.begin + random.next_below(static_cast<std::uint32_t>(std::min<std::size_t>(kBytes - r.begin, 20)) + 1);
      }
      return Touch{access, r};
    };
    DependencyLevels levels;
    std::vector<std::vector<Touch>> all;
    std::vector<std::uint32_t> want;
    for (std::size_t n = 0; n < kOperations; ++n) {
      const Touch read = draw(kReads), other = draw(kReads), write = draw(seed % 2 && n % 3 ? kFlags : kWrites);
      std::uint32_t last = 0;
      for (std::size_t before = 0; before < n; ++before)
        for (const Touch& a : all[before])
          for (const Touch& b : {read, other, write})
            if (conflict(a, b, kBytes)) last = std::max(last, want[before]);
      all.push_back({read, other, write});
      want.push_back(last + 1);
      const std::uint32_t got = write.access == kFlags ? levels.place({read.range, other.range}, {}, {write.range})
                                                       : levels.place({read.range, other.range}, {write.range}, {});
      ASSERT_EQ(got, last + 1) << "seed " << seed << ", operation " << n;
    }
    EXPECT_EQ(levels.count(), *std::max_element(want.begin(), want.end()));
  }
}

// Few segments for any number of cells, which makes ordering a tick cheap.
TEST(DependencyLevels, EqualNeighboursAreOneSegment) {
  DependencyLevels levels;
  constexpr std::uint64_t kCells = 10000, kRow = 256, kWeights = 16384, kRows = kCells * kRow;
  for (int tick = 0; tick < 4; ++tick) {
    const std::uint64_t from = tick % 2 * kRows, to = kRows - from;
    for (std::uint64_t c = 0; c < kCells; ++c) {
      const std::uint64_t weights = 2 * kRows + c * kWeights;
      ASSERT_EQ(levels.place({{from + c * kRow, from + (c + 1) * kRow}, {weights, weights + kWeights}},
                             {{to + c * kRow, to + (c + 1) * kRow}}, {}),
                static_cast<std::uint32_t>(tick + 1));
    }
    EXPECT_LE(levels.segments(), 3u);
  }
}

// Columns of one matrix interleave and do not touch.
TEST(DependencyLevels, RowsWithGapsDoNotTouchWhatStandsInTheGaps) {
  DependencyLevels levels;
  const auto columns = [](std::size_t first, std::size_t count) {
    return range(kernels::ConstMatrixView{reinterpret_cast<const float*>(4096 + first * 4), 8, count, 32});
  };
  EXPECT_EQ(levels.place({}, {columns(0, 16)}, {}), 1u);
  EXPECT_EQ(levels.place({}, {columns(16, 16)}, {}), 1u);
  EXPECT_EQ(levels.place({}, {columns(15, 2)}, {}), 2u);
  EXPECT_EQ(levels.place({columns(0, 15)}, {}, {}), 2u);
  EXPECT_EQ(levels.place({columns(0, 16)}, {}, {}), 3u);
}

}  // namespace
}  // namespace weft::gpu::dependency_levels_test
