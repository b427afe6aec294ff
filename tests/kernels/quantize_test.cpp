// SPDX-License-Identifier: Apache-2.0

#include "kernels/quantize.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/isa.hpp"

#include <gtest/gtest.h>

#include "codec_testing.hpp"
#include <bit>
#include <string>

namespace weft::kernels::quantize_test {
namespace {

using namespace testing_codec;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

class Quantize : public testing::Test {
 protected:
  void TearDown() override { ASSERT_TRUE(set_active_isa(best_isa())); }
  FlushSubnormals flush_;
};
using FirstUnstorable = Quantize;

std::string describe(const Encoding& e, std::size_t out, std::size_t in, Fill fill) {
  return to_string(e) + " [" + std::to_string(out) + ", " + std::to_string(in) + "], fill " +
         std::to_string(static_cast<int>(fill));
}

QuantizedWeight quantized(const Master& master, const Encoding& encoding) {
  QuantizedWeight stored(encoding, master.out, master.in);
  quantize(master.view(), stored.view());
  return stored;
}

/// A weight as statistics see it: arithmetic takes subnormals for zeros.
double seen(float w) { return std::fpclassify(w) == FP_SUBNORMAL || !std::isfinite(w) ? 0.0 : static_cast<double>(w); }

/// A group's statistic in double, from the definition.
struct Reference {
  double least = 0, most = 0, sum = 0, count = 0;
};
Reference reference_of(const Master& master, Granularity granularity, std::size_t o, std::size_t k) {
  Reference of;
  const std::size_t block = k / kScaleBlock;
  for (std::size_t i = 0; i < master.out; ++i)
    for (std::size_t j = 0; j < master.in; ++j) {
      if (granularity != Granularity::tensor && i != o) continue;
      if (granularity == Granularity::block32 && j / kScaleBlock != block) continue;
      const double w = seen(master.at(i, j));
      of.least = std::min(of.least, w), of.most = std::max(of.most, w), of.sum += std::fabs(w), ++of.count;
    }
  return of;
}

/// Largest number of codes that are multiples of a scale, from the type table.
double largest_number(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp8_e4m3:
      return 448;
    case Dtype::fp8_e5m2:
      return 57344;
    case Dtype::fp4:
      return 6;
    case Dtype::int64:
      return 0x1p63 - 1024;
    case Dtype::uint64:
      return 0x1p64 - 8192;
    default:
      return std::ldexp(1.0, has_zero_point(dtype) ? bits(dtype) : bits(dtype) - 1) - 1;
  }
}

TEST_F(Quantize, ScalesFollowTheirRule) {
  RandomStream random(11, 0, RandomPurpose::test);
  for (const Fill fill : kFills)
    for (const Encoding& e : all_encodings()) {
      if (!has_scale(e.dtype)) continue;
      const Master master = random_master(random, 19, 70, fill);
      const QuantizedWeight stored = quantized(master, e);
      for (const std::size_t o : {std::size_t{0}, std::size_t{15}, std::size_t{18}})
        for (const std::size_t k : {std::size_t{0}, std::size_t{31}, std::size_t{32}, std::size_t{69}}) {
          const Reference of = reference_of(master, e.granularity, o, k);
          double want = std::max(-of.least, of.most) / largest_number(e.dtype), roundings = 1;
          if (has_zero_point(e.dtype)) want = (of.most - of.least) / largest_number(e.dtype), roundings = 2;
          // A chunk's sum, the chunks' total, lanes, their fold, the division.
          if (e.dtype == Dtype::ternary || e.dtype == Dtype::binary)
            want = of.sum / of.count, roundings = 64 + 2 + 7 + 1;
          if (has_double_scale(e.dtype))
            want = want > 0 ? want : 0x1p-126;
          else
            want = std::max(want, 0x1p-126);
          const double unit = has_double_scale(e.dtype) ? 0x1p-53 : 0x1p-24;
          EXPECT_NEAR(scale_at(stored.view(), o, k), want, want * unit * roundings * 1.001)
              << describe(e, 19, 70, fill);
          const double zero = static_cast<double>(zero_at(stored.view(), o, k));
          // Half a step for the rounding of the zero point, and the quotient's and the scale's own rounding.
          EXPECT_NEAR(zero, has_zero_point(e.dtype) ? -of.least / want : 0.0, 0.5 + zero * unit * 4)
              << describe(e, 19, 70, fill);
        }
    }
}

/// Neighbouring numbers of a code's number, in multiples of the scale.
std::vector<double> neighbours(Dtype dtype, std::uint64_t code, std::uint64_t zero) {
  const double number = number_of(dtype, code, zero);
  if (dtype == Dtype::binary) return {-1, 1};
  if (code_layout(dtype) == CodeLayout::elements && !has_zero_point(dtype) && !has_double_scale(dtype) &&
      dtype != Dtype::int16) {
    std::vector<double> all;
    const std::uint64_t sign = std::uint64_t{1} << (bits(dtype) - 1);
    for (const std::uint64_t near : {code - 1, code + 1})
      if ((near & ~sign) != ~sign && near <= 2 * sign - 1 && std::isfinite(number_of(dtype, near, 0)))
        all.push_back(number_of(dtype, near, 0));
    return all;
  }
  if (dtype == Dtype::fp4) return {-6, -4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const double most =
      has_zero_point(dtype) ? std::ldexp(1.0, bits(dtype)) - 1 - static_cast<double>(zero) : largest_number(dtype);
  const double least = has_zero_point(dtype) ? -static_cast<double>(zero) : -largest_number(dtype);
  std::vector<double> all;
  if (number > least) all.push_back(number - 1);
  if (number < most) all.push_back(number + 1);
  return all;
}

// No other number is nearer than by what rounding the quotient w / scale to float (or double) may move it: the error is
// then at most half a step for all that lies within the codes' range, and the range holds every weight.
TEST_F(Quantize, CodesAreTheNearestAndErrorsAtMostHalfAStep) {
  RandomStream random(12, 0, RandomPurpose::test);
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    for (const Fill fill : kFills)
      for (const Encoding& e : all_encodings()) {
        const Master master = random_master(random, 21, 75, fill);
        const QuantizedWeight stored = quantized(master, e);
        const double unit = has_double_scale(e.dtype) ? 0x1p-51 : 0x1p-24;
        const bool is_mean = e.dtype == Dtype::ternary || e.dtype == Dtype::binary;
        for (std::size_t o = 0; o < master.out; ++o)
          for (std::size_t k = 0; k < master.in; ++k) {
            // Types without a scale keep subnormals: nothing is computed with them.
            const double w = has_scale(e.dtype) ? seen(master.at(o, k)) : static_cast<double>(master.at(o, k));
            const double scale = scale_at(stored.view(), o, k);
            const std::uint64_t code = code_at(stored.view(), o, k), zero = zero_at(stored.view(), o, k);
            const double error = std::fabs(w - scale * number_of(e.dtype, code, zero));
            const double slack = has_scale(e.dtype) ? std::fabs(w) * unit : 0.0;
            ASSERT_TRUE(std::isfinite(error)) << describe(e, 21, 75, fill);
            for (const double number : neighbours(e.dtype, code, zero))
              ASSERT_LE(error, std::fabs(w - scale * number) + 2 * slack)
                  << describe(e, 21, 75, fill) << " at " << o << ", " << k << ": " << w;
            // Integers: steps are even, so this is the bound itself.
            const bool is_integer = has_scale(e.dtype) && !is_mean && number_of(e.dtype, 1, 0) == 1.0;
            if (is_integer) {
              ASSERT_LE(error, scale / 2 + slack) << describe(e, 21, 75, fill) << " at " << o << ", " << k << ": " << w;
            }
          }
      }
  }
}

TEST_F(Quantize, PaddingLanesAndCodesAreZeroBits) {
  RandomStream random(14, 0, RandomPurpose::test);
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    for (const Encoding& e : all_encodings()) {
      const QuantizedWeight stored = quantized(random_master(random, 21, 75, Fill::negative), e);
      const ConstWeight w = stored.view();
      for (std::size_t o = 21; o < 32; ++o)
        for (std::size_t k = 0; k < 75; ++k) {
          ASSERT_EQ(code_at(w, o, k), 0u) << to_string(e);
          if (!has_scale(e.dtype) || e.granularity == Granularity::tensor) continue;
          ASSERT_EQ(scale_at(w, o, k), 0.0) << to_string(e);
          ASSERT_EQ(zero_at(w, o, k), 0u) << to_string(e);
        }
      if (code_layout(e.dtype) != CodeLayout::words) continue;
      const std::size_t n = codes_per_word(bits(e.dtype)), words = (75 + n - 1) / n;
      for (std::size_t o = 0; o < 32; ++o)
        for (std::size_t k = 75; k < words * n; ++k) ASSERT_EQ(code_at(w, o, k), 0u) << to_string(e) << " " << o;
    }
  }
}

