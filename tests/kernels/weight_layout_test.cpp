// SPDX-License-Identifier: Apache-2.0

#include "kernels/weight_layout.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/quantize.hpp"

#include <gtest/gtest.h>

#include "codec_testing.hpp"
#include <string>

namespace weft::kernels::weight_layout_test {
namespace {

using namespace testing_codec;

/// A weight's arrays in file order.
struct Bytes {
  Bytes(const Encoding& encoding, std::size_t out, std::size_t in) {
    const WeightBytes bytes = ordered_bytes(encoding, out, in);
    codes.resize(bytes.codes), scales.resize(bytes.scales), zero_points.resize(bytes.zero_points);
  }
  OrderedWeight view() { return {codes, scales, zero_points}; }
  ConstOrderedWeight view() const { return {codes, scales, zero_points}; }
  bool operator==(const Bytes&) const = default;
  std::vector<std::byte> codes, scales, zero_points;
};

Bytes exported(const ConstWeight& weight) {
  Bytes bytes(weight.encoding(), weight.out, weight.in);
  export_weight(weight, bytes.view());
  return bytes;
}

QuantizedWeight random_weight(RandomStream& random, const Encoding& encoding, std::size_t out, std::size_t in) {
  QuantizedWeight stored(encoding, out, in);
  const FlushSubnormals flush;
  quantize(random_master(random, out, in, Fill::normal).view(), stored.view());
  return stored;
}

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> all;
  for (const int value : values) all.push_back(static_cast<std::byte>(value));
  return all;
}
template <class T>
void put(std::vector<std::byte>& bytes, std::size_t i, T value) {
  std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
}

TEST(WeightLayout, StoresEachTypeAtItsTrueSize) {
  // Bits of a [3, 7] weight, rounded up to bytes; block32 has one block a row.
  const std::size_t codes[] = {168, 84, 42, 42, 21, 21, 11, 168, 84, 42, 21, 11, 6, 168, 84, 42, 21, 11, 6, 6, 3};
  for (int i = 0; i < kDtypeCount; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    EXPECT_EQ(ordered_bytes(Encoding(dtype), 3, 7).codes, codes[i]) << name(dtype);
  }
  const WeightBytes uint64 = ordered_bytes(Encoding(Dtype::uint64, Granularity::block32), 5, 65);
  EXPECT_EQ(uint64.scales, 5u * 3 * 8);
  EXPECT_EQ(uint64.zero_points, 5u * 3 * 8);
  const WeightBytes uint4 = ordered_bytes(Encoding(Dtype::uint4, Granularity::channel), 5, 65);
  EXPECT_EQ(uint4.scales, 5u * 4);
  EXPECT_EQ(uint4.zero_points, 5u);
  const WeightBytes half = ordered_bytes(Encoding(Dtype::uint8, Granularity::block32_f16), 5, 65);
  EXPECT_EQ(half.scales, 5u * 3 * 2);
  EXPECT_EQ(half.zero_points, 5u * 3);
  // Bits of a weight as llama.cpp's q4_0 and q8_0 have them, in files and in memory.
  for (const auto& [dtype, half_bits] : {std::pair{Dtype::int4, 9u}, {Dtype::int8, 17u}}) {
    const Encoding encoding(dtype, Granularity::block32_f16);
    EXPECT_EQ(ordered_bytes(encoding, 64, 4096).total() * 16, 64u * 4096 * half_bits);
    EXPECT_EQ(weight_bytes(encoding, 64, 4096).total() * 16, 64u * 4096 * half_bits);
  }
  EXPECT_EQ(ordered_bytes(Encoding(Dtype::float16), 5, 65).total(), 5u * 65 * 2);
  const WeightBytes binary = ordered_bytes(Encoding(Dtype::binary), 1024, 1024);
  EXPECT_EQ(binary.total(), 1024u * 1024 / 8 + 4);
  EXPECT_EQ(ordered_bytes(Encoding(Dtype::int4, Granularity::block32), 7, 0).total(), 0u);
  EXPECT_EQ(ordered_scale_count(Encoding(Dtype::int8, Granularity::tensor), 9, 9), 1u);
}

// The example of docs/numerics.md, section 8.
TEST(WeightLayout, WritesTheBytesOfTheWorkedExample) {
  Master master(2, 5);
  const float rows[2][5] = {{7, -3, 0, 1, 2}, {-14, 6, 4, 0, -2}};
  for (std::size_t o = 0; o < 2; ++o)
    for (std::size_t k = 0; k < 5; ++k) master.at(o, k) = rows[o][k];
  const FlushSubnormals flush;
  QuantizedWeight stored(Encoding(Dtype::int4, Granularity::channel), 2, 5);
  quantize(master.view(), stored.view());
  const auto* words = static_cast<const std::uint32_t*>(stored.view().codes);
  EXPECT_EQ(words[0], 0x000210d7u);
  EXPECT_EQ(words[1], 0x000f0239u);
  const Bytes bytes = exported(stored.view());
  EXPECT_EQ(bytes.codes, bytes_of({0xd7, 0x10, 0x92, 0x23, 0xf0}));
  EXPECT_EQ(bytes.scales, bytes_of({0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}));

  QuantizedWeight affine(Encoding(Dtype::uint2, Granularity::tensor), 2, 5);
  Master small(2, 5);
  for (std::size_t o = 0; o < 2; ++o)
    for (std::size_t k = 0; k < 5; ++k) small.at(o, k) = static_cast<float>((o * 5 + k) % 4) - 1.0f;
  quantize(small.view(), affine.view());
  const Bytes packed = exported(affine.view());
  EXPECT_EQ(packed.codes, bytes_of({0xe4, 0xe4, 0x04}));
  EXPECT_EQ(packed.zero_points, bytes_of({1}));
}

TEST(WeightLayout, ComesBackAsTheSameWeightAndTheSameBytes) {
  RandomStream random(21, 0, RandomPurpose::test);
  for (const Encoding& e : all_encodings())
    for (const Shape2 shape : shapes()) {
      const QuantizedWeight first = random_weight(random, e, shape.out, shape.in);
      const Bytes bytes = exported(first.view());
      QuantizedWeight second(e, shape.out, shape.in);
      const Status status = import_weight(bytes.view(), second.view());
      ASSERT_TRUE(status) << status.error().text();
      ASSERT_EQ(second.contents(), first.contents()) << to_string(e) << " " << shape.out << ", " << shape.in;
      ASSERT_TRUE(second.sentinels_intact()) << to_string(e);
      ASSERT_EQ(exported(second.view()), bytes) << to_string(e);
    }
}

TEST(WeightLayout, EachPatternOfFloatsSurvives) {
  for (const Dtype dtype : {Dtype::float16, Dtype::bfloat16}) {
    Bytes bytes(Encoding(dtype), 256, 256);
    for (std::size_t i = 0; i < 65536; ++i) put(bytes.codes, i, static_cast<std::uint16_t>(i));
    QuantizedWeight stored(Encoding(dtype), 256, 256);
    ASSERT_TRUE(import_weight(bytes.view(), stored.view()));
    EXPECT_EQ(code_at(stored.view(), 3, 5), 3u * 256 + 5);
    EXPECT_EQ(exported(stored.view()), bytes);
  }
}

/// Imports damaged bytes: gives the error's text, after checking that nothing was written.
std::string refusal(const Encoding& e, std::size_t out, std::size_t in, const Bytes& bytes) {
  QuantizedWeight stored(e, out, in);
  const auto before = stored.contents();
  const Status status = import_weight(bytes.view(), stored.view());
  EXPECT_EQ(stored.contents(), before) << to_string(e);
  if (status) return "";
  EXPECT_EQ(status.error().code(), Errc::corrupt);
  return status.error().text();
}

TEST(WeightLayout, RefusesWrongLengthsAndSaysBoth) {
  RandomStream random(22, 0, RandomPurpose::test);
  for (const Encoding& e : all_encodings()) {
    const Bytes good = exported(random_weight(random, e, 5, 33).view());
    for (const int change : {-1, 1})
      for (auto part : {&Bytes::codes, &Bytes::scales, &Bytes::zero_points}) {
        Bytes bad = good;
        auto& array = bad.*part;
        if (array.empty() && change < 0) continue;
        array.resize(static_cast<std::size_t>(static_cast<int>(array.size()) + change));
        const std::string text = refusal(e, 5, 33, bad);
        EXPECT_NE(text.find(std::to_string((good.*part).size())), std::string::npos) << text;
        EXPECT_NE(text.find(std::to_string(array.size())), std::string::npos) << text;
      }
  }
  const Encoding int4(Dtype::int4, Granularity::channel);
  Bytes bad(int4, 2, 5);
  bad.codes.resize(4);
  EXPECT_EQ(refusal(int4, 2, 5, bad), "codes of int4/channel [2, 5] are 4 bytes, not 5");
}

TEST(WeightLayout, RefusesScalesThatAreNotPositiveNormalNumbers) {
  RandomStream random(23, 0, RandomPurpose::test);
  const FlushSubnormals flush;  // must not hide subnormals
  for (const Encoding& e : all_encodings()) {
    if (!has_scale(e.dtype)) continue;
    const Bytes good = exported(random_weight(random, e, 5, 33).view());
    const std::size_t last = ordered_scale_count(e, 5, 33) - 1;
    if (e.granularity == Granularity::block32_f16) {
      for (const unsigned scale : {0u, 0x8000u, 0x8001u, 0xbc00u, 0x7c00u, 0xfc00u, 0x7c01u, 0x7e00u, 0xffffu}) {
        Bytes bad = good;
        put(bad.scales, last, static_cast<std::uint16_t>(scale));
        const std::string text = refusal(e, 5, 33, bad);
        EXPECT_EQ(text.rfind("scale " + std::to_string(last) + " of ", 0), 0u) << text;
        EXPECT_NE(text.find(", not a positive binary16 number"), std::string::npos) << text;
      }
      for (const unsigned scale : {1u, 0x3ffu, 0x400u, 0x7bffu}) {
        Bytes fine = good;
        put(fine.scales, last, static_cast<std::uint16_t>(scale));
        QuantizedWeight stored(e, 5, 33);
        EXPECT_TRUE(import_weight(fine.view(), stored.view())) << scale;
        EXPECT_EQ(exported(stored.view()), fine);
      }
      continue;
    }
    for (const double scale : {0.0, -0.0, -1.0, HUGE_VAL, -HUGE_VAL, std::nan("")}) {
      Bytes bad = good;
      if (has_double_scale(e.dtype))
        put(bad.scales, last, scale);
      else
        put(bad.scales, last, static_cast<float>(scale));
      const std::string text = refusal(e, 5, 33, bad);
      EXPECT_EQ(text.rfind("scale " + std::to_string(last) + " of ", 0), 0u) << text;
    }
    for (const std::uint64_t mantissa : {std::uint64_t{1}, ~std::uint64_t{0}}) {
      Bytes subnormal = good;
      if (has_double_scale(e.dtype))
        put(subnormal.scales, 0, mantissa & 0x000fffffffffffffu);
      else
        put(subnormal.scales, 0, static_cast<std::uint32_t>(mantissa & 0x007fffffu));
      EXPECT_EQ(refusal(e, 5, 33, subnormal).rfind("scale 0 of ", 0), 0u) << to_string(e);
    }
    Bytes smallest = good;
    if (has_double_scale(e.dtype))
      put(smallest.scales, 0, 0x1p-1022);
    else
      put(smallest.scales, 0, 0x1p-126f);
    QuantizedWeight stored(e, 5, 33);
    EXPECT_TRUE(import_weight(smallest.view(), stored.view())) << to_string(e);
  }
}

template <class T>
void expect_refusal_of_lowest(Granularity granularity) {
  RandomStream random(24, 0, RandomPurpose::test);
  const Encoding e(T::dtype, granularity);
  for (const std::size_t i : {std::size_t{0}, std::size_t{7}, std::size_t{164}}) {
    Bytes bad = exported(random_weight(random, e, 5, 33).view());
    const auto lowest = static_cast<typename T::Code>(std::uint64_t{1} << (T::bits - 1));
    if constexpr (T::bits >= 8) {
      put(bad.codes, i, lowest);
    } else {
      const std::size_t n = 8 / T::bits, shift = i % n * T::bits;
      const auto byte = static_cast<unsigned>(bad.codes[i / n]) & ~(((1u << T::bits) - 1) << shift);
      bad.codes[i / n] = static_cast<std::byte>(byte | static_cast<unsigned>(lowest) << shift);
    }
    EXPECT_EQ(refusal(e, 5, 33, bad), "code " + std::to_string(i) + " of " + to_string(e) + " [5, 33] is " +
                                          std::to_string(T::decode(lowest)) + ", which stands for nothing");
  }
}

TEST(WeightLayout, RefusesTheLowestSignedCode) {
  expect_refusal_of_lowest<numeric::Int64>(Granularity::channel);
  expect_refusal_of_lowest<numeric::Int32>(Granularity::tensor);
  expect_refusal_of_lowest<numeric::Int16>(Granularity::block32);
  expect_refusal_of_lowest<numeric::Int8>(Granularity::channel);
  expect_refusal_of_lowest<numeric::Int4>(Granularity::block32);
  expect_refusal_of_lowest<numeric::Int2>(Granularity::tensor);
  expect_refusal_of_lowest<numeric::Ternary>(Granularity::tensor);
}

TEST(WeightLayout, RefusesZeroPointsPastTheLargestCode) {
  RandomStream random(25, 0, RandomPurpose::test);
  for (const auto& [dtype, largest] : {std::pair{Dtype::uint4, 15}, std::pair{Dtype::uint2, 3}}) {
    const Encoding e(dtype, Granularity::block32);
    Bytes bytes = exported(random_weight(random, e, 5, 33).view());
    bytes.zero_points[9] = static_cast<std::byte>(largest);
    QuantizedWeight stored(e, 5, 33);
    EXPECT_TRUE(import_weight(bytes.view(), stored.view()));
  }
  const Encoding e(Dtype::uint4, Granularity::block32);
  Bytes bytes = exported(random_weight(random, e, 5, 33).view());
  bytes.zero_points[9] = std::byte{16};
  EXPECT_EQ(refusal(e, 5, 33, bytes), "zero point 9 of uint4/block32 [5, 33] is 16, past the largest code 15");
}

TEST(WeightLayout, RefusesBitsAfterTheLastCode) {
  RandomStream random(26, 0, RandomPurpose::test);
  for (const Dtype dtype :
       {Dtype::fp4, Dtype::int4, Dtype::int2, Dtype::uint4, Dtype::uint2, Dtype::ternary, Dtype::binary}) {
    const Encoding e(dtype);
    Bytes bad = exported(random_weight(random, e, 5, 33).view());  // 165 codes: an odd number
    bad.codes.back() |= std::byte{0x80};
    EXPECT_EQ(refusal(e, 5, 33, bad), "codes of " + to_string(e) + " [5, 33]: bits after the last code are set");
  }
}

}  // namespace
}  // namespace weft::kernels::weight_layout_test
