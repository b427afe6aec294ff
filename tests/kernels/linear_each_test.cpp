// SPDX-License-Identifier: Apache-2.0

#include "kernels/float_environment.hpp"
#include "kernels/linear.hpp"

#include <gtest/gtest.h>

#include "tests/kernels/linear_testing.hpp"
#include <deque>

namespace weft::kernels::linear_each_test {
namespace {
using namespace testing_linear;

/// Rows through weights of their own, the last one's bias left out.
struct Chain {
  Chain(std::size_t count, std::size_t out, std::size_t in, Fill fill) : x(count, in) {
    RandomStream random(5, out * 1000 + in, RandomPurpose::test);
    x.fill(random, fill);
    for (std::size_t i = 0; i < count; ++i) {
      w.emplace_back(out, in).fill(random, fill);
      bias.emplace_back(out);
      for (float& b : bias.back()) b = draw(random, fill);
    }
  }
  const float* bias_of(std::size_t i) const { return i + 1 < w.size() ? bias[i].data() : nullptr; }
  std::vector<LinearRow> rows(Matrix& y) const {
    std::vector<LinearRow> all;
    for (std::size_t i = 0; i < w.size(); ++i)
      all.push_back({w[i].data.data(), bias_of(i), x.view().row(i), y.view().row(i)});
    return all;
  }
  Matrix x;
  std::deque<PanelMatrix> w;
  std::vector<std::vector<float>> bias;
};

class LinearEach : public OnEachIsa {
  const FlushSubnormals flush_;
};

TEST_F(LinearEach, HasTheBitsOfLinearRowByRow) {
  for (const auto& [out, in] : {std::pair<std::size_t, std::size_t>{64, 64},
                                {64, 1},
                                {64, 0},
                                {64, 63},
                                {64, 65},
                                {128, 200},
                                {192, 64},
                                {10, 64},
                                {65, 64},
                                {16, 130},
                                {0, 7}})
    for (const std::size_t count : {0, 1, 2, 5})
      for (int i = 0; i < kActivationCount; ++i) {
        const auto activation = static_cast<Activation>(i);
        const Chain chain(count, out, in, Fill::special);
        const std::string what = std::to_string(count) + " rows " + std::to_string(out) + "x" + std::to_string(in) +
                                 " " + std::string(name(activation));
        expect_same_on_all(what, [&] {
          Matrix y(count, out), expected(count, out);
          bool finite = true;
          for (std::size_t r = 0; r < count; ++r) {
            linear(chain.w[r].view(), chain.bias_of(r), chain.x.row_view(r), activation, {},
                   {expected.view().row(r), 1, out, out});
            for (std::size_t o = 0; o < out; ++o) finite = finite && std::isfinite(expected.at(r, o));
          }
          EXPECT_EQ(linear_each(chain.rows(y), out, in, activation), finite) << what;
          EXPECT_TRUE(same_bits(y.data, expected.data)) << what;
          return y.data;
        });
      }
}

TEST_F(LinearEach, FindsTheOneElementThatIsNotFinite) {
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    for (const std::size_t out : {64, 128, 20})
      for (const std::size_t row : {0, 1, 2})
        for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
          Chain chain(3, out, 64, Fill::plain);
          Matrix y(3, out);
          EXPECT_TRUE(linear_each(chain.rows(y), out, 64, Activation::linear)) << name(isa);
          chain.w[row].at(out - 1, 63) = bad;
          EXPECT_FALSE(linear_each(chain.rows(y), out, 64, Activation::linear)) << name(isa) << " row " << row;
        }
  }
}

}  // namespace
}  // namespace weft::kernels::linear_each_test