/// Weights whose scale comes out as 1, so that a weight is its own quotient.
Master unit_scaled(const std::vector<float>& weights, float largest, float least) {
  Master master(1, weights.size() + 2);
  for (std::size_t k = 0; k < weights.size(); ++k) master.at(0, k) = weights[k];
  master.at(0, weights.size()) = largest;
  master.at(0, weights.size() + 1) = least;
  return master;
}

TEST_F(Quantize, TiesGoToTheEvenCode) {
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    for (const Dtype dtype : {Dtype::int2, Dtype::int4, Dtype::int8, Dtype::int16, Dtype::int32, Dtype::uint2,
                              Dtype::uint4, Dtype::uint8, Dtype::uint16, Dtype::uint32}) {
      // Unsigned types with the zero point in their middle: from -2^(b-1) to 2^(b-1) - 1.
      const bool is_unsigned = has_zero_point(dtype);
      const double most = std::ldexp(1.0, bits(dtype) - 1) - 1, least = is_unsigned ? -most - 1 : -most;
      // 32 bits: the ends are no floats, so the scale is 1 only in one case.
      if (bits(dtype) == 32) continue;
      std::vector<float> ties;
      for (double x = least + 0.5; x < most; x += bits(dtype) == 16 ? 13 : 1) ties.push_back(static_cast<float>(x));
      const Master master = unit_scaled(ties, static_cast<float>(most), static_cast<float>(least));
      const QuantizedWeight stored = quantized(master, Encoding(dtype, Granularity::tensor));
      ASSERT_EQ(scale_at(stored.view(), 0, 0), 1.0) << name(dtype);
      for (std::size_t k = 0; k < ties.size(); ++k)
        ASSERT_EQ(value_at(stored.view(), 0, k), std::nearbyint(static_cast<double>(ties[k]))) << name(dtype);
    }
  }
}

