// SPDX-License-Identifier: Apache-2.0

#include "formats/gguf/gguf_quantize.hpp"

#include "formats/gguf/gguf_blocks.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "storage/file_system.hpp"

#include <gtest/gtest.h>

#include "tests/support/source_path.hpp"
#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace weft::formats::gguf_quantize_test {
namespace {

SafetensorsFile goldens() {
  auto file = load_safetensors(storage::real_file_system(), source_path("tests/data/formats/gguf_blocks.safetensors"));
  EXPECT_TRUE(file) << file.error().text();
  return *std::move(file);
}

std::vector<std::byte> encode(std::string_view type, std::span<const float> values) {
  const GgufType row = *find_gguf_type(type);
  std::vector<std::byte> blocks(values.size() / row.elements * row.bytes);
  const Status status = quantize(type, values, blocks);
  EXPECT_TRUE(status) << status.error().text();
  return blocks;
}

bool same(ByteSpan a, ByteSpan b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

TEST(GgufQuantize, MakesTheBytesOfGgml) {
  const SafetensorsFile file = goldens();
  const auto x = *file.values<float>("x");
  EXPECT_EQ(quantized_types().size(), 15u);
  for (const std::string_view type : quantized_types()) {
    const ByteSpan expected = file.find(std::string(type) + ".bytes")->bytes;
    const std::vector<std::byte> made = encode(type, x);
    ASSERT_EQ(made.size(), expected.size()) << type;
    const std::size_t size = find_gguf_type(type)->bytes;
    for (std::size_t i = 0; i < made.size(); ++i)
      ASSERT_EQ(made[i], expected[i]) << type << ": block " << i / size << ", byte " << i % size;
  }
}

#if defined(__x86_64__)
TEST(GgufQuantize, MakesTheSameWhateverTheThreadDoesWithSubnormals) {
  std::vector<float> tiny(256);
  for (std::size_t i = 0; i < tiny.size(); ++i)
    tiny[i] = std::ldexp(static_cast<float>(i) - 100.0f, -120 - int(i % 32));
  std::fenv_t before;
  std::fegetenv(&before);
  for (const std::string_view type : quantized_types()) {
    const std::vector<std::byte> kept = encode(type, tiny);
    std::fenv_t flushing = before;
    flushing.__mxcsr |= 0x8040;
    std::fesetenv(&flushing);
    const std::vector<std::byte> flushed = encode(type, tiny);
    std::fenv_t after;
    std::fegetenv(&after);
    std::fesetenv(&before);
    EXPECT_TRUE(same(kept, flushed)) << type;
    EXPECT_EQ(after.__mxcsr & 0x8040, 0x8040u) << "the thread keeps its mode";
  }
}
#endif

TEST(GgufQuantize, TakesAnyFiniteValues) {
  const float largest = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min();
  for (const float size : {largest, 1e30f, 1e-30f, 1e-38f, least})
    for (const std::string_view type : quantized_types()) {
      std::vector<float> x(256);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = (static_cast<float>(i % 7) - 3.0f) / 4.0f * size;
      x[5] = size;
      const std::vector<std::byte> blocks = encode(type, x);
      std::vector<float> values(x.size());
      EXPECT_TRUE(dequantize(type, blocks, values)) << type << " " << size << ": a scale that no reader takes";
    }
}

TEST(GgufQuantize, RefusesValuesThatAreNotFinite) {
  std::vector<float> x(64);
  std::vector<std::byte> blocks(2 * 34);
  x[40] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(quantize("q8_0", x, blocks).error().text(), "value 40 is not finite, so it has no q8_0");
  x[40] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(quantize("q8_0", x, blocks).error().code(), Errc::not_finite);
  for (const char* type : {"iq4_nl", "iq4_xs", "nvfp4", "q8_K", "float32", "q9"}) {
    const Status status = quantize(type, {}, {});
    EXPECT_EQ(status.error().code(), Errc::unsupported);
    EXPECT_NE(status.error().text().find("q4_0, q4_1"), std::string::npos) << status.error().text();
  }
}

TEST(GgufQuantize, QuantizesATensorInParts) {
  const SafetensorsFile file = goldens();
  const Tensor x = *file.find("x");
  for (const std::string_view type : quantized_types()) {
    const Tensor whole = *quantized(x, type);
    EXPECT_EQ(whole.type, type);
    EXPECT_EQ(whole.shape, x.shape);
    // A source that hands out odd parts.
    Tensor streamed = x;
    streamed.bytes = {};
    streamed.produce = [&](const ByteSource::Sink& sink) { return each_part(x.bytes, 1, sink, 1000); };
    std::vector<std::byte> made, from_parts;
    const auto into = [](std::vector<std::byte>& all) {
      return [&all](ByteSpan part) -> Status {
        all.insert(all.end(), part.begin(), part.end());
        return {};
      };
    };
    ASSERT_TRUE(whole.produce(into(made)));
    ASSERT_TRUE(quantized(streamed, type)->produce(into(from_parts)));
    EXPECT_TRUE(same(made, file.find(std::string(type) + ".bytes")->bytes)) << type;
    EXPECT_TRUE(same(made, from_parts)) << type;
  }
  const std::vector<float> odd(48);
  EXPECT_EQ(quantized(make_tensor<float>("t", odd), "q8_0").error().code(), Errc::shape_mismatch);
  EXPECT_EQ(quantized({"t", "float16", {32}, as_bytes(std::string_view())}, "q8_0").error().code(),
            Errc::shape_mismatch);
  EXPECT_EQ(quantized(x, "iq4_nl").error().code(), Errc::unsupported);
}

}  // namespace
}  // namespace weft::formats::gguf_quantize_test
