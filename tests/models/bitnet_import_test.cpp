// SPDX-License-Identifier: Apache-2.0
// BitNet b1.58 as it is published: packed ternary matrices, inputs of int8 with one scale a row.

#include "models/export.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "formats/entity/entity.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "storage/durable.hpp"

#include "tests/models/imported.hpp"
#include "tests/support/temporary_directory.hpp"
#include <cstring>
#include <fstream>
#include <map>

namespace weft::models::bitnet_import_test {
namespace {

class Bitnet : public ::testing::Test {
 protected:
  void SetUp() override {
    source_ = shared_data("language/families/bitnet-2b4t-style");
    if (source_.empty()) GTEST_SKIP() << "no ../shared/data";
    const auto file = formats::load_safetensors(storage::real_file_system(), source_ + "/model.safetensors");
    ASSERT_TRUE(file) << file.error().text();
    for (const formats::Tensor& tensor : file->tensors()) {
      const ByteSpan bytes = file->find(tensor.name)->bytes;
      held_[tensor.name].assign(bytes.begin(), bytes.end());
      tensors_.push_back(tensor);
    }
    const auto bytes = storage::real_file_system().read(source_ + "/config.json", 1 << 20);
    config_ = *parse_json(as_text(*bytes), "config.json");
  }
  /// A folder with the tensors and the description as the test has changed them.
  std::string folder() {
    for (formats::Tensor& tensor : tensors_) tensor.bytes = held_[tensor.name];
    std::ofstream(folder_.path() + "/config.json") << *write_json(config_);
    EXPECT_TRUE(
        formats::save_safetensors(storage::real_file_system(), folder_.path() + "/model.safetensors", tensors_));
    return folder_.path();
  }
  std::string refusal() {
    const auto model = import_model(storage::real_file_system(), folder());
    if (!model) return model.error().text();
    const auto bytes = collect(model->content);
    return bytes ? "" : bytes.error().text();
  }