TEST_F(Quantize, TernaryTiesGoToZeroAndBinaryZerosArePositive) {
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    // Mean magnitude 1.
    Master master(1, 8);
    const float weights[] = {0.5f, -0.5f, std::nextafter(0.5f, 1.0f), -std::nextafter(0.5f, 1.0f), 1.5f, -2.5f,
                             0.0f, 2.0f};
    for (std::size_t k = 0; k < 8; ++k) master.at(0, k) = weights[k];
    const QuantizedWeight ternary = quantized(master, Encoding(Dtype::ternary, Granularity::channel));
    ASSERT_EQ(scale_at(ternary.view(), 0, 0), 1.0);
    const double want[] = {0, 0, 1, -1, 1, -1, 0, 1};
    for (std::size_t k = 0; k < 8; ++k) EXPECT_EQ(value_at(ternary.view(), 0, k), want[k]) << k;

    Master signs(1, 5);
    const float zeros[] = {0.0f, -0.0f, -0x1p-149f, -0x1p-126f, 5.0f};
    for (std::size_t k = 0; k < 5; ++k) signs.at(0, k) = zeros[k];
    const QuantizedWeight binary = quantized(signs, Encoding(Dtype::binary));
    const std::uint64_t bits[] = {1, 1, 1, 0, 1};
    for (std::size_t k = 0; k < 5; ++k) EXPECT_EQ(code_at(binary.view(), 0, k), bits[k]) << k;
  }
}

