// SPDX-License-Identifier: Apache-2.0

#include "models/export.hpp"

#include "mesh/persistence/entity_model.hpp"

#include "formats/safetensors/safetensors.hpp"
#include "storage/durable.hpp"

#include "tests/models/imported.hpp"
#include "tests/support/temporary_directory.hpp"

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
  const auto made = export_model(storage::real_file_system(), learned, ExportFormat::gguf, out, entity_);
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
