// SPDX-License-Identifier: Apache-2.0

#include "formats/gguf/gguf_blocks.hpp"

#include "formats/safetensors/safetensors.hpp"
#include "storage/file_system.hpp"

#include "core/state_hash.hpp"

#include <gtest/gtest.h>

#include "tests/support/shared_data.hpp"
#include "tests/support/source_path.hpp"
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace weft::formats::gguf_blocks_test {
namespace {

/// The types whose blocks are decoded.
std::vector<GgufType> block_types() {
  std::vector<GgufType> types;
  for (const GgufType& type : gguf_types())
    if (type.elements > 1) types.push_back(type);
  return types;
}

std::vector<float> decode(const GgufType& type, ByteSpan blocks) {
  std::vector<float> values(blocks.size() / type.bytes * type.elements);
  const Status status = dequantize(type.name, blocks, values);
  EXPECT_TRUE(status) << status.error().text();
  return values;
}

std::string digest(ByteSpan bytes) {
  StateHasher hasher;
  hasher.add_bytes(bytes.data(), bytes.size());
  return to_string(hasher.digest());
}

TEST(GgufBlocks, DecodesAsGgmlDoes) {
  const auto goldens =
      load_safetensors(storage::real_file_system(), source_path("tests/data/formats/gguf_blocks.safetensors"));
  ASSERT_TRUE(goldens) << goldens.error().text();
  EXPECT_EQ(block_types().size(), 19u);
  for (const GgufType& type : block_types())
    for (const char* kind : {"", ".random"}) {
      const std::string name = std::string(type.name) + kind;
      const auto blocks = goldens->find(name + ".bytes");
      ASSERT_TRUE(blocks) << blocks.error().text();
      const std::vector<float> values = decode(type, blocks->bytes);
      EXPECT_EQ(digest(std::as_bytes(std::span(values))), goldens->notes().at(name + ".values")) << name;
    }
}

TEST(GgufBlocks, DecodesEveryValueOfTheLargeGoldens) {
  const std::string path = shared_data("language/ggml_quant_goldens.safetensors");
  if (path.empty()) GTEST_SKIP() << "no ../shared/data";
  const auto goldens = load_safetensors(storage::real_file_system(), path);
  ASSERT_TRUE(goldens) << goldens.error().text();
  for (const GgufType& type : block_types())
    for (const char* kind : {"", ".random"}) {
      const std::string name = std::string(type.name) + kind;
      const std::vector<float> values = decode(type, goldens->find(name + ".bytes")->bytes);
      const auto expected = *goldens->values<float>(name + ".values");
      ASSERT_EQ(values.size(), expected.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float wanted =
            std::fpclassify(expected[i]) == FP_SUBNORMAL ? std::copysign(0.0f, expected[i]) : expected[i];
        ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(wanted))
            << name << " " << i << ": " << values[i] << " against " << wanted;
      }
    }
}

TEST(GgufBlocks, RefusesScalesThatAreNoNumbers) {
  struct Case {
    const char* type;
    std::size_t at;
    std::vector<int> bytes;
  };
  const Case table[] = {{"q8_0", 0, {0x00, 0x7c}},   {"q8_0", 0, {0x01, 0xfe}},
                        {"q4_1", 2, {0x00, 0xfc}},   {"q4_K", 2, {0x00, 0x7c}},
                        {"q2_K", 80, {0x00, 0x7c}},  {"q2_K", 82, {0xff, 0xff}},
                        {"q6_K", 208, {0x00, 0x7c}}, {"q8_K", 0, {0x00, 0x00, 0x80, 0x7f}},
                        {"mxfp4", 0, {0xff}},        {"tq1_0", 52, {0x00, 0x7c}},
                        {"q1_0", 0, {0x00, 0x7c}}};
  for (const Case& entry : table) {
    const GgufType type = *find_gguf_type(entry.type);
    std::vector<std::byte> blocks(3 * type.bytes);
    std::vector<float> values(3 * type.elements);
    EXPECT_TRUE(dequantize(type.name, blocks, values));
    for (std::size_t i = 0; i < entry.bytes.size(); ++i)
      blocks[2 * type.bytes + entry.at + i] = static_cast<std::byte>(entry.bytes[i]);
    const Status status = dequantize(type.name, blocks, values);
    ASSERT_FALSE(status) << entry.type;
    EXPECT_EQ(status.error().text(), std::string(entry.type) + ": the scale of block 2 is not finite");
    EXPECT_EQ(status.error().code(), Errc::not_finite);
  }
  std::vector<float> values(1);
  EXPECT_EQ(dequantize("float32", as_bytes("1234"), values).error().code(), Errc::unknown_name);
  EXPECT_EQ(dequantize("q9", {}, {}).error().code(), Errc::unknown_name);
}

}  // namespace
}  // namespace weft::formats::gguf_blocks_test
