// SPDX-License-Identifier: Apache-2.0

#include "models/import.hpp"

#include "models/export.hpp"
#include "models/language_model.hpp"
#include "models/model_files.hpp"

#include "mesh/persistence/entity_model.hpp"

#include "formats/entity/entity.hpp"
#include "formats/gguf/gguf.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "storage/durable.hpp"

#include "core/numeric.hpp"

#include "tests/models/imported.hpp"
#include "tests/support/temporary_directory.hpp"
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

namespace weft::models::import_test {
namespace {

/// A llama of 2 blocks, 8 wide, whose files can be changed before they are written.
class TinyLlama : public ::testing::Test {
 protected:
  TinyLlama() {
    config_ = *parse_json(R"({"model_type": "llama", "vocab_size": 12, "hidden_size": 8, "num_hidden_layers": 2,
        "intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 32,
        "tie_word_embeddings": false})",
                          "config");
    put("model.embed_tokens.weight", {12, 8});
    put("model.norm.weight", {8});
    put("lm_head.weight", {12, 8});
    for (const std::string block : {"model.layers.0.", "model.layers.1."}) {
      put(block + "input_layernorm.weight", {8});
      put(block + "post_attention_layernorm.weight", {8});
      put(block + "self_attn.q_proj.weight", {8, 8});
      put(block + "self_attn.k_proj.weight", {4, 8});
      put(block + "self_attn.v_proj.weight", {4, 8});
      put(block + "self_attn.o_proj.weight", {8, 8});
      put(block + "mlp.gate_proj.weight", {16, 8});
      put(block + "mlp.up_proj.weight", {16, 8});
      put(block + "mlp.down_proj.weight", {8, 16});
    }
  }

  struct Values {
    Shape shape;
    std::vector<float> numbers;
  };
  /// Numbers that differ from tensor to tensor, and are bfloat16's too.
  void put(const std::string& name, const Shape& shape) {
    Values& values = tensors_[name];
    values.shape = shape;
    values.numbers.resize(shape[0] * (shape.size() == 2 ? shape[1] : 1));
    for (float& number : values.numbers) number = static_cast<float>(seed_++ * 37 % 61) / 64.0f - 0.45f;
    for (float& number : values.numbers) number = numeric::Bfloat16::decode(numeric::Bfloat16::encode(number));
  }
  std::vector<formats::Tensor> all() const {
    std::vector<formats::Tensor> tensors;
    for (const auto& [name, values] : tensors_)
      tensors.push_back(formats::make_tensor<float>(name, values.shape, values.numbers));
    return tensors;
  }
  void write_text(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() + "/" + name) << text;
  }
  void write(const formats::SafetensorsNotes& notes = {}) const {
    write_text("config.json", *write_json(config_));
    const Status saved =
        formats::save_safetensors(storage::real_file_system(), folder_.path() + "/model.safetensors", all(), notes);
    ASSERT_TRUE(saved) << saved.error().text();
  }
  Result<ImportedModel> import(const ImportOptions& options = {}) const {
    return import_model(storage::real_file_system(), folder_.path(), options);
  }
  std::string refusal() const {
    const auto model = import();
    return model ? "" : model.error().text();
  }
  std::string hash(const ImportOptions& options = {}) const {
    const auto mesh = imported_mesh(folder_.path(), options);
    EXPECT_TRUE(mesh) << mesh.error().text();
    return mesh ? to_string(mesh->state_hash()) : "";
  }

  storage::TemporaryDirectory folder_;
  Json config_;
  std::map<std::string, Values> tensors_;
  int seed_ = 1;
};

TEST_F(TinyLlama, BecomesANetworkOfOrdinaryLayers) {
  write();
  const auto model = import();
  ASSERT_TRUE(model) << model.error().text();
  EXPECT_EQ(model->family->name, "llama");
  EXPECT_EQ(model->graph->nodes().size(), 6u) << "the input, embedding, two blocks, norm, head";
  EXPECT_EQ(model->parameters, 12u * 8 * 2 + 8 + 2 * (2 * 8 + 2 * 64 + 2 * 32 + 3 * 128));
  ASSERT_EQ(model->notes.size(), 1u);
  EXPECT_EQ(model->notes[0], "there is no tokenizer; texts need --tokenizer");
  const auto mesh = imported_mesh(folder_.path(), {});
  ASSERT_TRUE(mesh) << mesh.error().text();
  EXPECT_EQ(mesh->graph().spec().inputs[0].shape, Shape{32}) << "as many tokens as it has positions";
}

