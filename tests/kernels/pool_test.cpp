// SPDX-License-Identifier: Apache-2.0

// Pools against plain loops over signed coordinates, and every instruction set against the scalar reference. Against
// PyTorch: tests/mesh/convolution_test.cpp.

#include "kernels/pool.hpp"

#include "comparing.hpp"
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace weft::kernels::pool_test {
namespace {

using testing_support::expect_one_result_on_every_isa;
using testing_support::Matrix;
using testing_support::random_matrix;
using testing_support::special_matrix;

struct Case {
  std::string name;
  Pool pool;
};

Case strided(std::string name, Window::Extents in, Window::Extents kernel, Window::Extents stride,
             Window::Extents padding = {0, 0, 0}, Window::Extents dilation = {1, 1, 1}, bool ceils = false) {
  Pool pool;
  Window& w = pool.window;
  w.channels = 3, w.in = in, w.kernel = kernel, w.stride = stride, w.padding = padding, w.dilation = dilation;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::size_t left = in[a] + 2 * padding[a] - (kernel[a] - 1) * dilation[a] - 1;
    w.out[a] = (left + (ceils ? stride[a] - 1 : 0)) / stride[a] + 1;
    if (ceils && (w.out[a] - 1) * stride[a] >= in[a] + padding[a]) --w.out[a];
  }
  return {std::move(name), pool};
}
Case adaptive(std::string name, Window::Extents in, Window::Extents out) {
  Pool pool;
  pool.is_adaptive = true;
  pool.window.channels = 3, pool.window.in = in, pool.window.out = out;
  return {std::move(name), pool};
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      strided("halves", {1, 28, 28}, {1, 2, 2}, {1, 2, 2}),
      strided("wide halves", {1, 5, 131}, {1, 2, 2}, {1, 2, 2}),
      strided("overlapping", {1, 13, 37}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}),
      strided("every place", {1, 9, 40}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}),
      strided("dilated", {1, 20, 41}, {1, 3, 3}, {1, 1, 2}, {0, 1, 1}, {1, 2, 3}),
      strided("long strides", {1, 20, 41}, {1, 2, 4}, {1, 3, 5}, {0, 1, 2}),
      strided("rounded up", {1, 8, 37}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, true),
      strided("rounded up without padding", {1, 8, 10}, {1, 3, 3}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, true),
      strided("a row", {1, 1, 71}, {1, 1, 5}, {1, 1, 1}, {0, 0, 2}),
      strided("a volume", {6, 7, 8}, {2, 3, 2}, {2, 1, 2}, {1, 1, 1}),
      adaptive("to thirds", {1, 10, 11}, {1, 3, 4}),
      adaptive("all of it", {4, 6, 5}, {1, 1, 1}),
      adaptive("to more than there are", {1, 3, 5}, {1, 4, 7}),
  };
  return all;
}

/// The elements of window p of a plane, in order, and how many the padded image has.
std::pair<std::vector<std::size_t>, std::size_t> window_of(const Pool& pool, std::size_t p) {
  const Window& w = pool.window;
  const Window::Extents at = Window::split(p, w.out);
  std::vector<long> axis[3];
  std::size_t full = 1;
  for (std::size_t a = 0; a < 3; ++a) {
    const double n = static_cast<double>(w.in[a]), m = static_cast<double>(w.out[a]), i = static_cast<double>(at[a]);
    if (pool.is_adaptive) {
      for (long e = static_cast<long>(std::floor(i * n / m)); e < static_cast<long>(std::ceil((i + 1) * n / m)); ++e)
        axis[a].push_back(e);
      full *= axis[a].size();
      continue;
    }
    std::size_t padded = 0;
    for (std::size_t t = 0; t < w.kernel[a]; ++t) {
      const long e = static_cast<long>(at[a] * w.stride[a] + t * w.dilation[a]) - static_cast<long>(w.padding[a]);
      if (e >= 0 && e < static_cast<long>(w.in[a])) axis[a].push_back(e);
      if (e < static_cast<long>(w.in[a] + w.padding[a])) ++padded;
    }
    full *= padded;
  }
  std::vector<std::size_t> elements;
  for (const long z : axis[0])
    for (const long y : axis[1])
      for (const long x : axis[2])
        elements.push_back((static_cast<std::size_t>(z) * w.in[1] + static_cast<std::size_t>(y)) * w.in[2] +
                           static_cast<std::size_t>(x));
  return {elements, full};
}

