// SPDX-License-Identifier: Apache-2.0

#include "models/export.hpp"
#include "models/model_files.hpp"
#include "models/onnx/onnx_export.hpp"

#include "formats/gguf/gguf_parts.hpp"
#include "storage/durable.hpp"
#include "text/tokenizer_file.hpp"

#include <sys/stat.h>

#include "tests/models/imported.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/temporary_directory.hpp"
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

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
  const std::string one = folder.path() + "/one.gguf";
  const auto whole = export_model(files, entity, ExportFormat::gguf, one);
  ASSERT_TRUE(whole) << whole.error().text();
  EXPECT_EQ(whole->files, std::vector<std::string>{one});
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
  const auto tokenizer = text::load_tokenizer(files, one), same = text::load_tokenizer(files, parts->files[2]);
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

/// Exports to a place where an earlier model is: the same with other types, so that every mixture has another hash.
class Replacing : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string source = shared_data("language/families/llama");
    if (source.empty()) GTEST_SKIP() << "no ../shared/data";
    const auto model = import_model(files_, source);
    ASSERT_TRUE(model) << model.error().text();
    entity_ = folder_.path() + "/m.entity";
    ASSERT_TRUE(storage::write_file_durably(files_, entity_, model->content));
  }
  Exported written(ExportFormat format, const std::string& out, const ExportOptions& options) {
    const auto made = export_model(files_, entity_, format, out, options);
    EXPECT_TRUE(made) << made.error().text();
    return made ? *made : Exported();
  }
  static std::set<std::string> names(const std::string& folder) {
    std::set<std::string> found;
    for (const auto& each : std::filesystem::directory_iterator(folder)) found.insert(each.path().filename());
    return found;
  }
  static std::string content(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// State hashes of all that loads in a folder, of a model's folder with the type that its description has.
  static std::set<std::string> loaded(const std::string& folder) {
    std::set<std::string> found;
    if (const auto mesh = imported_mesh(folder, {}))
      found.insert(to_string(mesh->state_hash()) +
                   (content(folder + "/config.json").find("\"float16\"") != std::string::npos ? " float16" : ""));
    const auto all = names(folder);  // any part stands for all
    const auto part = std::find_if(all.begin(), all.end(), [](const auto& name) { return name.ends_with(".gguf"); });
    if (part != all.end())
      if (const auto mesh = imported_mesh(folder + "/" + *part, {})) found.insert(to_string(mesh->state_hash()));
    return found;
  }

  storage::FileSystem& files_ = storage::real_file_system();
  storage::TemporaryDirectory folder_;
  std::string entity_;
};

TEST_F(Replacing, LeavesNoMixtureWhereverItIsInterrupted) {
  using enum storage::FileOperation;
  constexpr std::uint64_t kOld = 100'000, kNew = 200'000;  // as many parts of float16 as of float32
  for (const auto& [format, was, is] :
       {std::tuple(ExportFormat::hugging_face, kOld, kNew),
        std::tuple(ExportFormat::hugging_face, std::uint64_t{0}, kNew), std::tuple(ExportFormat::gguf, kOld, kNew)}) {
    const std::string before = folder_.path() + "/before", after = folder_.path() + "/after";
    const std::string name = format == ExportFormat::gguf ? "/w.gguf" : "";
    for (const std::string& each : {before, after}) {
      std::filesystem::remove_all(each);
      std::filesystem::create_directory(each);
    }
    written(format, before + name, {.type = "float16", .shard_bytes = was});
    written(format, after + name, {.type = "float32", .shard_bytes = is});
    const auto old = loaded(before), made = loaded(after);
    ASSERT_EQ(old.size(), 1u);
    ASSERT_EQ(made.size(), 1u);
    ASSERT_NE(old, made);
    std::size_t interrupted = 0;
    for (const auto operation : {write, rename, remove})
      for (std::uint64_t at = 1;; ++at) {
        const std::string place = folder_.path() + "/place";
        std::filesystem::remove_all(place);
        std::filesystem::copy(before, place);
        storage::FaultFileSystem faulty(files_);
        faulty.set({storage::FaultKind::crash, at, at, operation});
        const bool is_whole =
            bool(export_model(faulty, entity_, format, place + name, {.type = "float32", .shard_bytes = is}));
        const auto found = loaded(place);
        EXPECT_TRUE(found == made || (!is_whole && (found.empty() || found == old)))
            << name << " from " << was << " to " << is << ": " << storage::name(operation) << " " << at;
        if (is_whole) break;
        ++interrupted;
        if (operation == write) break;
      }
    EXPECT_GE(interrupted, 4u);
  }
}