TEST_F(TinyLlama, TellsAllMissingWrongAndUnknownTensorsAtOnce) {
  tensors_.erase("model.layers.1.mlp.up_proj.weight");
  put("model.norm.weight", {9});
  put("model.layers.0.self_attn.q_norm.weight", {4});
  write();
  const std::string text = refusal();
  EXPECT_NE(text.find("tensor 'model.layers.1.mlp.up_proj.weight' [16, 8] is not there"), text.npos) << text;
  EXPECT_NE(text.find("tensor 'model.norm.weight': [9], expected [8]"), text.npos) << text;
  EXPECT_NE(text.find("'model.layers.0.self_attn.q_norm.weight' [4] belongs to no part of a llama"), text.npos) << text;
}

TEST_F(TinyLlama, TellsAllOfADescriptionThatItCannotBe) {
  config_["hidden_act"] = "gelu";
  config_["num_experts"] = 8;
  config_["rope_scaling"] = {{"rope_type", "spiral"}};
  config_.erase("hidden_size");
  write();
  const std::string text = refusal();
  for (const char* part : {"config.json.hidden_act: 'gelu'", "config.json.num_experts: 8",
                           "config.json.rope_scaling.rope_type: 'spiral'", "config.json.hidden_size: is not there"})
    EXPECT_NE(text.find(part), text.npos) << text;
}

/// A tokenizer.json with `count` tokens.
std::string tokenizer_of(std::size_t count) {
  std::string vocabulary;
  for (std::size_t i = 0; i < count; ++i)
    vocabulary += (i ? ", \"" : "\"") + std::string(1, static_cast<char>('a' + i)) + "\": " + std::to_string(i);
  return R"({"model": {"type": "BPE", "vocab": {)" + vocabulary + R"(}, "merges": []}})";
}

TEST_F(TinyLlama, RefusesATokenizerWithMoreTokensThanItHasRows) {
  write();
  write_text("tokenizer.json", tokenizer_of(13));
  const std::string folder = folder_.path(), counts = "/tokenizer.json: 13 tokens, " + folder + " has rows for 12";
  EXPECT_NE(refusal().find(folder + counts), std::string::npos) << refusal();
  // Rows that stand for no token are padding.
  for (const std::size_t count : {12, 11}) {
    write_text("tokenizer.json", tokenizer_of(count));
    const auto model = import();
    ASSERT_TRUE(model) << model.error().text();
    EXPECT_TRUE(model->notes.empty()) << model->notes[0];
  }
  const storage::TemporaryDirectory other;
  std::ofstream(other.path() + "/tokenizer.json") << tokenizer_of(13);
  const auto given = import({.tokenizer = other.path()});
  ASSERT_FALSE(given);
  EXPECT_NE(given.error().text().find(other.path() + counts), std::string::npos) << given.error().text();
  const auto loaded = load_language_model(storage::real_file_system(), folder, other.path(), {});
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().text().find(other.path() + ": 13 tokens, " + folder + " has rows for 12"), std::string::npos)
      << loaded.error().text();
  EXPECT_TRUE(load_language_model(storage::real_file_system(), folder, "", {}));
}

TEST_F(TinyLlama, RefusesBrokenFilesBesideIt) {
  write();
  const auto expect = [&](const std::string& name, const std::string& text, const std::string& told) {
    write_text(name, text);
    EXPECT_NE(refusal().find(folder_.path() + "/" + name + told), std::string::npos) << name << ": " << refusal();
    std::filesystem::remove(folder_.path() + "/" + name);
  };
  expect("tokenizer.json", "{", ":1:2: ");
  expect("generation_config.json", "\nxx", ":2:1: ");
  expect("tokenizer_config.json", "{", ":1:2: ");
  expect("tokenizer_config.json", R"({"chat_template": 3})", ".chat_template: found 3, expected a text");
  expect("tokenizer_config.json", R"({"chat_template": [{"name": "default"}]})", ".chat_template: found [{");
  expect("generation_config.json", R"({"eos_token_id": [1, 12]})", ".eos_token_id: found [1,12], expected the number");
  for (const char* const id : {"\"x\"", "99999", "-2", "1.5"}) {
    config_["eos_token_id"] = *parse_json(id, "id");
    write();
    EXPECT_NE(refusal().find("/config.json.eos_token_id: found " + std::string(id)), std::string::npos) << refusal();
  }
  for (const char* const id : {"null", "-1", "11", "[0, 11]"}) {
    config_["eos_token_id"] = *parse_json(id, "id");
    write();
    EXPECT_EQ(refusal(), "") << id;
  }
  // A step that is not known leaves the weights as they are.
  write_text("tokenizer.json", R"({"model": {"type": "Morse", "vocab": {}}})");
  const auto unusable = import();
  ASSERT_TRUE(unusable) << unusable.error().text();
  ASSERT_EQ(unusable->notes.size(), 1u);
  EXPECT_NE(unusable->notes[0].find("this tokenizer is not usable"), std::string::npos) << unusable->notes[0];
}

