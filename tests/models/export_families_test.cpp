// SPDX-License-Identifier: Apache-2.0

#include "models/export.hpp"

#include "formats/gguf/gguf.hpp"
#include "storage/durable.hpp"

#include "tests/models/imported.hpp"
#include "tests/support/temporary_directory.hpp"
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <ostream>
#include <set>

namespace weft::models::export_families_test {
namespace {

/// A model of the shared data, with other keys in its description.
struct Row {
  const char *name, *folder, *keys;
  const char* refused = "";  // why no GGUF file holds it
};
std::ostream& operator<<(std::ostream& to, const Row& row) { return to << row.name; }

const Row kRows[] = {
    {"llama", "llama", "{}"},
    {"llama_3", "llama-3", "{}"},
    {"llama_linear", "llama-linear", "{}"},
    {"llama_yarn", "llama-yarn", "{}"},
    {"llama_longrope", "llama", R"({"rope_scaling": {"rope_type": "longrope", "factor": 8.0,
        "original_max_position_embeddings": 16, "short_factor": [1.0, 1.25, 1.5, 2.0, 2.0, 2.5, 3.0, 4.0],
        "long_factor": [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 7.0, 8.5]}})"},
    {"mistral", "llama", R"({"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 4})"},
    {"qwen2", "qwen2", "{}"},
    {"qwen2_windows", "qwen2", R"({"use_sliding_window": true, "sliding_window": 4, "max_window_layers": 1})"},
    {"qwen3", "qwen3", "{}"},
    {"gemma", "gemma", "{}"},
    {"gemma2", "gemma2", "{}"},
    {"gemma2_period", "gemma2", R"({"layer_types": ["sliding_attention", "sliding_attention", "full_attention"]})"},
    {"gemma2_windows", "gemma2", R"({"layer_types": ["full_attention", "sliding_attention", "full_attention"]})",
     "come in no period"},
    {"phi3", "phi3", "{}"},
    {"phi3_window", "phi3", R"({"sliding_window": 4})"},
    {"phi3_longrope", "phi3", R"({"original_max_position_embeddings": 32, "rope_scaling": {"type": "longrope",
        "short_factor": [1.0, 1.0, 1.0, 1.5, 2.0, 2.0], "long_factor": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}})"},
    {"gpt2", "gpt2", "{}"},
    {"bitnet", "bitnet", "{}"},
    {"tinystories", "../tinystories-656k", "{}"},
    {"gemma2_scalar", "gemma2", R"({"query_pre_attn_scalar": 16})", "query_pre_attn_scalar"},
    {"gemma_gelu", "gemma", R"({"hidden_activation": "gelu"})", "activation"},
    {"gpt2_gelu", "gpt2", R"({"activation_function": "gelu"})", "activation"},
    {"bitnet_2b4t", "bitnet-2b4t-style", "{}", "int8 with one scale a row"},
};

class Families : public ::testing::TestWithParam<Row> {
 protected:
  void SetUp() override {
    const std::string from = shared_data("language/families/" + std::string(GetParam().folder));
    if (from.empty()) GTEST_SKIP() << "no ../shared/data";
    source_ = folder_.path() + "/source";
    std::filesystem::create_directory(source_);
    for (const auto& file : std::filesystem::directory_iterator(from))
      std::ofstream(source_ + "/" + file.path().filename().string(), std::ios::binary)
          << std::ifstream(file.path(), std::ios::binary).rdbuf();
    Json config = json(source_ + "/config.json");
    config.update(*parse_json(GetParam().keys, "keys"));
    std::ofstream(source_ + "/config.json") << *write_json(config);
  }
  static Json json(const std::string& path) {
    const auto bytes = storage::real_file_system().read(path, std::size_t{1} << 24);
    return *parse_json(as_text(*bytes), path);
  }
  std::string entity_of(const std::string& path) {
    const auto model = import_model(files_, path);
    EXPECT_TRUE(model) << model.error().text();
    const std::string entity = folder_.path() + "/" + std::to_string(++count_) + ".entity";
    EXPECT_TRUE(model && storage::write_file_durably(files_, entity, model->content));
    return entity;
  }
  Result<Exported> written(const std::string& entity, ExportFormat format, const std::string& name) {
    return export_model(files_, entity, format, folder_.path() + "/" + name);
  }
  static void expect_same(const std::string& path, const std::string& source) {
    const auto is = imported_mesh(path, {}), was = imported_mesh(source, {});
    ASSERT_TRUE(is) << is.error().text();
    ASSERT_TRUE(was) << was.error().text();
    EXPECT_EQ(to_string(is->state_hash()), to_string(was->state_hash()));
    EXPECT_EQ(is->network_digest(), was->network_digest()) << "options of layers too";
  }