TEST_F(Replacing, LeavesNothingOfTheModelBefore) {
  const std::string hf = folder_.path() + "/hf", gguf = folder_.path() + "/gguf";
  const auto expect_files = [&](ExportFormat format, const std::string& out, std::uint64_t most,
                                std::set<std::string> others, const std::string& told) {
    const Exported made = written(format, out, {.shard_bytes = most});
    const std::string folder = storage::parent_path(made.files.front());
    for (const std::string& path : made.files) others.insert(std::filesystem::path(path).filename());
    EXPECT_EQ(names(folder), others);
    const std::string notes = std::accumulate(made.notes.begin(), made.notes.end(), std::string());
    EXPECT_NE(notes.find("removed, of an earlier model at this place: " + told), std::string::npos) << notes;
  };
  const std::string index = "model.safetensors.index.json";
  written(ExportFormat::hugging_face, hf, {});
  for (const char* const name : {"/notes.txt", "/tokenizer.json", "/model-1.safetensors"})
    std::ofstream(hf + name) << "x";
  const std::set<std::string> kept{"notes.txt", "model-1.safetensors", "config.json"};
  auto parts = kept;
  parts.insert(index);
  expect_files(ExportFormat::hugging_face, hf, 120'000, parts, "model.safetensors, tokenizer.json");
  expect_files(ExportFormat::hugging_face, hf, 200'000, parts, "model-00001-of-0000");
  expect_files(ExportFormat::hugging_face, hf, 0, kept, "model-00001-of-0000");
  EXPECT_TRUE(imported_mesh(hf, {}));

  std::filesystem::create_directory(gguf);
  const std::set<std::string> others{"w2.gguf", "v-00001-of-00002.gguf", "w-00001-of-00002.bin"};
  for (const std::string& name : others) std::ofstream(gguf + "/" + name) << "x";
  written(ExportFormat::gguf, gguf + "/w.gguf", {});
  expect_files(ExportFormat::gguf, gguf + "/w.gguf", 120'000, others, "w.gguf");
  expect_files(ExportFormat::gguf, gguf + "/w.gguf", 200'000, others, "w-00001-of-0000");
  expect_files(ExportFormat::gguf, gguf + "/w.gguf", 0, others, "w-00001-of-0000");
}

TEST_F(Replacing, TakesAModelAndLeavesWhateverElseIsThere) {
  const std::string hf = folder_.path() + "/proj";
  std::filesystem::create_directory(hf);
  const std::map<std::string, std::string> own{{"config.json", R"({"mine":1})"},
                                               {"chat_template.jinja", "x"},
                                               {"generation_config.json", "{}"},
                                               {"model-00001-of-00002.safetensors", "x"}};
  for (const auto& [name, text] : own) std::ofstream(hf + "/" + name) << text;
  const auto refused = export_model(files_, entity_, ExportFormat::hugging_face, hf);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::storage);
  for (const char* const part : {"/config.json: is there", "--force", "model-00001-of-00002.safetensors"})
    EXPECT_NE(refused.error().text().find(part), std::string::npos) << part << ": " << refused.error().text();
  for (const auto& [name, text] : own) EXPECT_EQ(content(hf + "/" + name), text);
  EXPECT_EQ(names(hf).size(), own.size());
  // Weights beside a description of something else are no model, and no more is a description alone.
  std::ofstream(hf + "/config.json") << R"({"model_type":"clip"})";
  EXPECT_FALSE(export_model(files_, entity_, ExportFormat::hugging_face, hf));
  std::ofstream(hf + "/config.json") << R"({"model_type":"llama"})";
  std::filesystem::remove(hf + "/model-00001-of-00002.safetensors");
  EXPECT_FALSE(export_model(files_, entity_, ExportFormat::hugging_face, hf));

  const auto notes = [&](const ExportOptions& options) {
    const Exported made = written(ExportFormat::hugging_face, hf, options);
    return std::accumulate(made.notes.begin(), made.notes.end(), std::string());
  };
  EXPECT_NE(notes({.is_forced = true}).find("replaced at this place: config.json"), std::string::npos);
  EXPECT_FALSE(names(hf).contains("chat_template.jinja"));
  EXPECT_NE(notes({}).find("replaced, of an earlier model at this place: "), std::string::npos);

  const std::string thesis = folder_.path() + "/thesis.txt";
  for (const auto format : {"gguf", "onnx"}) {
    const auto write_it = [&](bool is_forced) -> Result<std::vector<std::string>> {
      if (std::string_view(format) == "onnx") {
        WEFT_TRY(ExportedOnnx made, export_onnx(files_, entity_, thesis, {.is_forced = is_forced}));
        return made.notes;
      }
      WEFT_TRY(Exported made, export_model(files_, entity_, ExportFormat::gguf, thesis, {.is_forced = is_forced}));
      return made.notes;
    };
    std::ofstream(thesis) << "Chapter 1";
    const auto kept = write_it(false);
    ASSERT_FALSE(kept) << format;
    EXPECT_NE(kept.error().text().find("thesis.txt: is there, and is none of a model"), std::string::npos)
        << kept.error().text();
    EXPECT_EQ(content(thesis), "Chapter 1");
    EXPECT_TRUE(write_it(true)) << format;
    const auto again = write_it(false);
    ASSERT_TRUE(again) << again.error().text();
    const std::string told = std::accumulate(again->begin(), again->end(), std::string());
    EXPECT_NE(told.find("replace"), std::string::npos) << told;
    std::ofstream(thesis).flush();  // empty
    EXPECT_TRUE(write_it(false)) << format;
  }
}

TEST_F(Replacing, TouchesNothingWhereADirectoryIsInTheWayOrAFileIsRead) {
  const std::string hf = folder_.path() + "/hf";
  const mode_t mask = umask(022);
  const Exported made = written(ExportFormat::hugging_face, hf, {.type = "float16"});
  umask(mask);
  EXPECT_EQ(std::filesystem::status(hf).permissions(), std::filesystem::perms(0755));
  std::filesystem::create_directory(hf + "/model-00002-of-00004.safetensors");
  const auto files = names(hf);
  const auto before = loaded(hf);
  const auto blocked = export_model(files_, entity_, ExportFormat::hugging_face, hf, {.shard_bytes = 120'000});
  ASSERT_FALSE(blocked);
  EXPECT_NE(blocked.error().text().find("model-00002-of-00004.safetensors: is a directory"), std::string::npos)
      << blocked.error().text();
  EXPECT_EQ(names(hf), files);
  EXPECT_EQ(loaded(hf), before);

  const std::string own = folder_.path() + "/own", part = own + "/w-00002-of-00009.gguf";
  std::filesystem::create_directory(own);
  for (const auto& [format, read, out] :
       {std::tuple(ExportFormat::hugging_face, own + "/model.safetensors", own),
        std::tuple(ExportFormat::hugging_face, own + "/model-00001-of-00004.safetensors", own),
        std::tuple(ExportFormat::gguf, part, own + "/w.gguf")}) {
    std::filesystem::copy(entity_, read);
    const auto refused = export_model(files_, read, format, out, {.shard_bytes = 120'000});
    ASSERT_FALSE(refused) << read;
    EXPECT_NE(refused.error().text().find("is the file that is read, " + read), std::string::npos)
        << refused.error().text();
    EXPECT_EQ(names(own).size(), 1u);
    EXPECT_EQ(content(read), content(entity_));
    std::filesystem::remove(read);
  }
}

}  // namespace
}  // namespace weft::models::split_gguf_test