TEST_F(TinyLlama, SaysThatSentencePiecesOwnFileIsNotRead) {
  write();
  write_text("tokenizer.model", "x");
  const auto model = import();
  ASSERT_TRUE(model) << model.error().text();
  ASSERT_EQ(model->notes.size(), 1u);
  EXPECT_NE(model->notes[0].find("tokenizer.model (SentencePiece's) is not read"), std::string::npos);
  const auto loaded = load_language_model(storage::real_file_system(), folder_.path(), "", {});
  ASSERT_FALSE(loaded);
  for (const char* const part : {"tokenizer.model (SentencePiece's) is not read", "--tokenizer says where one is"})
    EXPECT_NE(loaded.error().text().find(part), std::string::npos) << loaded.error().text();
}

TEST_F(TinyLlama, BlamesTheKeyThatIsWrong) {
  const auto told = [&](const char* key, const Json& value) {
    const Json before = config_;
    config_[key] = value;
    write();
    config_ = before;
    return refusal();
  };
  const auto expect = [](const std::string& text, const std::string& has, const std::string& has_not) {
    EXPECT_NE(text.find(has), text.npos) << text;
    EXPECT_EQ(text.find(has_not), text.npos) << text;
  };
  expect(told("num_attention_heads", 0), "num_attention_heads: found 0", "does not divide");
  expect(told("head_dim", 7), "config.json.head_dim: 7 is odd", "partial_rotary_factor");
  expect(told("partial_rotary_factor", 0.25), "partial_rotary_factor: 0.25: all elements", "head_dim: ");
  expect(told("rope_scaling", *parse_json(R"({"rope_type": "longrope", "long_factor": [1, 1, 1], "short_factor": [1, 1],
                                              "original_max_position_embeddings": 16})",
                                          "rope")),
         "rope_scaling.long_factor: 3 factors, expected 2", "divisors");
  expect(told("rope_scaling", *parse_json(R"({"rope_type": "linear"})", "rope")),
         "rope_scaling.factor: is not there, and linear needs it", "divisors");
  // Programs differ in which of the two counts.
  for (const auto& [factor, notes] : {std::pair(2, 1u), std::pair(4, 2u)}) {
    config_["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", factor}, {"original_max_position_embeddings", 16}};
    write();
    const auto model = import();
    ASSERT_TRUE(model) << model.error().text();
    ASSERT_EQ(model->notes.size(), notes) << factor;
    EXPECT_EQ(model->notes[0].find("rope_scaling.factor: 4") != std::string::npos, factor == 4) << model->notes[0];
  }
}

TEST_F(TinyLlama, SaysWhatAFileIsThatIsNoModel) {
  const auto expect = [&](const std::string& path, const std::string& told) {
    const auto model = import_model(storage::real_file_system(), path);
    ASSERT_FALSE(model) << path;
    EXPECT_NE(model.error().text().find(told), std::string::npos) << model.error().text();
  };
  write();
  const std::string folder = folder_.path(), weights = folder + "/model.safetensors", entity = folder + "/x.entity";
  const auto limited = import({.max_memory = 1});
  ASSERT_FALSE(limited);
  EXPECT_NE(limited.error().text().find("the largest tensor as the file has it, as float32 and quantized"),
            std::string::npos)
      << limited.error().text();
  ASSERT_TRUE(storage::write_file_durably(storage::real_file_system(), entity, import()->content));
  expect(entity, "x.entity: is an .entity file");
  std::filesystem::remove(weights);
  write_text("pytorch_model.bin", "PK\3\4");
  expect(folder, "its weights are in files of PyTorch (pytorch_model.bin), which are not read");
  expect(folder + "/pytorch_model.bin", "is a file of PyTorch (pickles), which is not read");
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
  write_text("model.safetensors", pointer);
  expect(folder, "model.safetensors: is a Git LFS pointer");
  write_text("w.gguf", pointer);
  expect(folder + "/w.gguf", "w.gguf: is a Git LFS pointer");
}

TEST(ReportConfig, TellsFamiliesKeysAndProblems) {
  const auto of = [](const char* text) { return report_config(*parse_json(text, "config.json")); };
  const ConfigReport mamba = of(R"({"model_type": "mamba"})");
  EXPECT_FALSE(mamba.is_supported);
  ASSERT_EQ(mamba.problems.size(), 1u);
  EXPECT_NE(mamba.problems[0].find("\"mamba\" is no family"), std::string::npos) << mamba.problems[0];
  const char* const gpt2 = R"({"model_type": "gpt2", "vocab_size": 8, "n_embd": 4, "n_layer": 1, "n_head": 1,
      "n_positions": 4, "reorder_and_upcast_attn": true, "summary_type": "cls_index"})";
  const ConfigReport report = of(gpt2);
  EXPECT_TRUE(report.is_supported);
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_NE(report.problems[0].find("reorder_and_upcast_attn: true"), std::string::npos) << report.problems[0];
  EXPECT_EQ(report.unread, std::vector<std::string>{"summary_type"});
}

