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

TEST(Encoding, SpellsWhatItIs) {
  EXPECT_EQ(to_string(Encoding(Dtype::int4)), "int4/block32");
  EXPECT_EQ(to_string(Encoding(Dtype::bfloat16)), "bfloat16");
  EXPECT_EQ(parse_granularity("channel"), Granularity::channel);
  EXPECT_EQ(parse_granularity("Channel"), std::nullopt);
  EXPECT_EQ(parse_activations("float"), Activations::float32);
  EXPECT_EQ(parse_activations("float32"), std::nullopt);
}

}  // namespace
}  // namespace weft::encoding_test
