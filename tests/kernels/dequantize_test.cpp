// SPDX-License-Identifier: Apache-2.0

#include "kernels/float_environment.hpp"
#include "kernels/linear_dequantized.hpp"

#include <gtest/gtest.h>

#include "tests/kernels/coded_weights.hpp"
#include "tests/kernels/comparing.hpp"

namespace weft::kernels::dequantize_test {
namespace {
using namespace testing_support;
using namespace testing_coded;

/// dequantize() as the code under test computes it: with subnormals flushed. The references here are computed without.
std::vector<float> dequantized(const CodedMatrix& w) {
  const ConstWeight view = w.view();
  // An element that dequantize() does not write shows as a NaN.
  AlignedBuffer<float> to(panels_size(view.out, view.in));
  std::fill(to.begin(), to.end(), std::nanf(""));
  const FlushSubnormals flush;
  dequantize(view, {to.data(), view.out, view.in});
  return {to.begin(), to.end()};
}

/// The reference's values, on every instruction set.
void expect_values(const CodedMatrix& w, const std::string& what) {
  const DequantizedMatrix want(w);
  expect_one_result_on_every_isa(what, [&] {
    const std::vector<float> got = dequantized(w);
    expect_same_bits(got, {want.data.begin(), want.data.end()}, what);
    return got;
  });
}

/// One panel row after the other: every code of a type, in order.
CodedMatrix every_code(Dtype dtype, double scale = 1.0, std::uint64_t zero = 0) {
  const std::size_t count = std::size_t{1} << bits(dtype), out = std::min<std::size_t>(count, 16);
  CodedMatrix w(Encoding(dtype, Granularity::tensor), out, count / out);
  for (std::size_t i = 0; i < count; ++i) w.set_code(i % out, i / out, i);
  if (has_scale(dtype)) w.set_scale(0, 0, scale);
  if (has_zero_point(dtype)) w.set_zero(0, 0, zero);
  return w;
}

TEST(Dequantize, GivesEveryCodeOfSixteenBitsAndFewerItsNumber) {
  for (const Dtype dtype : all_dtypes()) {
    if (bits(dtype) > 16) continue;
    expect_values(every_code(dtype), std::string(name(dtype)));
    if (has_scale(dtype)) expect_values(every_code(dtype, 0.1f), std::string(name(dtype)) + " times 0.1");
    if (!has_zero_point(dtype)) continue;
    const std::uint64_t last = (std::uint64_t{1} << bits(dtype)) - 1;
    for (const std::uint64_t zero : {std::uint64_t{1}, last / 2, last})
      expect_values(every_code(dtype, 0.3f, zero), std::string(name(dtype)) + " from " + std::to_string(zero));
  }
}

// OCP Microscaling Formats 1.0, table 4 (E2M1), and OCP FP8 1.0, table 1 (E4M3, E5M2).
TEST(Dequantize, GivesThePublishedNumbersOfSmallFloats) {
  const std::vector<float> e2m1 = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  expect_one_result_on_every_isa("fp4", [&] {
    const auto got = dequantized(every_code(Dtype::fp4));
    expect_same_bits(got, e2m1, "fp4");
    return got;
  });
  const auto at = [](const std::vector<float>& all, std::size_t code) { return all[code / 16 * 16 + code % 16]; };
  expect_one_result_on_every_isa("e4m3", [&] {
    const auto got = dequantized(every_code(Dtype::fp8_e4m3));
    EXPECT_EQ(at(got, 0x7e), 448.0f);
    EXPECT_EQ(at(got, 0xfe), -448.0f);
    EXPECT_EQ(at(got, 0x08), 0x1p-6f);
    EXPECT_EQ(at(got, 0x07), 0.875f * 0x1p-6f);
    EXPECT_EQ(at(got, 0x01), 0x1p-9f);
    EXPECT_TRUE(std::isnan(at(got, 0x7f)) && std::isnan(at(got, 0xff)));
    EXPECT_TRUE(at(got, 0x80) == 0 && std::signbit(at(got, 0x80)));
    return got;
  });
  expect_one_result_on_every_isa("e5m2", [&] {
    const auto got = dequantized(every_code(Dtype::fp8_e5m2));
    EXPECT_EQ(at(got, 0x7b), 57344.0f);
    EXPECT_EQ(at(got, 0x04), 0x1p-14f);
    EXPECT_EQ(at(got, 0x03), 0.75f * 0x1p-14f);
    EXPECT_EQ(at(got, 0x01), 0x1p-16f);
    EXPECT_EQ(at(got, 0x7c), std::numeric_limits<float>::infinity());
    EXPECT_EQ(at(got, 0xfc), -std::numeric_limits<float>::infinity());
    for (const std::size_t code : {0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff}) EXPECT_TRUE(std::isnan(at(got, code)));
    return got;
  });
}

TEST(Dequantize, TakesDifferencesOf64BitsExactly) {
  const std::uint64_t top = ~std::uint64_t{0}, half = std::uint64_t{1} << 63;
  const std::vector<std::uint64_t> corners = {0,
                                              1,
                                              half - 1,
                                              half,
                                              half + 1,
                                              top,
                                              top - 1,
                                              1u << 31,
                                              1ull << 32,
                                              (1ull << 53) + 1,
                                              (1ull << 54) + 2,
                                              half + 1024,
                                              half + 1025,
                                              half + 3072,
                                              top - 1023,
                                              top - 1024};
  for (const Dtype dtype : {Dtype::uint64, Dtype::int64, Dtype::uint32, Dtype::int32})
    for (const std::uint64_t zero : corners) {
      CodedMatrix w(Encoding(dtype, Granularity::tensor), corners.size(), 3);
      for (std::size_t i = 0; i < corners.size(); ++i)
        for (std::size_t k = 0; k < 3; ++k) w.set_code(i, k, corners[i] + k);
      w.set_scale(0, 0, 0x1.23456789abcdep-40);
      if (has_zero_point(dtype)) w.set_zero(0, 0, zero);
      expect_values(w, std::string(name(dtype)) + " from " + std::to_string(zero));
    }
}

TEST(Dequantize, RoundsOnceAndFlushesAtTheEndsOfTheRange) {
  for (const Dtype dtype : all_dtypes()) {
    if (!has_scale(dtype) || bits(dtype) > 16) continue;
    for (const double scale : {0x1p-126, 0x1.8p-126, 0x1.fffffep-120, 0x1p119, 0x1p120, 0x1.555556p125, 0x1p127})
      expect_values(every_code(dtype, scale, 1), std::string(name(dtype)) + " times " + std::to_string(scale));
  }
}

TEST(Dequantize, KeepsSubnormalsOfBfloat16AndRoundsFloat64) {
  CodedMatrix w(Encoding(Dtype::float64), 3, 2);
  const double values[] = {1 + 0x1p-24, 1 + 0x1.8p-24, 1e300, -1e300, 0x1p-130, -0x1p-1030};
  for (std::size_t i = 0; i < 6; ++i) w.set_code(i / 2, i % 2, std::bit_cast<std::uint64_t>(values[i]));
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> want = {1.0f, 1 + 0x1p-23f, infinity, -infinity, 0.0f, -0.0f};
  expect_one_result_on_every_isa("float64", [&] {
    const auto got = dequantized(w);
    for (std::size_t i = 0; i < 6; ++i) EXPECT_TRUE(same_bits(got[panel_index(2, i / 2, i % 2)], want[i])) << i;
    return got;
  });
  CodedMatrix b(Encoding(Dtype::bfloat16), 1, 1);
  b.set_code(0, 0, 1);
  expect_one_result_on_every_isa("bfloat16", [&] {
    const auto got = dequantized(b);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(got[0]), 0x10000u);
    return got;
  });
}

}  // namespace
}  // namespace weft::kernels::dequantize_test
