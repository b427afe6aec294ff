// SPDX-License-Identifier: Apache-2.0

#include "models/carriers.hpp"

#include "formats/gguf/gguf_blocks.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "storage/file_system.hpp"

#include "core/numeric.hpp"

#include <gtest/gtest.h>

#include "tests/support/source_path.hpp"
#include <cmath>
#include <string>
#include <vector>

namespace weft::models::carriers_test {
namespace {

constexpr const char* kTypes[] = {"q8_0", "q5_0", "q4_0", "tq1_0", "tq2_0", "q1_0", "q2_0", "mxfp4"};

/// A block as codes.
struct Codes {
  explicit Codes(const Carrier& carrier, std::size_t elements)
      : encoding(carrier.encoding),
        codes(elements),
        scales(elements / 32),
        zero_points(has_zero_point(encoding.dtype) ? elements / 32 : 0) {}
  CodeRow row() { return {codes, scales, zero_points}; }
  /// Numbers by the table of docs/numerics.md, section 8.
  std::vector<float> values() const {
    constexpr float kFp4[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    std::vector<float> all;
    for (std::size_t e = 0; e < codes.size(); ++e) {
      const int width = bits(encoding.dtype), code = codes[e];
      float number = 0;
      if (encoding.dtype == Dtype::fp4)
        number = (code & 8) ? -kFp4[code & 7] : kFp4[code & 7];
      else if (encoding.dtype == Dtype::binary)
        number = code ? 1.0f : -1.0f;
      else if (!zero_points.empty())
        number = static_cast<float>(code - zero_points[e / 32]);
      else
        number = static_cast<float>(code >= 1 << (width - 1) ? code - (1 << width) : code);
      const float product = scales[e / 32] * number;
      all.push_back(std::abs(product) < 0x1p-126f ? 0.0f : product);  // subnormals count as 0
    }
    return all;
  }
  Encoding encoding;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  std::vector<std::uint8_t> zero_points;
};

class Carriers : public ::testing::TestWithParam<const char*> {};

// Blocks that ggml's encoders wrote, and blocks of random bytes; each value is the one that ggml decodes.
TEST_P(Carriers, HoldEveryValueOfABlockAndGiveItsBytesBack) {
  const std::string name = GetParam();
  const Carrier* const carrier = find_carrier(name);
  ASSERT_NE(carrier, nullptr);
  const formats::GgufType type = *formats::find_gguf_type(name);
  const BlockWriter* const writer = find_block_writer(carrier->encoding);
  ASSERT_NE(writer, nullptr);
  const auto goldens =
      formats::load_safetensors(storage::real_file_system(), source_path("tests/data/formats/gguf_blocks.safetensors"));
  ASSERT_TRUE(goldens) << goldens.error().text();
  std::size_t read = 0, written = 0;
  for (const char* const kind : {".bytes", ".random.bytes"}) {
    const auto blocks = goldens->find(name + kind);
    ASSERT_TRUE(blocks) << blocks.error().text();
    for (std::size_t at = 0; at < blocks->bytes.size(); at += type.bytes) {
      const ByteSpan block = blocks->bytes.subspan(at, type.bytes);
      std::vector<float> wanted(type.elements);
      Codes codes(*carrier, type.elements);
      const Status made = carrier->read(block, codes.row());
      if (!made || !formats::dequantize(name, block, wanted)) continue;
      ++read;
      EXPECT_EQ(codes.values(), wanted) << name << kind << ", block at " << at;
      for (const float scale : codes.scales) EXPECT_GE(scale, 0x1p-126f);
      std::vector<std::byte> again(type.bytes);
      if (writer->type != name) continue;
      ASSERT_TRUE(writer->write(codes.row(), again)) << name << kind << ", block at " << at;
      std::vector<float> values(type.elements);
      ASSERT_TRUE(formats::dequantize(name, again, values));
      EXPECT_EQ(values, wanted) << name << kind << ", block at " << at;
      written += std::equal(block.begin(), block.end(), again.begin());
    }
  }
  EXPECT_GT(read, 8u);
  if (writer->type == name) {
    EXPECT_GT(written, 8u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Carriers, ::testing::ValuesIn(kTypes),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(CarriersOf, RefuseWhatWeftsTypeHasNot) {
  std::vector<std::byte> block(34);
  block[1] = std::byte{0x3c};  // a scale of 1
  block[7] = std::byte{0x80};
  Codes codes(*find_carrier("q8_0"), 32);
  const Status least = find_carrier("q8_0")->read(block, codes.row());
  ASSERT_FALSE(least);
  EXPECT_NE(least.error().text().find("-128"), std::string::npos);
  block[1] = std::byte{0x7e};
  block[7] = std::byte{0};
  EXPECT_EQ(find_carrier("q8_0")->read(block, codes.row()).error().code(), Errc::not_finite);
  EXPECT_EQ(find_carrier("q4_K"), nullptr);
  EXPECT_EQ(find_block_writer(Encoding(Dtype::int8, Granularity::channel)), nullptr);
}

// A scale that binary16 has not, and zero points that blocks have not.
TEST(CarriersOf, BlocksHoldNoOtherScales) {
  std::vector<std::byte> bytes(34);
  Codes codes(*find_carrier("q8_0"), 32);
  codes.codes[3] = 5;
  codes.scales = {0.1f};
  EXPECT_FALSE(find_block_writer(codes.encoding)->write(codes.row(), bytes));
  codes.scales = {0.125f};
  EXPECT_TRUE(find_block_writer(codes.encoding)->write(codes.row(), bytes));
  Codes unsigned_codes(*find_carrier("q4_0"), 32);
  unsigned_codes.scales = {0.5f};
  unsigned_codes.zero_points = {6};
  bytes.resize(18);
  EXPECT_FALSE(find_block_writer(unsigned_codes.encoding)->write(unsigned_codes.row(), bytes));
}

TEST(CarriersOf, CodesArePackedFirstLow) {
  std::vector<std::byte> bytes(3);
  const std::vector<std::uint8_t> codes{1, 2, 3, 0, 3};
  pack_codes(codes, 2, 2, bytes);
  EXPECT_EQ(bytes[0], std::byte{0b10010000});
  EXPECT_EQ(bytes[1], std::byte{0b00110011} & std::byte{0xff});
  std::vector<std::uint8_t> again(5);
  unpack_codes(bytes, 2, 2, again);
  EXPECT_EQ(again, codes);
}

}  // namespace
}  // namespace weft::models::carriers_test
