// SPDX-License-Identifier: Apache-2.0

#include "models/export.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/weights/weight_store.hpp"

#include "formats/gguf/gguf.hpp"
#include "formats/gguf/gguf_blocks.hpp"
#include "formats/gguf/gguf_quantize.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "storage/durable.hpp"
#include "text/tokenizer_file.hpp"

#include "tests/models/imported.hpp"
#include "tests/support/temporary_directory.hpp"
#include <filesystem>

namespace weft::models::export_test {
namespace {

/// A model of the shared data, imported and written again.
class Export : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    source_ = shared_data(GetParam());
    if (source_.empty()) GTEST_SKIP() << "no ../shared/data";
    const auto model = import_model(storage::real_file_system(), source_);
    ASSERT_TRUE(model) << model.error().text();
    entity_ = folder_.path() + "/m.entity";
    ASSERT_TRUE(storage::write_file_durably(storage::real_file_system(), entity_, model->content));
    const auto mesh = mesh::Mesh::load(entity_);
    ASSERT_TRUE(mesh) << mesh.error().text();
    hash_ = to_string(mesh->state_hash());
  }
  std::string exported(ExportFormat format, const std::string& name) const {
    const std::string out = folder_.path() + "/" + name;
    const auto made = export_model(storage::real_file_system(), entity_, format, out);
    EXPECT_TRUE(made) << made.error().text();
    return out;
  }
  std::string hash_of(const std::string& path) const {
    const auto mesh = imported_mesh(path, {});
    EXPECT_TRUE(mesh) << mesh.error().text();
    return mesh ? to_string(mesh->state_hash()) : "";
  }

  storage::TemporaryDirectory folder_;
  std::string source_, entity_, hash_;
};

TEST_P(Export, WritesTheTensorsOfHuggingFaceAsTheyWere) {
  const std::string out = exported(ExportFormat::hugging_face, "hf");
  const auto was = formats::load_safetensors(storage::real_file_system(), source_ + "/model.safetensors");
  const auto is = formats::load_safetensors(storage::real_file_system(), out + "/model.safetensors");
  ASSERT_TRUE(was) << was.error().text();
  ASSERT_TRUE(is) << is.error().text();
  EXPECT_EQ(is->tensors().size(), was->tensors().size());
  for (const formats::Tensor& tensor : was->tensors()) {
    const auto found = is->find(tensor.name);
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_EQ(found->type, tensor.type) << tensor.name;
    EXPECT_EQ(found->shape, tensor.shape) << tensor.name;
    EXPECT_TRUE(as_text(found->bytes) == as_text(was->find(tensor.name)->bytes)) << tensor.name;
  }
  EXPECT_EQ(hash_of(out), hash_);
}

TEST_P(Export, WritesGgufThatIsTheSameModel) { EXPECT_EQ(hash_of(exported(ExportFormat::gguf, "m.gguf")), hash_); }

TEST_P(Export, TakesTheDescriptionFromTheImportedFile) {
  auto mesh = mesh::Mesh::load(entity_);
  ASSERT_TRUE(mesh) << mesh.error().text();
  const auto bytes = mesh::encode_mesh(*mesh, false);
  const std::string learned = folder_.path() + "/learned.entity", out = folder_.path() + "/again.gguf";
  ASSERT_TRUE(storage::write_file_durably(storage::real_file_system(), learned, ByteSource(ByteSpan(*bytes))));
  const auto bare = export_model(storage::real_file_system(), learned, ExportFormat::gguf, out);
  ASSERT_FALSE(bare);
  EXPECT_NE(bare.error().text().find("--model"), std::string::npos) << bare.error().text();
  const auto made = export_model(storage::real_file_system(), learned, ExportFormat::gguf, out, {.described = entity_});
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ(hash_of(out), hash_);
}

INSTANTIATE_TEST_SUITE_P(All, Export,
                         ::testing::Values("language/families/llama", "language/families/llama-3",
                                           "language/families/qwen2", "language/families/qwen3",
                                           "language/families/phi3", "language/families/gpt2",
                                           "language/families/bitnet", "language/tinystories-656k"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           for (char& c : name)
                             if (c == '/' || c == '-') c = '_';
                           return name;
                         });

