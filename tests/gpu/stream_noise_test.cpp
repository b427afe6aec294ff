// SPDX-License-Identifier: Apache-2.0
// Operations that draw, and distances.

#include "tests/gpu/gpu_testing.hpp"

namespace weft::gpu {
namespace {

using namespace testing_support;
using Values = kernels::testing_support::Matrix;

TEST(StreamNoise, DrawsTheCpusNumbers) {
  RandomStream random(60, 0, RandomPurpose::test);
  for (const std::size_t cols : {1, 15, 16, 64, 65, 300}) {
    Values state(5, 4);
    for (std::size_t i = 0; i < 5; ++i)
      for (std::size_t j = 0; j < 4; ++j)
        state.at(i, j) = i < 2 ? 0.0f : static_cast<float>(random.next_below(1 << 24));
    state.at(3, 0) = 16777215.0f, state.at(4, 1) = -3.0f, state.at(4, 2) = std::nanf(""), state.at(3, 3) = 2.5f;
    Comparison c;
    const auto at_first = c.add(state), then = c.add(Values(5, 4)), later = c.add(Values(5, 4));
    const auto x = c.add(draw_matrix(random, 5, cols, true)), y = c.add(Values(5, cols)), mask = c.add(Values(5, cols));
    c.expect_same(std::to_string(cols), [&](OpStream& stream, const auto& at) {
      stream.gumbel_noise({at.rows(x), {1234567u, 89u}, at.rows(at_first), at.rows(then), at.rows(y)});
      stream.dropout_mask({{42u, 0xffffffffu}, at.rows(then), at.rows(later), 0x60000000u, 1.6f, at.rows(mask)});
      stream.gumbel_noise({at.rows(x), {7u, 8u}, at.rows(later), at.rows(at_first), at.rows(x)});
    });
  }
}

TEST(StreamNoise, DistancesHaveTheCpusBits) {
  RandomStream random(61, 0, RandomPurpose::test);
  struct Size {
    std::size_t rows, points, features;
  };
  for (const Size& s : {Size{1, 1, 1}, Size{5, 17, 70}, Size{3, 70, 9}, Size{20, 130, 5}})
    for (const bool special : {false, true}) {
      Comparison c;
      const auto points = c.add(draw_panels(random, s.points, s.features, special)),
                 dc = c.add(draw_panels(random, s.points, s.features, special));
      const auto x = c.add(draw_matrix(random, s.rows, s.features, special)), y = c.add(Values(s.rows, s.points)),
                 dy = c.add(draw_matrix(random, s.rows, s.points, special)), dx = c.add(Values(s.rows, s.features));
      c.expect_same("distances", [&](OpStream& stream, const auto& at) {
        const kernels::ConstPanels centres{at.data(points), s.points, s.features};
        stream.squared_distances({centres, at.rows(x), at.rows(y)});
        stream.squared_distances_backward(
            {centres, at.rows(x), at.rows(dy), at.rows(dx), {at.data(dc), s.points, s.features}});
        stream.squared_distances_backward({centres, at.rows(x), at.rows(dy), at.rows(dx), {}});
        stream.squared_distances_backward({centres, at.rows(x), at.rows(dy), {}, {at.data(dc), s.points, s.features}});
      });
    }
}

}  // namespace
}  // namespace weft::gpu
