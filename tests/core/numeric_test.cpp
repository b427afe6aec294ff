// SPDX-License-Identifier: Apache-2.0

#include "core/numeric.hpp"

#include "core/encoding.hpp"
#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

namespace weft::numeric::numeric_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

/// Value of a floating-point code, in the words of the specifications: (-1)^s 2^(e-bias) 1.m, or with e = 0
/// (-1)^s 2^(1-bias) 0.m. In double, apart from the code under test.
struct Format {
  int exponent_bits, mantissa_bits;
  enum { ieee, ofp8_e4m3, numbers_only } specials;

  double value(unsigned code) const {
    const unsigned m = code & ((1u << mantissa_bits) - 1);
    const unsigned top = (1u << exponent_bits) - 1, e = code >> mantissa_bits & top;
    const double sign = code >> (exponent_bits + mantissa_bits) ? -1.0 : 1.0;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    if (specials == ieee && e == top) return m == 0 ? sign * HUGE_VAL : std::nan("");
    if (specials == ofp8_e4m3 && e == top && m == 7) return std::nan("");
    const double fraction = std::ldexp(m, -mantissa_bits);
    return e == 0 ? sign * std::ldexp(fraction, 1 - bias)
                  : sign * std::ldexp(1.0 + fraction, static_cast<int>(e) - bias);
  }
};
constexpr Format kFloat16{5, 10, Format::ieee}, kBfloat16{8, 7, Format::ieee}, kE4m3{4, 3, Format::ofp8_e4m3},
    kE5m2{5, 2, Format::ieee}, kFp4{2, 1, Format::numbers_only};

template <class T>
class SmallFloats : public testing::Test {};
struct F16 : Float16 {
  static constexpr const Format& format = kFloat16;
};
struct Bf16 : Bfloat16 {
  static constexpr const Format& format = kBfloat16;
};
struct E4m3 : Fp8E4m3 {
  static constexpr const Format& format = kE4m3;
};
struct E5m2 : Fp8E5m2 {
  static constexpr const Format& format = kE5m2;
};
struct E2m1 : Fp4 {
  static constexpr const Format& format = kFp4;
};
using Formats = testing::Types<F16, Bf16, E4m3, E5m2, E2m1>;
TYPED_TEST_SUITE(SmallFloats, Formats);

TYPED_TEST(SmallFloats, DecodeEveryCodeToItsNumber) {
  for (unsigned code = 0; code < 1u << TypeParam::bits; ++code) {
    const double want = TypeParam::format.value(code);
    const float got = TypeParam::decode(static_cast<typename TypeParam::Code>(code));
    if (std::isnan(want)) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got), 0x7fc00000u) << code;
    } else {
      EXPECT_EQ(static_cast<double>(got), want) << code;
      EXPECT_EQ(std::signbit(got), std::signbit(want)) << code;
    }
  }
}

TYPED_TEST(SmallFloats, EncodeEveryNumberToItsCode) {
  for (unsigned code = 0; code < 1u << TypeParam::bits; ++code) {
    const double number = TypeParam::format.value(code);
    if (std::isnan(number))
      EXPECT_EQ(TypeParam::encode(std::bit_cast<float>(0xffc12345u)), TypeParam::kNan);
    else
      EXPECT_EQ(TypeParam::encode(static_cast<float>(number)), code);
  }
}

TYPED_TEST(SmallFloats, RoundToTheNearestAndTiesToTheEvenCode) {
  const unsigned sign = 1u << (TypeParam::bits - 1);
  for (unsigned code = 0; std::isfinite(TypeParam::format.value(code + 1)) && code + 1 < sign; ++code) {
    // Exact: at most 12 bits between two neighbours.
    const double middle = (TypeParam::format.value(code) + TypeParam::format.value(code + 1)) / 2;
    const auto tie = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(tie), middle);
    const unsigned even = code % 2 == 0 ? code : code + 1;
    EXPECT_EQ(TypeParam::encode(tie), even) << middle;
    EXPECT_EQ(TypeParam::encode(-tie), even | sign) << middle;
    EXPECT_EQ(TypeParam::encode(std::nextafter(tie, 0.0f)), code) << middle;
    EXPECT_EQ(TypeParam::encode(std::nextafter(tie, kInf)), code + 1) << middle;
  }
}