  storage::FileSystem& files_ = storage::real_file_system();
  storage::TemporaryDirectory folder_;
  std::string source_;
  int count_ = 0;
};

// From a folder into a GGUF file, and from that into a folder: each is the same network with the same weights.
TEST_P(Families, AreTheSameModelFromEachFileThatTheyAreWrittenTo) {
  const std::string entity = entity_of(source_), gguf = folder_.path() + "/m.gguf", back = folder_.path() + "/back";
  const auto copied = written(entity, ExportFormat::hugging_face, "copy");
  ASSERT_TRUE(copied) << copied.error().text();
  expect_same(folder_.path() + "/copy", source_);
  const auto made = written(entity, ExportFormat::gguf, "m.gguf");
  if (*GetParam().refused != '\0') {
    ASSERT_FALSE(made) << "it would be another model";
    EXPECT_NE(made.error().text().find(GetParam().refused), std::string::npos) << made.error().text();
    EXPECT_NE(made.error().text().find("--format hf"), std::string::npos) << made.error().text();
    EXPECT_FALSE(std::filesystem::exists(gguf));
    return;
  }
  ASSERT_TRUE(made) << made.error().text();
  expect_same(gguf, source_);
  const std::string told = std::accumulate(made->notes.begin(), made->notes.end(), std::string());
  const std::string family = GetParam().name;
  EXPECT_EQ(told.find("attention.sliding_window") != std::string::npos,
            family == "mistral" || family == "qwen2_windows" || family == "phi3_window")
      << told;
  const auto again = written(entity_of(gguf), ExportFormat::hugging_face, "back");
  ASSERT_TRUE(again) << again.error().text();
  expect_same(back, source_);
}

