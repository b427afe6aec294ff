// SPDX-License-Identifier: Apache-2.0

#include "formats/safetensors/safetensors.hpp"

#include "formats/safetensors/safetensors_shards.hpp"
#include "storage/file_system.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/memory_file_system.hpp"
#include "tests/support/shared_data.hpp"
#include "tests/support/temporary_directory.hpp"
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace weft::formats::safetensors_test {
namespace {

/// A file of any header and so many bytes of data, 0, 1, 2, ...
std::string raw(const std::string& header, std::size_t data = 0) {
  const std::uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += header;
  for (std::size_t i = 0; i < data; ++i) bytes += static_cast<char>(i);
  return bytes;
}

ByteBuffer buffer(std::string_view text) {
  ByteBuffer bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

Result<SafetensorsFile> decode(std::string_view bytes) {
  return decode_safetensors(storage::MappedFile(buffer(bytes)), "f");
}

std::string encode(std::vector<Tensor> tensors, const SafetensorsNotes& notes = {}) {
  const auto source = safetensors_source(std::move(tensors), notes);
  EXPECT_TRUE(source) << source.error().text();
  return std::string(as_text(*collect(*source)));
}

const std::vector<float> kSix{1, -2.5f, 0.1f, -0.0f, 1e-40f, 3.4e38f};

TEST(Safetensors, WritesTheHeaderAsTheReferenceWriterDoes) {
  const std::vector<std::byte> bytes(6);
  const std::string file = encode({{"b", "int8", {2}, ByteSpan(bytes).first(2)},
                                   make_tensor<float>("z", {2, 3}, kSix),
                                   {"a", "float16", {}, ByteSpan(bytes).first(2)},
                                   {"e", "float32", {0, 4}, {}}},
                                  {{"format", "pt"}});
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"e":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]},)"
      R"("z":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"a":{"dtype":"F16","shape":[],"data_offsets":[24,26]},)"
      R"("b":{"dtype":"I8","shape":[2],"data_offsets":[26,28]}})";
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(file.substr(8, header.size()), header);
  EXPECT_EQ(file.substr(8 + header.size(), length - header.size()), std::string(length - header.size(), ' '));
  EXPECT_EQ(file.size(), 8 + length + 28);
}

TEST(Safetensors, ReadsBackWhatItWrote) {
  const std::vector<std::byte> codes{std::byte{0x21}, std::byte{0x43}, std::byte{0x05}};
  const std::vector<std::uint64_t> ticks{7};
  const std::string written = encode({make_tensor<float>("weights", {2, 3}, kSix),
                                      {"codes", "int4", {5}, codes},
                                      {"signs", "ternary", {3, 4}, codes},
                                      {"small", "fp4", {2, 3}, codes},
                                      make_tensor<std::uint64_t>("ticks", ticks)},
                                     {{"format", "pt"}, {"gr\u00fcn \"\\\n", "\u2581"}});
  const auto file = decode(written);
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(file->notes(), (SafetensorsNotes{{"format", "pt"}, {"gr\u00fcn \"\\\n", "\u2581"}}));
  EXPECT_EQ(file->describe("codes")->type, "int4");
  EXPECT_EQ(file->describe("codes")->shape, Shape{5});
  EXPECT_EQ(file->describe("signs")->shape, (Shape{3, 4}));
  EXPECT_EQ(file->describe("small")->type, "fp4");
  EXPECT_EQ(file->describe("ticks")->type, "uint64");
  const auto values = file->values<float>("weights", {2, 3});
  ASSERT_TRUE(values) << values.error().text();
  EXPECT_EQ(std::memcmp(values->data(), kSix.data(), 24), 0);
  EXPECT_EQ(file->find("none").error().code(), Errc::not_found);
  EXPECT_EQ(encode(file->tensors(), file->notes()), written);
}

