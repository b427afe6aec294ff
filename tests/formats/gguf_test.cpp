// SPDX-License-Identifier: Apache-2.0

#include "formats/gguf/gguf.hpp"

#include "formats/gguf/gguf_blocks.hpp"
#include "storage/file_system.hpp"

#include <gtest/gtest.h>

#include "tests/support/shared_data.hpp"
#include "tests/support/temporary_directory.hpp"
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace weft::formats::gguf_test {
namespace {

/// Bytes of a file, appended one after the other.
class Bytes {
 public:
  template <class T>
  Bytes& number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& plain(std::string_view text) {
    text_ += text;
    return *this;
  }
  Bytes& text(std::string_view text) { return number(std::uint64_t{text.size()}).plain(text); }
  /// The fixed part of a file.
  static Bytes file(std::int64_t tensors, std::int64_t pairs, std::uint32_t version = 3) {
    Bytes bytes;
    return bytes.plain("GGUF").number(version).number(tensors).number(pairs);
  }
  Bytes& tensor(std::string_view name, const std::vector<std::int64_t>& extents, std::uint32_t type,
                std::uint64_t offset) {
    text(name).number(static_cast<std::uint32_t>(extents.size()));
    for (const std::int64_t n : extents) number(n);
    return number(type).number(offset);
  }
  Bytes& align(std::size_t to = 32) {
    text_.resize((text_.size() + to - 1) / to * to);
    return *this;
  }
  operator std::string() const { return text_; }

 private:
  std::string text_;
};

Result<GgufFile> decode(std::string_view text) {
  ByteBuffer bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return decode_gguf(storage::MappedFile(std::move(bytes)), "f");
}

std::string encode(GgufMetadata metadata, std::vector<Tensor> tensors) {
  const auto source = gguf_source(std::move(metadata), std::move(tensors));
  EXPECT_TRUE(source) << source.error().text();
  return std::string(as_text(*collect(*source)));
}

GgufMetadata every_type() {
  GgufMetadata all;
  all.set("u8", std::uint8_t{200});
  all.set("i8", std::int8_t{-100});
  all.set("u16", std::uint16_t{60'000});
  all.set("i16", std::int16_t{-30'000});
  all.set("u32", std::uint32_t{4'000'000'000});
  all.set("i32", std::int32_t{-2'000'000'000});
  all.set("f32", 1.5f);
  all.set("bool", true);
  all.set("string", std::string("gr\u00fcn"));
  all.set("u64", std::uint64_t{1} << 63);
  all.set("i64", std::int64_t{-5});
  all.set("f64", 0.1);
  all.set("bytes", GgufArray(std::vector<std::uint8_t>{1, 2, 3}));
  all.set("tokens", GgufArray(std::vector<std::string>{"a", "", "\u2581b"}));
  all.set("scores", GgufArray(std::vector<float>{0.5f, -1000.0f}));
  all.set("flags", GgufArray(std::vector<bool>{true, false}));
  all.set("empty", GgufArray(std::vector<double>()));
  return all;
}

const std::vector<float> kSix{1, -2.5f, 0.1f, -0.0f, 1e-40f, 3.4e38f};

TEST(Gguf, ReadsWhatTheFormatSays) {
  const std::string bytes = Bytes::file(2, 2)
                                .text("general.architecture")
                                .number(8u)
                                .text("llama")
                                .text("n")
                                .number(4u)
                                .number(7u)
                                .tensor("w", {3, 2}, 0, 0)
                                .tensor("b", {2}, 1, 32)
                                .align()
                                .plain(as_text(std::as_bytes(std::span(kSix))))
                                .align()
                                .plain("abcd");
  for (const char version : {'\2', '\3'}) {
    std::string versioned = bytes;
    versioned[4] = version;
    const auto file = decode(versioned);
    ASSERT_TRUE(file) << file.error().text();
    EXPECT_EQ(*file->metadata().text("general.architecture"), "llama");
    EXPECT_EQ(*file->metadata().natural("n"), 7u);
    EXPECT_EQ(file->describe("w")->shape, (Shape{2, 3})) << "outermost first";
    EXPECT_EQ((*file->values<float>("w", {2, 3}))[1], -2.5f);
    EXPECT_EQ(file->describe("b")->type, "float16");
    EXPECT_EQ(as_text(file->find("b")->bytes), "abcd");
  }
}

TEST(Gguf, ReadsBackWhatItWrote) {
  const std::string block(2 * 18, 'q');
  const std::string written =
      encode(every_type(), {make_tensor<float>("w", {2, 3}, kSix), {"q", "q4_0", {2, 32}, as_bytes(block)}});
  EXPECT_EQ(written.size() % 32, 0u) << "padded after the last tensor too";
  const auto file = decode(written);
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(file->metadata().pairs(), every_type().pairs());
  EXPECT_EQ(file->describe("q")->shape, (Shape{2, 32}));
  EXPECT_EQ(as_text(file->find("q")->bytes), block);
  EXPECT_EQ(encode(file->metadata(), file->streamed()), written);
  GgufMetadata aligned;
  aligned.set("general.alignment", std::uint32_t{256});
  const std::string wide = encode(aligned, {make_tensor<float>("w", {2, 3}, kSix), {"b", "int8", {1}, as_bytes("b")}});
  EXPECT_EQ(wide.size() % 256, 0u);
  EXPECT_EQ(as_text(decode(wide)->find("b")->bytes), "b");
}

TEST(Gguf, GivesValuesOfEveryWidth) {
  const GgufMetadata all = every_type();
  for (const char* key : {"u8", "u16", "u32", "u64"}) EXPECT_TRUE(all.natural(key)) << key;
  EXPECT_EQ(all.natural("i8").error().text(), "metadata \"i8\": found i8 -100, expected a whole number");
  EXPECT_EQ(all.natural("u16", 100).error().code(), Errc::out_of_range);
  EXPECT_EQ(all.natural("none").error().code(), Errc::not_found);
  EXPECT_EQ(*all.natural_or("none", 5), 5u);
  EXPECT_EQ(all.natural_or("bool", 5).error().code(), Errc::parse_failed);
  EXPECT_EQ(*all.real("f32"), 1.5);
  EXPECT_EQ(*all.real("f64"), 0.1);
  EXPECT_EQ(*all.real_or("none", 2.0), 2.0);
  EXPECT_FALSE(all.real("u8"));
  EXPECT_EQ(*all.boolean("bool"), true);
  EXPECT_EQ(*all.boolean_or("none", false), false);
  EXPECT_EQ(*all.text_or("none", "x"), "x");
  EXPECT_FALSE(all.text("u8"));
  EXPECT_EQ((*all.array<std::string>("tokens"))->size(), 3u);
  EXPECT_EQ(all.array<float>("tokens").error().text(),
            "metadata \"tokens\": found array of string, expected array of f32");
}

struct Bad {
  std::string bytes;
  const char* text;
};

TEST(Gguf, RefusesFilesInWords) {
  const auto one = [](const std::vector<std::int64_t>& extents, std::uint32_t type, std::uint64_t offset = 0) {
    return Bytes::file(1, 0).tensor("t", extents, type, offset).align().plain(std::string(4096, '\0'));
  };
  const auto pair = [] { return Bytes::file(0, 1).text("k"); };
  const auto alignment = [](std::uint32_t type) { return Bytes::file(0, 1).text("general.alignment").number(type); };
  const Bad table[] = {
      {"", "does not begin with \"GGUF\""},
      {"GGUG", "does not begin with \"GGUF\""},
      {"GGUF", "cut short"},
      {Bytes::file(0, 0, 1), "version 1"},
      {Bytes::file(0, 0, 4), "version 4"},
      {Bytes::file(0, 0, 0x03000000), "big-endian"},
      {Bytes::file(-1, 0), "-1 tensors"},
      {Bytes::file(0, -1), "-1 keys"},
      {Bytes::file(1 << 20, 0), "cut short: 1048576 tensors"},
      {Bytes::file((1 << 20) + 1, 0), "at most 1048576"},
      {Bytes::file(0, 65'537), "at most 65536"},
      {Bytes::file(0, 2), "cut short: 2 keys"},
      {Bytes::file(0, 1).text("").number(0u).number('a').plain("12345678"), "a key of no bytes"},
      {Bytes::file(0, 1).number(~std::uint64_t{0}).plain("12345678"), "a key of 18446744073709551615 bytes"},
      {Bytes::file(0, 2).text("k").number(0u).plain("a").text("k").number(0u).plain("a"), "there twice"},
      {pair().number(13u).plain("12345678"), "type 13"},
      {pair().number(~0u).plain("12345678"), "type -1"},
      {pair().number(7u).plain("\2"), "a bool of 2"},
      {pair().number(8u).number(std::uint64_t{1} << 40), "a string of 1099511627776 bytes"},
      {pair().number(8u).number(std::uint64_t{100}), "cut short"},
      {pair().number(9u).number(9u).number(std::uint64_t{0}), "in an array not 9"},
      {pair().number(9u).number(0u).number(std::uint64_t{1} << 27), "at most 67108864"},
      {pair().number(9u).number(12u).number(std::uint64_t{1} << 26), "cut short: 67108864 elements"},
      {alignment(4).number(0u), "general.alignment: found u32 0"},
      {alignment(4).number(4u), "found u32 4"},
      {alignment(4).number(48u), "found u32 48"},
      {alignment(4).number(1u << 17), "found u32 131072"},
      {alignment(5).number(32u), "found i32"},
      {alignment(10).number(std::uint64_t{32}), "found u64"},
      {Bytes::file(2, 0).tensor("t", {1}, 0, 0).tensor("t", {1}, 0, 32).align().plain(std::string(64, 'x')), "twice"},
      {Bytes::file(1, 0).tensor("", {1}, 0, 0).plain("x").align(), "without a name"},
      {Bytes::file(1, 0).tensor(std::string(64, 'n'), {1}, 0, 0), "at most 63"},
      {one({1, 1, 1, 1, 1}, 0), "5 dimensions"},
      {one({0}, 0), "an extent of 0"},
      {one({-4}, 0), "an extent of -4"},
      {one({std::int64_t{1} << 32, std::int64_t{1} << 32}, 0), "more than 2^40"},
      {one({std::int64_t{1} << 62, 4}, 0), "more than 2^40"},
      {one({1}, 4), "type 4 was removed"},
      {one({1}, 36), "i2_s"},
      {one({256}, 15), "type 15 is not known"},
      {one({256}, 19), "type iq1_s (19)"},
      {one({1}, 43), "type 43 is not known"},
      {one({1}, ~0u), "type -1 is not known"},
      {one({16}, 8), "no whole blocks of q8_0"},
      {one({1}, 0, 32), "offset 32"},
      {one({1}, 0, 1), "offset 1"},
      {one({1 << 20}, 0), "leave the file"},
      {Bytes::file(2, 0).tensor("t", {1}, 0, 0).tensor("u", {1}, 0, 64).align().plain(std::string(128, 'x')),
       "tensor 'u': offset 64, the tensor before it ends at 32"},
  };
  for (const Bad& bad : table) {
    const auto file = decode(bad.bytes);
    ASSERT_FALSE(file) << bad.text;
    EXPECT_NE(file.error().text().find(bad.text), std::string::npos) << file.error().text();
    EXPECT_EQ(file.error().text().find("f: "), 0u) << file.error().text();
  }
  EXPECT_TRUE(decode(std::string(Bytes::file(0, 0))));
}

// Zeros cost a sparse file nothing: 2^25 empty strings lie in a hole of 256 MiB and take 1 GiB of memory.
TEST(Gguf, BoundsWhatAllArraysTakeTogether) {
  const storage::TemporaryDirectory directory;
  const std::string path = directory.path() + "/sparse.gguf";
  const std::string begin = Bytes::file(0, 2)
                                .text("a")
                                .number(9u)
                                .number(8u)
                                .number(std::uint64_t{1})
                                .text("x")
                                .text("b")
                                .number(9u)
                                .number(8u)
                                .number(std::uint64_t{1} << 25);
  std::ofstream(path, std::ios::binary) << begin;
  std::filesystem::resize_file(path, begin.size() + (std::size_t{8} << 25));
  const auto file = load_gguf(storage::real_file_system(), path);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code(), Errc::too_large);
  EXPECT_EQ(file.error().text(), path + ": metadata \"b\": arrays of more than 1073741824 bytes in all");
}

TEST(Gguf, RefusesEveryCut) {
  const std::string whole = encode(every_type(), {make_tensor<float>("w", {2, 3}, kSix)});
  for (std::size_t size = 0; size + 8 < whole.size(); ++size) EXPECT_FALSE(decode(whole.substr(0, size))) << size;
  EXPECT_TRUE(decode(whole.substr(0, whole.size() - 8))) << "padding after the last tensor may be missing";
}

TEST(Gguf, RefusesToWriteWhatNoReaderTakes) {
  const auto code = [](GgufMetadata metadata, std::vector<Tensor> tensors) {
    const auto source = gguf_source(std::move(metadata), std::move(tensors));
    return source ? Errc::internal : source.error().code();
  };
  const ByteSpan four = as_bytes("abcd");
  EXPECT_EQ(code({}, {{"", "int8", {4}, four}}), Errc::invalid_argument);
  EXPECT_EQ(code({}, {{std::string(64, 'n'), "int8", {4}, four}}), Errc::invalid_argument);
  EXPECT_EQ(code({}, {{"a", "uint8", {4}, four}}), Errc::unknown_name);
  EXPECT_EQ(code({}, {{"a", "q8_K", {256}, four}}), Errc::unknown_name);
  EXPECT_EQ(code({}, {{"a", "q8_0", {4}, four}}), Errc::shape_mismatch);
  EXPECT_EQ(code({}, {{"a", "int8", {5}, four}}), Errc::shape_mismatch);
  EXPECT_EQ(code({}, {{"a", "int8", {1, 1, 1, 1, 4}, four}}), Errc::shape_mismatch);
  EXPECT_EQ(code({}, {{"a", "int8", {0}, {}}}), Errc::out_of_range);
  EXPECT_EQ(code({}, {{"a", "int8", {4}, four}, {"a", "float32", {1}, four}}), Errc::duplicate_name);
  GgufMetadata metadata;
  metadata.set("", 1.0f);
  EXPECT_EQ(code(metadata, {}), Errc::invalid_argument);
  metadata = {};
  metadata.set("k", GgufArray(std::monostate()));
  EXPECT_EQ(code(metadata, {}), Errc::invalid_argument);
  metadata.set("k", 1.0f);
  metadata.set("general.alignment", std::uint32_t{3});
  EXPECT_EQ(code(metadata, {}), Errc::invalid_argument);
  Tensor longer{"t", "int8", {3}, {}};
  longer.produce = [&](const ByteSource::Sink& sink) { return sink(four); };
  EXPECT_EQ(collect(*gguf_source({}, {longer})).error().code(), Errc::shape_mismatch);
  longer.shape = {5};
  EXPECT_EQ(collect(*gguf_source({}, {longer})).error().code(), Errc::shape_mismatch);
}

TEST(Gguf, WritesRealFilesAsTheyWere) {
  int compared = 0;
  for (const char* name : {"language/families/llama/model-f32.gguf", "language/families/gpt2/model-f32.gguf",
                           "language/ggml-vocab/ggml-vocab-phi-3.gguf", "language/ggml-vocab/ggml-vocab-bert-bge.gguf",
                           "language/ggml-vocab/ggml-vocab-gpt-2.gguf"}) {
    const std::string path = shared_data(name);
    if (path.empty()) continue;
    const auto bytes = storage::real_file_system().read(path, 1 << 30);
    const auto file = load_gguf(storage::real_file_system(), path);
    ASSERT_TRUE(file) << file.error().text();
    EXPECT_GT(file->metadata().size(), 5u) << name;
    // Vocabularies alone end without padding.
    EXPECT_EQ(encode(file->metadata(), file->streamed()).compare(0, bytes->size(), as_text(*bytes)), 0) << name;
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "no ../shared/data";
}

}  // namespace
}  // namespace weft::formats::gguf_test