// transformers 4 and 5 take what they do not know for nothing, and what is not there for their own default.
TEST_P(Families, HaveTheKeysOfTransformersAfterGguf) {
  if (*GetParam().refused != '\0') GTEST_SKIP() << "no GGUF file holds it";
  ASSERT_TRUE(written(entity_of(source_), ExportFormat::gguf, "m.gguf"));
  const auto made = written(entity_of(folder_.path() + "/m.gguf"), ExportFormat::hugging_face, "back");
  ASSERT_TRUE(made) << made.error().text();
  const Json config = json(folder_.path() + "/back/config.json"), was = json(source_ + "/config.json");
  // Of those that say how it computes, every one has its value again.
  for (const char* const key : {"model_type",
                                "architectures",
                                "vocab_size",
                                "hidden_size",
                                "num_attention_heads",
                                "num_key_value_heads",
                                "num_hidden_layers",
                                "intermediate_size",
                                "max_position_embeddings",
                                "rms_norm_eps",
                                "rope_theta",
                                "tie_word_embeddings",
                                "head_dim",
                                "hidden_activation",
                                "query_pre_attn_scalar",
                                "attn_logit_softcapping",
                                "final_logit_softcapping",
                                "sliding_window",
                                "layer_types",
                                "use_sliding_window",
                                "max_window_layers",
                                "partial_rotary_factor",
                                "original_max_position_embeddings",
                                "n_embd",
                                "n_head",
                                "n_layer",
                                "n_inner",
                                "n_positions",
                                "layer_norm_epsilon",
                                "activation_function",
                                "torch_dtype",
                                "bos_token_id",
                                "eos_token_id"})
    if (was.contains(key) && !(std::string(GetParam().folder) == "bitnet" && std::string(key) == "architectures")) {
      EXPECT_EQ(config[key], was[key]) << key << ": " << config[key].dump() << ", was " << was[key].dump();
    }
  if (was.contains("rope_scaling") && !was["rope_scaling"].is_null())
    for (const auto& [key, value] : was["rope_scaling"].members())
      if (key != "factor" || !was["rope_scaling"].contains("long_factor")) {
        EXPECT_EQ(config["rope_scaling"][key == "type" && !config["rope_scaling"].contains(key) ? "rope_type" : key],
                  value)
            << key << ": " << config["rope_scaling"].dump();
      }
  const std::set<std::string> known{"activation_function",
                                    "architectures",
                                    "attention_bias",
                                    "attn_logit_softcapping",
                                    "bos_token_id",
                                    "eos_token_id",
                                    "final_logit_softcapping",
                                    "head_dim",
                                    "hidden_act",
                                    "hidden_activation",
                                    "hidden_size",
                                    "intermediate_size",
                                    "layer_norm_epsilon",
                                    "layer_types",
                                    "max_position_embeddings",
                                    "max_window_layers",
                                    "mlp_bias",
                                    "model_type",
                                    "n_embd",
                                    "n_head",
                                    "n_inner",
                                    "n_layer",
                                    "n_positions",
                                    "num_attention_heads",
                                    "num_hidden_layers",
                                    "num_key_value_heads",
                                    "original_max_position_embeddings",
                                    "pad_token_id",
                                    "partial_rotary_factor",
                                    "query_pre_attn_scalar",
                                    "rms_norm_eps",
                                    "rope_scaling",
                                    "rope_theta",
                                    "sliding_window",
                                    "tie_word_embeddings",
                                    "torch_dtype",
                                    "use_sliding_window",
                                    "vocab_size"};
  for (const auto& [key, value] : config.members()) EXPECT_TRUE(known.contains(key)) << key << ": " << value.dump();
  EXPECT_EQ(config.contains("n_embd"), std::string(GetParam().folder) == "gpt2");
  EXPECT_TRUE(config.contains("eos_token_id")) << "else it is the family's default";
  const std::string defaults = folder_.path() + "/back/generation_config.json";
  EXPECT_EQ(std::filesystem::exists(defaults), !config["eos_token_id"].is_null());
  if (!config["eos_token_id"].is_null()) {
    EXPECT_EQ(json(defaults)["eos_token_id"], config["eos_token_id"]);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Families, ::testing::ValuesIn(kRows),
                         [](const auto& tested) { return std::string(tested.param.name); });

/// A model of the shared data as a GGUF file, which keys and tensors are added to.
class ChangedGguf : public ::testing::Test {
 protected:
  std::string changed(const std::string& family, const std::vector<std::pair<std::string, formats::GgufValue>>& keys,
                      const std::vector<std::pair<std::string, std::vector<float>>>& added = {},
                      const std::string& file = "") {
    const std::string from = file.empty() ? shared_data("language/families/" + family + "/model-f32.gguf") : file;
    auto read = formats::load_gguf(files_, from);
    EXPECT_TRUE(read) << read.error().text();
    formats::GgufMetadata metadata = read->metadata();
    for (const auto& [key, value] : keys) metadata.set(key, value);
    std::vector<formats::Tensor> tensors = read->tensors();
    for (formats::Tensor& tensor : tensors) tensor = *read->find(tensor.name);
    for (const auto& [name, values] : added)
      tensors.push_back(formats::make_tensor<float>(name, std::span<const float>(values)));
    const std::string path = folder_.path() + "/changed.gguf";
    const auto source = formats::gguf_source(std::move(metadata), std::move(tensors));
    EXPECT_TRUE(source) << source.error().text();
    EXPECT_TRUE(storage::write_file_durably(files_, path, *source));
    return path;
  }
  storage::FileSystem& files_ = storage::real_file_system();
  storage::TemporaryDirectory folder_;
};

TEST_F(ChangedGguf, KeysThatChangeResultsAreRefused) {
  if (shared_data("language/families/gemma2").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto expect = [&](const char* folder, const char* key, formats::GgufValue value, const char* named) {
    const auto made = import_model(files_, changed(folder, {{key, std::move(value)}}));
    ASSERT_EQ(made.has_value(), *named == '\0') << key;
    if (made) return;
    EXPECT_NE(made.error().text().find(named), std::string::npos) << made.error().text();
  };
  expect("llama", "llama.attention.causal", false, "is_causal");
  expect("llama", "llama.attention.causal", true, "");
  expect("llama", "llama.expert_count", std::uint32_t{8}, "num_local_experts");
  expect("llama", "llama.expert_count", std::uint32_t{0}, "");
  expect("gemma2", "gemma2.rope.freq_base_swa", 500.0f, "rope_local_base_freq");
  expect("gemma2", "gemma2.rope.freq_base_swa", 10000.0f, "");
}

// llama.cpp takes a number N as well as a list: each Nth block is without a window, with 0 none is.
TEST_F(ChangedGguf, HasItsPatternOfWindowsAsANumberToo) {
  if (shared_data("language/families/gemma2").empty()) GTEST_SKIP() << "no ../shared/data";
  using Windows = std::vector<std::size_t>;
  for (const auto& [number, windows] :
       {std::pair(2u, Windows{4, 0, 4}), {3u, Windows{4, 4, 0}}, {1u, Windows{0, 0, 0}}, {0u, Windows{4, 4, 4}}}) {
    const auto model =
        import_model(files_, changed("gemma2", {{"gemma2.attention.sliding_window_pattern", std::uint32_t{number}}}));
    ASSERT_TRUE(model) << model.error().text();
    EXPECT_EQ(model->decoder.windows, windows) << number;
  }
  const auto refused =
      import_model(files_, changed("gemma2", {{"gemma2.attention.sliding_window_pattern", std::string("x")}}));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text().find("sliding_window_pattern"), std::string::npos) << refused.error().text();
}

// llama.cpp's default of the base is 10000 whatever the architecture.
TEST_F(ChangedGguf, HasTheBaseOfLlamaCppWithoutAKey) {
  const std::string from = shared_data("language/families/bitnet/model-f32.gguf");
  if (from.empty()) GTEST_SKIP() << "no ../shared/data";
  auto read = formats::load_gguf(files_, from);
  formats::GgufMetadata fewer;
  for (const auto& [key, value] : read->metadata().pairs())
    if (key != "bitnet.rope.freq_base") fewer.set(key, value);
  const std::string path = folder_.path() + "/fewer.gguf";
  std::vector<formats::Tensor> tensors = read->tensors();
  for (formats::Tensor& tensor : tensors) tensor = *read->find(tensor.name);
  ASSERT_TRUE(storage::write_file_durably(files_, path, *formats::gguf_source(fewer, tensors)));
  const auto model = import_model(files_, path);
  ASSERT_TRUE(model) << model.error().text();
  EXPECT_EQ(model->decoder.rope.theta, 10000);
}

TEST_F(ChangedGguf, HasProductsTimesTheirScale) {
  const std::string from = shared_data("language/families/bitnet/model-f32.gguf");
  if (from.empty()) GTEST_SKIP() << "no ../shared/data";
  constexpr float kScale = 0.3f;
  const std::vector<std::pair<std::string, std::vector<float>>> scales{
      {"blk.0.attn_q.scale", {kScale}}, {"blk.1.ffn_down.scale", {2.0f}}, {"blk.2.attn_output.scale", {1.0f}}};
  // The same in the tensors themselves.
  auto read = formats::load_gguf(files_, from);
  std::vector<std::vector<float>> multiplied;
  std::vector<formats::Tensor> tensors;
  for (const formats::Tensor& tensor : read->tensors()) {
    const auto values = read->values<float>(tensor.name);
    multiplied.emplace_back(values->begin(), values->end());
    for (const auto& [name, scale] : scales)
      if (name.substr(0, name.size() - 5) + "weight" == tensor.name)
        for (float& value : multiplied.back()) value *= scale.front();
  }
  for (std::size_t i = 0; i < multiplied.size(); ++i)
    tensors.push_back(formats::make_tensor<float>(read->tensors()[i].name, read->tensors()[i].shape,
                                                  std::span<const float>(multiplied[i])));
  const std::string expected = folder_.path() + "/expected.gguf";
  ASSERT_TRUE(storage::write_file_durably(files_, expected, *formats::gguf_source(read->metadata(), tensors)));
  const auto was = imported_mesh(expected, {}), is = imported_mesh(changed("bitnet", {}, scales), {});
  ASSERT_TRUE(was) << was.error().text();
  ASSERT_TRUE(is) << is.error().text();
  EXPECT_EQ(to_string(is->state_hash()), to_string(was->state_hash()));

  // Codes stay, their scales are multiplied: as near as a rounding of each product of two scales.
  const std::string entity = folder_.path() + "/m.entity", blocks = folder_.path() + "/q8.gguf";
  ASSERT_TRUE(storage::write_file_durably(files_, entity, import_model(files_, from)->content));
  ASSERT_TRUE(export_model(files_, entity, ExportFormat::gguf, blocks, {.type = "q8_0"}));
  const auto coded = import_model(files_, changed("", {}, {scales[0]}, blocks));
  ASSERT_TRUE(coded) << coded.error().text();
  const std::vector<float> ids{3, 17, 5, 90, 41, 8, 8, 60, 2, 33, 71, 12};
  const auto mesh = imported_mesh(folder_.path() + "/changed.gguf", {.tokens = 12});
  const auto wide = imported_mesh(folder_.path() + "/changed.gguf",
                                  {.encoding = Encoding(Dtype::int8, Granularity::block32), .tokens = 12});
  ASSERT_TRUE(mesh && wide);
  EXPECT_EQ(logits_of(*mesh, ids, 96), logits_of(*wide, ids, 96));
  const auto plain = imported_mesh(blocks, {.tokens = 12});
  EXPECT_NE(logits_of(*mesh, ids, 96), logits_of(*plain, ids, 96));

  for (const float bad : {0.0f, -1.0f, INFINITY}) {
    const auto refused = import_model(files_, changed("bitnet", {}, {{"blk.0.attn_q.scale", {bad}}}));
    ASSERT_FALSE(refused) << bad;
    EXPECT_NE(refused.error().text().find("blk.0.attn_q.scale"), std::string::npos) << refused.error().text();
  }
  EXPECT_FALSE(import_model(files_, changed("bitnet", {}, {{"blk.0.attn_q.scale", {1, 2}}})));
  EXPECT_FALSE(import_model(files_, changed("bitnet", {}, {{"blk.9.attn_q.scale", {1}}}))) << "of no matrix";
}

TEST_F(ChangedGguf, IsRefusedWhereAKeyChangesResults) {
  if (shared_data("language/families/llama").empty()) GTEST_SKIP() << "no ../shared/data";
  for (const char* const key : {"attention.scale", "logit_scale", "residual_scale", "embedding_scale"}) {
    const auto refused = import_model(files_, changed("llama", {{"llama." + std::string(key), 0.9f}}));
    ASSERT_FALSE(refused) << key;
    EXPECT_NE(refused.error().text().find("0.9"), std::string::npos) << refused.error().text();
  }
  const auto neutral =
      import_model(files_, changed("llama", {{"llama.attention.scale", 0.25f}, {"llama.logit_scale", 1.0f}}));
  EXPECT_TRUE(neutral) << neutral.error().text();
}

// Divisors of a tensor are llama3's where such numbers make them, else what longrope holds: either way the same model.
TEST_F(ChangedGguf, HasDivisorsThatComeBackFromAFolder) {
  if (shared_data("language/families/llama").empty()) GTEST_SKIP() << "no ../shared/data";
  const std::vector<float> odd{1, 1.5f, 2, 3, 3.25f, 4, 5, 7};
  std::vector<float> llama3;  // 10000, 16 elements, factor 8, 1, 4, 32, computed in float32 as llama.cpp's script does
  for (int i = 0; i < 8; ++i) {
    const float frequency = 1.0f / std::pow(10000.0f, static_cast<float>(2 * i) / 16.0f);
    const float wavelength = static_cast<float>(2 * 3.141592653589793) / frequency;
    const float smooth = (32.0f / wavelength - 1.0f) / (4.0f - 1.0f);
    llama3.push_back(wavelength < 8 ? 1 : wavelength > 32 ? 8 : 1 / ((1 - smooth) / 8 + smooth));
  }
  for (const auto& [divisors, type] : {std::pair(odd, "longrope"), std::pair(llama3, "llama3")}) {
    const std::string path = changed("llama", {}, {{"rope_freqs.weight", divisors}}), hf = folder_.path() + "/hf";
    const std::string entity = folder_.path() + "/m.entity";
    ASSERT_TRUE(storage::write_file_durably(files_, entity, import_model(files_, path)->content));
    const auto made = export_model(files_, entity, ExportFormat::hugging_face, hf);
    ASSERT_TRUE(made) << made.error().text();
    const auto bytes = files_.read(hf + "/config.json", 1 << 20);
    const Json config = *parse_json(as_text(*bytes), hf);
    EXPECT_EQ(config["rope_scaling"]["rope_type"], Json(type)) << config["rope_scaling"].dump();
    const auto was = import_model(files_, path), is = import_model(files_, hf);
    ASSERT_TRUE(is) << is.error().text();
    for (std::size_t i = 0; i < divisors.size(); ++i)
      EXPECT_NEAR(is->decoder.rope.divisors[i], was->decoder.rope.divisors[i], 1e-5 * divisors[i]) << i;
    const std::string told = std::accumulate(made->notes.begin(), made->notes.end(), std::string());
    EXPECT_NE(told.find("rope_freqs.weight"), std::string::npos) << told;
    if (std::string(type) == "llama3") {
      EXPECT_EQ(config["rope_scaling"]["original_max_position_embeddings"], Json(32)) << config["rope_scaling"].dump();
    }
  }
}

TEST(ExportedTypes, AreThoseOfTheDescription) {
  const std::string source = shared_data("language/tinystories-656k");
  if (source.empty()) GTEST_SKIP() << "no ../shared/data";
  auto& files = storage::real_file_system();
  const storage::TemporaryDirectory folder;
  const std::string entity = folder.path() + "/m.entity", hf = folder.path() + "/hf", from = folder.path() + "/from";
  std::filesystem::copy(source, from);
  const auto config_at = [&](const std::string& path) {
    return *parse_json(as_text(*files.read(path + "/config.json", 1 << 20)), path);
  };
  Json config = config_at(from);
  config.erase("torch_dtype");
  config["dtype"] = "bfloat16";
  std::filesystem::remove(from + "/config.json");
  std::ofstream(from + "/config.json") << *write_json(config);
  const auto expect = [&](const ImportOptions& options, const std::string& path, const std::string& type,
                          const char* key, const char* expected) {
    ASSERT_TRUE(storage::write_file_durably(files, entity, import_model(files, path, options)->content));
    const auto made = export_model(files, entity, ExportFormat::hugging_face, hf, {.type = type});
    ASSERT_TRUE(made) << made.error().text();
    EXPECT_EQ(config_at(hf)[key], Json(expected)) << config_at(hf).dump();
  };
  expect({}, from, "", "dtype", "bfloat16");
  expect({}, from, "float32", "dtype", "float32");
  expect({}, from, "float16", "dtype", "float16");
  expect({.encoding = Encoding(Dtype::int8)}, source, "", "torch_dtype", "float32");
  expect({.encoding = Encoding(Dtype::int8)}, source, "bfloat16", "torch_dtype", "bfloat16");
  const std::string gguf = folder.path() + "/m.gguf";
  ASSERT_TRUE(storage::write_file_durably(files, entity, import_model(files, source)->content));
  ASSERT_TRUE(export_model(files, entity, ExportFormat::gguf, gguf));
  expect({}, gguf, "", "torch_dtype", "bfloat16");
}

}  // namespace
}  // namespace weft::models::export_families_test