TEST_F(TinyLlama, RefusesAFamilyThatItDoesNotKnow) {
  config_["model_type"] = "mamba";
  write();
  EXPECT_NE(refusal().find("'mamba' is no family that is imported; expected one of llama"), std::string::npos)
      << refusal();
}

TEST_F(TinyLlama, IsAMistralWithItsWindow) {
  write();
  const std::vector<float> ids{1, 7, 3, 11, 0, 2};
  const auto logits = [&] {
    write();
    const auto mesh = imported_mesh(folder_.path(), {.tokens = 6});
    EXPECT_TRUE(mesh) << mesh.error().text();
    return logits_of(*mesh, ids, 12);
  };
  const std::vector<float> llama = logits();
  config_["model_type"] = "mistral";
  config_["sliding_window"] = Json();
  EXPECT_EQ(logits(), llama);
  config_.erase("sliding_window");
  EXPECT_EQ(logits(), llama) << "4096, more than there are tokens";
  config_["sliding_window"] = 2;
  const std::vector<float> narrow = logits();
  EXPECT_TRUE(std::equal(narrow.begin(), narrow.begin() + 24, llama.begin())) << "two tokens see all there is";
  EXPECT_NE(narrow, llama);
}

TEST_F(TinyLlama, RefusesWeightsThatAreNotFinite) {
  tensors_["model.layers.0.mlp.down_proj.weight"].numbers[19] = INFINITY;
  write();
  EXPECT_NE(refusal().find("tensor 'model.layers.0.mlp.down_proj.weight': weight 19 is inf; weights must be finite"),
            std::string::npos)
      << refusal();
}

TEST_F(TinyLlama, ReplacesWeightsThatAreNotFiniteWhereAllowed) {
  auto &down = tensors_["model.layers.0.mlp.down_proj.weight"].numbers, &norm = tensors_["model.norm.weight"].numbers;
  down[19] = 0, norm[3] = -std::numeric_limits<float>::max();
  write();
  const std::string finite = hash();
  down[19] = NAN, norm[3] = -INFINITY;
  write();
  const auto model = import({.allow_nonfinite = true});
  ASSERT_TRUE(model) << model.error().text();
  ASSERT_TRUE(collect(model->content));
  ASSERT_EQ(model->notes.size(), 2u) << "the other one is of no tokenizer";
  EXPECT_TRUE(model->notes[1].starts_with("2 weights that were not finite")) << model->notes[1];
  EXPECT_EQ(hash({.allow_nonfinite = true}), finite);
}

TEST_F(TinyLlama, TellsWrongTensorsBesideAWrongValueOfItsDescription) {
  config_["hidden_act"] = "foo";
  config_["rms_norm_eps"] = -1;
  put("model.norm.weight", {9});
  write();
  for (const char* part : {"config.json.hidden_act: 'foo'", "config.json.rms_norm_eps: found -1",
                           "tensor 'model.norm.weight': [9], expected [8]"})
    EXPECT_NE(refusal().find(part), std::string::npos) << refusal();
}

TEST_F(TinyLlama, TellsAllShardsThatAreNotThere) {
  write_text("config.json", *write_json(config_));
  write_text("model.safetensors.index.json", R"({"weight_map": {"a": "gone1.safetensors", "b": "gone2.safetensors"}})");
  EXPECT_NE(refusal().find("gone1.safetensors, gone2.safetensors are not there, of 2 files"), std::string::npos)
      << refusal();
}

TEST_F(TinyLlama, TakesTheNamesOfABareModel) {
  write();
  const std::string whole = hash();
  const auto named = tensors_;
  tensors_.clear();
  for (const auto& [name, values] : named) tensors_[name.starts_with("model.") ? name.substr(6) : name] = values;
  write();
  EXPECT_EQ(hash(), whole);
}

TEST_F(TinyLlama, TakesWhicheverOfTwoTiedTensorsThereIs) {
  config_["tie_word_embeddings"] = true;
  tensors_["lm_head.weight"] = tensors_["model.embed_tokens.weight"];
  write();
  const std::string both = hash();
  const Values head = tensors_["lm_head.weight"];
  tensors_.erase("lm_head.weight");
  write();
  EXPECT_EQ(hash(), both);
  tensors_.erase("model.embed_tokens.weight");
  tensors_["lm_head.weight"] = head;
  write();
  EXPECT_EQ(hash(), both);
  write({{"format", "pt"}, {"model.embed_tokens.weight", "lm_head.weight"}});
  EXPECT_EQ(hash(), both) << "a note says under which name it was kept";
}

TEST_F(TinyLlama, SaysThatATiedHeadOfItsOwnIsNotUsed) {
  config_["tie_word_embeddings"] = true;
  write();
  const auto model = import();
  ASSERT_TRUE(model) << model.error().text();
  ASSERT_EQ(model->notes.size(), 2u) << "the other one is of no tokenizer";
  EXPECT_NE(model->notes[1].find("'lm_head.weight', which differs"), std::string::npos) << model->notes[1];
}