/// Every number of a format, the middles between neighbours, and the floats beside both.
template <class T>
std::vector<float> telling_floats() {
  std::vector<float> all = {0.0f, -0.0f, 0x1p-149f, -0x1p-149f, 0x1.fffffcp-127f};
  for (unsigned code = 0; code < T::kLargest; ++code) {
    const float a = T::decode(static_cast<typename T::Code>(code)),
                b = T::decode(static_cast<typename T::Code>(code + 1));
    // By bits: the middle of bfloat16's subnormals is one of float32's.
    const auto middle = static_cast<float>((numeric::Float64::decode(numeric::Float64::encode(a)) +
                                            numeric::Float64::decode(numeric::Float64::encode(b))) /
                                           2);
    const float tie =
        T::bias == 127 ? std::bit_cast<float>((std::bit_cast<std::uint32_t>(a) + std::bit_cast<std::uint32_t>(b)) / 2)
                       : middle;
    for (const float x : {a, tie})
      for (const int step : {-1, 0, 1}) {
        const auto word = std::bit_cast<std::uint32_t>(x);
        if (word == 0 && step < 0) continue;
        const auto near = std::bit_cast<float>(word + static_cast<std::uint32_t>(step));
        all.push_back(near), all.push_back(-near);
      }
  }
  return all;
}

template <class T>
void expect_codes_of_the_scalar_reference(bool with_non_finite) {
  std::vector<float> weights = telling_floats<T>();
  if (with_non_finite) weights.insert(weights.end(), {kInf, -kInf, kNan, -kNan, std::bit_cast<float>(0xff800001u)});
  if (T::scale_rule == numeric::ScaleRule::none) weights.insert(weights.end(), {kMax, -kMax});
  const Master master = unit_scaled(weights, T::largest_number(), -T::largest_number());
  const QuantizedWeight stored = quantized(master, Encoding(T::dtype, Granularity::tensor));
  ASSERT_EQ(scale_at(stored.view(), 0, 0), 1.0);
  for (std::size_t k = 0; k < weights.size(); ++k) {
    // Division by the scale takes subnormals for zeros, which no format with a scale can tell apart.
    ASSERT_EQ(code_at(stored.view(), 0, k), T::encode(weights[k])) << name(T::dtype) << ": " << weights[k];
  }
}

TEST_F(Quantize, SmallFloatsHaveTheCodesOfTheScalarReference) {
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    expect_codes_of_the_scalar_reference<numeric::Float16>(true);
    expect_codes_of_the_scalar_reference<numeric::Bfloat16>(true);
    expect_codes_of_the_scalar_reference<numeric::Fp8E4m3>(true);
    expect_codes_of_the_scalar_reference<numeric::Fp8E5m2>(true);
    expect_codes_of_the_scalar_reference<numeric::Fp4>(true);
  }
}

TEST_F(Quantize, ScalarCodecsDoNotSeeTheFlushing) {
  ASSERT_TRUE(flushes_subnormals());
  for (unsigned code = 0; code < 0x8000; ++code) {
    // By bits, as comparing floats would flush: the middle between two codes of bfloat16 ends in 8000.
    const auto bf16 = static_cast<std::uint16_t>(code);
    if (code < 0x7f80) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(numeric::Bfloat16::decode(bf16)), code << 16);
      EXPECT_EQ(numeric::Bfloat16::encode(std::bit_cast<float>(code << 16 | 0x7fffu)), code);
      if (code < 0x7f7f) {
        EXPECT_EQ(numeric::Bfloat16::encode(std::bit_cast<float>(code << 16 | 0x8000u)), code + code % 2);
      }
    }
  }
  EXPECT_EQ(numeric::Float64::encode(std::bit_cast<float>(1u)), 0x36a0000000000000u);           // 2^-149
  EXPECT_EQ(numeric::Float64::encode(std::bit_cast<float>(0x807fffffu)), 0xb80fffffc0000000u);  // -(2^-126 - 2^-149)
}

TEST_F(Quantize, SubnormalsStayInTypesWithoutAScale) {
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    Master master(1, 3);
    master.at(0, 0) = 0x1p-149f, master.at(0, 1) = -0x1.2p-130f, master.at(0, 2) = 0x1p-133f;
    for (const Dtype dtype : {Dtype::float64, Dtype::float32}) {
      const QuantizedWeight stored = quantized(master, Encoding(dtype));
      for (std::size_t k = 0; k < 3; ++k) {
        const std::uint64_t want = dtype == Dtype::float32 ? numeric::Float32::encode(master.at(0, k))
                                                           : numeric::Float64::encode(master.at(0, k));
        EXPECT_EQ(code_at(stored.view(), 0, k), want);
      }
    }
    const QuantizedWeight bf16 = quantized(master, Encoding(Dtype::bfloat16));
    EXPECT_EQ(code_at(bf16.view(), 0, 0), 0x0000u);
    EXPECT_EQ(code_at(bf16.view(), 0, 1), 0x8009u);
    EXPECT_EQ(code_at(bf16.view(), 0, 2), 0x0001u);
  }
}

