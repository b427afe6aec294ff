// SPDX-License-Identifier: Apache-2.0

#include "learning/split.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace weft::learning::split_test {
namespace {

using Labels = std::vector<std::uint32_t>;

Dataset classes_of(const Labels& labels) {
  Dataset data;
  data.size = labels.size();
  data.features = 1;
  data.labels = labels;
  data.inputs.assign(labels.size(), 0.0f);
  for (const std::uint32_t label : labels) data.classes = std::max(data.classes, label + 1);
  return data;
}

TEST(Split, GivesEachClassItsShare) {
  // Iris: three classes of 50, of which scikit-learn's StratifiedShuffleSplit(test_size=0.2) holds out ten each.
  Labels iris;
  for (std::uint32_t i = 0; i < 150; ++i) iris.push_back(i / 50);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Split split = split_rows(classes_of(iris), 0.2, true, seed);
    std::map<std::uint32_t, int> counts;
    for (const std::uint32_t row : split.held_out) ++counts[iris[row]];
    EXPECT_EQ(counts, (std::map<std::uint32_t, int>{{0, 10}, {1, 10}, {2, 10}}));
    std::set<std::uint32_t> all(split.train.begin(), split.train.end());
    all.insert(split.held_out.begin(), split.held_out.end());
    EXPECT_EQ(all.size(), 150u);
    EXPECT_EQ(split_rows(classes_of(iris), 0.2, true, seed).held_out, split.held_out);
  }
  EXPECT_NE(split_rows(classes_of(iris), 0.2, true, 1).held_out, split_rows(classes_of(iris), 0.2, true, 2).held_out);
  // By hand: 0.3 of 10, 5 and 1 rows are 3, 1.5 and 0.3; 5 of 16 in all, so the second class gives one more; the only
  // row of the third is learned from.
  Labels uneven(10, 0);
  uneven.insert(uneven.end(), 5, 1);
  uneven.push_back(2);
  const Split split = split_rows(classes_of(uneven), 0.3, true, 0);
  std::map<std::uint32_t, int> counts;
  for (const std::uint32_t row : split.held_out) ++counts[uneven[row]];
  EXPECT_EQ(counts, (std::map<std::uint32_t, int>{{0, 3}, {1, 2}}));
}

// One head has its classes among the heads; the count of all labels was 0, and their sizes were written behind it.
TEST(Split, GivesEachClassOfASingleHeadItsShare) {
  Dataset data = classes_of({0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2});
  data.heads = {{3, {"a", "b", "c"}}};
  data.classes = 0;
  const Split split = split_rows(data, 0.25, true, 3);
  std::map<std::uint32_t, int> counts;
  for (const std::uint32_t row : split.held_out) ++counts[data.labels[row]];
  EXPECT_EQ(counts, (std::map<std::uint32_t, int>{{0, 1}, {1, 1}, {2, 1}}));
  EXPECT_EQ(split.train.size(), 9u);
}

}  // namespace
}  // namespace weft::learning::split_test