TEST_F(TinyLlama, ReadsShards) {
  write();
  const std::string whole = hash();
  std::filesystem::remove(folder_.path() + "/model.safetensors");
  Json map = Json::object();
  std::vector<formats::Tensor> parts[2];
  for (formats::Tensor& tensor : all()) {
    const int part = tensor.name.find("layers.1") != std::string::npos;
    map[tensor.name] = part ? "model-00002-of-00002.safetensors" : "model-00001-of-00002.safetensors";
    parts[part].push_back(std::move(tensor));
  }
  write_text("model.safetensors.index.json", *write_json(Json{{"metadata", Json::object()}, {"weight_map", map}}));
  for (const int part : {0, 1})
    ASSERT_TRUE(formats::save_safetensors(
        storage::real_file_system(),
        folder_.path() + (part ? "/model-00002-of-00002.safetensors" : "/model-00001-of-00002.safetensors"),
        parts[part]));
  EXPECT_EQ(hash(), whole);
}

TEST_F(TinyLlama, KeepsTheTypesOfItsFiles) {
  write_text("config.json", *write_json(config_));
  std::vector<std::vector<std::uint16_t>> codes;
  std::vector<formats::Tensor> tensors;
  for (const auto& [name, values] : tensors_) {
    codes.emplace_back();
    for (const float number : values.numbers) codes.back().push_back(numeric::Bfloat16::encode(number));
    tensors.push_back({name, "bfloat16", values.shape, std::as_bytes(std::span(codes.back()))});
  }
  ASSERT_TRUE(formats::save_safetensors(storage::real_file_system(), folder_.path() + "/model.safetensors", tensors));
  const auto model = import();
  ASSERT_TRUE(model) << model.error().text();
  for (const mesh::LayerSpec& layer : model->graph->spec().layers)
    EXPECT_EQ(layer.dtype, layer.type == "rms_norm" ? Dtype::float32 : Dtype::bfloat16) << layer.type;
  const std::string as_it_is = hash(), wide = hash({.encoding = Encoding(Dtype::float32)});
  write();
  EXPECT_EQ(hash(), wide);
  EXPECT_EQ(hash({.encoding = Encoding(Dtype::bfloat16)}), as_it_is);
}

TEST_F(TinyLlama, IsQuantizedWhileItIsReadAsAMeshWouldBe) {
  write();
  for (const Encoding encoding : {Encoding(Dtype::int8), Encoding(Dtype::int4), Encoding(Dtype::uint4),
                                  Encoding(Dtype::ternary), Encoding(Dtype::float16), Encoding(Dtype::fp4)}) {
    SCOPED_TRACE(to_string(encoding));
    const auto small = imported_mesh(folder_.path(), {.encoding = encoding, .tokens = 4});
    ASSERT_TRUE(small) << small.error().text();
    // The same network, its float32 weights quantized by the mesh.
    const auto model = import({.encoding = Encoding(Dtype::float32), .tokens = 4});
    const auto bytes = collect(model->content);
    auto file = formats::decode_entity(ByteSpan(*bytes), "float32");
    auto wide = mesh::Mesh::build(small->spec(), {.keeps_masters = true});
    ASSERT_TRUE(wide) << wide.error().text();
    const Status restored = mesh::restore_weights(*wide, *file);
    ASSERT_TRUE(restored) << restored.error().text();
    const std::vector<float> ids{1, 7, 3, 11};
    EXPECT_EQ(logits_of(*small, ids, 12), logits_of(*wide, ids, 12));
  }
}

// A folder is made into Weft's own file in memory: both must fit, which is asked before either is there.
TEST_F(TinyLlama, IsRefusedWhereItsFileAndItsWeightsDoNotFitTogether) {
  write();
  const auto model = import();
  ASSERT_TRUE(model) << model.error().text();
  mesh::MeshOptions options;
  options.max_memory = model->content.size() + 64;
  const auto refused = load_language_model(storage::real_file_system(), folder_.path(), "", options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::too_large);
  EXPECT_NE(refused.error().text().find("the file as Weft's own"), std::string::npos) << refused.error().text();
  options.max_memory = 16 * model->content.size();
  const auto fits = load_language_model(storage::real_file_system(), folder_.path(), "", options);
  ASSERT_FALSE(fits);
  EXPECT_NE(fits.error().text().find("holds no tokenizer"), std::string::npos) << fits.error().text();
}

/// A description that says more than that of a llama, and what its tensors are.
struct More {
  const char* keys;
  std::vector<std::string> vectors;  // of each block
};