std::vector<float> run_max(const Pool& pool, const Matrix& x, const Matrix& dy) {
  Matrix y(x.rows(), dy.cols()), index(x.rows(), dy.cols()), only(x.rows(), dy.cols()), dx(x.rows(), x.cols());
  max_pool(pool, x.view(), y.view(), index.view());
  max_pool(pool, x.view(), only.view(), {});
  testing_support::expect_same_bits(only.values(), y.values(), "without an index");
  max_pool_backward(pool, index.view(), dy.view(), dx.view());
  std::vector<float> all = y.values();
  for (const Matrix* more : {&index, &dx}) {
    const auto values = more->values();
    all.insert(all.end(), values.begin(), values.end());
    EXPECT_TRUE(more->gaps_intact());
  }
  EXPECT_TRUE(y.gaps_intact());
  return all;
}
std::vector<float> run_avg(const Pool& pool, const Matrix& x, const Matrix& dy) {
  Matrix y(x.rows(), dy.cols()), dx(x.rows(), x.cols());
  avg_pool(pool, x.view(), y.view());
  avg_pool_backward(pool, dy.view(), dx.view());
  std::vector<float> all = y.values();
  const auto values = dx.values();
  all.insert(all.end(), values.begin(), values.end());
  EXPECT_TRUE(y.gaps_intact() && dx.gaps_intact());
  return all;
}

TEST(Pool, IsWhatItsDefinitionSays) {
  const FlushSubnormals flush;
  RandomStream random(9, 0, RandomPurpose::test);
  for (const Case& c : cases())
    for (const bool counts_padding : {false, true}) {
      SCOPED_TRACE(c.name);
      Pool pool = c.pool;
      pool.counts_padding = counts_padding;
      const Window& w = pool.window;
      const std::size_t in = w.image(), out = w.channels * w.positions();
      Matrix x = random_matrix(random, 1, in);
      const Matrix dy = random_matrix(random, 1, out);
      for (std::size_t i = 0; i < in; ++i) x.at(0, i) = std::round(2 * x.at(0, i));  // many are equal
      const auto largest = run_max(pool, x, dy), mean = run_avg(pool, x, dy);
      std::vector<double> to_largest(in, 0.0), to_all(in, 0.0), sizes(in, 0.0);
      for (std::size_t i = 0; i < out; ++i) {
        const std::size_t base = i / w.positions() * w.plane();
        const auto [elements, full] = window_of(pool, i % w.positions());
        ASSERT_FALSE(elements.empty());
        const auto at = *std::max_element(elements.begin(), elements.end(), [&](std::size_t a, std::size_t b) {
          return x.at(0, base + a) < x.at(0, base + b);
        });
        ASSERT_EQ(largest[i], x.at(0, base + at));
        ASSERT_EQ(largest[out + i], static_cast<float>(at)) << "the first of equal ones";
        to_largest[base + at] += dy.at(0, i);
        const double n = static_cast<double>(counts_padding ? full : elements.size());
        double sum = 0;
        for (const std::size_t e : elements) {
          sum += x.at(0, base + e);  // small integers: exact
          to_all[base + e] += dy.at(0, i) / n;
          sizes[base + e] += std::fabs(dy.at(0, i) / n);
        }
        ASSERT_EQ(mean[i], static_cast<float>(sum) / static_cast<float>(n));
      }
      for (std::size_t i = 0; i < in; ++i) {
        ASSERT_NEAR(largest[2 * out + i], to_largest[i], 1e-5);
        ASSERT_NEAR(mean[out + i], to_all[i], sizes[i] * 200 * 0x1p-24);
      }
    }
}

TEST(Pool, LetsTheLastNaNWinAndFindsALargestAmongInfinities) {
  const FlushSubnormals flush;
  const float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  Pool pool;
  pool.window.in = pool.window.kernel = {1, 1, 4};
  const std::vector<std::pair<std::vector<float>, float>> rows = {
      {{1, kNan, 7, 3}, 1}, {{kNan, 2, kNan, 9}, 2}, {{-kInf, -kInf, -kInf, -kInf}, 0}, {{5, 5, kInf, kInf}, 2}};
  for (const auto& [x, winner] : rows) {
    float y = 0, at = -1;
    max_pool(pool, {x.data(), 1, 4, 4}, {&y, 1, 1, 1}, {&at, 1, 1, 1});
    EXPECT_EQ(at, winner);
    EXPECT_TRUE(testing_support::same_bits(y, x[static_cast<std::size_t>(winner)]));
  }
}

}  // namespace
}  // namespace weft::kernels::pool_test
