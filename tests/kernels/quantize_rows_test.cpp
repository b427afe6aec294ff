// SPDX-License-Identifier: Apache-2.0

#include "kernels/quantize_rows.hpp"

#include <gtest/gtest.h>

#include "tests/kernels/comparing.hpp"
#include "tests/kernels/product_oracle.hpp"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace weft::kernels::quantize_rows_test {
namespace {
using namespace testing_support;

struct Quantized {
  Quantized(std::size_t rows, std::size_t cols)
      : blocks((cols + 31) / 32), codes(rows * blocks * 32, 99), scales(rows * blocks, -1), sums(rows * blocks, -1) {}
  QuantizedRows view() { return {codes.data(), scales.data(), sums.data()}; }
  std::size_t blocks;
  std::vector<std::int8_t> codes;
  std::vector<float> scales;
  std::vector<std::int32_t> sums;
};

Quantized quantized(const Matrix& x, Activations activations = Activations::int8) {
  Quantized q(x.rows(), x.cols());
  quantize_rows(x.view(), q.view(), activations);
  return q;
}

Quantized expected(const Matrix& x, Activations activations) {
  Quantized q(x.rows(), x.cols());
  for (std::size_t i = 0; i < x.rows(); ++i)
    for (std::size_t t = 0; t < q.blocks; ++t) {
      const testing_ops::ActivationBlock block(testing_ops::row_of<float>(x.view(), i), t * 32,
                                               activations == Activations::int8_row);
      const std::size_t at = i * q.blocks + t;
      q.scales[at] = block.scale, q.sums[at] = std::accumulate(block.codes, block.codes + 32, 0);
      std::copy_n(block.codes, 32, q.codes.begin() + static_cast<std::ptrdiff_t>(at * 32));
    }
  return q;
}

void expect_equal(const Quantized& got, const Quantized& want, const std::string& what) {
  EXPECT_EQ(got.codes, want.codes) << what;
  EXPECT_EQ(got.sums, want.sums) << what;
  ASSERT_EQ(got.scales.size(), want.scales.size());
  for (std::size_t i = 0; i < got.scales.size(); ++i)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(got.scales[i]), std::bit_cast<std::uint32_t>(want.scales[i]))
        << what << ", scale " << i;
}

class QuantizeRows : public testing::Test {
 protected:
  void TearDown() override { ASSERT_TRUE(set_active_isa(best_isa())); }
  static void check_on_each_isa(const Matrix& x, const std::string& what) {
    const FlushSubnormals flush;
    for (const Activations activations : {Activations::int8, Activations::int8_row}) {
      const Quantized want = expected(x, activations);
      for (const Isa isa : available_isas()) {
        ASSERT_TRUE(set_active_isa(isa));
        expect_equal(quantized(x, activations), want,
                     what + ", " + std::string(weft::name(activations)) + " on " + std::string(name(isa)));
        EXPECT_EQ(last_isa_run(), general_isa(isa));
      }
    }
  }
};

TEST_F(QuantizeRows, GivesTheContractsBitsForEveryLength) {
  RandomStream random(71, 0, RandomPurpose::test);
  for (std::size_t cols = 1; cols <= 100; ++cols)
    check_on_each_isa(random_matrix(random, 3, cols, 0.3f), std::to_string(cols) + " columns");
  check_on_each_isa(random_matrix(random, 2, 1000), "1000 columns");
  check_on_each_isa(Matrix(4, 0), "no columns");
  check_on_each_isa(Matrix(0, 40), "no rows");
}

TEST_F(QuantizeRows, TakesEveryKindOfFloat) {
  RandomStream random(72, 0, RandomPurpose::test);
  for (const std::uint32_t one_in : {2u, 40u, 400u})
    for (const std::size_t cols : {7u, 32u, 33u, 500u})
      check_on_each_isa(special_matrix(random, 9, cols, one_in), "special values");
  // Blocks without infinities, at every exponent.
  for (int exponent = -149; exponent < 128; ++exponent) {
    Matrix x = random_matrix(random, 1, 64, 0.2f);
    for (std::size_t k = 0; k < 64; ++k)
      x.at(0, k) = std::clamp(std::ldexp(x.at(0, k), exponent), -0x1.fffffep127f, 0x1.fffffep127f);
    check_on_each_isa(x, "2^" + std::to_string(exponent));
  }
}

TEST_F(QuantizeRows, RoundsTiesToEven) {
  Matrix x(1, 32);
  // m = 127, so that the scale is 1 and halves are ties.
  for (std::size_t k = 0; k < 32; ++k) x.at(0, k) = static_cast<float>(k) - 15.5f;
  x.at(0, 0) = 127.0f;
  check_on_each_isa(x, "ties");
  const Quantized q = quantized(x);
  EXPECT_EQ(q.scales[0], 1.0f);
  EXPECT_EQ(q.codes[15], 0);   // -0.5
  EXPECT_EQ(q.codes[16], 0);   // 0.5
  EXPECT_EQ(q.codes[17], 2);   // 1.5
  EXPECT_EQ(q.codes[14], -2);  // -1.5
  EXPECT_EQ(q.codes[18], 2);   // 2.5
}

TEST_F(QuantizeRows, TheSmallestScaledBlockIsTwoToTheMinus100) {
  Matrix x(1, 64);
  for (std::size_t k = 0; k < 64; ++k) x.at(0, k) = 0.0f;
  x.at(0, 5) = 0x1p-100f;
  x.at(0, 40) = 0x1.fffffep-101f;
  check_on_each_isa(x, "tiny");
  const Quantized q = quantized(x);
  EXPECT_EQ(q.codes[5], 127);
  EXPECT_EQ(q.codes[40], 0);
  EXPECT_EQ(q.scales[1], 0.0f);
  EXPECT_FALSE(std::signbit(q.scales[1]));
}

// BitNet's example by hand: a row of 64 whose largest is 2.54, so a step of 0.02, and one below the floor of 1e-5.
TEST_F(QuantizeRows, ARowHasOneScaleWithAFloor) {
  Matrix x(2, 64);
  for (std::size_t k = 0; k < 64; ++k) x.at(0, k) = 0.0f, x.at(1, k) = 0.0f;
  x.at(0, 3) = 0.1f, x.at(0, 60) = -2.54f;
  x.at(1, 0) = 1e-6f, x.at(1, 63) = -5e-6f;
  const Quantized q = quantized(x, Activations::int8_row);
  EXPECT_EQ(q.codes[3], 5);
  EXPECT_EQ(q.codes[60], -127);
  EXPECT_FLOAT_EQ(q.scales[0], 0.02f);
  EXPECT_EQ(q.scales[0], q.scales[1]);
  EXPECT_EQ(q.codes[64], 13);    // 12.7
  EXPECT_EQ(q.codes[127], -64);  // -63.5 and a little: 5e-6 (127 / 1e-5) in float32
  EXPECT_FLOAT_EQ(q.scales[2], 1e-5f / 127);
}

}  // namespace
}  // namespace weft::kernels::quantize_rows_test