TYPED_TEST(SmallFloats, SaturateWhatIsFinite) {
  using Code = typename TypeParam::Code;
  const float largest = TypeParam::largest_number();
  const Code code = TypeParam::kLargest, sign = TypeParam::kSign;
  EXPECT_EQ(TypeParam::encode(std::nextafter(largest, kInf)), code);
  EXPECT_EQ(TypeParam::encode(std::numeric_limits<float>::max()), code);
  EXPECT_EQ(TypeParam::encode(std::numeric_limits<float>::lowest()), code | sign);
  EXPECT_EQ(TypeParam::encode(kInf), TypeParam::has_infinity ? TypeParam::kInfinity : code);
  EXPECT_EQ(TypeParam::encode(-kInf), (TypeParam::has_infinity ? TypeParam::kInfinity : code) | sign);
  EXPECT_EQ(TypeParam::encode(0x1p-149f), 0);
  EXPECT_EQ(TypeParam::encode(-0x1p-149f), sign);
}

TEST(PublishedValues, OfTheOcpFormatsAndOfIeeeHalf) {
  // OFP8 1.0, table 1: E4M3 and E5M2.
  EXPECT_EQ(Fp8E4m3::decode(0x7e), 448.0f);
  EXPECT_EQ(Fp8E4m3::decode(0x08), 0x1p-6f);
  EXPECT_EQ(Fp8E4m3::decode(0x07), 0.875f * 0x1p-6f);
  EXPECT_EQ(Fp8E4m3::decode(0x01), 0x1p-9f);
  EXPECT_TRUE(std::isnan(Fp8E4m3::decode(0x7f)) && std::isnan(Fp8E4m3::decode(0xff)));
  EXPECT_EQ(Fp8E5m2::decode(0x7b), 57344.0f);
  EXPECT_EQ(Fp8E5m2::decode(0x04), 0x1p-14f);
  EXPECT_EQ(Fp8E5m2::decode(0x03), 0.75f * 0x1p-14f);
  EXPECT_EQ(Fp8E5m2::decode(0x01), 0x1p-16f);
  EXPECT_EQ(Fp8E5m2::decode(0x7c), kInf);
  EXPECT_EQ(Fp8E5m2::decode(0xfc), -kInf);
  for (const int code : {0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff})
    EXPECT_TRUE(std::isnan(Fp8E5m2::decode(static_cast<std::uint8_t>(code))));
  // Microscaling formats 1.0, table 5: E2M1.
  const float fp4[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (std::uint8_t code = 0; code < 8; ++code) {
    EXPECT_EQ(Fp4::decode(code), fp4[code]);
    EXPECT_EQ(Fp4::decode(code | 8), -fp4[code]);
  }
  EXPECT_EQ(Fp4::encode(kNan), 0);
  // IEEE 754 binary16.
  EXPECT_EQ(Float16::decode(0x7bff), 65504.0f);
  EXPECT_EQ(Float16::decode(0x0400), 0x1p-14f);
  EXPECT_EQ(Float16::decode(0x0001), 0x1p-24f);
  EXPECT_EQ(Float16::decode(0x3555), 0.333251953125f);
  EXPECT_EQ(Bfloat16::decode(0x4049), 3.140625f);
}

#if defined(__GNUC__) && !defined(__clang__) && (defined(__x86_64__) || defined(__aarch64__))
#define WEFT_TEST_HAS_HALF 1
#if defined(__x86_64__)
__extension__ typedef _Float16 Half;
#else
__extension__ typedef __fp16 Half;
#endif

TEST(Float16, AgreesWithTheCompilersHalf) {
  for (unsigned code = 0; code < 65536; ++code) {
    const auto half = std::bit_cast<Half>(static_cast<std::uint16_t>(code));
    const auto want = static_cast<float>(half), got = Float16::decode(static_cast<std::uint16_t>(code));
    if (std::isnan(want))
      EXPECT_TRUE(std::isnan(got)) << code;
    else
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(want)) << code;
  }
  // A walk over all exponents and many mantissas.
  for (std::uint64_t word = 0; word < 0x100000000u; word += 40009) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(word));
    if (std::isnan(x)) continue;
    const auto half = static_cast<Half>(x);
    const auto want = std::bit_cast<std::uint16_t>(half);
    if (std::isinf(x) || (want & 0x7fff) != 0x7c00)
      EXPECT_EQ(Float16::encode(x), want) << x;
    else
      EXPECT_EQ(Float16::encode(x), want - 1) << x;  // saturates
  }
}
#endif

TEST(Float64, HoldsEveryFloatExactly) {
  for (std::uint64_t word = 0; word < 0x100000000u; word += 7919) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(word));
    if (std::isnan(x))
      EXPECT_EQ(Float64::encode(x), Float64::kNan);
    else
      EXPECT_EQ(Float64::encode(x), std::bit_cast<std::uint64_t>(static_cast<double>(x))) << x;
  }
  for (const float x : {0x1p-149f, -0x1p-149f, 0x1.8p-148f, 0x1.fffffcp-127f, 0x1p-126f, 0.0f, -0.0f, kInf, -kInf})
    EXPECT_EQ(Float64::encode(x), std::bit_cast<std::uint64_t>(static_cast<double>(x))) << x;
}