// State hashes do not tell windows apart, so logits are compared.
TEST_F(TinyLlama, ComesBackFromGgufAsItWas) {
  const std::vector<std::string> of_attention{"self_attn.q_proj.bias", "self_attn.k_proj.bias",
                                              "self_attn.v_proj.bias"};
  auto all_of_attention = of_attention, norms = of_attention;
  all_of_attention.emplace_back("self_attn.o_proj.bias");
  norms = all_of_attention;
  norms.insert(norms.end(), {"self_attn.q_norm.weight", "self_attn.k_norm.weight"});
  const Json plain = config_;
  const auto tensors = tensors_;
  const std::vector<float> ids{1, 7, 3, 11, 2, 2, 5, 9, 0, 4};
  std::vector<std::vector<float>> found;
  for (const More& more : std::vector<More>{
           {R"({})", {}},
           {R"({"model_type": "mistral", "sliding_window": null})", {}},
           {R"({"model_type": "mistral", "sliding_window": 3})", {}},
           {R"({"attention_bias": true})", all_of_attention},
           {R"({"mlp_bias": true})", {"mlp.gate_proj.bias", "mlp.up_proj.bias", "mlp.down_proj.bias"}},
           {R"({"model_type": "qwen2"})", of_attention},
           {R"({"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 3, "max_window_layers": 1})",
            of_attention},
           {R"({"model_type": "qwen2", "sliding_window": 3,
                "layer_types": ["sliding_attention", "full_attention"]})",
            of_attention},
           {R"({"model_type": "qwen3", "head_dim": 4, "attention_bias": true, "sliding_window": 3,
                "layer_types": ["sliding_attention", "sliding_attention"]})",
            norms}}) {
    SCOPED_TRACE(more.keys);
    config_ = plain, tensors_ = tensors;
    config_.update(*parse_json(more.keys, "keys"));
    for (const std::string block : {"model.layers.0.", "model.layers.1."})
      for (const std::string& name : more.vectors)
        put(block + name,
            {name.find("norm") != std::string::npos                                                 ? 4u
             : name.find("mlp.down") == 0                                                           ? 8u
             : name.find("mlp.") == 0                                                               ? 16u
             : name.find("q_proj") != std::string::npos || name.find("o_proj") != std::string::npos ? 8u
                                                                                                    : 4u});
    write();
    const ImportOptions options{.tokens = ids.size()};
    const auto model = import(options);
    ASSERT_TRUE(model) << model.error().text();
    const std::string entity = folder_.path() + "/m.entity", gguf = folder_.path() + "/m.gguf";
    ASSERT_TRUE(storage::write_file_durably(storage::real_file_system(), entity, model->content));
    const auto made = export_model(storage::real_file_system(), entity, ExportFormat::gguf, gguf);
    ASSERT_TRUE(made) << made.error().text();
    const auto was = imported_mesh(folder_.path(), options), is = imported_mesh(gguf, options);
    ASSERT_TRUE(is) << is.error().text();
    EXPECT_EQ(to_string(was->state_hash()), to_string(is->state_hash()));
    found.push_back(logits_of(*was, ids, 12));
    EXPECT_EQ(logits_of(*is, ids, 12), found.back());
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_NE(found[1], found[2]) << "the window counts";
  EXPECT_NE(found[5], found[6]) << "the window counts";
  EXPECT_NE(found[6], found[7]) << "and where it is";
}

/// The description of a GGUF file with these keys and tensors of rotary positions: heads of 8 elements.
Result<Decoder> described(const std::map<std::string, formats::GgufValue>& keys,
                          const std::map<std::string, std::vector<float>>& factors = {}, std::size_t tokens = 0,
                          const std::map<std::string, formats::GgufValue>& more = {},
                          const std::string& architecture = "llama") {
  formats::GgufMetadata metadata;
  const std::string prefix = architecture + ".";
  metadata.set("general.architecture", architecture);
  for (const auto& [key, count] : std::map<std::string, std::uint32_t>{{"embedding_length", 16},
                                                                       {"block_count", 1},
                                                                       {"feed_forward_length", 16},
                                                                       {"attention.head_count", 2},
                                                                       {"context_length", 64}})
    metadata.set(prefix + key, count);
  for (const auto& [key, value] : keys) metadata.set(prefix + "rope.scaling." + key, value);
  for (const auto& [key, value] : more) metadata.set(prefix + key, value);
  if (tokens != 0) metadata.set("tokenizer.ggml.tokens", formats::GgufArray(std::vector<std::string>(tokens, "a")));
  const std::vector<float> table(4 * 16);
  std::vector<formats::Tensor> tensors{formats::make_tensor<float>("token_embd.weight", Shape{4, 16}, table)};
  for (const auto& [name, values] : factors)
    tensors.push_back(formats::make_tensor<float>(name + ".weight", std::span<const float>(values)));
  const storage::TemporaryDirectory folder;
  const std::string path = folder.path() + "/m.gguf";
  WEFT_TRY(const ByteSource source, formats::gguf_source(std::move(metadata), std::move(tensors)));
  WEFT_CHECK(storage::write_file_durably(storage::real_file_system(), path, source));
  WEFT_TRY(const ModelFiles opened, open_model_files(storage::real_file_system(), path));
  return describe_decoder(opened);
}

