// SPDX-License-Identifier: Apache-2.0

// The dropout layer alone; in a mesh that learns: tests/learning/dropout_test.cpp.

#include "kernels/dropout.hpp"

#include "goldens.hpp"
#include <array>

namespace weft::mesh::dropout_test {
namespace {

using namespace testing_support;

/// One firing of `rows` rows, of which the first `training` are learned from, and back.
struct Firing : goldens::Sequence {
  Firing(double rate, const Shape& shape, std::size_t rows, std::size_t training, const std::vector<float>& before)
      : Sequence(goldens::layer("dropout", {{"rate", rate}}), shape, 1, rows, {{7, 9}, 0, {}}) {
    std::copy(before.begin(), before.end(), state.begin());
    training_rows = training;
    forward(0, rows);
    backward();
  }
};

std::vector<float> fresh(std::size_t rows) { return std::vector<float>(rows * 4); }

// Twelve rates, shapes and numbers of rows: each element is dropped where the documented Philox word is below
// rate 2^32, and forward and backward drop the same.
TEST(Dropout, DropsTheSameValuesForwardAndBackwardAndScalesTheOthers) {
  const std::pair<double, Shape> cases[] = {{0.0, {5}},        {0.1, {1}},  {0.1, {7}},    {0.25, {3, 5}},
                                            {0.25, {64}},      {0.5, {65}}, {0.5, {2, 7}}, {0.5, {131}},
                                            {0.75, {3, 4, 5}}, {0.9, {17}}, {0.9, {200}},  {0.999, {33}}};
  for (const auto& [rate, shape] : cases)
    for (const std::size_t rows : {1, 3}) {
      Firing run(rate, shape, rows, rows, fresh(rows));
      const std::size_t n = run.layer->in();
      EXPECT_EQ(run.layer->out_shape(), shape);
      for (std::size_t b = 0; b < rows; ++b)
        for (std::size_t j = 0; j < n; ++j) {
          const auto words = philox4x32(
              {static_cast<std::uint32_t>(j / 64 * 16 + j % 16), 0, 0, static_cast<std::uint32_t>(b + 1)}, {7, 9});
          const bool dropped = words[j % 64 / 16] < rate * 4294967296.0;
          const double scale = dropped ? 0 : 1 / (1 - rate);
          ASSERT_NEAR(run.y[b * n + j], scale * run.x[b * n + j], 1.2e-7 * scale) << rate;
          ASSERT_NEAR(run.dx[b * n + j], scale * run.dy[b * n + j], 1.2e-7 * scale) << rate;
        }
    }
}

TEST(Dropout, LeavesAloneWhatIsNotLearnedFrom) {
  const std::vector<float> before{3, 0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0};
  Firing none(0.5, {40}, 3, 0, before), one(0.5, {40}, 3, 1, before), all(0.5, {40}, 3, 3, before);
  EXPECT_EQ(bits(none.y), bits(none.x));
  EXPECT_EQ(bits(none.dx), bits(none.dy));
  EXPECT_EQ(none.last_state(), before) << "nothing is drawn";
  EXPECT_EQ(one.last_state(), std::vector<float>({4, 0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0}));
  EXPECT_TRUE(std::equal(one.y.begin(), one.y.begin() + 40, all.y.begin()));
  EXPECT_TRUE(std::equal(one.y.begin() + 40, one.y.end(), one.x.begin() + 40));
  EXPECT_NE(bits(one.y), bits(all.y));
}

TEST(Dropout, DropsOthersEachTickAndEachRow) {
  Firing now(0.5, {200}, 2, 2, fresh(2)), then(0.5, {200}, 2, 2, now.last_state());
  EXPECT_NE(bits(now.cache), bits(then.cache));
  EXPECT_FALSE(std::equal(now.cache.begin(), now.cache.begin() + 200, now.cache.begin() + 200));
  // A row alone, at the same stream and counter.
  Firing alone(0.5, {200}, 1, 1, {then.state.begin() + 4, then.state.begin() + 8});
  EXPECT_TRUE(std::equal(alone.cache.begin(), alone.cache.end(), then.cache.begin() + 200));
}

}  // namespace
}  // namespace weft::mesh::dropout_test