template <class T>
class Integers : public testing::Test {};
using SignedTypes = testing::Types<Int64, Int32, Int16, Int8, Int4, Int2, Ternary>;
TYPED_TEST_SUITE(Integers, SignedTypes);

TYPED_TEST(Integers, RoundTiesToEvenAndSaturateAtTheSymmetricEnds) {
  const auto largest = static_cast<std::int64_t>(TypeParam::kLargest);
  const auto number = [](double x) { return TypeParam::decode(TypeParam::encode(x)); };
  for (std::int64_t n = 0; n < std::min<std::int64_t>(largest, 70000); ++n) {
    const auto x = static_cast<double>(n);
    const std::int64_t even = n % 2 == 0 ? n : n + 1;
    ASSERT_EQ(number(x), n);
    ASSERT_EQ(number(-x), -n);
    ASSERT_EQ(number(x + 0.5), even);
    ASSERT_EQ(number(-x - 0.5), -even);
    ASSERT_EQ(number(std::nextafter(x + 0.5, 0.0)), n);
    ASSERT_EQ(number(std::nextafter(x + 0.5, 1e9)), n + 1);
    ASSERT_EQ(number(-std::nextafter(x + 0.5, 0.0)), -n);
    ASSERT_EQ(number(-std::nextafter(x + 0.5, 1e9)), -n - 1);
  }
  const double past[] = {
      static_cast<double>(largest) + 0.5, static_cast<double>(largest) + 1, 1e18, 1e19, 1e30, 1e300, HUGE_VAL};
  for (const double x : past) {
    if (x < static_cast<double>(largest)) continue;
    EXPECT_EQ(number(x), largest);
    EXPECT_EQ(number(-x), -largest);
  }
  EXPECT_EQ(number(std::nan("")), 0);
  EXPECT_EQ(number(-std::numeric_limits<double>::denorm_min()), 0);
  EXPECT_EQ(static_cast<std::int64_t>(TypeParam::largest_number()), largest);
}

TYPED_TEST(Integers, AgreeWithTheMachinesRounding) {
  RandomStream random(7, 0, RandomPurpose::test);
  const auto largest = static_cast<double>(TypeParam::kLargest);
  for (int i = 0; i < 100000; ++i) {
    const double x = std::ldexp(static_cast<double>(random.next_normal()) + random.next_normal() * 0x1p-20,
                                static_cast<int>(random.next_below(66)) - 2);
    const double want = std::min(std::max(std::nearbyint(x), -largest), largest);
    ASSERT_EQ(TypeParam::decode(TypeParam::encode(x)), static_cast<std::int64_t>(want)) << x;
  }
}

TYPED_TEST(Integers, KeepTheSignOfWhatSaturatesAndHaveNoneOfNaN) {
  const auto largest = static_cast<std::int64_t>(TypeParam::kLargest);
  const auto number = [](std::uint64_t word) {
    return TypeParam::decode(TypeParam::encode(std::bit_cast<double>(word)));
  };
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  // The next number below the largest code's and all from it on, each exponent's first and last, and infinity.
  const auto end = std::bit_cast<std::uint64_t>(static_cast<double>(largest));
  EXPECT_EQ(number(end - 1), largest - (TypeParam::bits == 64 ? 1024 : 0));
  std::vector<std::uint64_t> past{end, end + 1, std::bit_cast<std::uint64_t>(0x1p63), 0x7ff0000000000000u};
  for (std::uint64_t exponent = (end >> 52) + 1; exponent < 0x7ff; ++exponent)
    past.insert(past.end(), {exponent << 52, ((exponent + 1) << 52) - 1});
  for (const std::uint64_t word : past) {
    ASSERT_EQ(number(word), largest) << std::hex << word;
    ASSERT_EQ(number(word | kSign), -largest) << std::hex << word;
  }
  // Quiet and signalling NaNs of either sign; zeros, subnormals and the last number that rounds to 0.
  for (const std::uint64_t word :
       std::vector<std::uint64_t>{0x7ff0000000000001u, 0x7ff8000000000000u, 0x7fffffffffffffffu, 0, 1,
                                  0x000fffffffffffffu, 0x0010000000000000u, 0x3fe0000000000000u}) {
    EXPECT_EQ(number(word), 0) << std::hex << word;
    EXPECT_EQ(number(word | kSign), 0) << std::hex << word;
  }
}

