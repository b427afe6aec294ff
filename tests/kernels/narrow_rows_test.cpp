// SPDX-License-Identifier: Apache-2.0

#include "kernels/narrow_rows.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace weft::kernels::narrow_rows_test {
namespace {

constexpr Dtype kTypes[] = {Dtype::bfloat16, Dtype::float16, Dtype::fp8_e4m3, Dtype::fp8_e5m2, Dtype::int8};

/// The numbers of a type that are not negative, ascending, by their formats' definitions in binary64.
std::vector<double> numbers_of(Dtype dtype) {
  std::vector<double> numbers;
  const auto floating = [&](int exponent_bits, int mantissa_bits, int bias, int codes) {
    for (int code = 0; code < codes; ++code) {
      const int field = code >> mantissa_bits, mantissa = code & ((1 << mantissa_bits) - 1);
      const double fraction = mantissa / std::pow(2.0, mantissa_bits);
      numbers.push_back(field ? std::ldexp(1 + fraction, field - bias) : std::ldexp(fraction, 1 - bias));
    }
    (void)exponent_bits;
  };
  if (dtype == Dtype::float16) floating(5, 10, 15, 0x7c00);
  if (dtype == Dtype::bfloat16) floating(8, 7, 127, 0x7f80);
  if (dtype == Dtype::fp8_e4m3) floating(4, 3, 7, 0x7f);
  if (dtype == Dtype::fp8_e5m2) floating(5, 2, 15, 0x7c);
  for (int i = 0; dtype == Dtype::int8 && i <= 127; ++i) numbers.push_back(i);
  return numbers;
}

/// The nearest of them by search, ties to the even place; the largest for all above.
double nearest(const std::vector<double>& numbers, double x) {
  const double magnitude = std::abs(x);
  const auto above = std::lower_bound(numbers.begin(), numbers.end(), magnitude);
  if (above == numbers.end()) return std::copysign(numbers.back(), x);
  if (above == numbers.begin()) return std::copysign(*above, x);
  const double low = *(above - 1), high = *above;
  const bool is_low_even = (above - 1 - numbers.begin()) % 2 == 0;
  const bool takes_low = magnitude - low < high - magnitude || (magnitude - low == high - magnitude && is_low_even);
  return std::copysign(takes_low ? low : high, x);
}

std::vector<double> rounded(Dtype dtype, const std::vector<float>& row) {
  const std::vector<double> numbers = numbers_of(dtype);
  double largest = 0;
  for (const float x : row) largest = std::max(largest, std::abs(static_cast<double>(x)));
  int e = 0;
  if (dtype != Dtype::float16 && dtype != Dtype::bfloat16)
    for (e = -100; std::ldexp(numbers.back(), e) < largest && std::ldexp(numbers.back(), e + 1) < 0x1p128;) ++e;
  std::vector<double> all;
  for (const float x : row) all.push_back(std::ldexp(nearest(numbers, std::ldexp(static_cast<double>(x), -e)), e));
  return all;
}

/// Rows of many sizes: normal numbers, ties, tiny and huge ones, equal ones, zeros.
std::vector<std::vector<float>> rows() {
  std::vector<std::vector<float>> all{{0, -0.0f, 0},
                                      {1e-45f, -1e-38f},
                                      {3.4e38f, -1, 1e-30f, 0.5f},
                                      {448, 449, 232, -464},
                                      {127, 63.5f, 0.5f, 1.5f, -2.5f},
                                      {57344, 61440, -3},
                                      {1, 1 + 0x1p-8f, 1 + 3 * 0x1p-8f}};
  RandomStream random(3, 1, RandomPurpose::test);
  for (int n = 1; n < 200; n += 7) {
    auto& row = all.emplace_back();
    const float size = std::ldexp(1.0f, n - 100);
    for (int i = 0; i < n; ++i) row.push_back(size * random.next_normal());
  }
  return all;
}

TEST(NarrowRows, AreTheNearestNumbersUnderTheLeastPowerOfTwo) {
  for (const Dtype dtype : kTypes)
    for (std::vector<float> row : rows()) {
      const std::vector<double> wanted = rounded(dtype, row);
      round_rows(dtype, {row.data(), 1, row.size(), row.size()});
      for (std::size_t j = 0; j < row.size(); ++j)
        ASSERT_EQ(static_cast<double>(row[j]), wanted[j]) << name(dtype) << " " << j << " of " << row.size();
    }
}

TEST(NarrowRows, ComeBackOutOfMemoryAsTheyWereRounded) {
  for (const Dtype dtype : kTypes)
    for (const std::vector<float>& row : rows()) {
      const std::size_t n = row.size(), bytes = narrow_row_bytes(dtype, n);
      std::vector<float> two = row, read(2 * n);
      two.insert(two.end(), row.rbegin(), row.rend());
      std::vector<std::byte> memory(2 * bytes);
      encode_rows(dtype, {two.data(), 2, n, n}, memory.data());
      decode_rows(dtype, memory.data(), {read.data(), 2, n, n});
      round_rows(dtype, {two.data(), 2, n, n});
      EXPECT_EQ(read, two) << name(dtype);
      // Rounded values stay, in place and in memory.
      std::vector<float> again = two;
      round_rows(dtype, {again.data(), 2, n, n});
      EXPECT_EQ(again, two) << name(dtype);
      encode_rows(dtype, {two.data(), 2, n, n}, memory.data());
      decode_rows(dtype, memory.data(), {read.data(), 2, n, n});
      EXPECT_EQ(read, two) << name(dtype);
    }
}

TEST(NarrowRows, TakeTheBytesOfTheirCodes) {
  EXPECT_EQ(narrow_row_bytes(Dtype::bfloat16, 512), 1024u);
  EXPECT_EQ(narrow_row_bytes(Dtype::float16, 3), 8u);
  EXPECT_EQ(narrow_row_bytes(Dtype::fp8_e4m3, 512), 516u);
  EXPECT_EQ(narrow_row_bytes(Dtype::int8, 1), 8u);
  EXPECT_EQ(narrow_row_bytes(Dtype::float32, 5), 20u);
  EXPECT_FALSE(is_narrow(Dtype::float32));
  EXPECT_FALSE(is_narrow(Dtype::int4));
  EXPECT_EQ(value_dtype_names().size(), 6u);
}

TEST(NarrowRows, LeaveARowThatIsNotFiniteToThoseWhoAnswerForIt) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const Dtype dtype : kTypes) {
    std::vector<float> row{1.23456f, infinity, 1.23456f, 2.34567f}, read(2);
    round_rows(dtype, {row.data(), 2, 2, 2});
    EXPECT_EQ(row[0], 1.23456f);
    EXPECT_EQ(row[1], infinity);
    EXPECT_NE(row[3], 2.34567f);
    std::vector<std::byte> memory(narrow_row_bytes(dtype, 2));
    const float odd[] = {std::nanf(""), -3};
    encode_rows(dtype, {odd, 1, 2, 2}, memory.data());
    decode_rows(dtype, memory.data(), {read.data(), 1, 2, 2});
    EXPECT_EQ(read[1], -3.0f) << name(dtype);
    EXPECT_TRUE(dtype == Dtype::int8 ? read[0] == 0.0f : std::isnan(read[0])) << name(dtype);
  }
}

}  // namespace
}  // namespace weft::kernels::narrow_rows_test