TEST(Safetensors, AlignsTensorsThatTheFileDoesNot) {
  const auto file = decode(encode({{"a", "int8", {3}, as_bytes("abc")}, {"b", "int8", {2}, as_bytes("de")}}));
  for (const char* name : {"a", "b", "b"}) {
    const Tensor tensor = *file->find(name);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % 64, 0u);
    EXPECT_EQ(as_text(tensor.bytes), std::string_view(name) == "a" ? "abc" : "de");
  }
}

TEST(Safetensors, StreamsInWholeUnits) {
  std::string text(300'000, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  const auto file = decode(encode({{"t", "int8", {text.size()}, as_bytes(text)}}));
  std::string read;
  ASSERT_TRUE(file->read("t", 7, [&](ByteSpan part) -> Status {
    EXPECT_TRUE(part.size() % 7 == 0 || read.size() + part.size() == text.size());
    read += as_text(part);
    return {};
  }));
  EXPECT_EQ(read, text);
  // Bytes that are produced are written as those in memory are.
  Tensor streamed{"t", "int8", {text.size()}, {}};
  streamed.produce = [&](const ByteSource::Sink& sink) { return file->read("t", 1, sink); };
  EXPECT_EQ(encode({streamed}), encode(file->tensors()));
}

TEST(Safetensors, RefusesToWriteWhatNoReaderTakes) {
  const auto code = [](std::vector<Tensor> tensors, const SafetensorsNotes& notes = {}) {
    const auto source = safetensors_source(std::move(tensors), notes);
    return source ? Errc::internal : source.error().code();
  };
  const ByteSpan four = as_bytes("abcd");
  EXPECT_EQ(code({{"", "int8", {4}, four}}), Errc::invalid_argument);
  EXPECT_EQ(code({{"__metadata__", "int8", {4}, four}}), Errc::invalid_argument);
  EXPECT_EQ(code({{std::string(513, 'a'), "int8", {4}, four}}), Errc::invalid_argument);
  EXPECT_EQ(code({{"\xff", "int8", {4}, four}}), Errc::invalid_argument);
  EXPECT_EQ(code({{"a", "q4_K", {4}, four}}), Errc::unknown_name);
  EXPECT_EQ(code({{"a", "int8", {3}, four}}), Errc::shape_mismatch);
  EXPECT_EQ(code({{"a", "fp4", {3}, four}}), Errc::corrupt) << "an odd number of halves of a byte";
  EXPECT_EQ(code({{"a", "int8", {1, 1, 1, 1, 1, 1, 1, 1, 4}, four}}), Errc::too_large);
  EXPECT_EQ(code({{"a", "int8", {4}, four}, {"a", "float32", {1}, four}}), Errc::duplicate_name);
  EXPECT_EQ(code({}, {{"weft", "x"}}), Errc::invalid_argument);
  EXPECT_EQ(code({}, {{"\xff", "x"}}), Errc::invalid_argument);
  Tensor longer{"t", "int8", {3}, {}};
  longer.produce = [&](const ByteSource::Sink& sink) { return sink(four); };
  EXPECT_EQ(collect(*safetensors_source({longer})).error().code(), Errc::shape_mismatch);
  longer.shape = {5};
  EXPECT_EQ(collect(*safetensors_source({longer})).error().code(), Errc::shape_mismatch);
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"t":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

struct Bad {
  std::string bytes;
  const char* text;
};

TEST(Safetensors, RefusesFilesInWords) {
  const std::string huge(8, '\xff'), spaces(9, ' ');
  const Bad table[] = {
      {"", "HeaderTooSmall"},
      {"1234567", "HeaderTooSmall"},
      {huge + "{}", "HeaderTooLarge"},
      {raw("{}").replace(0, 1, "\x03"), "InvalidHeaderLength"},
      {raw(""), "InvalidHeaderStart"},
      {raw("[]"), "InvalidHeaderStart"},
      {raw(" {}"), "InvalidHeaderStart"},
      {raw(std::string("{}\0\0", 4)), "InvalidHeaderDeserialization"},
      {raw("{"), "InvalidHeaderDeserialization"},
      {raw("{\"\xff\":1}"), "InvalidHeaderDeserialization"},
      {raw(R"({"\ud800":1})"), "InvalidHeaderDeserialization"},
      {raw("{\"a\":" + std::string(1'000'000, '[')), "nested deeper than 4"},
      {raw(R"({"t":1})"), "TensorInvalidInfo"},
      {raw(R"({"t":{}})"), "TensorInvalidInfo"},
      {raw(R"({"":{"dtype":"I8","shape":[],"data_offsets":[0,1]}})", 1), "cannot name a tensor"},
      {raw("{\"" + std::string(513, 'n') + R"(":{"dtype":"I8","shape":[],"data_offsets":[0,1]}})", 1), "cannot name"},
      {raw(R"({"a\u0000":{"dtype":"I8","shape":[],"data_offsets":[0,1]}})", 1), "cannot name"},
      {raw(R"({"t":{"dtype":"I8","shape":[],"data_offsets":[0,1],"x":1}})", 1), "key \"x\""},
      {raw(one("I8", "[1]", "[0,1]")
               .insert(one("I8", "[1]", "[0,1]").size() - 1, R"(,"t":{"dtype":"I8","shape":[1],"data_offsets":[1,2]})"),
           2),
       "given twice"},
      {raw(one("i8", "[1]", "[0,1]"), 1), "dtype \"i8\" is not known"},
      {raw(one("F4", "[3]", "[0,2]"), 2), "MisalignedSlice"},
      {raw(one("I8", "[-1]", "[0,1]"), 1), "found -1"},
      {raw(one("I8", "[-0]", "[0,0]")), "expected a whole number"},
      {raw(one("I8", "[1.0]", "[0,1]"), 1), "expected a whole number"},
      {raw(one("I8", "[1e3]", "[0,1000]"), 1000), "expected a whole number"},
      {raw(one("I8", "[\"1\"]", "[0,1]"), 1), "expected a whole number"},
      {raw(one("I8", "[9007199254740993]", "[0,1]"), 1), "at most 9007199254740992"},
      {raw(one("I8", "[18446744073709551616]", "[0,1]"), 1), "does not fit 64 bits"},
      {raw(one("I8", "[4294967296,4294967296]", "[0,0]")), "ValidationOverflow"},
      {raw(one("I8", "[0,4294967296,4294967296]", "[0,0]")), "ValidationOverflow"},
      {raw(one("I8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1), "9 dimensions, at most 8"},
      {raw(one("I8", "[1]", "[1,0]"), 1), "TensorInvalidInfo"},
      {raw(one("I8", "[1]", "[0,1,2]"), 1), "TensorInvalidInfo"},
      {raw(one("I8", "[2]", "[0,1]"), 1), "TensorInvalidInfo"},
      {raw(one("I8", "[2]", "[0,2]"), 1), "InvalidOffset"},
      {raw(one("I8", "[1]", "[1,2]"), 2), "InvalidOffset"},
      {raw(one("I8", "[1]", "[0,1]"), 2), "MetadataIncompleteBuffer"},
      {raw(R"({"a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"I8","shape":[2],"data_offsets":[1,3]}})",
           3),
       "tensor 'b': InvalidOffset: begins at 1, the tensor before it ends at 2"},
      {raw(R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"I8","shape":[1],"data_offsets":[2,3]}})",
           3),
       "InvalidOffset"},
      {raw(R"({"__metadata__":[]})"), "__metadata__ is no object"},
      {raw(R"({"__metadata__":{"a":1}})"), "expected a text"},
      {raw(R"({"__metadata__":{"weft":"{\"t\":{\"type\":\"int4\",\"shape\":[3]}}"}})"), "no tensor of the file"},
      {raw(R"({"__metadata__":{"weft":"{\"t\":{\"type\":\"int4\",\"shape\":[5]}}"},)" +
               one("U8", "[2]", "[0,2]").substr(1),
           2),
       "takes uint8 [3]"},
      {raw(R"({"__metadata__":{"weft":"{\"t\":{\"type\":\"float32\",\"shape\":[1]}}"},)" +
               one("U8", "[4]", "[0,4]").substr(1),
           4),
       "expected a type and a shape"},
  };
  for (const Bad& bad : table) {
    const auto file = decode(bad.bytes);
    ASSERT_FALSE(file) << bad.text;
    EXPECT_NE(file.error().text().find(bad.text), std::string::npos) << file.error().text();
    EXPECT_EQ(file.error().text().find("f: "), 0u) << file.error().text();
  }
  EXPECT_TRUE(decode(raw("{}")));
  EXPECT_TRUE(decode(raw("{}      ")));
  EXPECT_TRUE(decode(raw(one("C64", "[1]", "[0,8]"), 8)));
}