TEST(GgufVocabulary, IsAsLongAsTheEmbedding) {
  for (const std::size_t tokens : {3u, 5u}) {
    const auto refused = described({}, {}, tokens);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().text().find(std::to_string(tokens) + " tokens, token_embd.weight has rows for 4"),
              std::string::npos)
        << refused.error().text();
  }
  const auto taken = described({}, {}, 4);
  EXPECT_TRUE(taken) << taken.error().text();
}

TEST(GgufVocabulary, AloneIsNoModel) {
  const storage::TemporaryDirectory folder;
  const std::string path = folder.path() + "/vocabulary.gguf";
  formats::GgufMetadata metadata;
  metadata.set("general.architecture", std::string("llama"));
  metadata.set("tokenizer.ggml.tokens", formats::GgufArray(std::vector<std::string>{"a", "b"}));
  const auto source = formats::gguf_source(std::move(metadata), {});
  ASSERT_TRUE(source) << source.error().text();
  ASSERT_TRUE(storage::write_file_durably(storage::real_file_system(), path, *source));
  const auto opened = open_model_files(storage::real_file_system(), path);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().text().find("holds a vocabulary and no weights; weft tokenize takes it"), std::string::npos)
      << opened.error().text();
}

// Some converters write a count for each block.
TEST(GgufCounts, OfEachBlockAreOneWhereAllAreTheSame) {
  const auto heads = [](std::vector<std::int32_t> counts) {
    return described({}, {}, 0,
                     {{"block_count", std::uint32_t{3}}, {"attention.head_count_kv", formats::GgufArray(counts)}});
  };
  const auto made = heads({1, 1, 1});
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ(made->kv_heads, 1u);
  for (const auto& counts : {std::vector<std::int32_t>{1, 2, 1}, {1, 1}, {-1, -1, -1}}) {
    const auto refused = heads(counts);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().text().find("num_key_value_heads"), std::string::npos) << refused.error().text();
  }
}

// llama.cpp knows Gemma 2's 27 billion weights by their 46 blocks, and divides scores by the root of width / heads.
TEST(GgufScores, OfGemma2AreScaledAsLlamaCppDoes) {
  for (const auto& [blocks, scalar] : {std::pair(46u, 24.0 / 2), {45u, 8.0}, {26u, 8.0}}) {
    const auto made = described({}, {}, 0,
                                {{"block_count", std::uint32_t{blocks}},
                                 {"embedding_length", std::uint32_t{24}},
                                 {"attention.key_length", std::uint32_t{8}}},
                                "gemma2");
    ASSERT_TRUE(made) << made.error().text();
    EXPECT_DOUBLE_EQ(made->score_scale, 1 / std::sqrt(scalar)) << blocks;
  }
}

