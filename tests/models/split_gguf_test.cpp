// SPDX-License-Identifier: Apache-2.0

#include "models/export.hpp"
#include "models/model_files.hpp"

#include "formats/gguf/gguf_parts.hpp"
#include "storage/durable.hpp"
#include "text/tokenizer_file.hpp"

#include "tests/models/imported.hpp"
#include "tests/support/temporary_directory.hpp"
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace weft::models::split_gguf_test {
namespace {

/// A GGUF file cut into its pieces by nothing but the lengths in it, and put together as parts: written for this test
/// from the format's description, so that it shares no code with what is tested.
class Splitter {
 public:
  explicit Splitter(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    const auto tensors = take<std::uint64_t>(8), pairs = take<std::uint64_t>(16);
    at_ = 24;
    for (std::uint64_t i = 0; i < pairs; ++i) {
      skip_text();
      skip_value(next<std::uint32_t>());
    }
    pairs_ = pairs;
    keys_ = bytes_.substr(24, at_ - 24);
    std::vector<std::uint64_t> offsets;
    for (std::uint64_t i = 0; i < tensors; ++i) {
      const std::size_t begin = at_;
      skip_text();
      at_ += 8 * std::size_t{next<std::uint32_t>()} + 4;
      heads_.push_back(bytes_.substr(begin, at_ - begin));
      offsets.push_back(next<std::uint64_t>());
    }
    const std::size_t data = (at_ + 31) / 32 * 32;
    offsets.push_back(bytes_.size() - data);
    for (std::uint64_t i = 0; i < tensors; ++i)
      data_.push_back(bytes_.substr(data + offsets[i], offsets[i + 1] - offsets[i]));
  }
  std::size_t tensors() const { return heads_.size(); }

  /// The tensors [first, last) with the keys of a part; `all`: with the model's too.
  std::string part(std::uint16_t number, std::uint16_t count, std::size_t first, std::size_t last, bool all,
                   std::int32_t told = -1) const {
    std::string out = "GGUF";
    put(out, std::uint32_t{3});
    put(out, std::uint64_t{last - first});
    put(out, std::uint64_t{(all ? pairs_ : 0) + 3});
    if (all) out += keys_;
    put_key(out, "split.no", 2, number);
    put_key(out, "split.count", 2, count);
    put_key(out, "split.tensors.count", 5, told < 0 ? static_cast<std::int32_t>(tensors()) : told);
    std::uint64_t offset = 0;
    for (std::size_t i = first; i < last; ++i) {
      out += heads_[i];
      put(out, offset);
      offset += data_[i].size();
    }
    out.resize((out.size() + 31) / 32 * 32);
    for (std::size_t i = first; i < last; ++i) out += data_[i];
    return out;
  }
  template <class T>
  static void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <class T>
  static void put_key(std::string& out, std::string_view key, std::uint32_t type, T value) {
    put(out, std::uint64_t{key.size()});
    out += key;
    put(out, type);
    put(out, value);
  }

 private:
  template <class T>
  T take(std::size_t at) const {
    T value{};
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return value;
  }
  template <class T>
  T next() {
    at_ += sizeof(T);
    return take<T>(at_ - sizeof(T));
  }
  void skip_text() {
    const auto size = next<std::uint64_t>();
    at_ += size;
  }
  void skip_value(std::uint32_t type) {
    constexpr std::size_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == 8) return skip_text();
    if (type != 9) return void(at_ += kSizes[type]);
    const auto element = next<std::uint32_t>();
    const auto count = next<std::uint64_t>();
    for (std::uint64_t i = 0; i < count; ++i) skip_value(element);
  }

  std::string bytes_, keys_;
  std::size_t at_ = 0;
  std::uint64_t pairs_ = 0;
  std::vector<std::string> heads_, data_;
};

class SplitGguf : public ::testing::Test {
 protected:
  void SetUp() override {
    whole_ = shared_data("language/families/llama/model-f32.gguf");
    if (whole_.empty()) GTEST_SKIP() << "no ../shared/data";
    model_ = std::make_unique<Splitter>(whole_);
    // The first part without tensors, as gguf-split --no-tensor-first-split makes it.
    write(1, model_->part(0, 3, 0, 0, true));
    write(2, model_->part(1, 3, 0, 7, false));
    write(3, model_->part(2, 3, 7, model_->tensors(), false));
  }
  std::string path(int number) const {
    return folder_.path() + "/model-f32-0000" + std::to_string(number) + "-of-00003.gguf";
  }
  void write(int number, const std::string& bytes) const { std::ofstream(path(number), std::ios::binary) << bytes; }
  static std::string content(const std::string& path) {
    const auto model = import_model(storage::real_file_system(), path);
    EXPECT_TRUE(model) << model.error().text();
    return model ? std::string(as_text(*collect(model->content))) : "";
  }
  /// The error of opening a part.
  std::string refused(int number = 1) const {
    const auto opened = open_model_files(storage::real_file_system(), path(number));
    EXPECT_FALSE(opened);
    return opened ? "" : opened.error().text();
  }
  static void expect_told(const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }

  storage::TemporaryDirectory folder_;
  std::string whole_;
  std::unique_ptr<Splitter> model_;
};

// The same network, weights, names and tokenizer, byte for byte, whichever part is named.
TEST_F(SplitGguf, IsTheModelOfTheWholeFile) {
  const std::string expected = content(whole_);
  for (const int number : {1, 2, 3}) EXPECT_TRUE(content(path(number)) == expected) << number;
}

TEST_F(SplitGguf, TellsAllMissingPartsAtOnce) {
  std::filesystem::remove(path(2));
  std::filesystem::remove(path(3));
  expect_told(refused(), {"part 1 of 3", path(2), path(3)});
  write(2, model_->part(1, 3, 0, 7, false));
  std::filesystem::remove(path(1));
  expect_told(refused(2), {"part 2 of 3", path(1), path(3)});
}

TEST_F(SplitGguf, RefusesPartsThatDoNotFitTogether) {
  // The second says that it is the third of four, has a tensor of the third, and a key that the first has otherwise.
  std::string odd = model_->part(2, 4, 0, 8, false);
  write(2, odd);
  expect_told(refused(), {path(2) + ": split.no is 2, expected 1", path(2) + ": split.count is 4, expected 3",
                          "is in " + path(2) + " and in " + path(3)});
  write(2, model_->part(1, 3, 0, 6, false));
  expect_told(refused(), {"split.tensors.count is " + std::to_string(model_->tensors()),
                          "the parts have " + std::to_string(model_->tensors() - 1) + " tensors"});
  write(2, model_->part(1, 3, 0, 7, false, 99));
  expect_told(refused(), {path(2) + ": split.tensors.count is 99, expected " + std::to_string(model_->tensors())});
  write(2, model_->part(1, 3, 0, 7, true));
  EXPECT_TRUE(open_model_files(storage::real_file_system(), path(1))) << "the same keys in two parts";
  std::string other = "GGUF";
  Splitter::put(other, std::uint32_t{3});
  Splitter::put(other, std::uint64_t{0});
  Splitter::put(other, std::uint64_t{3});
  Splitter::put_key(other, "split.no", 2, std::uint16_t{1});
  Splitter::put_key(other, "split.count", 2, std::uint16_t{3});
  Splitter::put_key(other, "llama.block_count", 4, std::uint32_t{77});
  write(2, other);
  expect_told(refused(), {path(2) + ": \"llama.block_count\" is 77, the first part has "});
}

TEST_F(SplitGguf, RefusesNamesThatDoNotFitTheirKeys) {
  const std::string renamed = folder_.path() + "/m.gguf";
  std::filesystem::copy(path(2), renamed);
  const auto opened = open_model_files(storage::real_file_system(), renamed);
  ASSERT_FALSE(opened);
  expect_told(opened.error().text(), {renamed, "part 2 of 3", "-00002-of-00003.gguf"});
  write(3, model_->part(1, 3, 0, 7, false));
  expect_told(refused(3), {path(3), "part 2 of 3", "-00002-of-00003.gguf"});
  write(3, model_->part(3, 3, 0, 7, false));
  expect_told(refused(3), {path(3), "split.no is 3, split.count is 3"});
}

TEST(GgufPartNames, AreThoseOfGgufSplit) {
  const auto name = formats::gguf_part_name("a/b-00002-of-00013.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->prefix, "a/b");
  EXPECT_EQ(name->number, 2u);
  EXPECT_EQ(name->count, 13u);
  EXPECT_EQ(name->path(13), "a/b-00013-of-00013.gguf");
  for (const char* const other : {"b.gguf", "-00001-of-00002.gguf", "b-00000-of-00002.gguf", "b-00003-of-00002.gguf",
                                  "b-0001-of-00002.gguf", "b-00001-of-0000x.gguf", "b-00001-of-00002.bin"})
    EXPECT_FALSE(formats::gguf_part_name(other)) << other;
}

/// Bytes of all tensors of a file.
std::uint64_t bytes_of(const formats::TensorFile& file) {
  std::uint64_t bytes = 0;
  for (const formats::Tensor& tensor : file.tensors()) bytes += tensor.bytes.size();
  return bytes;
}

TEST(Shards, OfAnExportAreTheSameModel) {
  const std::string source = shared_data("language/tinystories-656k");
  if (source.empty()) GTEST_SKIP() << "no ../shared/data";
  storage::FileSystem& files = storage::real_file_system();
  const storage::TemporaryDirectory folder;
  const std::string entity = folder.path() + "/m.entity", gguf = folder.path() + "/w.gguf", hf = folder.path() + "/hf";
  const auto model = import_model(files, source);
  ASSERT_TRUE(model) << model.error().text();
  ASSERT_TRUE(storage::write_file_durably(files, entity, model->content));
  const std::string hash = to_string(mesh::Mesh::load(entity)->state_hash());
  const auto whole = export_model(files, entity, ExportFormat::gguf, gguf);
  ASSERT_TRUE(whole) << whole.error().text();
  EXPECT_EQ(whole->files, std::vector<std::string>{gguf});
  constexpr std::uint64_t kMost = 400'000;
  const auto parts = export_model(files, entity, ExportFormat::gguf, gguf, {.shard_bytes = kMost});
  ASSERT_TRUE(parts) << parts.error().text();
  ASSERT_GT(parts->files.size(), 2u);
  EXPECT_EQ(parts->tensors, whole->tensors);
  const std::string count = "0000" + std::to_string(parts->files.size());
  EXPECT_EQ(parts->files[0], folder.path() + "/w-00001-of-" + count + ".gguf");
  EXPECT_EQ(parts->files[1], folder.path() + "/w-00002-of-" + count + ".gguf");
  for (const std::string& path : parts->files) {
    const auto file = formats::load_gguf(files, path);
    ASSERT_TRUE(file) << file.error().text();
    EXPECT_TRUE(bytes_of(*file) <= kMost || file->tensors().size() == 1) << path;
    EXPECT_EQ(*file->metadata().natural("split.tensors.count"), whole->tensors);
  }
  const auto mesh = imported_mesh(parts->files[0], {});
  ASSERT_TRUE(mesh) << mesh.error().text();
  EXPECT_EQ(to_string(mesh->state_hash()), hash);
  const auto tokenizer = text::load_tokenizer(files, gguf), same = text::load_tokenizer(files, parts->files[2]);
  ASSERT_TRUE(same) << same.error().text();
  EXPECT_EQ(*same->encode("Once upon a time"), *tokenizer->encode("Once upon a time"));

  ASSERT_TRUE(export_model(files, entity, ExportFormat::hugging_face, hf));
  const auto shards = export_model(files, entity, ExportFormat::hugging_face, hf, {.shard_bytes = kMost});
  ASSERT_TRUE(shards) << shards.error().text();
  ASSERT_GT(shards->files.size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(hf + "/model.safetensors")) << "it would be read in place of the parts";
  const auto again = imported_mesh(hf, {});
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(to_string(again->state_hash()), hash);
}

}  // namespace
}  // namespace weft::models::split_gguf_test