TEST(Safetensors, RefusesEveryCut) {
  const std::string whole = encode({make_tensor<float>("weights", {2, 3}, kSix)}, {{"format", "pt"}});
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(decode(whole.substr(0, size))) << size;
}

TEST(Safetensors, RefusesWhatIsNoFile) {
  const storage::TemporaryDirectory directory;
  storage::FileSystem& files = storage::real_file_system();
  EXPECT_FALSE(load_safetensors(files, directory.path()));
  ASSERT_EQ(::mkfifo((directory.path() + "/fifo").c_str(), 0600), 0);
  EXPECT_FALSE(load_safetensors(files, directory.path() + "/fifo"));
  EXPECT_FALSE(load_safetensors(files, "/dev/zero"));
  EXPECT_EQ(load_safetensors(files, directory.path() + "/none").error().code(), Errc::not_found);
}

TEST(Safetensors, NoticesAFileThatIsCutShortWhileItIsRead) {
  const storage::TemporaryDirectory directory;
  const std::string path = directory.path() + "/f.safetensors";
  const std::vector<std::byte> zeros(8 << 20);
  ASSERT_TRUE(save_safetensors(storage::real_file_system(), path,
                               {make_tensor<std::byte>("t", std::span<const std::byte>(zeros))}));
  const auto file = load_safetensors(storage::real_file_system(), path);
  ASSERT_TRUE(file) << file.error().text();
  std::filesystem::resize_file(path, 4096);
  const auto look = [](ByteSpan part) -> Status {
    volatile std::byte seen{};
    for (std::size_t i = 0; i < part.size(); i += 512) seen = part[i];
    (void)seen;
    return {};
  };
  EXPECT_EQ(file->read("t", 1, look).error().code(), Errc::storage);
}