// Meanings that llama.cpp v0.5.0 has for such keys, seen in its logits: attn_factor comes on top of yarn's own factor,
// a factor without a type is linear, and one beside the factors of longrope divides too.
TEST(RotaryKeys, OfGgufMeanWhatLlamaCppMakesOfThem) {
  using Text = std::string;
  const float own = static_cast<float>(0.1 * std::log(4.0) + 1);
  const auto expect = [](const Result<Decoder>& made, const std::vector<double>& divisors, float gain) {
    ASSERT_TRUE(made) << made.error().text();
    ASSERT_EQ(made->rope.divisors.size(), divisors.size());
    for (std::size_t i = 0; i < divisors.size(); ++i)
      EXPECT_FLOAT_EQ(static_cast<float>(made->rope.divisors[i]), static_cast<float>(divisors[i])) << i;
    EXPECT_FLOAT_EQ(static_cast<float>(made->rope.gain), gain);
  };
  // theta 10000, 8 elements, 16 positions: c(32) = 8 ln(16 / 64 pi) / 2 ln 10000 < 0, c(1) = 0.4059, so bounds 0 and 1.
  const std::vector<double> yarn{1, 4, 4, 4};
  const std::map<Text, formats::GgufValue> keys{
      {"type", Text("yarn")}, {"factor", 4.0f}, {"original_context_length", std::uint32_t{16}}};
  const auto with = [&](const Text& key, float value) {
    auto more = keys;
    more[key] = value;
    return more;
  };
  expect(described(keys), yarn, own);
  expect(described(with("attn_factor", 0.8f)), yarn, 0.8f * own);
  expect(described(with("yarn_log_multiplier", 0.5f)), yarn, own / static_cast<float>(0.05 * std::log(4.0) + 1));
  expect(described(with("yarn_ext_factor", 1.0f)), yarn, own);
  const std::vector<float> factors{1, 1.5f, 2, 3}, shorter{1, 1, 1, 1.25f};
  expect(described(keys, {{"rope_freqs", factors}}), {1, 6, 8, 12}, own);
  expect(described({{"attn_factor", 0.8f}}, {{"rope_freqs", factors}}), {1, 1.5, 2, 3}, 0.8f);
  expect(described({{"factor", 4.0f}}), {4, 4, 4, 4}, 1);
  expect(described({{"factor", 0.0f}}), {}, 1);
  expect(described({{"type", Text("none")}, {"factor", 4.0f}}), {}, 1);
  expect(described({{"attn_factor", 0.75f}}), {}, 0.75f);
  const std::map<Text, std::vector<float>> both{{"rope_factors_long", factors}, {"rope_factors_short", shorter}};
  expect(described({{"original_context_length", std::uint32_t{32}}, {"attn_factor", 1.25f}}, both), {1, 1.5, 2, 3},
         1.25f);
  expect(described({{"original_context_length", std::uint32_t{64}}}, both), {1, 1, 1, 1.25}, 1);
  expect(described({{"original_context_length", std::uint32_t{32}}, {"factor", 2.0f}}, both), {2, 3, 4, 6}, 1);
  expect(described({{"type", Text("linear")}, {"factor", 2.0f}, {"attn_factor", 0.5f}}), {2, 2, 2, 2}, 0.5f);
  const auto untyped = described({{"yarn_ext_factor", 0.5f}});
  ASSERT_FALSE(untyped);
  EXPECT_NE(untyped.error().text().find("yarn_ext_factor"), std::string::npos) << untyped.error().text();
  for (const char* const key : {"yarn_ext_factor", "yarn_attn_factor"}) {
    const auto refused = described(with(key, 0.5f));
    ASSERT_FALSE(refused) << key;
    EXPECT_NE(refused.error().text().find(key), std::string::npos) << refused.error().text();
  }
  for (const char* const key : {"yarn_ext_factor", "yarn_log_multiplier", "attn_factor", "factor"})
    EXPECT_FALSE(described(with(key, NAN))) << key;
}

TEST_F(TinyLlama, IsTheSameFromTheGgufFileThatItIsWrittenTo) {
  config_["max_position_embeddings"] = 64;
  for (const std::string family : {"llama", "qwen3"}) {
    config_["model_type"] = family;
    if (family == "qwen3") {
      config_["head_dim"] = 4;
      for (const std::string block : {"model.layers.0.", "model.layers.1."}) {
        put(block + "self_attn.q_norm.weight", {4});
        put(block + "self_attn.k_norm.weight", {4});
      }
    }
    for (const char* const scaling :
         {R"({"type": "linear", "factor": 2.6666666666666665})",
          R"({"rope_type": "yarn", "factor": 2.7, "original_max_position_embeddings": 16})",
          R"({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "attention_factor": 1.0})",
          R"({"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 16, "mscale": 1.0,
              "mscale_all_dim": 0.5})",
          R"({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 2.0,
              "beta_slow": 0.125})",
          R"({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "truncate": false})",
          R"({"rope_type": "longrope", "original_max_position_embeddings": 16, "long_factor": [1.1, 3.7],
              "short_factor": [1.0, 1.3]})",
          R"({"rope_type": "longrope", "original_max_position_embeddings": 64, "long_factor": [1.1, 3.7],
              "short_factor": [1.0, 1.3], "attention_factor": 1.19})",
          R"({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 32, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0})"}) {
      SCOPED_TRACE(family + scaling);
      config_["rope_scaling"] = *parse_json(scaling, "scaling");
      write();
      const auto model = import();
      ASSERT_TRUE(model) << model.error().text();
      const std::string entity = folder_.path() + "/m.entity", gguf = folder_.path() + "/m.gguf";
      auto& files = storage::real_file_system();
      ASSERT_TRUE(storage::write_file_durably(files, entity, model->content));
      const auto made = export_model(files, entity, ExportFormat::gguf, gguf);
      ASSERT_TRUE(made) << made.error().text();
      const auto there = imported_mesh(folder_.path(), {}), here = imported_mesh(gguf, {});
      ASSERT_TRUE(here) << here.error().text();
      EXPECT_EQ(to_string(here->state_hash()), to_string(there->state_hash()));
      EXPECT_EQ(here->network_digest(), there->network_digest());
      // And from there as a folder again.
      ASSERT_TRUE(storage::write_file_durably(files, entity, import_model(files, gguf)->content));
      ASSERT_TRUE(export_model(files, entity, ExportFormat::hugging_face, folder_.path() + "/back"));
      const auto back = imported_mesh(folder_.path() + "/back", {});
      ASSERT_TRUE(back) << back.error().text();
      EXPECT_EQ(back->network_digest(), there->network_digest());
    }
  }
}

}  // namespace
}  // namespace weft::models::import_test
