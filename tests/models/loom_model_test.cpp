// SPDX-License-Identifier: Apache-2.0
// Language models of Loom compute what they compute there, as make_loom_goldens.py does in float64.

#include "models/import.hpp"

#include "mesh/persistence/entity_model.hpp"

#include "formats/entity/entity.hpp"
#include "formats/safetensors/safetensors.hpp"

#include "tests/formats/loom_files.hpp"
#include "tests/models/imported.hpp"
#include "tests/support/source_path.hpp"
#include "tests/support/temporary_directory.hpp"
#include <fstream>

namespace weft::models::loom_model_test {
namespace {

using formats::loom_files::golden_model;
using formats::loom_files::V1Model;
using storage::TemporaryDirectory;

Json goldens() {
  const auto bytes = storage::real_file_system().read(source_path("tests/data/formats/loom_goldens.json"), 1 << 24);
  return (*parse_json(as_text(*bytes), "goldens"))["models"];
}
Json golden(std::string_view name) {
  for (const Json& found : goldens())
    if (found["name"].text() == name) return found;
  return {};
}

std::string write(const TemporaryDirectory& folder, const V1Model& model) {
  const std::string path = folder.path() + "/m.entity";
  const ByteBuffer bytes = model.encode();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return path;
}

TEST(LoomModel, ComputesWhatItComputesThere) {
  const TemporaryDirectory folder;
  for (const Json& each : goldens()) {
    SCOPED_TRACE(each["name"].text());
    const std::string path = write(folder, golden_model(each));
    const auto ids = each["tokens"].get<std::vector<float>>();
    const auto expected = each["logits"].get<std::vector<double>>();
    ImportOptions options{.tokens = ids.size()};
    // Integers of 4 bits round what they multiply to int8; here it is their values that count.
    const bool has_blocks = each["name"].text() == "blocks";
    if (has_blocks) options.encoding = Encoding(Dtype::float32);
    const auto model = import_model(storage::real_file_system(), path, options);
    ASSERT_TRUE(model) << model.error().text();
    EXPECT_EQ(model->family->name, each["family"].text());
    const auto mesh = imported_mesh(path, options);
    ASSERT_TRUE(mesh) << mesh.error().text();
    EXPECT_LE(largest_error(logits_of(*mesh, ids, expected.size() / ids.size()), {expected}), 2e-5);
    if (!has_blocks) continue;
    const auto coded = imported_mesh(path, {.tokens = ids.size()});
    ASSERT_TRUE(coded) << coded.error().text();
    EXPECT_EQ(coded->graph().spec().layers[1].dtype, Dtype::int4);
    EXPECT_EQ(coded->graph().spec().layers[1].granularity, Granularity::block32);
    EXPECT_LE(largest_error(logits_of(*coded, ids, expected.size() / ids.size()), {expected}), 0.05);
  }
}

TEST(LoomModel, HasTheHashOfTheSameModelInAFolder) {
  const TemporaryDirectory folder;
  const Json each = golden("tied");
  const auto mesh = imported_mesh(write(folder, golden_model(each)), {.tokens = 4});
  ASSERT_TRUE(mesh) << mesh.error().text();
  // The same tensors under Hugging Face's names.
  std::vector<formats::Tensor> tensors;
  std::vector<std::vector<float>> kept;
  const auto put = [&](const std::string& name, Shape shape, const std::vector<float>& from, std::size_t& at) {
    const std::size_t count = shape[0] * (shape.size() == 2 ? shape[1] : 1);
    kept.emplace_back(from.begin() + static_cast<std::ptrdiff_t>(at),
                      from.begin() + static_cast<std::ptrdiff_t>(at + count));
    at += count;
    tensors.push_back({name, "float32", std::move(shape), {}});
  };
  for (const Json& blob : each["blobs"]) {
    const std::vector<float> values = formats::loom_files::golden_weights(blob);
    const std::string path = blob["path"];
    std::size_t at = 0;
    if (path == "transformer.embeddings") put("model.embed_tokens.weight", {12, 8}, values, at);
    if (path == "transformer.final_norm") put("model.norm.weight", {8}, values, at);
    if (!path.starts_with("layers.")) continue;
    const int layer = std::stoi(path.substr(7));
    const std::string block = "model.layers." + std::to_string(layer / 4) + ".";
    if (layer % 4 == 0) put(block + "input_layernorm.weight", {8}, values, at);
    if (layer % 4 == 2) put(block + "post_attention_layernorm.weight", {8}, values, at);
    if (layer % 4 == 1) {
      put(block + "self_attn.q_proj.weight", {8, 8}, values, at);
      put(block + "self_attn.k_proj.weight", {4, 8}, values, at);
      put(block + "self_attn.v_proj.weight", {4, 8}, values, at);
      put(block + "self_attn.o_proj.weight", {8, 8}, values, at);
    }
    if (layer % 4 == 3) {
      put(block + "mlp.gate_proj.weight", {12, 8}, values, at);
      put(block + "mlp.up_proj.weight", {12, 8}, values, at);
      put(block + "mlp.down_proj.weight", {8, 12}, values, at);
    }
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].bytes = std::as_bytes(std::span(kept[i]));
  const TemporaryDirectory other;
  std::ofstream(other.path() + "/config.json")
      << R"({"model_type": "llama", "vocab_size": 12, "hidden_size": 8, "num_hidden_layers": 2,
        "intermediate_size": 12, "num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": true})";
  const auto content = formats::safetensors_source(std::move(tensors));
  ASSERT_TRUE(content) << content.error().text();
  const auto bytes = collect(*content);
  ASSERT_TRUE(bytes) << bytes.error().text();
  std::ofstream(other.path() + "/model.safetensors", std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes->data()), static_cast<std::streamsize>(bytes->size()));
  const auto same = imported_mesh(other.path(), {.tokens = 4});
  ASSERT_TRUE(same) << same.error().text();
  EXPECT_EQ(mesh->state_hash(), same->state_hash());
}