/// A llama of the shared data with matrices in blocks.
class Blocks : public ::testing::Test {
 protected:
  void SetUp() override {
    source_ = shared_data("language/families/llama/model-f32.gguf");
    if (source_.empty()) GTEST_SKIP() << "no ../shared/data";
  }
  Result<std::string> imported(const std::string& from, const ImportOptions& options = {}) {
    WEFT_TRY(const ImportedModel model, import_model(files_, from, options));
    const std::string entity = folder_.path() + "/" + std::to_string(++count_) + ".entity";
    WEFT_CHECK(storage::write_file_durably(files_, entity, model.content));
    return entity;
  }
  storage::FileSystem& files_ = storage::real_file_system();
  storage::TemporaryDirectory folder_;
  std::string source_;
  int count_ = 0;
};

// Codes and scales go through Weft's types and back without a rounding.
TEST_F(Blocks, OfGgufComeOutAsTheyWere) {
  const auto plain = imported(source_);
  ASSERT_TRUE(plain) << plain.error().text();
  for (const std::string type : {"q8_0", "q4_0", "q5_0"}) {
    SCOPED_TRACE(type);
    const std::string first = folder_.path() + "/first.gguf", second = folder_.path() + "/second.gguf";
    const auto made = export_model(files_, *plain, ExportFormat::gguf, first, {.type = type});
    ASSERT_TRUE(made) << made.error().text();
    const auto entity = imported(first);
    ASSERT_TRUE(entity) << entity.error().text();
    const auto again = export_model(files_, *entity, ExportFormat::gguf, second);
    ASSERT_TRUE(again) << again.error().text();
    const auto a = formats::load_gguf(files_, first), b = formats::load_gguf(files_, second);
    std::size_t kept = 0;
    for (const formats::Tensor& tensor : a->tensors()) {
      const auto found = b->find(tensor.name);
      ASSERT_TRUE(found) << found.error().text();
      if (type == "q5_0" || found->type != type) {  // int8 holds its codes, q8_0 has them then
        std::vector<float> x(tensor.shape.size() == 2 ? tensor.shape[0] * tensor.shape[1] : 0), y = x;
        if (x.empty() || found->type != "q8_0") continue;
        ASSERT_TRUE(formats::dequantize(tensor.type, a->find(tensor.name)->bytes, x));
        ASSERT_TRUE(formats::dequantize(found->type, found->bytes, y));
        EXPECT_EQ(x, y) << tensor.name;
        ++kept;
        continue;
      }
      EXPECT_TRUE(as_text(found->bytes) == as_text(a->find(tensor.name)->bytes)) << tensor.name;
      ++kept;
    }
    EXPECT_GE(kept, 14u);
    EXPECT_EQ(*b->metadata().natural("general.quantization_version"), 2u);
  }
}

// Whatever the weights: blocks of GGUF have the same scales.
TEST_F(Blocks, HoldAllCodesWithScalesOfBinary16) {
  for (const auto& [dtype, type] : {std::pair{Dtype::int8, "q8_0"}, {Dtype::int4, "q4_0"}}) {
    SCOPED_TRACE(type);
    const auto entity = imported(source_, {.encoding = Encoding(dtype, Granularity::block32_f16)});
    ASSERT_TRUE(entity) << entity.error().text();
    const std::string out = folder_.path() + "/blocks.gguf";
    const auto made = export_model(files_, *entity, ExportFormat::gguf, out);
    ASSERT_TRUE(made) << made.error().text();
    const auto file = formats::load_gguf(files_, out);
    std::size_t kept = 0;
    for (const formats::Tensor& tensor : file->tensors()) kept += tensor.type == type;
    EXPECT_GE(kept, 14u);
    const auto mesh = mesh::Mesh::load(*entity), again = imported_mesh(out, {});
    ASSERT_TRUE(mesh && again);
    const mesh::WeightStore &a = mesh::MeshAccess::weights(*mesh), &b = mesh::MeshAccess::weights(*again);
    for (std::size_t i = 0; i < a.parameters().size(); ++i)
      EXPECT_EQ(a.read(a.parameters()[i]), b.read(b.parameters()[i])) << a.parameters()[i].spec->name;
  }
}

