// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/init.hpp"

#include "mesh/network/layer.hpp"

#include "goldens.hpp"
#include <cmath>

namespace weft::mesh::init_test {
namespace {

using namespace testing_support;

std::vector<float> filled(const std::string& kind, std::size_t out, std::size_t in, std::size_t blocks = 1,
                          std::uint64_t seed = 3) {
  std::vector<float> values(blocks * out * in, NAN);
  RandomStream random(seed, 0, RandomPurpose::init);
  must(make_initializer(kind, in, out, "layer"))(random, values);
  return values;
}

/// The largest distance of W W^T (or of W^T W) of a matrix [out, in] from one.
double distance_from_one(const float* w, std::size_t out, std::size_t in, bool of_rows) {
  const std::size_t n = of_rows ? out : in, length = of_rows ? in : out;
  const auto at = [&](std::size_t i, std::size_t j) {
    return static_cast<double>(of_rows ? w[i * in + j] : w[j * in + i]);
  };
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k <= i; ++k) {
      double sum = 0;
      for (std::size_t j = 0; j < length; ++j) sum += at(i, j) * at(k, j);
      worst = std::max(worst, std::fabs(sum - (i == k ? 1.0 : 0.0)));
    }
  return worst;
}

TEST(Init, OrthogonalRowsOrColumnsAreOrthonormal) {
  for (const auto& [out, in] : {std::pair<std::size_t, std::size_t>{1, 1},
                                {1, 7},
                                {7, 1},
                                {5, 5},
                                {3, 64},
                                {64, 3},
                                {65, 64},
                                {100, 100},
                                {33, 200},
                                {200, 33}})
    // The error of rounding the float64 matrix to float32.
    EXPECT_LT(distance_from_one(filled("orthogonal", out, in).data(), out, in, out <= in), 2e-7) << out << " " << in;
}

TEST(Init, OrthogonalFillsEachGateByItself) {
  const std::vector<float> gates = filled("orthogonal", 12, 12, 4);
  for (std::size_t g = 0; g < 4; ++g) EXPECT_LT(distance_from_one(gates.data() + g * 144, 12, 12, true), 2e-7);
  EXPECT_GT(distance_from_one(gates.data(), 48, 12, true), 0.1);
  LayerSpec spec;
  spec.type = "lstm";
  spec.out = 6;
  spec.options = {{"init", std::string("orthogonal")}};
  const auto layer = must(make_layer(spec, 9, "layer"));
  std::vector<float> values(4 * 6 * 9);
  RandomStream random(1, 0, RandomPurpose::init);
  layer->parameters()[0].init(random, values);
  for (std::size_t g = 0; g < 4; ++g) EXPECT_LT(distance_from_one(values.data() + g * 54, 6, 9, true), 2e-7);
}

// Of an even spread over all orthogonal matrices each element has mean 0 and variance 1/n, and the sign of a diagonal
// element is a coin's: without the right signs of R the diagonal would lean to one side.
TEST(Init, OrthogonalIsEvenlySpread) {
  constexpr std::size_t kSize = 4, kDraws = 4000;
  std::vector<double> sums(kSize * kSize), squares(kSize * kSize);
  for (std::size_t draw = 0; draw < kDraws; ++draw) {
    const std::vector<float> w = filled("orthogonal", kSize, kSize, 1, draw);
    for (std::size_t i = 0; i < w.size(); ++i) sums[i] += double{w[i]}, squares[i] += double{w[i]} * double{w[i]};
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    EXPECT_NEAR(sums[i] / kDraws, 0.0, 5 * std::sqrt(1.0 / kSize / kDraws)) << i;
    EXPECT_NEAR(squares[i] / kDraws, 1.0 / kSize, 5 * std::sqrt(0.12 / kDraws)) << i;
  }
}

TEST(Init, OrthogonalIsTheSameEverywhere) {
  // Made of + - * / and sqrt alone, so these are its values on every machine.
  const std::vector<float> w = filled("orthogonal", 2, 3);
  std::vector<double> rows;
  RandomStream random(3, 0, RandomPurpose::init);
  for (int i = 0; i < 6; ++i) rows.push_back(static_cast<double>(random.next_normal()));
  // The closed form for two rows: a / |a|, then b less its share along a.
  double a2 = 0, ab = 0, c2 = 0;
  for (int j = 0; j < 3; ++j) a2 += rows[j] * rows[j], ab += rows[j] * rows[3 + j];
  double c[3];
  for (int j = 0; j < 3; ++j) c[j] = rows[3 + j] - ab / a2 * rows[j], c2 += c[j] * c[j];
  for (int j = 0; j < 3; ++j) {
    EXPECT_EQ(w[static_cast<std::size_t>(j)], static_cast<float>(rows[j] / std::sqrt(a2)));
    EXPECT_EQ(w[static_cast<std::size_t>(3 + j)], static_cast<float>(c[j] / std::sqrt(c2)));
  }
  EXPECT_EQ(bits(filled("orthogonal", 40, 30)), bits(filled("orthogonal", 40, 30)));
}

TEST(Init, OfPaddingIsZeros) {
  const auto layer = must(make_layer(
      goldens::layer(R"({"type": "embedding", "out": 64, "vocabulary": 300, "padding_index": 17})"), 1, "x"));
  std::vector<float> values(64 * 300, NAN);
  RandomStream random(3, 0, RandomPurpose::init);
  layer->parameters()[0].init(random, values);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i] == 0.0f, i % 300 == 17);
}

TEST(Init, OfSparseRowsLeavesOneInputOfTen) {
  for (const std::size_t in : {1u, 4u, 10u, 64u, 128u}) {
    const std::size_t out = 300;
    const std::vector<float> w = filled("sparse", out, in);
    std::vector<std::size_t> kept(in);
    for (std::size_t o = 0; o < out; ++o) {
      std::size_t zeros = 0;
      for (std::size_t k = 0; k < in; ++k) {
        const float value = w[o * in + k];
        zeros += value == 0.0f;
        kept[k] += value != 0.0f;
        ASSERT_LE(std::fabs(value), 1.0f / std::sqrt(static_cast<float>(in)));
      }
      ASSERT_EQ(zeros, in * 9 / 10) << in;
    }
    // They are drawn anew for each row.
    for (const std::size_t rows : kept) EXPECT_GT(rows, 5u) << in;
  }
}

TEST(Init, NamesWhatItKnows) {
  expect_error(make_initializer("orthonormal", 3, 4, "layers[2]"), Errc::unknown_name,
               {"layers[2].init", "orthogonal, xavier_normal, he_uniform"});
}

}  // namespace
}  // namespace weft::mesh::init_test