TEST(Integers, HaveOneIllegalPattern) {
  for (unsigned code = 0; code < 256; ++code) {
    EXPECT_EQ(Int8::is_code(static_cast<std::uint8_t>(code)), code != 128);
    EXPECT_EQ(Int4::is_code(static_cast<std::uint8_t>(code)), code < 16 && code != 8);
    EXPECT_EQ(Int2::is_code(static_cast<std::uint8_t>(code)), code < 4 && code != 2);
    EXPECT_EQ(Ternary::is_code(static_cast<std::uint8_t>(code)), code < 4 && code != 2);
    EXPECT_EQ(Uint4::is_code(static_cast<std::uint8_t>(code)), code < 16);
    EXPECT_EQ(Binary::is_code(static_cast<std::uint8_t>(code)), code < 2);
    EXPECT_EQ(Int8::decode(static_cast<std::uint8_t>(code)), static_cast<std::int8_t>(code));
  }
  EXPECT_FALSE(Int16::is_code(0x8000));
  EXPECT_FALSE(Int32::is_code(0x80000000u));
  EXPECT_FALSE(Int64::is_code(0x8000000000000000u));
  EXPECT_TRUE(Int64::is_code(0x8000000000000001u));
}

TEST(Unsigned, CountFromTheirZeroPoint) {
  for (int zero = 0; zero < 16; ++zero)
    for (int quarters = -80; quarters <= 80; ++quarters) {
      const double x = quarters / 4.0;
      const double want = std::min(std::max(std::nearbyint(x) + zero, 0.0), 15.0);
      EXPECT_EQ(Uint4::encode(x, static_cast<std::uint64_t>(zero)), want) << x << " from " << zero;
    }
  EXPECT_EQ(Uint16::encode(65534.5), 65534);
  EXPECT_EQ(Uint16::encode(1e9), 65535);
  EXPECT_EQ(Uint16::encode(-3.0, 2), 0);
  EXPECT_EQ(Uint16::encode(std::nan(""), 77), 77);
  EXPECT_EQ(Uint32::encode(4294967295.0), 4294967295u);
  EXPECT_EQ(Uint32::encode(-HUGE_VAL, 4294967295u), 0u);
  EXPECT_EQ(Uint64::encode(0x1p63, std::uint64_t{1} << 62), (std::uint64_t{3} << 62));
  EXPECT_EQ(Uint64::encode(0x1p64, 5), Uint64::kLargest);
  EXPECT_EQ(Uint64::encode(-0x1p63, std::uint64_t{3} << 62), std::uint64_t{1} << 62);
  EXPECT_EQ(Uint64::largest_number(), 0x1p64 - 0x1p13);
  EXPECT_EQ(Uint32::largest_number(), 0x1p32 - 1);
  EXPECT_EQ(Uint64::difference(3, 5), -2.0);
  EXPECT_EQ(Uint64::difference(~std::uint64_t{0}, 0), 0x1p64);
  EXPECT_EQ(Uint8::difference(0, 255), -255.0);
}

TEST(Binary, IsTheSignAndZeroesArePositive) {
  EXPECT_EQ(Binary::encode(0.0f), 1);
  EXPECT_EQ(Binary::encode(-0.0f), 1);
  EXPECT_EQ(Binary::encode(0x1p-126f), 1);
  EXPECT_EQ(Binary::encode(-0x1p-126f), 0);
  EXPECT_EQ(Binary::encode(kInf), 1);
  EXPECT_EQ(Binary::encode(-kInf), 0);
  EXPECT_EQ(Binary::encode(kNan), 0);
  EXPECT_EQ(Binary::decode(1), 1);
  EXPECT_EQ(Binary::decode(0), -1);
}

TEST(Visit, ReachesEachTypeOnce) {
  std::set<Dtype> seen;
  for (int i = 0; i < kDtypeCount; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    visit(dtype, [&](auto type) {
      using T = decltype(type);
      EXPECT_EQ(T::dtype, dtype);
      EXPECT_EQ(T::bits, bits(dtype));
      EXPECT_EQ(T::scale_rule != ScaleRule::none, has_scale(dtype));
      EXPECT_EQ(T::scale_rule == ScaleRule::range, has_zero_point(dtype));
      EXPECT_GE(sizeof(typename T::Code) * 8, static_cast<std::size_t>(T::bits));
      seen.insert(T::dtype);
    });
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kDtypeCount));
}

// Usable in constants: tables of codes need no start-up code.
static_assert(Fp8E4m3::encode(449.0f) == 0x7e && Fp8E4m3::decode(0x7e) == 448.0f);
static_assert(Int8::encode(-128.0) == 0x81 && Int8::decode(0x81) == -127);
static_assert(visit(Dtype::fp4, [](auto type) { return static_cast<int>(decltype(type)::encode(2.5f)); }) == 4);

}  // namespace
}  // namespace weft::numeric::numeric_test