TEST_F(Blocks, AreMadeAsLlamaCppMakesThem) {
  const auto plain = imported(source_);
  const auto was = formats::load_gguf(files_, source_);
  const std::string out = folder_.path() + "/q.gguf";
  const auto made = export_model(files_, *plain, ExportFormat::gguf, out, {.type = "Q4_1"});
  ASSERT_TRUE(made) << made.error().text();
  const auto is = formats::load_gguf(files_, out);
  for (const formats::Tensor& tensor : was->tensors()) {
    if (tensor.shape.size() != 2) continue;
    const auto values = was->values<float>(tensor.name);
    std::vector<std::byte> blocks(values->size() / 32 * 20);
    ASSERT_TRUE(formats::quantize("q4_1", *values, blocks));
    EXPECT_TRUE(as_text(is->find(tensor.name)->bytes) == as_text(blocks)) << tensor.name;
  }
  // Rows of 64 values hold no blocks of 256.
  const auto wide = export_model(files_, *plain, ExportFormat::gguf, out, {.type = "q4_K"});
  ASSERT_TRUE(wide) << wide.error().text();
  EXPECT_NE(wide->notes[0].find("q8_0"), std::string::npos) << wide->notes[0];
  const auto unknown = export_model(files_, *plain, ExportFormat::gguf, out, {.type = "q9"});
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().text().find("q8_0"), std::string::npos);
  const auto folder =
      export_model(files_, *plain, ExportFormat::hugging_face, folder_.path() + "/hf", {.type = "q8_0"});
  EXPECT_FALSE(folder);
}

TEST_F(Blocks, AreRefusedWhereTheModelDoesNotFitIntoMemory) {
  const auto plain = imported(source_);
  for (const auto format : {ExportFormat::gguf, ExportFormat::hugging_face}) {
    const std::string out = folder_.path() + "/out";
    const auto refused = export_model(files_, *plain, format, out, {.max_memory = 1000});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Errc::too_large) << refused.error().text();
    EXPECT_FALSE(std::filesystem::exists(out));
    EXPECT_TRUE(export_model(files_, *plain, format, out, {.max_memory = 1 << 26}));
    std::filesystem::remove_all(out);
  }
}

TEST(ExportModel, TakesTheTokenizerAlong) {
  const std::string source = shared_data("language/tinystories-656k");
  if (source.empty()) GTEST_SKIP() << "no ../shared/data";
  auto& files = storage::real_file_system();
  const storage::TemporaryDirectory folder;
  const std::string entity = folder.path() + "/m.entity", gguf = folder.path() + "/m.gguf",
                    back = folder.path() + "/hf";
  ASSERT_TRUE(storage::write_file_durably(files, entity, import_model(files, source)->content));
  const auto made = export_model(files, entity, ExportFormat::gguf, gguf);
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_TRUE(made->notes.empty()) << made->notes[0];
  const auto there = text::load_tokenizer(files, gguf), was = text::load_tokenizer(files, source);
  ASSERT_TRUE(there) << there.error().text();
  const std::string text = "Once upon a time, Lily's cat didn't eat 3 apples.";
  EXPECT_EQ(*there->encode(text), *was->encode(text));
  ASSERT_TRUE(storage::write_file_durably(files, entity, import_model(files, gguf)->content));
  const auto folder_made = export_model(files, entity, ExportFormat::hugging_face, back);
  ASSERT_TRUE(folder_made) << folder_made.error().text();
  const auto again = text::load_tokenizer(files, back);
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(*again->encode(text), *was->encode(text));
}

TEST(ExportModel, RefusesWhatNoModelIs) {
  const storage::TemporaryDirectory folder;
  const std::string path = folder.path() + "/n.entity";
  auto mesh = mesh::load_mesh(
      as_bytes(std::string_view(R"({"weft": 2, "inputs": {"x": [4]}, "chain": [{"type": "dense", "out": 3}]})")), "n");
  ASSERT_TRUE(mesh) << mesh.error().text();
  const auto bytes = mesh::encode_mesh(*mesh, false);
  ASSERT_TRUE(storage::write_file_durably(storage::real_file_system(), path, ByteSource(ByteSpan(*bytes))));
  const auto made = export_model(storage::real_file_system(), path, ExportFormat::gguf, folder.path() + "/m.gguf");
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().text().find("only what weft import made"), std::string::npos) << made.error().text();
}

}  // namespace
}  // namespace weft::models::export_test