TEST_F(Quantize, CodesOfTypesWithoutAScaleComeBack) {
  RandomStream random(15, 0, RandomPurpose::test);
  for (const Dtype dtype : {Dtype::float64, Dtype::float32, Dtype::float16, Dtype::bfloat16})
    for (const Fill fill : kFills) {
      const QuantizedWeight once = quantized(random_master(random, 18, 37, fill), Encoding(dtype));
      Master dequantized(18, 37);
      for (std::size_t o = 0; o < 18; ++o)
        for (std::size_t k = 0; k < 37; ++k)
          dequantized.at(o, k) =
              dtype == Dtype::float32
                  ? numeric::Float32::decode(static_cast<std::uint32_t>(code_at(once.view(), o, k)))
                  : visit(dtype, [&](auto type) {
                      using T = decltype(type);
                      return static_cast<float>(T::decode(static_cast<typename T::Code>(code_at(once.view(), o, k))));
                    });
      // Narrowing a float64 code flushes subnormals here, which arithmetic may; the other types have none of that.
      if (dtype == Dtype::float64 && fill == Fill::tiny) continue;
      EXPECT_EQ(quantized(dequantized, Encoding(dtype)).contents(), once.contents()) << name(dtype);
    }
}

TEST_F(Quantize, TheLargestWeightsDequantizeToFiniteOnes) {
  RandomStream random(16, 0, RandomPurpose::test);
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    for (const Encoding& e : all_encodings())
      for (const float low : {-kMax, -0x1p127f, -0x1.8p126f, 0.0f}) {
        Master master = random_master(random, 5, 70, Fill::huge);
        for (std::size_t o = 0; o < 5; ++o)
          for (std::size_t k = 0; k < 70; k += 7) master.at(o, k) = k % 2 ? kMax : low;
        const QuantizedWeight stored = quantized(master, e);
        for (std::size_t o = 0; o < 5; ++o)
          for (std::size_t k = 0; k < 70; ++k) {
            const auto value = static_cast<float>(value_at(stored.view(), o, k));
            ASSERT_TRUE(std::isfinite(value)) << to_string(e) << ", " << master.at(o, k);
            if (!has_scale(e.dtype)) continue;
            const double scale = scale_at(stored.view(), o, k);
            ASSERT_TRUE(std::isnormal(scale)) << to_string(e);
            // One step, as the end codes may be left out.
            if (e.dtype == Dtype::ternary || e.dtype == Dtype::binary || !std::isfinite(scale)) continue;
            if (number_of(e.dtype, 1, 0) == 1.0) {
              ASSERT_LE(std::fabs(static_cast<double>(master.at(o, k)) - value_at(stored.view(), o, k)),
                        scale * 1.0001 + 0x1p104)
                  << to_string(e);
            }
          }
      }
  }
}

TEST_F(Quantize, MeansOfHugeWeightsDoNotOverflow) {
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    for (const Dtype dtype : {Dtype::ternary, Dtype::binary})
      for (const Granularity g : {Granularity::tensor, Granularity::channel, Granularity::block32}) {
        Master master(20, 100);
        for (std::size_t o = 0; o < 20; ++o)
          for (std::size_t k = 0; k < 100; ++k) master.at(o, k) = o % 2 ? kMax : k % 2 ? -kMax : kMax * 0.5f;
        const QuantizedWeight stored = quantized(master, Encoding(dtype, g));
        for (const std::size_t o : {std::size_t{0}, std::size_t{1}, std::size_t{19}}) {
          const double want = g == Granularity::tensor ? kMax * 0.875 : o % 2 ? kMax : kMax * 0.75;
          EXPECT_NEAR(scale_at(stored.view(), o, 99), want, want * 0x1p-24 * 80) << to_string(Encoding(dtype, g));
        }
      }
  }
}