TEST(Safetensors, WritesAFileOfTheReferenceWriterAsItWas) {
  const std::string path = shared_data("language/tinystories-656k/model.safetensors");
  if (path.empty()) GTEST_SKIP() << "no ../shared/data";
  const auto bytes = storage::real_file_system().read(path, 1 << 30);
  const auto file = load_safetensors(storage::real_file_system(), path);
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_TRUE(encode(file->streamed(), file->notes()) == as_text(*bytes));
}

TEST(Safetensors, ReadsRealFilesInAnyOrder) {
  const std::string path = shared_data("silero-vad/silero_vad_16k.safetensors");
  if (path.empty()) GTEST_SKIP() << "no ../shared/data";
  const auto file = load_safetensors(storage::real_file_system(), path);
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(file->tensors().front().name, "stft_conv.weight") << "in the file's order";
  const auto again = decode(encode(file->streamed()));
  for (const Tensor& tensor : file->tensors())
    EXPECT_TRUE(as_text(tensor.bytes) == as_text(again->find(tensor.name)->bytes)) << tensor.name;
}

class SafetensorsFolder : public ::testing::Test {
 protected:
  void put(const std::string& name, std::string_view bytes) {
    ASSERT_TRUE(files.make_directory("m"));
    auto file = files.open("m/" + name, storage::OpenMode::create);
    ASSERT_TRUE(file) << file.error().text();
    ASSERT_TRUE((*file)->write(as_bytes(bytes)));
    ASSERT_TRUE((*file)->close());
  }
  void put_index(const std::string& map, int total = 24) {
    put("model.safetensors.index.json",
        R"({"metadata":{"total_size":)" + std::to_string(total) + R"(},"weight_map":)" + map + "}");
  }
  std::string refusal() {
    const auto model = load_safetensors_folder(files, "m");
    return model ? "" : model.error().text();
  }
  storage::MemoryFileSystem files;
};

