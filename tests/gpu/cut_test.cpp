// SPDX-License-Identifier: Apache-2.0
// Needs no device: how matrices that 32 bits cannot count are cut.

#include "gpu/internal/cut.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace weft::gpu::cut_test {
namespace {

std::vector<Cut> cuts_of(std::size_t rows, std::size_t cols, std::size_t each = 1, std::size_t most = kMostOfPart) {
  std::vector<Cut> all;
  for_parts(
      rows, cols, [&](const Cut& p) { all.push_back(p); }, each, most);
  return all;
}

TEST(Parts, HaveEachElementOnceAndNoneHasTooMany) {
  RandomStream random(1, 0, RandomPurpose::test);
  for (int i = 0; i < 300; ++i) {
    const std::size_t rows = random.next_below(30), cols = random.next_below(30), each = 1 + random.next_below(5),
                      most = each + random.next_below(40);
    std::vector<int> seen(rows * cols);
    for (const Cut& p : cuts_of(rows, cols, each, most)) {
      EXPECT_GT(p.rows * p.cols, 0u);
      EXPECT_LE(p.rows * p.cols * each, most);
      ASSERT_TRUE(p.row + p.rows <= rows && p.col + p.cols <= cols);
      for (std::size_t y = 0; y < p.rows; ++y)
        for (std::size_t x = 0; x < p.cols; ++x) ++seen[(p.row + y) * cols + p.col + x];
    }
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
  }
}

TEST(Parts, OfWhatSixtyFourBitsCount) {
  constexpr std::size_t kLong = (std::size_t{1} << 33) + 7;
  struct Row {
    std::size_t rows, cols, each;
  };
  // A long row, a high column, rows of tokens that stand for a vector each, one such vector alone.
  for (const auto& [rows, cols, each] : {Row{3, kLong, 1}, Row{kLong, 3, 1}, Row{1, kLong, 1}, Row{70000, 4096, 1024},
                                         Row{2, 1000003, 4096}, Row{2, 3, kMostOfPart}}) {
    std::size_t elements = 0;
    for (const Cut& p : cuts_of(rows, cols, each)) {
      ASSERT_LE(p.rows * p.cols * each, kMostOfPart);
      elements += p.rows * p.cols;
    }
    EXPECT_EQ(elements, rows * cols);
  }
  EXPECT_EQ(cuts_of(32768, 65536).size(), 1u);
  EXPECT_EQ(cuts_of(32769, 65536).size(), 2u);
  EXPECT_EQ(cuts_of(2, 1024, std::size_t{1} << 20).size(), 1u);
  EXPECT_EQ(cuts_of(2, 1025, std::size_t{1} << 20).size(), 2u);
  EXPECT_TRUE(cuts_of(0, 5).empty() && cuts_of(5, 0).empty());
}

}  // namespace
}  // namespace weft::gpu::cut_test