TEST_F(Quantize, StatisticsSkipWhatIsNotFinite) {
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    Master master(2, 40);
    for (std::size_t k = 0; k < 40; ++k) master.at(0, k) = k % 2 ? 7.0f : -3.5f, master.at(1, k) = kNan;
    master.at(0, 4) = kInf, master.at(0, 5) = -kInf, master.at(0, 6) = -kNan;
    const QuantizedWeight e5m2 = quantized(master, Encoding(Dtype::fp8_e5m2, Granularity::channel));
    EXPECT_EQ(scale_at(e5m2.view(), 0, 0), 7.0 / 57344);
    EXPECT_EQ(scale_at(e5m2.view(), 1, 0), 0x1p-126);
    EXPECT_EQ(code_at(e5m2.view(), 0, 1), 0x7bu);
    EXPECT_EQ(code_at(e5m2.view(), 0, 4), 0x7cu);
    EXPECT_EQ(code_at(e5m2.view(), 0, 5), 0xfcu);
    EXPECT_EQ(code_at(e5m2.view(), 0, 6), 0x7eu);
    const QuantizedWeight e4m3 = quantized(master, Encoding(Dtype::fp8_e4m3, Granularity::tensor));
    EXPECT_EQ(scale_at(e4m3.view(), 0, 0), 7.0 / 448);
    EXPECT_EQ(code_at(e4m3.view(), 0, 6), 0x7fu);
    EXPECT_EQ(code_at(e4m3.view(), 0, 4), 0x7eu);
    const QuantizedWeight int8 = quantized(master, Encoding(Dtype::int8, Granularity::block32));
    EXPECT_EQ(code_at(int8.view(), 0, 4), 127u);
    EXPECT_EQ(code_at(int8.view(), 0, 5), 0x81u);
    EXPECT_EQ(code_at(int8.view(), 0, 6), 0u);
    const QuantizedWeight uint8 = quantized(master, Encoding(Dtype::uint8, Granularity::tensor));
    EXPECT_EQ(code_at(uint8.view(), 0, 4), 255u);
    EXPECT_EQ(code_at(uint8.view(), 0, 5), 0u);
    EXPECT_EQ(code_at(uint8.view(), 0, 6), zero_at(uint8.view(), 0, 0));
  }
}

TEST_F(FirstUnstorable, IsTheSmallestRowMajorIndex) {
  RandomStream random(17, 0, RandomPurpose::test);
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    Master master = random_master(random, 37, 45, Fill::mixed);
    master.at(3, 3) = kMax, master.at(4, 4) = -0x1p-149f;
    EXPECT_EQ(first_unstorable(master.view(), Dtype::int8, false), std::nullopt);
    EXPECT_EQ(last_isa_run(), general_isa(isa));
    // Later and later ones first, so that each is found in front of those before it.
    for (const auto& [o, k] :
         {std::pair<std::size_t, std::size_t>{36, 44}, {36, 2}, {31, 40}, {17, 3}, {2, 44}, {1, 44}, {0, 0}}) {
      master.at(o, k) = (o + k) % 2 ? kNan : -kInf;
      for (int i = 0; i < kDtypeCount; ++i)
        EXPECT_EQ(first_unstorable(master.view(), static_cast<Dtype>(i), false), o * 45 + k);
      EXPECT_EQ(first_unstorable(master.view(), Dtype::uint4, true), o * 45 + k);
    }
  }
}

TEST_F(FirstUnstorable, PassesWhatTheTypeHolds) {
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    Master master(2, 20);
    master.at(0, 7) = -kNan, master.at(1, 3) = std::bit_cast<float>(0x7f800001u);
    for (int i = 0; i < kDtypeCount; ++i) {
      const auto dtype = static_cast<Dtype>(i);
      const bool holds_nan = !has_scale(dtype) || dtype == Dtype::fp8_e4m3 || dtype == Dtype::fp8_e5m2;
      EXPECT_EQ(first_unstorable(master.view(), dtype, true), holds_nan ? std::nullopt : std::optional<std::size_t>(7))
          << name(dtype);
    }
    master.at(1, 1) = kInf;
    EXPECT_EQ(first_unstorable(master.view(), Dtype::fp8_e4m3, true), 21u);
    EXPECT_EQ(first_unstorable(master.view(), Dtype::fp8_e5m2, true), std::nullopt);
    EXPECT_EQ(first_unstorable({nullptr, 0, 0}, Dtype::int8, false), std::nullopt);
  }
}

}  // namespace
}  // namespace weft::kernels::quantize_test
