// SPDX-License-Identifier: Apache-2.0

#include "kernels/linear.hpp"

#include "core/aligned_buffer.hpp"

#include "comparing.hpp"
#include <deque>

namespace weft::kernels::linear_each_test {
namespace {
using namespace testing_support;

/// Rows through weights of their own, the last one's bias left out.
struct Chain {
  Chain(std::size_t count, std::size_t n_out, std::size_t n_in, bool is_special)
      : out(n_out), in(n_in), x(draw(count, n_in, is_special)) {
    for (std::size_t i = 0; i < count; ++i) {
      w.emplace_back(panels_size(out, in));
      pack_panels(draw(out, in, is_special).view(), {w.back().data(), out, in});
      bias.push_back(draw(1, out, is_special).values());
    }
  }
  Matrix draw(std::size_t rows, std::size_t cols, bool is_special) {
    return is_special ? special_matrix(random, rows, cols, 60) : random_matrix(random, rows, cols);
  }
  const float* bias_of(std::size_t i) const { return i + 1 < w.size() ? bias[i].data() : nullptr; }
  bool run(Matrix& y, Activation activation) const {
    std::vector<LinearRow> rows;
    for (std::size_t i = 0; i < w.size(); ++i)
      rows.push_back({w[i].data(), bias_of(i), x.view().row(i), y.view().row(i)});
    return linear_each(rows, out, in, activation);
  }
  std::size_t out, in;
  RandomStream random{5, out * 1000 + in, RandomPurpose::test};
  Matrix x;
  std::deque<AlignedBuffer<float>> w;
  std::vector<std::vector<float>> bias;
};

TEST(LinearEach, HasTheBitsOfLinearRowByRow) {
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
        const Chain chain(count, out, in, true);
        const std::string what = std::to_string(count) + " rows " + std::to_string(out) + "x" + std::to_string(in) +
                                 " " + std::string(name(activation));
        expect_one_result_on_every_isa(what, [&, out = out, in = in] {
          Matrix y(count, out), expected(count, out);
          bool finite = true;
          for (std::size_t r = 0; r < count; ++r) {
            linear({chain.w[r].data(), out, in}, chain.bias_of(r), {chain.x.view().row(r), 1, in, in}, activation, {},
                   {expected.view().row(r), 1, out, out});
            for (std::size_t o = 0; o < out; ++o) finite = finite && std::isfinite(expected.at(r, o));
          }
          EXPECT_EQ(chain.run(y, activation), finite) << what;
          EXPECT_TRUE(y.gaps_intact()) << what;
          expect_same_bits(y.values(), expected.values(), what);
          return y.values();
        });
      }
}

TEST(LinearEach, FindsTheOneElementThatIsNotFinite) {
  const FlushSubnormals flush;
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    for (const std::size_t out : {64, 128, 20})
      for (const std::size_t row : {0, 1, 2})
        for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
          Chain chain(3, out, 64, false);
          Matrix y(3, out);
          EXPECT_TRUE(chain.run(y, Activation::linear)) << name(isa);
          chain.w[row][panel_index(64, out - 1, 63)] = bad;
          EXPECT_FALSE(chain.run(y, Activation::linear)) << name(isa) << " row " << row;
        }
  }
}

}  // namespace
}  // namespace weft::kernels::linear_each_test