  std::string source_;
  Json config_;
  std::vector<formats::Tensor> tensors_;
  std::map<std::string, std::vector<std::byte>> held_;
  storage::TemporaryDirectory folder_;
};

TEST_F(Bitnet, IsTernaryWithInputsOfOneScaleARow) {
  const auto model = import_model(storage::real_file_system(), source_);
  ASSERT_TRUE(model) << model.error().text();
  for (const mesh::LayerSpec& layer : model->graph->spec().layers) {
    const bool is_block = layer.type == "sequential";
    EXPECT_EQ(layer.dtype, is_block ? Dtype::ternary : Dtype::float32) << layer.type;
    EXPECT_EQ(name(layer.activations), is_block ? "int8_row" : "int8") << layer.type;
  }
  ASSERT_EQ(model->notes.size(), 2u) << "the other one is of no tokenizer";
  EXPECT_EQ(model->notes[1], "weights of packed ternary keep their codes as ternary/tensor");
}

// As float32 the matrices have the same values; inputs stay what they are then.
TEST_F(Bitnet, HasTheSameValuesInAnotherType) {
  const auto packed = imported_mesh(source_, {.tokens = 4});
  const auto wide = imported_mesh(source_, {.encoding = Encoding(Dtype::float32), .tokens = 4});
  ASSERT_TRUE(packed) << packed.error().text();
  ASSERT_TRUE(wide) << wide.error().text();
  const auto read = [](const mesh::Mesh& mesh) {
    std::vector<float> all;
    const mesh::WeightStore& weights = mesh::MeshAccess::weights(mesh);
    for (const mesh::WeightStore::Parameter& parameter : weights.parameters())
      for (const float value : weights.read(parameter)) all.push_back(value);
    return all;
  };
  EXPECT_EQ(read(*packed), read(*wide));
}

// transformers' quantization_mode online: float weights, quantized where they are loaded. What computes is codes, and
// codes are what is written: float values of them would have another scale, their mean being less.
TEST_F(Bitnet, OfFloatWeightsIsWrittenAsItsCodes) {
  const std::string plain = shared_data("language/families/bitnet");
  if (plain.empty()) GTEST_SKIP() << "no bitnet of floats in ../shared/data";
  const auto file = formats::load_safetensors(storage::real_file_system(), plain + "/model.safetensors");
  ASSERT_TRUE(file) << file.error().text();
  tensors_.clear(), held_.clear();
  for (const formats::Tensor& tensor : file->tensors()) {
    const ByteSpan bytes = file->find(tensor.name)->bytes;
    held_[tensor.name].assign(bytes.begin(), bytes.end());
    tensors_.push_back(tensor);
  }
  config_ = *parse_json(as_text(*storage::real_file_system().read(plain + "/config.json", 1 << 20)), "config.json");
  config_["quantization_config"] =
      Json{{"quant_method", "bitnet"}, {"linear_class", "autobitlinear"}, {"quantization_mode", "online"}};
  const std::string entity = folder_.path() + "/model.entity", out = folder_.path() + "/out";
  const auto model = import_model(storage::real_file_system(), folder(), {.quantization_aware = true, .tokens = 4});
  ASSERT_TRUE(model) << model.error().text();
  for (const mesh::LayerSpec& layer : model->graph->spec().layers)
    EXPECT_EQ(layer.quantization_aware, layer.type == "sequential") << layer.type;
  ASSERT_TRUE(storage::write_file_durably(storage::real_file_system(), entity, model->content));
  const auto learning = formats::load_entity(storage::real_file_system(), entity);
  ASSERT_TRUE(learning) << learning.error().text();
  const auto query = learning->find("weights/1,0,0,0/layers[1].query");
  ASSERT_TRUE(query) << query.error().text();
  EXPECT_EQ(query->type, "float32") << "the file's values are the masters";
  const auto made = export_model(storage::real_file_system(), entity, ExportFormat::hugging_face, out);
  ASSERT_TRUE(made) << made.error().text();
  const auto written = formats::load_safetensors(storage::real_file_system(), out + "/model.safetensors");
  ASSERT_TRUE(written) << written.error().text();
  EXPECT_EQ(written->describe("model.layers.0.self_attn.q_proj.weight")->type, "uint8");
  EXPECT_TRUE(written->describe("model.layers.0.self_attn.q_proj.weight_scale"));
  const auto before = imported_mesh(folder(), {.tokens = 4}), after = imported_mesh(out, {.tokens = 4});
  ASSERT_TRUE(after) << after.error().text();
  const std::vector<float> ids{3, 17, 5, 90};
  EXPECT_EQ(logits_of(*before, ids, 96), logits_of(*after, ids, 96));
  // Matrices that are float32 have nothing to learn through.
  const auto wide = import_model(storage::real_file_system(), plain, {.quantization_aware = true});
  ASSERT_FALSE(wide);
  EXPECT_NE(wide.error().text().find("give a dtype"), std::string::npos) << wide.error().text();
}

// The scale of BitLinear divides: with 1 / s in the file the model is the same, but for a rounding of s.
TEST_F(Bitnet, TakesAScaleThatDivides) {
  const std::vector<float> ids{3, 17, 5, 90};
  const auto golden = imported_mesh(source_, {.tokens = 4});
  config_["quantization_config"].erase("linear_class");
  for (auto& [name, bytes] : held_)
    if (name.ends_with("weight_scale")) {
      float scale = 0;
      std::memcpy(&scale, bytes.data(), sizeof scale);
      scale = 1 / scale;
      std::memcpy(bytes.data(), &scale, sizeof scale);
    }
  const auto other = imported_mesh(folder(), {.tokens = 4});
  ASSERT_TRUE(other) << other.error().text();
  const std::vector<float> a = logits_of(*golden, ids, 96), b = logits_of(*other, ids, 96);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 0.02f * std::max(1.0f, std::abs(a[i]))) << i;
}

TEST_F(Bitnet, GoesBackAsItWas) {
  const std::string entity = folder_.path() + "/m.entity", out = folder_.path() + "/out";
  const auto model = import_model(storage::real_file_system(), source_);
  ASSERT_TRUE(storage::write_file_durably(storage::real_file_system(), entity, model->content));
  const auto made = export_model(storage::real_file_system(), entity, ExportFormat::hugging_face, out);
  ASSERT_TRUE(made) << made.error().text();
  const auto again = formats::load_safetensors(storage::real_file_system(), out + "/model.safetensors");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(again->tensors().size(), tensors_.size());
  for (const formats::Tensor& tensor : tensors_) {
    const auto found = again->find(tensor.name);
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_EQ(found->type, tensor.type) << tensor.name;
    EXPECT_TRUE(as_text(found->bytes) == as_text(held_[tensor.name])) << tensor.name;
  }
  const auto gguf = export_model(storage::real_file_system(), entity, ExportFormat::gguf, folder_.path() + "/m.gguf");
  ASSERT_FALSE(gguf);
  EXPECT_NE(gguf.error().text().find("one scale a row"), std::string::npos) << gguf.error().text();
}

TEST_F(Bitnet, TellsAllThatDoesNotFit) {
  std::vector<std::byte>& codes = held_["model.layers.1.mlp.up_proj.weight"];
  const std::byte was = codes[70];
  codes[70] = std::byte{0xff};
  EXPECT_NE(refusal().find("up_proj.weight', row 1: column 6: the code 3"), std::string::npos) << refusal();
  codes[70] = was;
  held_["model.layers.0.self_attn.q_proj.weight_scale"].assign(4, std::byte{0});
  EXPECT_NE(refusal().find("q_proj.weight_scale': 0.0"), std::string::npos) << refusal();
  std::erase_if(tensors_, [](const formats::Tensor& tensor) { return tensor.name.ends_with("weight_scale"); });
  EXPECT_NE(refusal().find("k_proj.weight_scale': is not there"), std::string::npos) << refusal();
}

TEST_F(Bitnet, RefusesDescriptionsThatItIsNot) {
  Json& quantization = config_["quantization_config"];
  quantization["use_rms_norm"] = true;
  quantization["quant_method"] = "gptq";
  quantization["modules_to_not_convert"] = Json::array({"lm_head", "model.layers.0.mlp.up_proj"});
  const std::string text = refusal();
  for (const char* const part : {"use_rms_norm", "gptq", "mlp.up_proj"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace
}  // namespace weft::models::bitnet_import_test
