// SPDX-License-Identifier: Apache-2.0

#include "formats/onnx/onnx.hpp"

#include "storage/file_system.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/shared_data.hpp"
#include "tests/support/temporary_directory.hpp"
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace weft::formats::onnx_test {
namespace {

/// A message of Protocol Buffers, written apart from the library.
class Message {
 public:
  Message& plain(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  Message& varint(std::uint64_t value) {
    do {
      const auto low = static_cast<unsigned char>(value % 128);
      value /= 128;
      bytes_ += static_cast<char>(value ? low + 128 : low);
    } while (value);
    return *this;
  }
  Message& number(unsigned field, std::uint64_t value) { return varint(field * 8).varint(value); }
  Message& bytes(unsigned field, std::string_view value) {
    return varint(field * 8 + 2).varint(value.size()).plain(value);
  }
  Message& real(unsigned field, float value) {
    return varint(field * 8 + 5).plain({reinterpret_cast<const char*>(&value), sizeof value});
  }
  operator std::string_view() const { return bytes_; }

 private:
  std::string bytes_;
};
Message operator+(Message a, std::string_view b) { return a.plain(b); }

Message opset(std::uint64_t version) { return Message().number(2, version); }
Message port(std::string_view name) { return Message().bytes(1, name); }
Message node(std::string_view type, const std::vector<std::string>& in, const std::vector<std::string>& out,
             std::string_view more = {}) {
  Message message;
  for (const std::string& name : in) message.bytes(1, name);
  for (const std::string& name : out) message.bytes(2, name);
  return message.bytes(4, type).plain(more);
}
/// A graph from x to y.
Message relu_graph(std::string_view more = {}) {
  return Message()
      .bytes(1, node("Relu", {"x"}, {"y"}))
      .bytes(2, "g")
      .bytes(11, port("x"))
      .bytes(12, port("y"))
      .plain(more);
}
Message file(std::string_view graph) { return Message().number(1, 8).bytes(7, graph).bytes(8, opset(17)); }
Message with_tensor(std::string_view tensor) { return file(relu_graph(Message().bytes(5, tensor))); }
Message tensor(const std::vector<std::uint64_t>& dims, std::uint64_t type, std::string_view rest) {
  Message message;
  for (const std::uint64_t extent : dims) message.number(1, extent);
  return message.number(2, type).bytes(8, "w").plain(rest);
}

Result<OnnxFile> decode(std::string_view text, const OpenExternal& open = {}) {
  ByteBuffer bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return decode_onnx(storage::MappedFile(std::move(bytes)), "f", open);
}

void refuse(std::string_view bytes, Errc code, std::string_view part) {
  const auto file = decode(bytes);
  ASSERT_FALSE(file) << part;
  EXPECT_EQ(file.error().code(), code) << file.error().text();
  EXPECT_NE(file.error().text().find(part), std::string::npos) << file.error().text() << "\nexpected: " << part;
  EXPECT_TRUE(file.error().text().starts_with("f: ")) << file.error().text();
}

std::string four_floats() {
  const float values[] = {1.5f, -2.0f, 0.0f, 3e38f};
  return {reinterpret_cast<const char*>(values), sizeof values};
}

TEST(Onnx, ReadsWhatTheFormatSays) {
  const Message shape = Message().bytes(1, Message().bytes(2, "n")).bytes(1, Message().number(1, 4)).bytes(1, "");
  const Message type = Message().bytes(1, Message().number(1, 1).bytes(2, shape));
  const Message graph =
      Message()
          .bytes(1, node("Gemm", {"x", "w", ""}, {"y"},
                         Message()
                             .bytes(3, "first")
                             .bytes(5, Message().bytes(1, "alpha").real(2, 0.5f).number(20, 1))
                             .bytes(5, Message().bytes(1, "transB").number(3, 1).number(20, 2))
                             .bytes(5, Message().bytes(1, "kind").bytes(4, "k").number(20, 3))
                             // Packed, and one by one.
                             .bytes(5, Message().bytes(1, "a").bytes(8, "\x01\x02").number(20, 7))
                             .bytes(5, Message().bytes(1, "b").number(8, 3).number(8, 4).number(20, 7))))
          .bytes(5, tensor({2, 2}, 1, Message().bytes(9, four_floats())))
          .bytes(11, Message().bytes(1, "x").bytes(2, type))
          .bytes(12, port("y"));
  const auto file = decode(Message()
                               .number(1, 8)
                               .bytes(2, "maker")
                               .number(99, 7)  // of a later version
                               .bytes(7, graph)
                               .bytes(8, opset(17))
                               .bytes(14, Message().bytes(1, "k").bytes(2, "v")));
  ASSERT_TRUE(file) << file.error().text();
  const OnnxModel& model = file->model();
  EXPECT_EQ(model.ir_version, 8);
  EXPECT_EQ(model.producer, "maker");
  EXPECT_EQ(model.opsets.at(""), 17);
  EXPECT_EQ(model.metadata, (std::vector<std::pair<std::string, std::string>>{{"k", "v"}}));
  ASSERT_EQ(model.graph.nodes.size(), 1u);
  const OnnxNode& gemm = model.graph.nodes[0];
  EXPECT_EQ(gemm.name, "first");
  EXPECT_EQ(gemm.inputs, (std::vector<std::string>{"x", "w", ""}));
  EXPECT_EQ(std::get<float>(*gemm.find("alpha")), 0.5f);
  EXPECT_EQ(std::get<std::int64_t>(*gemm.find("transB")), 1);
  EXPECT_EQ(std::get<std::string>(*gemm.find("kind")), "k");
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(*gemm.find("a")), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(*gemm.find("b")), (std::vector<std::int64_t>{3, 4}));
  ASSERT_TRUE(model.graph.inputs[0].axes);
  EXPECT_EQ((*model.graph.inputs[0].axes)[0].name, "n");
  EXPECT_EQ((*model.graph.inputs[0].axes)[1].extent, 4);
  EXPECT_FALSE((*model.graph.inputs[0].axes)[2].extent);
  EXPECT_EQ(file->tensors().find("w")->shape, (Shape{2, 2}));
  EXPECT_EQ(as_text(file->tensors().find("w")->bytes), four_floats());
}

TEST(Onnx, ReadsElementsOfEveryField) {
  const auto bytes_of = [](std::uint64_t type, std::size_t count, const Message& data) {
    const auto read = decode(with_tensor(tensor({count}, type, data)));
    EXPECT_TRUE(read) << read.error().text();
    return read ? std::string(as_text(read->tensors().find("w")->bytes)) : "";
  };
  EXPECT_EQ(bytes_of(1, 4, Message().bytes(4, four_floats())), four_floats());
  EXPECT_EQ(bytes_of(1, 1, Message().real(4, 1.0f)), std::string("\0\0\x80\x3f", 4));
  EXPECT_EQ(bytes_of(3, 2, Message().number(5, 5).number(5, static_cast<std::uint64_t>(-2))), "\x05\xfe") << "int8";
  EXPECT_EQ(bytes_of(2, 2, Message().bytes(5, "\x05\xff\x01")), "\x05\xff") << "uint8, packed";
  EXPECT_EQ(bytes_of(10, 1, Message().number(5, 0x3c00)), std::string("\0\x3c", 2)) << "bits of float16";
  EXPECT_EQ(bytes_of(7, 1, Message().number(7, static_cast<std::uint64_t>(-1))), std::string(8, '\xff'));
  EXPECT_EQ(bytes_of(13, 1, Message().number(11, 258)), std::string("\x02\x01\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes_of(22, 3, Message().bytes(9, "\x21\x03")), "\x21\x03") << "int4, two to a byte";
  EXPECT_EQ(bytes_of(9, 1, Message().number(5, 1)), "\x01");
  EXPECT_EQ(bytes_of(1, 0, Message()), "");
}

TEST(Onnx, RefusesWhatIsNoSuchFile) {
  refuse("", Errc::parse_failed, "it has no graph");
  refuse("garbage", Errc::parse_failed, "wire type 7");
  refuse("\x08", Errc::parse_failed, "cut short");
  refuse(std::string("\x00\x01", 2), Errc::parse_failed, "field number 0");
  refuse("\x3a\x7f", Errc::parse_failed, "a field of 127 bytes in the last 0");
  refuse("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", Errc::parse_failed, "more than 64 bits");
  refuse("\x0b\x0c", Errc::parse_failed, "wire type 3");
  refuse(Message().number(7, 5), Errc::parse_failed, "field 7 has wire type 0, expected 2");
  refuse(Message().number(1, 8).bytes(7, relu_graph()), Errc::parse_failed, "no version of operators");
  refuse(file(relu_graph()) + Message().bytes(7, relu_graph()), Errc::corrupt, "two graphs");
  refuse(file(relu_graph()) + Message().bytes(8, opset(18)), Errc::duplicate_name, "imported twice");
  refuse(file(relu_graph()) + Message().bytes(25, ""), Errc::unsupported, "functions");
}

TEST(Onnx, RefusesGraphsThatDoNotFitTogether) {
  refuse(file(Message().bytes(1, node("Relu", {"x"}, {"y"})).bytes(12, port("y"))), Errc::corrupt,
         "node 0 '' (Relu): reads 'x', which nothing before it makes");
  refuse(file(Message().bytes(11, port("x")).bytes(1, node("Relu", {"b"}, {"a"})).bytes(1, node("Relu", {"x"}, {"b"}))),
         Errc::corrupt, "reads 'b'");
  refuse(file(relu_graph(Message().bytes(1, node("Relu", {"x"}, {"y"})))), Errc::duplicate_name, "'y' is made twice");
  refuse(file(Message().bytes(11, port("x")).bytes(12, port("z"))), Errc::corrupt, "output 'z' is made by nothing");
  refuse(file(relu_graph(Message().bytes(15, ""))), Errc::unsupported, "sparse tensors");
  refuse(file(relu_graph(
             Message().bytes(5, tensor({1}, 1, Message().real(4, 1))).bytes(5, tensor({1}, 1, Message().real(4, 1))))),
         Errc::duplicate_name, "'w' is made twice");
  refuse(file(relu_graph(Message().bytes(1, node("A", {}, {},
                                                 Message()
                                                     .bytes(5, Message().bytes(1, "a").number(20, 2))
                                                     .bytes(5, Message().bytes(1, "a").number(20, 2)))))),
         Errc::duplicate_name, "attribute 'a' is there twice");
  refuse(file(relu_graph(
             Message().bytes(1, node("A", {}, {}, Message().bytes(5, Message().bytes(1, "a").number(20, 11)))))),
         Errc::unsupported, "of type 11");
  refuse(file(relu_graph(
             Message().bytes(1, node("A", {}, {}, Message().bytes(5, Message().bytes(1, "a").number(20, 4)))))),
         Errc::corrupt, "has no tensor");
  Message graph = Message().bytes(2, "innermost");
  for (int depth = 0; depth < 8; ++depth) {
    const Message attribute = Message().bytes(1, "body").bytes(6, graph).number(20, 5);
    graph = Message().bytes(1, node("If", {}, {}, Message().bytes(5, attribute)));
  }
  refuse(file(graph), Errc::too_large, "graphs more than 8 inside one another");
  refuse(file(relu_graph(Message().bytes(1, node(std::string(70'000, 'a'), {}, {})))), Errc::too_large,
         "a name of 70000 bytes");
}

TEST(Onnx, RefusesTensorsThatDoNotFitTheFile) {
  const auto raw = [](std::string_view bytes) -> Message { return Message().bytes(9, bytes); };
  refuse(with_tensor(tensor({2, 2}, 1, raw("1234"))), Errc::corrupt,
         "tensor 'w': float32 [2, 2] takes 16 bytes, found 4");
  refuse(with_tensor(tensor({1u << 30, 1u << 30}, 1, raw(""))), Errc::too_large, "tensor 'w'");
  refuse(with_tensor(tensor({std::uint64_t{1} << 63, 2}, 1, raw(""))), Errc::corrupt,
         "an extent of -9223372036854775808");
  refuse(with_tensor(tensor({4}, 1, "")), Errc::corrupt, "takes 16 bytes, found 0");
  refuse(with_tensor(tensor(std::vector<std::uint64_t>(17, 1), 1, raw("1234"))), Errc::too_large, "17 dimensions");
  refuse(with_tensor(tensor({1}, 99, raw("1"))), Errc::unsupported, "type 99 is not known");
  refuse(with_tensor(tensor({1}, 1, raw("1234") + Message().real(4, 1))), Errc::corrupt, "both raw_data");
  refuse(with_tensor(tensor({1}, 1, Message().number(7, 1))), Errc::corrupt, "a field that float32 does not use");
  refuse(with_tensor(tensor({1}, 2, Message().number(5, 256))), Errc::corrupt,
         "element 0 is 256, which does not fit 1 bytes");
  refuse(with_tensor(tensor({2}, 1, Message().bytes(4, "12345"))), Errc::parse_failed,
         "5 bytes are no whole numbers of 4 bytes");
  refuse(with_tensor(tensor({1}, 1, Message().bytes(3, ""))), Errc::unsupported, "a segment");
  refuse(with_tensor(tensor({1}, 1, raw("1234") + Message().number(14, 2))), Errc::corrupt, "data_location 2");
}

Message entry(std::string_view key, std::string_view value) {
  return Message().bytes(13, Message().bytes(1, key).bytes(2, value));
}

/// A folder with data.bin of 64 bytes and a model that has a tensor [4] there.
class OnnxExternal : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(folder_.path() + "/data.bin", std::ios::binary) << std::string(16, 'a') << std::string(48, 'b');
    std::filesystem::create_directory(folder_.path() + "/sub");
    std::ofstream(folder_.path() + "/sub/inner.bin", std::ios::binary) << std::string(16, 'c');
    std::filesystem::create_symlink("data.bin", folder_.path() + "/link.bin");
    std::filesystem::create_directory_symlink("sub", folder_.path() + "/linked");
    std::ofstream(folder_.path() + "/two.bin") << std::string(16, 'd');
    std::filesystem::create_hard_link(folder_.path() + "/two.bin", folder_.path() + "/names.bin");
    ASSERT_EQ(::mkfifo((folder_.path() + "/pipe").c_str(), 0600), 0);
  }
  Result<OnnxFile> load(std::string_view bytes) {
    std::ofstream(folder_.path() + "/m.onnx", std::ios::binary) << bytes;
    external_.clear();
    return load_onnx(storage::real_file_system(), folder_.path() + "/m.onnx", &external_);
  }
  static Message external(const Message& entries, std::uint64_t location = 1) {
    return tensor({4}, 1, entries + Message().number(14, location));
  }
  void refuse_file(std::string_view bytes, std::string_view part) {
    const auto file = load(bytes);
    ASSERT_FALSE(file) << part;
    EXPECT_NE(file.error().text().find(part), std::string::npos) << file.error().text() << "\nexpected: " << part;
  }
  void refuse_place(const std::string& location, std::string_view part) {
    refuse_file(with_tensor(external(entry("location", location))), part);
  }

  storage::TemporaryDirectory folder_;
  std::vector<std::string> external_;  // of the last one
};

TEST_F(OnnxExternal, IsReadFromTheFolderAndBelow) {
  const auto file = load(with_tensor(
      external(entry("location", "data.bin") + entry("offset", "8") + entry("length", "16") + entry("checksum", "x"))));
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(as_text(file->tensors().find("w")->bytes), "aaaaaaaabbbbbbbb");
  const auto inner = load(with_tensor(external(entry("location", "sub/inner.bin"))));
  ASSERT_TRUE(inner) << inner.error().text();
  EXPECT_EQ(as_text(inner->tensors().find("w")->bytes), std::string(16, 'c'));
  EXPECT_EQ(external_, std::vector<std::string>{folder_.path() + "/sub/inner.bin"});
}

TEST_F(OnnxExternal, LeadsNowhereElse) {
  refuse_place(folder_.path() + "/data.bin", "expected a path relative");
  refuse_place("../" + std::filesystem::path(folder_.path()).filename().string() + "/data.bin",
               "has the component \"..\"");
  refuse_place("sub/../data.bin", "has the component \"..\"");
  refuse_place("./data.bin", "has the component \".\"");
  refuse_place("sub//inner.bin", "has the component \"\"");
  refuse_place("sub/", "has the component \"\"");
  refuse_place("sub\\inner.bin", "has '\\'");
  refuse_place("C:data.bin", "':'");
  refuse_place("link.bin", "symbolic link");
  refuse_place("linked/inner.bin", "symbolic link");
  refuse_place("data.bin/x", "through a file");
  refuse_place("names.bin", "2 names (hard links)");
  refuse_place("pipe", "is no regular file");
  refuse_place("sub", "is no regular file");
  refuse_place("missing.bin", "cannot open");
  refuse_place("*/_ORT_MEM_ADDR_/*", "cannot open");
}

TEST_F(OnnxExternal, MustFitTheTensorAndTheFile) {
  const Message at = entry("location", "data.bin");
  refuse_file(with_tensor(external(at + entry("offset", "49"))), "16 bytes at 49 leave \"data.bin\", which has 64");
  refuse_file(with_tensor(external(at + entry("offset", "18446744073709551600"))), "leave \"data.bin\"");
  refuse_file(with_tensor(external(at + entry("offset", "-1"))), "offset: found \"-1\"");
  refuse_file(with_tensor(external(at + entry("offset", "0x10"))), "expected a number of bytes");
  refuse_file(with_tensor(external(at + entry("length", "64"))), "length 64, float32 [4] takes 16 bytes");
  refuse_file(with_tensor(external(Message())), "external data without a place");
  refuse_file(with_tensor(external(at, 0)), "external data without a place");
  refuse_file(with_tensor(external(at + Message().bytes(9, four_floats()))), "both external data and elements");
  const auto two = [&](const std::string& offset) {
    const Message other =
        Message().number(1, 4).number(2, 1).bytes(8, "v").plain(at + entry("offset", offset)).number(14, 1);
    return file(relu_graph(Message().bytes(5, external(at)).bytes(5, other)));
  };
  refuse_file(two("8"), "two tensors share a part of \"data.bin\": bytes 8 to 16");
  EXPECT_TRUE(load(two("0"))) << "one and the same: shared";
  EXPECT_TRUE(load(two("16")));
  const Message value = Message().bytes(1, "value").bytes(5, external(at)).number(20, 4);
  refuse_file(file(relu_graph(Message().bytes(1, node("Constant", {}, {"c"}, Message().bytes(5, value))))),
              "external data outside the initializers");
  const auto alone = decode(with_tensor(external(at)));
  ASSERT_FALSE(alone);
  EXPECT_NE(alone.error().text().find("only one file is read"), std::string::npos) << alone.error().text();
}

TEST(Onnx, WritesWhatItReads) {
  const std::string path = shared_data("silero-vad/silero_vad.onnx");
  if (path.empty()) GTEST_SKIP() << "no ../shared/data";
  const auto file = load_onnx(storage::real_file_system(), path);
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(file->tensors().tensors().size(), 341u);
  const auto source = onnx_source(file->model());
  ASSERT_TRUE(source) << source.error().text();
  const auto bytes = collect(*source);
  ASSERT_TRUE(bytes);
  const auto again = decode(as_text(*bytes));
  ASSERT_TRUE(again) << again.error().text();
  ASSERT_EQ(again->tensors().tensors().size(), 341u);
  for (const Tensor& tensor : file->tensors().tensors()) {
    const auto found = again->tensors().find(tensor.name);
    ASSERT_TRUE(found) << tensor.name;
    EXPECT_EQ(found->type, tensor.type);
    EXPECT_EQ(found->shape, tensor.shape);
    EXPECT_TRUE(as_text(found->bytes) == as_text(tensor.bytes)) << tensor.name;
  }
  const auto twice = collect(*onnx_source(again->model()));
  EXPECT_TRUE(as_text(*twice) == as_text(*bytes));
}

// Nothing is produced: sizes alone decide.
TEST(Onnx, HasAFileOfExternalDataFromTwoGibibytesOn) {
  OnnxModel model = decode(file(relu_graph()))->model();
  const auto with_rows = [&](std::size_t rows) {
    model.graph.initializers = {{"w", "float32", {rows, 1 << 10}, {}, [](const auto&) -> Status {
                                   return fail(Errc::internal, "not to be asked for");
                                 }}};
    return onnx_sources(model, "m.onnx.data", false);
  };
  const auto below = with_rows((1 << 19) - 1), above = with_rows(1 << 19);
  ASSERT_TRUE(below) << below.error().text();
  ASSERT_TRUE(above) << above.error().text();
  EXPECT_FALSE(below->data);
  EXPECT_EQ(below->graph.size() >> 12, (std::uint64_t{1} << 19) - 1);
  ASSERT_TRUE(above->data);
  EXPECT_EQ(above->data->size(), std::uint64_t{1} << 31);
  EXPECT_LT(above->graph.size(), 1024u);
  const auto alone = onnx_source(model);
  ASSERT_FALSE(alone);
  EXPECT_NE(alone.error().text().find("at most 2147483647"), std::string::npos) << alone.error().text();
}

TEST(Onnx, TellsItsFilesFromOthers) {
  EXPECT_TRUE(is_onnx(as_bytes(file(relu_graph()))));
  EXPECT_FALSE(is_onnx(as_bytes(std::string_view("GGUF"))));
  EXPECT_FALSE(is_onnx(as_bytes(std::string_view("{\"weft\": 2}"))));
  EXPECT_FALSE(is_onnx({}));
}

}  // namespace
}  // namespace weft::formats::onnx_test
