// SPDX-License-Identifier: Apache-2.0

#include "formats/loom/loom_entity.hpp"

#include "formats/entity/entity.hpp"
#include "formats/loom/loom_blocks.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include "loom_files.hpp"
#include "tests/support/source_path.hpp"
#include <cmath>
#include <limits>

namespace weft::formats::loom_entity_test {
namespace {

using namespace loom_files;

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(EntityV1, ReadsWhatAnotherWriterMadeFromTheDocument) {
  const auto bytes = storage::real_file_system().map(source_path("tests/data/formats/golden_v1.entity"), 1 << 20);
  ASSERT_TRUE(bytes) << bytes.error().text();
  EXPECT_TRUE(is_loom_entity(bytes->bytes()));
  const auto file = decode_loom_entity(*bytes, "golden_v1.entity");
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(file->network()["depth"], 1);
  ASSERT_EQ(file->blobs().size(), 2u);
  EXPECT_EQ(file->blobs()[0].path, "layers.0");
  EXPECT_EQ(file->blobs()[0].dtype, Dtype::int4);
  EXPECT_EQ(file->blobs()[0].scale, 0.25f);
  EXPECT_EQ(decode_weights_v1(file->blobs()[0], 6).value(), (std::vector<float>{0.25f, -0.5f, 1.75f, -2.0f, 0, 0.75f}));
  ASSERT_NE(file->find("layers.1"), nullptr);
  EXPECT_EQ(decode_weights_v1(*file->find("layers.1"), 2).value(), (std::vector<float>{1.5f, -0.125f}));
  EXPECT_EQ(file->find("layers.2"), nullptr);
  EXPECT_EQ(file->size(), bytes->size());
}

Bytes words(std::initializer_list<std::uint32_t> values) { return raw(std::vector<std::uint32_t>(values)); }
Bytes joined(Bytes first, const Bytes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

TEST(EntityV1, ReadsBlocksAndRefusesWhatIsNone) {
  // Two blocks of 33 weights: 7, -8 in the first byte of the first, 1 in the low half of the second's.
  Bytes good = joined(words({2, 8}), raw(std::vector<float>{0.5f, 4}));
  good = joined(good, words({0x87, 0, 0, 0, 1, 0, 0, 0}));
  const LoomBlob blob{.path = "b", .form = LoomBlob::Form::blocks, .bytes = good};
  const auto blocks = loom_blocks(blob, 33);
  ASSERT_TRUE(blocks) << blocks.error().text();
  EXPECT_EQ(blocks->number(0), 7);
  EXPECT_EQ(blocks->number(1), -8);
  EXPECT_EQ(blocks->number(2), 0);
  EXPECT_EQ(blocks->number(32), 1);
  EXPECT_EQ(blocks->scale(1), 4.0f);
  EXPECT_FALSE(loom_blocks(blob, 32)) << "another number of blocks";
  EXPECT_FALSE(loom_blocks(blob, 65));
  EXPECT_FALSE(decode_weights_v1(blob, 33)) << "no numbers";
  EXPECT_FALSE(loom_ternary(blob));
  for (std::size_t size = 0; size < good.size(); ++size) {
    LoomBlob cut = blob;
    cut.bytes = ByteSpan(good).first(size);
    EXPECT_FALSE(loom_blocks(cut, 33)) << size;
  }
  const auto refused = [&](std::size_t at, const Bytes& with) {
    Bytes bad = good;
    std::copy(with.begin(), with.end(), bad.begin() + static_cast<std::ptrdiff_t>(at));
    LoomBlob changed = blob;
    changed.bytes = bad;
    return !loom_blocks(changed, 33);
  };
  EXPECT_TRUE(refused(8, raw(std::vector<float>{std::numeric_limits<float>::infinity()})));
  EXPECT_TRUE(refused(12, raw(std::vector<float>{-1})));
  EXPECT_TRUE(refused(4, words({7}))) << "fewer words than blocks take";
  const Bytes longer = joined(joined(words({1, 5}), raw(std::vector<float>{1})), words({0, 0, 0, 0, 1}));
  EXPECT_FALSE(loom_blocks({.path = "b", .form = LoomBlob::Form::blocks, .bytes = longer}, 32)) << "more than zeros";
}

TEST(EntityV1, ReadsTernaryRows) {
  const Bytes head = joined(joined(words({2, 17, 96}), raw(std::vector<float>{0.25f})), words({2, 4}));
  const Bytes good = joined(head, words({0b100100, 2, 1, 0}));
  const LoomBlob blob{.path = "b", .form = LoomBlob::Form::ternary, .bytes = good};
  const auto matrix = loom_ternary(blob);
  ASSERT_TRUE(matrix) << matrix.error().text();
  EXPECT_EQ(matrix->rows, 2u);
  EXPECT_EQ(matrix->cols, 17u);
  EXPECT_EQ(matrix->offset, 96u);
  EXPECT_EQ(matrix->scale, 0.25f);
  EXPECT_EQ(matrix->code(0, 0), 0u);
  EXPECT_EQ(matrix->code(0, 1), 1u);
  EXPECT_EQ(matrix->code(0, 2), 2u);
  EXPECT_EQ(matrix->code(0, 16), 2u);
  EXPECT_EQ(matrix->code(1, 0), 1u);
  for (std::size_t size = 0; size < good.size(); ++size) {
    LoomBlob cut = blob;
    cut.bytes = ByteSpan(good).first(size);
    EXPECT_FALSE(loom_ternary(cut)) << size;
  }
  for (const std::size_t at : {0u, 4u, 16u, 20u}) {  // rows, columns, words a row, words
    Bytes bad = good;
    bad[at + 3] = std::byte{0x80};
    EXPECT_FALSE(loom_ternary({.path = "b", .form = LoomBlob::Form::ternary, .bytes = bad})) << at;
  }
}

TEST(EntityV1, TellsItsFilesFromOthers) {
  EXPECT_FALSE(is_loom_entity(as_bytes("ENTITY")));
  EXPECT_FALSE(is_loom_entity(as_bytes("{\"weft\": 2}")));
  EXPECT_FALSE(is_loom_entity(*encode_entity(Json(), Json(), {})));
  EXPECT_TRUE(is_loom_entity(V1Model().encode()));
}

struct Table {
  const char* dtype;
  Bytes bytes;
  float scale;
  std::vector<float> expected;
};

TEST(EntityV1, DecodesEveryTypeByTheOriginalsTables) {
  constexpr double kWide = 0.1;
  Bytes wide(8);
  std::memcpy(wide.data(), &kWide, 8);
  const std::vector<Table> table{
      {"float64", wide, 9.0f, {0.1f}},
      {"float32", raw(std::vector<float>{1.5f, -0.0f, 1e-40f}), 9.0f, {1.5f, -0.0f, 1e-40f}},
      // 0x3C00 is 1, 0xC500 is -5, 0x0001 is 2^-24.
      {"float16", bytes_of({0x00, 0x3C, 0x00, 0xC5, 0x01, 0x00}), 9.0f, {1.0f, -5.0f, std::ldexp(1.0f, -24)}},
      {"bfloat16", bytes_of({0x80, 0x3F, 0x49, 0xC0}), 9.0f, {1.0f, -3.140625f}},
      // 1.0, -1.5, the largest (there is no NaN), the smallest normal, what lies below it.
      {"fp8e4m3",
       bytes_of({0x38, 0xBC, 0x7F, 0x08, 0x04}),
       2.0f,
       {2.0f, -3.0f, 960.0f, std::ldexp(1.0f, -5), 1.5f * std::ldexp(1.0f, -9)}},
      {"fp8e5m2", bytes_of({0x3C, 0xBE, 0x7B, 0x02}), 0.5f, {0.5f, -0.75f, 28672.0f, 1.5f * std::ldexp(1.0f, -16)}},
      {"int64", raw(std::vector<std::int64_t>{-3, std::int64_t{1} << 40}), 0.5f, {-1.5f, std::ldexp(1.0f, 39)}},
      {"int32", raw(std::vector<std::int32_t>{-3, 1 << 30}), 0.5f, {-1.5f, std::ldexp(1.0f, 29)}},
      {"int16", raw(std::vector<std::int16_t>{-32768, 5}), 0.5f, {-16384.0f, 2.5f}},
      {"int8", bytes_of({0x80, 0x7F}), 0.25f, {-32.0f, 31.75f}},
      {"uint64", raw(std::vector<std::uint64_t>{3, std::uint64_t{1} << 63}), 1.0f, {3.0f, std::ldexp(1.0f, 63)}},
      {"uint32", raw(std::vector<std::uint32_t>{4294967295u}), 1.0f, {4294967296.0f}},
      {"uint16", raw(std::vector<std::uint16_t>{65535}), 2.0f, {131070.0f}},
      {"uint8", bytes_of({0xFF, 0x01}), 2.0f, {510.0f, 2.0f}},
      // Codes of less than a byte: the first in the highest bits.
      {"int4", bytes_of({0x7F, 0x80}), 0.5f, {3.5f, -0.5f, -4.0f}},
      {"uint4", bytes_of({0x7F, 0x80}), 0.5f, {3.5f, 7.5f, 4.0f}},
      {"int2", bytes_of({0b00011011}), 3.0f, {0.0f, 3.0f, -6.0f, -3.0f}},
      {"ternary", bytes_of({0b00011100}), 3.0f, {0.0f, 3.0f, -3.0f}},
      {"uint2", bytes_of({0b00011011}), 3.0f, {0.0f, 3.0f, 6.0f, 9.0f}},
      {"binary", bytes_of({0b10110000, 0b10000000}), 0.5f, {.5f, -.5f, .5f, .5f, -.5f, -.5f, -.5f, -.5f, .5f}},
      {"fp4",
       bytes_of({0x01, 0x23, 0x45, 0x89, 0xAB, 0xCD}),
       2.0f,
       {0.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f}},
  };
  for (const Table& entry : table) {
    const auto file = decode_v1(V1Model().layer("Dense").weights(entry.bytes, entry.dtype, entry.scale).encode());
    ASSERT_TRUE(file) << entry.dtype << ": " << file.error().text();
    const auto values = decode_weights_v1(file->blobs()[0], entry.expected.size());
    ASSERT_TRUE(values) << entry.dtype << ": " << values.error().text();
    for (std::size_t i = 0; i < values->size(); ++i) {
      EXPECT_EQ((*values)[i], entry.expected[i]) << entry.dtype << " " << i;
      EXPECT_EQ(std::signbit((*values)[i]), std::signbit(entry.expected[i])) << entry.dtype << " " << i;
    }
    EXPECT_EQ(decode_weights_v1(file->blobs()[0], entry.expected.size() + 8).error().code(), Errc::corrupt)
        << entry.dtype;
  }
}

TEST(EntityV1, TakesNamesInAnyCaseAndAScaleOfNothingAsOne) {
  for (const char* name : {"INT8", "Int8", "i8"}) {
    V1Model model;
    model.layer("Dense").weights(bytes_of({5}), name, 0.0f);
    EXPECT_EQ(decode_weights_v1(decode_v1(model.encode())->blobs()[0], 1).value()[0], 5.0f);
    model.blobs[0].erase("scale");
    EXPECT_EQ(decode_weights_v1(decode_v1(model.encode())->blobs()[0], 1).value()[0], 5.0f);
  }
}

TEST(EntityV1, ReadsMastersThatWereNotPacked) {
  const auto file =
      decode_v1(V1Model().layer("Dense").weights(raw(std::vector<float>{0.3f}), "int4", 0.1f, false).encode());
  EXPECT_EQ(file->blobs()[0].dtype, Dtype::int4);
  EXPECT_EQ(decode_weights_v1(file->blobs()[0], 1).value()[0], 0.3f) << "no code and no scale";
}

TEST(EntityV1, RefusesWeightsThatAreNoNumbers) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  struct Case {
    const char* dtype;
    Bytes bytes;
    std::size_t count;
    const char* text;
  };
  const Case table[] = {
      {"float32", raw(std::vector<float>{1, infinity}), 2, "weight 1 is not a finite number"},
      {"float32", raw(std::vector<float>{nan}), 1, "weight 0"},
      {"float64", raw(std::vector<double>{1e300}), 1, "weight 0"},
      {"float16", bytes_of({0x00, 0x7C}), 1, "weight 0"},
      {"fp8e5m2", bytes_of({0x7C}), 1, "weight 0"},
      {"fp4", bytes_of({0x06}), 2, "weight 1"},
      {"fp4", bytes_of({0xF0}), 1, "weight 0"},
      {"int4", bytes_of({0x11}), 1, "bits after the last weight"},
      {"binary", bytes_of({0x01}), 7, "bits after the last weight"},
      {"int8", bytes_of({1, 2, 3}), 2, "2 weights of int8 take 2 bytes, there are 3"},
      {"float64", bytes_of({}), SIZE_MAX, "at most 2^40"},
  };
  for (const Case& entry : table) {
    const auto file = decode_v1(V1Model().layer("Dense").weights(entry.bytes, entry.dtype).encode());
    ASSERT_TRUE(file) << file.error().text();
    const auto values = decode_weights_v1(file->blobs()[0], entry.count);
    ASSERT_FALSE(values) << entry.dtype;
    EXPECT_NE(values.error().text().find(entry.text), std::string::npos) << values.error().text();
    EXPECT_EQ(values.error().text().find("blob 'layers.0': "), 0u) << values.error().text();
  }
}

V1Model two_layers() {
  V1Model model;
  model.layer("Dense").weights(bytes_of({1, 2, 3}), "int8", 0.5f);
  model.layer("Dense").weights(bytes_of({4, 5}), "uint8");
  return model;
}

TEST(EntityV1, RefusesEveryTruncationAndWhateverFollows) {
  const ByteBuffer bytes = two_layers().encode();
  ASSERT_TRUE(decode_v1(bytes));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ByteBuffer cut(size);
    if (size) std::memcpy(cut.data(), bytes.data(), size);
    ASSERT_FALSE(decode_v1(std::move(cut))) << size;
  }
  ByteBuffer longer(bytes.size() + 1);
  std::memcpy(longer.data(), bytes.data(), bytes.size());
  EXPECT_EQ(decode_v1(std::move(longer)).error().text(), "v1: 1 bytes after the last blob");
}

TEST(EntityV1, RefusesEveryBitFlippedInItsFixedPartAndSurvivesTheOthers) {
  const ByteBuffer bytes = two_layers().encode();
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    ByteBuffer flipped = bytes;
    flipped[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    const auto file = decode_v1(std::move(flipped));
    if (bit < 160) {
      ASSERT_FALSE(file) << "bit " << bit;
    }
    if (!file) continue;
    for (const LoomBlob& blob : file->blobs()) (void)decode_weights_v1(blob, blob.bytes.size());
  }
}

TEST(EntityV1, RefusesMalformedHeaders) {
  struct Case {
    const char* what;
    void (*spoil)(Json& header);
    Errc code;
    const char* text;
  };
  const Case table[] = {
      {"another version", [](Json& h) { h["format_version"] = 2; }, Errc::unsupported, "found 2"},
      {"no version", [](Json& h) { h.erase("format_version"); }, Errc::not_found, "format_version"},
      {"no network", [](Json& h) { h.erase("network"); }, Errc::not_found, "\"network\""},
      {"an unknown type of blob",
       [](Json& h) {
         h["blobs"] = {{{"path", "layers.0"}, {"offset", 0}, {"length", 0}, {"dtype", "Q5_0"}, {"native", true}}};
       },
       Errc::unknown_name, "blobs[0].dtype"},
      {"unknown key", [](Json& h) { h["blob"] = 1; }, Errc::unknown_name, "did you mean 'blobs'?"},
      {"blobs no array", [](Json& h) { h["blobs"] = 7; }, Errc::parse_failed, "blobs: found 7"},
      {"blob no object", [](Json& h) { h["blobs"][0] = "x"; }, Errc::parse_failed, "blobs[0]"},
      {"unknown blob key", [](Json& h) { h["blobs"][1]["shape"] = 1; }, Errc::unknown_name, "blobs[1].shape"},
      {"unknown type", [](Json& h) { h["blobs"][1]["dtype"] = "int9"; }, Errc::unknown_name, "blobs[1].dtype"},
      {"type no text", [](Json& h) { h["blobs"][1]["dtype"] = 8; }, Errc::parse_failed, "blobs[1].dtype"},
      {"scale below 0", [](Json& h) { h["blobs"][0]["scale"] = -1; }, Errc::out_of_range, "blobs[0].scale"},
      {"scale too large", [](Json& h) { h["blobs"][0]["scale"] = 1e300; }, Errc::out_of_range, "blobs[0].scale"},
      {"native no boolean", [](Json& h) { h["blobs"][0]["native"] = 1; }, Errc::parse_failed, "blobs[0].native"},
      {"no native", [](Json& h) { h["blobs"][0].erase("native"); }, Errc::not_found, "\"native\""},
      {"overlap", [](Json& h) { h["blobs"][1]["offset"] = 2; }, Errc::corrupt,
       "offset 2, the blob before it ends at 3"},
      {"gap", [](Json& h) { h["blobs"][1]["offset"] = 4; }, Errc::corrupt, "offset 4"},
      {"same place", [](Json& h) { h["blobs"][1]["offset"] = 0; }, Errc::corrupt, "offset 0"},
      {"past the end", [](Json& h) { h["blobs"][1]["length"] = 3; }, Errc::corrupt, "leave the file"},
      {"sum wraps", [](Json& h) { h["blobs"][1]["length"] = UINT64_MAX - 1; }, Errc::corrupt, "leave the file"},
      {"offset wraps", [](Json& h) { h["blobs"][1]["offset"] = UINT64_MAX, h["blobs"][1]["length"] = 6; },
       Errc::corrupt, "offset"},
      {"negative length", [](Json& h) { h["blobs"][0]["length"] = -1; }, Errc::out_of_range, "blobs[0].length"},
      {"bytes left over", [](Json& h) { h["blobs"] = Json::array({h["blobs"][0]}); }, Errc::corrupt,
       "2 bytes after the last blob"},
      {"no blobs", [](Json& h) { h["blobs"] = nullptr; }, Errc::corrupt, "5 bytes after the last blob"},
      {"twice", [](Json& h) { h["blobs"][1]["path"] = "layers.0"; }, Errc::duplicate_name, "'layers.0' is there twice"},
      {"long path", [](Json& h) { h["blobs"][1]["path"] = std::string(513, 'p'); }, Errc::out_of_range, "512"},
  };
  const V1Model model = two_layers();
  for (const Case& entry : table) {
    Json header = model.header();
    entry.spoil(header);
    const auto file = decode_v1(v1_file(header.dump(), model.payload), "x.entity");
    ASSERT_FALSE(file) << entry.what;
    EXPECT_EQ(name(file.error().code()), name(entry.code)) << entry.what << ": " << file.error().text();
    EXPECT_NE(file.error().text().find(entry.text), std::string::npos) << entry.what << ": " << file.error().text();
    EXPECT_EQ(file.error().text().find("x.entity: "), 0u) << file.error().text();
  }
}

TEST(EntityV1, RefusesHeadersThatAreNoJson) {
  const std::string sound = V1Model().header().dump();
  ASSERT_TRUE(decode_v1(v1_file(sound)));
  const auto text_of = [](const ByteBuffer& bytes) {
    const auto file = decode_v1(bytes);
    return file ? std::string("taken") : std::string(name(file.error().code())) + " " + file.error().text();
  };
  EXPECT_NE(text_of(v1_file("")).find("parse_failed"), std::string::npos);
  EXPECT_NE(text_of(v1_file("\xEF\xBB\xBF" + sound)).find("parse_failed"), std::string::npos);
  EXPECT_NE(text_of(v1_file(sound + "x")).find("parse_failed"), std::string::npos);
  EXPECT_NE(text_of(v1_file(R"({"format_version":1,"network":"\xFF"})")).find("parse_failed"), std::string::npos);
  EXPECT_NE(text_of(v1_file("{\"format_version\":1,\"network\":\"\xFF\"}")).find("UTF-8"), std::string::npos);
  EXPECT_NE(text_of(v1_file(R"({"format_version":1,"format_version":1})")).find("duplicate_name"), std::string::npos);
  EXPECT_NE(text_of(v1_file(R"({"network":)" + std::string(100000, '['))).find("nested deeper"), std::string::npos);
  EXPECT_NE(text_of(v1_file(sound, {}, 2)).find("unsupported v1: version 2"), std::string::npos);
  EXPECT_NE(text_of(v1_file(sound, {}, 1, 4)).find("unsupported v1: flags 4"), std::string::npos);
  ByteBuffer bytes = v1_file(sound);
  for (const std::uint64_t length :
       {std::uint64_t{sound.size() + 1}, std::uint64_t{67108864}, UINT64_MAX - 19, UINT64_MAX}) {
    std::memcpy(bytes.data() + 12, &length, 8);
    const std::string text = text_of(bytes);
    EXPECT_TRUE(text.starts_with(length > 67108864 ? "too_large" : "corrupt v1: cut short")) << text;
  }
}

}  // namespace
}  // namespace weft::formats::loom_entity_test