TEST_F(SafetensorsFolder, JoinsShards) {
  put("model-00001-of-00002.safetensors", encode({make_tensor<float>("a", {4}, std::span(kSix).first(4))}));
  put("model-00002-of-00002.safetensors", encode({make_tensor<float>("b", {2}, std::span(kSix).last(2))}));
  put_index(R"({"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"})");
  const auto model = load_safetensors_folder(files, "m");
  ASSERT_TRUE(model) << model.error().text();
  EXPECT_EQ(model->tensors->tensors().size(), 2u);
  EXPECT_EQ((*model->tensors->values<float>("b", {2}))[1], kSix[5]);
  EXPECT_EQ(model->tensors->describe("c").error().code(), Errc::not_found);
  EXPECT_TRUE(model->tensors->intact());
  EXPECT_TRUE(model->warnings.empty());
  put_index(R"({"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"})", 25);
  EXPECT_EQ(load_safetensors_folder(files, "m")->warnings.size(), 1u);
  // One file goes before shards.
  put("model.safetensors", encode({}, {{"format", "pt"}}));
  EXPECT_EQ(load_safetensors_folder(files, "m")->tensors->tensors().size(), 0u);
  EXPECT_EQ(load_safetensors_folder(files, "m")->notes.at("format"), "pt");
}

TEST_F(SafetensorsFolder, RefusesWhatLeadsOutOrDoesNotFit) {
  ASSERT_TRUE(files.make_directory("m"));
  EXPECT_NE(refusal().find("has neither"), std::string::npos);
  put("a.safetensors", encode({make_tensor<float>("a", {4}, std::span(kSix).first(4))}));
  put("b.safetensors", encode({make_tensor<float>("a", {4}, std::span(kSix).first(4))}));
  for (const char* name : {"../a.safetensors", "/a.safetensors", "x/a.safetensors", "a\\\\b.safetensors", "",
                           ".safetensors", "..safetensors", "a.bin", "a\\u0000.safetensors"}) {
    put_index(R"({"a":")" + std::string(name) + "\"}");
    EXPECT_NE(refusal().find("expected the name of a .safetensors file"), std::string::npos) << refusal();
  }
  put_index(R"({"a":1})");
  EXPECT_NE(refusal().find("expected the name"), std::string::npos);
  std::string many = "{\"t0\":\"0.safetensors\"";
  for (int i = 1; i <= 10'000; ++i) many += ",\"t" + std::to_string(i) + "\":\"" + std::to_string(i) + ".safetensors\"";
  put_index(many + "}");
  EXPECT_NE(refusal().find("10001 files, at most 10000"), std::string::npos);
  put_index("{}");
  EXPECT_NE(refusal().find("weight_map"), std::string::npos);
  put_index(R"({"b":"a.safetensors"})");
  EXPECT_NE(refusal().find("tensor 'b' is not in a.safetensors"), std::string::npos) << refusal();
  put_index(R"({"a":"c.safetensors"})");
  EXPECT_NE(refusal().find("c.safetensors"), std::string::npos) << refusal();
  put("c.safetensors", encode({{"c", "int8", {1}, as_bytes("c")}, {"d", "int8", {1}, as_bytes("d")}}));
  put_index(R"({"a":"a.safetensors","c":"c.safetensors"})");
  EXPECT_NE(refusal().find("tensor 'd' is not listed"), std::string::npos) << refusal();
  put_index(R"({"a":"a.safetensors","c":"b.safetensors"})");
  EXPECT_NE(refusal().find("tensor 'c' is not in b.safetensors"), std::string::npos) << refusal();
}

}  // namespace
}  // namespace weft::formats::safetensors_test