TEST(LoomModel, KeepsTheTokenizerOfAFolder) {
  const TemporaryDirectory folder, tokenizer;
  const std::string path = write(folder, golden_model(golden("tied")));
  const auto empty = import_model(storage::real_file_system(), path, {.tokenizer = tokenizer.path()});
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code(), Errc::not_found);
  std::ofstream(tokenizer.path() + "/tokenizer.json")
      << R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})";
  std::ofstream(tokenizer.path() + "/chat_template.jinja") << "{{ messages }}";
  const auto model = import_model(storage::real_file_system(), path, {.tokenizer = tokenizer.path()});
  ASSERT_TRUE(model) << model.error().text();
  const auto bytes = collect(model->content);
  ASSERT_TRUE(bytes);
  const auto file = formats::decode_entity(ByteBuffer(*bytes), "m");
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_TRUE(file->contains("model/tokenizer.json"));
  EXPECT_TRUE(file->contains("model/chat_template.jinja"));
}

TEST(LoomModel, SaysAllThatDoesNotFit) {
  const TemporaryDirectory folder;
  const auto refused = [&](const V1Model& model, std::initializer_list<const char*> texts) {
    const auto found = import_model(storage::real_file_system(), write(folder, model));
    ASSERT_FALSE(found);
    for (const char* const text : texts)
      EXPECT_NE(found.error().text().find(text), std::string::npos) << text << " in: " << found.error().text();
  };
  const V1Model good = golden_model(golden("tied"));
  V1Model model = good;
  model.blobs[1]["path"] = "layers.1.x";
  model.blobs[2]["path"] = "layers.2.y";
  refused(model, {"blob 'layers.1' is not there; blob 'layers.2' is not there", "blob 'layers.1.x' belongs to no part",
                  "blob 'layers.2.y'"});
  model = good;
  model.transformer["vocab_size"] = 13;
  refused(model, {"blob 'transformer.embeddings': 104 weights of float32 take 416 bytes, there are 384"});
  model = good;
  model.transformer["dims"]["head_dim"] = 0;
  model.transformer["architecture"] = "mamba";
  refused(model, {"head_dim", "architecture: found \"mamba\""});
  model = good;
  model.transformer["has_final_norm"] = false;
  refused(model, {"has_final_norm"});
  model = good;
  model.layers[3]["type"] = "Dense";
  refused(model, {"network.layers[3].type: \"DENSE\", expected SWIGLU"});
  model = good;
  model.layers[1]["num_heads"] = 4;
  refused(model, {"network.layers[1].num_heads: 4, transformer.dims says 2"});
  model = good;
  model.transformer["dims"]["activation"] = "ReLU2";
  refused(model, {"transformer.dims.activation"});
  model = golden_model(golden("blocks"));
  model.payload[model.blobs[1]["offset"].get<std::size_t>()] = std::byte{0xFF};
  refused(model, {"m.entity: blob 'layers.1.q4_0.200': 255 blocks in 512 words, expected 32 in 128 or more"});
  refused(V1Model(), {"a network of Loom and no language model"});
}

}  // namespace
}  // namespace weft::models::loom_model_test
