// SPDX-License-Identifier: Apache-2.0

#include "core/encoding.hpp"

#include <gtest/gtest.h>

namespace weft::encoding_test {
namespace {

TEST(Encoding, TakesTheDefaultGranularityOfItsType) {
  EXPECT_EQ(Encoding(Dtype::int8).granularity, Granularity::channel);
  EXPECT_EQ(Encoding(Dtype::uint64).granularity, Granularity::channel);
  EXPECT_EQ(Encoding(Dtype::fp8_e5m2).granularity, Granularity::channel);
  EXPECT_EQ(Encoding(Dtype::int4).granularity, Granularity::block32);
  EXPECT_EQ(Encoding(Dtype::fp4).granularity, Granularity::block32);
  EXPECT_EQ(Encoding(Dtype::uint2).granularity, Granularity::block32);
  EXPECT_EQ(Encoding(Dtype::ternary).granularity, Granularity::tensor);
  EXPECT_EQ(Encoding(Dtype::binary).granularity, Granularity::tensor);
}

TEST(Encoding, HasOneFormForTypesWithoutScale) {
  EXPECT_EQ(Encoding(Dtype::float16, Granularity::block32), Encoding(Dtype::float16));
  EXPECT_EQ(Encoding(), Encoding(Dtype::float32, Granularity::channel));
  EXPECT_NE(Encoding(Dtype::int8, Granularity::block32), Encoding(Dtype::int8));
}

TEST(Encoding, RefusesBinary16ScalesOfTypesWithDoubleScales) {
  for (int i = 0; i < kDtypeCount; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    const bool is_double = has_scale(dtype) && bits(dtype) >= 32;
    EXPECT_EQ(has_double_scale(dtype), is_double) << name(dtype);
    for (const Granularity granularity : kGranularities) {
      const Status fits = check_granularity(dtype, granularity);
      EXPECT_EQ(fits.has_value(), !is_double || granularity != Granularity::block32_f16) << name(dtype);
      if (fits) continue;
      EXPECT_EQ(fits.error().text(), std::string(name(dtype)) +
                                         " weights have float64 scales, which granularity "
                                         "block32_f16 cannot hold: use block32");
    }
  }
}

TEST(Encoding, SpellsWhatItIs) {
  for (const Granularity granularity : kGranularities) EXPECT_EQ(parse_granularity(name(granularity)), granularity);
  EXPECT_EQ(to_string(Encoding(Dtype::int4, Granularity::block32_f16)), "int4/block32_f16");
  EXPECT_EQ(to_string(Encoding(Dtype::int4)), "int4/block32");
  EXPECT_EQ(to_string(Encoding(Dtype::bfloat16)), "bfloat16");
  EXPECT_EQ(parse_granularity("channel"), Granularity::channel);
  EXPECT_EQ(parse_granularity("Channel"), std::nullopt);
  EXPECT_EQ(parse_activations("float"), Activations::float32);
  EXPECT_EQ(parse_activations("float32"), std::nullopt);
}

}  // namespace
}  // namespace weft::encoding_test
