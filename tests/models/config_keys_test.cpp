// SPDX-License-Identifier: Apache-2.0

#include "models/export.hpp"
#include "models/family.hpp"
#include "models/language_model.hpp"

#include "formats/gguf/gguf.hpp"
#include "storage/durable.hpp"

#include "tests/models/imported.hpp"
#include "tests/support/temporary_directory.hpp"
#include <filesystem>
#include <fstream>
#include <numeric>

namespace weft::models::config_keys_test {
namespace {

/// A description of a family with few keys, and more of them.
Json config_of(const std::string& family, const std::string& keys = "{}") {
  Json config = *parse_json(family == "gpt2" ? R"({"vocab_size": 8, "n_embd": 8, "n_layer": 2, "n_head": 2})"
                                             : R"({"vocab_size": 8, "hidden_size": 8, "num_hidden_layers": 2,
                                                   "intermediate_size": 8, "num_attention_heads": 2, "head_dim": 4})",
                            "config");
  config["model_type"] = family;
  config.update(*parse_json(keys, "keys"));
  return config;
}
std::string problems_of(const Json& config) {
  std::string text;
  for (const std::string& problem : report_config(config).problems) text += problem + "\n";
  return text;
}
Decoder decoder_of(const Json& config) {
  ConfigReader reader(config, "config.json");
  Decoder decoder;
  find_family(config["model_type"].text())->describe(reader, decoder);
  EXPECT_TRUE(reader.problems().empty()) << reader.problems().texts().front();
  return decoder;
}

// Values of transformers' configuration classes.
TEST(ConfigDefaults, OfPositionsAreTheFamilys) {
  for (const auto& [family, positions] : {std::pair("llama", 2048u),
                                          {"mistral", 131072u},
                                          {"qwen2", 32768u},
                                          {"qwen3", 32768u},
                                          {"gemma", 8192u},
                                          {"gemma2", 8192u},
                                          {"phi3", 4096u},
                                          {"gpt2", 1024u},
                                          {"bitnet", 2048u}}) {
    EXPECT_EQ(problems_of(config_of(family)), "") << family;
    EXPECT_EQ(decoder_of(config_of(family)).context, positions) << family;
  }
}

TEST(ConfigKeys, ThatChangeResultsAreRefusedWithTheirValue) {
  const auto expect = [](const std::string& family, const std::string& keys, const std::string& told) {
    const std::string problems = problems_of(config_of(family, keys));
    EXPECT_NE(problems.find(told), std::string::npos) << family << " " << keys << ": " << problems;
  };
  expect("gpt2", R"({"scale_attn_weights": false})", "scale_attn_weights: false");
  expect("gpt2", R"({"scale_attn_by_inverse_layer_idx": true})", "scale_attn_by_inverse_layer_idx: true");
  expect("gpt2", R"({"reorder_and_upcast_attn": true})", "reorder_and_upcast_attn: true");
  expect("gpt2", R"({"add_cross_attention": true})", "add_cross_attention: true");
  expect("gpt2", R"({"quantization_config": {"bits": 4}})", "quantization_config: {");
  expect("gpt2", R"({"pruned_heads": {"0": [1]}})", "pruned_heads: {");
  for (const char* const family : {"llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi3", "bitnet", "gpt2"}) {
    expect(family, R"({"is_encoder_decoder": true})", "is_encoder_decoder: true");
    expect(family, R"({"vision_config": {"x": 1}})", "vision_config: {");
    expect(family, R"({"num_experts": 8})", "num_experts: 8");
    expect(family, R"({"n_routed_experts": 8})", "n_routed_experts: 8");
    expect(family, R"({"logits_scaling": 4.0})", "logits_scaling: 4");
    expect(family, R"({"residual_multiplier": 0.5})", "residual_multiplier: 0.5");
    expect(family, R"({"embedding_multiplier": 12})", "embedding_multiplier: 12");
    expect(family, R"({"attention_multiplier": 0.25})", "attention_multiplier: 0.25");
    expect(family, R"({"is_causal": false})", "is_causal: false");
    expect(family, R"({"use_bidirectional_attention": true})", "use_bidirectional_attention: true");
    if (std::string(family) == "gpt2") continue;
    expect(family, R"({"rope_scaling": {"rope_type": "linear", "factor": 2.0, "mrope_section": [1, 1]}})",
           "mrope_section: [1,1]");
    expect(family, R"({"rope_parameters": {"rope_type": "default", "rope_theta": 10000, "alpha": 1000}})",
           "alpha: 1000");
    if (std::string(family) != "phi3")
      expect(family, R"({"partial_rotary_factor": 0.5})", "partial_rotary_factor: 0.5");
    if (std::string(family) != "phi3")
      expect(family, R"({"rope_parameters": {"partial_rotary_factor": 0.5}})", "partial_rotary_factor: 0.5");
    if (std::string(family) != "gemma2") {
      expect(family, R"({"attn_logit_softcapping": 50})", "attn_logit_softcapping: 50");
      expect(family, R"({"final_logit_softcapping": 30})", "final_logit_softcapping: 30");
      expect(family, R"({"query_pre_attn_scalar": 144})", "query_pre_attn_scalar: 144");
    }
  }
  for (const char* const family : {"llama", "gemma", "bitnet"})
    expect(family, R"({"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4})",
           "layer_types: [\"sliding_attention\",\"full_attention\"]");
  for (const char* const family : {"qwen2", "qwen3"})
    expect(family, R"({"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4,
                       "use_sliding_window": false})",
           "use_sliding_window: false");
  expect("gemma", R"({"hidden_act": "silu"})", "hidden_act: 'silu'");
  expect("phi3", R"({"rope_scaling": {"type": "yarn", "factor": 2.0}})", "'yarn'");
  expect("bitnet", R"({"use_rms_norm": true})", "use_rms_norm: true");
}

TEST(ConfigKeys, ThatLeaveResultsAsTheyAreAreTaken) {
  const std::string harmless = R"({"attention_dropout": 0.1, "pretraining_tp": 2, "use_cache": false,
      "initializer_range": 0.02, "is_decoder": true, "is_encoder_decoder": false, "add_cross_attention": false,
      "pruned_heads": {}, "quantization_config": null, "num_experts": 0, "torch_dtype": "float16", "is_causal": true,
      "residual_multiplier": 1.0, "use_bidirectional_attention": null, "scale_attn_weights": true,
      "partial_rotary_factor": 1.0})";
  for (const char* const family : {"llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi3", "bitnet", "gpt2"})
    EXPECT_EQ(problems_of(config_of(family, harmless)), "") << family;
  // The factor that scores have anyhow: 1 / sqrt(4), and of gemma2 1 / sqrt(256).
  for (const auto& [family, scale] : {std::pair("llama", "0.5"), {"gpt2", "0.5"}, {"gemma2", "0.0625"}})
    EXPECT_EQ(problems_of(config_of(family, R"({"attention_multiplier": )" + std::string(scale) + "}")), "") << family;
  const Json linear = config_of("llama", R"({"layer_types": ["full_attention", "full_attention"],
      "rope_scaling": {"rope_type": "linear", "factor": 2.0, "high_freq_factor": 4.0, "finetuned": true}})");
  EXPECT_EQ(problems_of(linear), "");
  const Json windows = config_of("qwen2", R"({"use_sliding_window": true, "sliding_window": 4,
      "max_window_layers": 0})");
  EXPECT_EQ(problems_of(windows), "");
  EXPECT_EQ(decoder_of(windows).windows, (std::vector<std::size_t>{4, 4}));
}

// sqrt(1 + ln F / ln original), F the factor where there is one.
TEST(Longrope, TakesItsFactor) {
  const auto gain_of = [](const std::string& factor, std::size_t notes) {
    const Json config = config_of("llama", R"({"max_position_embeddings": 32, "rope_scaling": {"rope_type": "longrope",
        "original_max_position_embeddings": 16, "long_factor": [1.5, 2], "short_factor": [1, 1])" +
                                               factor + "}}");
    ConfigReader reader(config, "config.json");
    Decoder decoder;
    find_family("llama")->describe(reader, decoder);
    EXPECT_TRUE(reader.problems().empty());
    EXPECT_EQ(reader.notes().size(), notes) << factor;
    EXPECT_EQ(decoder.rope.divisors, (std::vector<double>{1.5, 2}));
    return decoder.rope.gain;
  };
  EXPECT_FLOAT_EQ(static_cast<float>(gain_of("", 0)), std::sqrt(1.25f));
  EXPECT_FLOAT_EQ(static_cast<float>(gain_of(", \"factor\": 2.0", 0)), std::sqrt(1.25f));
  EXPECT_FLOAT_EQ(static_cast<float>(gain_of(", \"factor\": 32.0", 1)), 1.5f);
  EXPECT_FLOAT_EQ(static_cast<float>(gain_of(", \"factor\": 0.5", 1)), 1);
  EXPECT_FLOAT_EQ(static_cast<float>(gain_of(", \"factor\": 32.0, \"attention_factor\": 1.25", 1)), 1.25f);
  // Phi-3's own default of the original length.
  const Decoder phi3 = decoder_of(config_of("phi3", R"({"max_position_embeddings": 8192, "rope_scaling": {
      "type": "longrope", "long_factor": [1.5, 2], "short_factor": [1, 1]}})"));
  EXPECT_EQ(phi3.rope.divisors, (std::vector<double>{1.5, 2}));
}

/// A trained model of the shared data, whose files can be changed.
class StoryModel : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string source = shared_data("language/tinystories-656k");
    if (source.empty()) GTEST_SKIP() << "no ../shared/data";
    for (const auto& file : std::filesystem::directory_iterator(source))
      std::ofstream(at(file.path().filename().string()), std::ios::binary)
          << std::ifstream(file.path(), std::ios::binary).rdbuf();
  }
  std::string at(const std::string& name) const { return folder_.path() + "/" + name; }
  Json json(const std::string& name) const {
    std::string text(as_text(*files_.read(at(name), 1 << 24)));
    // transformers' word for no bound is no number of 64 bits.
    const std::string endless = "1000000000000000019884624838656";
    if (const std::size_t found = text.find(endless); found != std::string::npos)
      text.replace(found, endless.size(), "1");
    return *parse_json(text, name);
  }
  void put(const std::string& name, const Json& json) const { std::ofstream(at(name)) << *write_json(json); }
  Exported exported(const std::string& from, ExportFormat format, const std::string& to) {
    const auto model = import_model(files_, from);
    EXPECT_TRUE(model) << model.error().text();
    EXPECT_TRUE(model && storage::write_file_durably(files_, at("m.entity"), model->content));
    const auto made = export_model(files_, at("m.entity"), format, at(to));
    EXPECT_TRUE(made) << made.error().text();
    return made ? *made : Exported();
  }
  std::vector<text::TokenId> ends_of(const std::string& path) const {
    auto model = load_language_model(files_, path);
    EXPECT_TRUE(model) << model.error().text();
    std::sort(model->ends.begin(), model->ends.end());
    return model->ends;
  }
  storage::FileSystem& files_ = storage::real_file_system();
  storage::TemporaryDirectory folder_;
};

// As many positions as transformers would take, and no more: of each length that is asked for.
TEST_F(StoryModel, HasABoundWithoutAKeyForIt) {
  Json config = json("config.json");
  config.erase("max_position_embeddings");
  put("config.json", config);
  const auto model = load_language_model(files_, folder_.path());
  ASSERT_TRUE(model) << model.error().text();
  EXPECT_EQ(model->context, 2048u);
  const auto beyond = generate(*model, "Once", {.most_tokens = 1, .context = 3000}, [](auto) { return Status(); });
  ASSERT_FALSE(beyond);
  EXPECT_NE(beyond.error().text().find("2048"), std::string::npos) << beyond.error().text();
}

TEST_F(StoryModel, KeepsTheTokensThatEndATextInGguf) {
  put("generation_config.json", Json{{"bos_token_id", 1}, {"eos_token_id", {2, 7, 11}}});
  const auto made = exported(folder_.path(), ExportFormat::gguf, "m.gguf");
  EXPECT_TRUE(made.notes.empty()) << made.notes.front();
  EXPECT_EQ(ends_of(folder_.path()), (std::vector<text::TokenId>{2, 7, 11}));
  EXPECT_EQ(ends_of(at("m.gguf")), (std::vector<text::TokenId>{2, 7, 11}));
  // And as a folder again.
  exported(at("m.gguf"), ExportFormat::hugging_face, "back");
  EXPECT_EQ(json("back/generation_config.json")["eos_token_id"], Json(std::vector<int>{2, 7, 11}));
  EXPECT_EQ(json("back/config.json")["bos_token_id"], Json(1));
  EXPECT_EQ(ends_of(at("back")), (std::vector<text::TokenId>{2, 7, 11}));
  // GGUF has three keys for them.
  put("generation_config.json", Json{{"eos_token_id", {2, 7, 11, 12}}});
  const auto fewer = exported(folder_.path(), ExportFormat::gguf, "m.gguf");
  const std::string told = std::accumulate(fewer.notes.begin(), fewer.notes.end(), std::string());
  EXPECT_NE(told.find("tokens that end a text: 12 "), std::string::npos) << told;
}

TEST_F(StoryModel, KeepsItsNamedTemplatesInGguf) {
  Json config = json("tokenizer_config.json");
  config["chat_template"] = Json::array();
  for (const char* const name : {"default", "tool_use", "rag-2"})
    config["chat_template"].push_back(Json{{"name", name}, {"template", "{{ '" + std::string(name) + "' }}"}});
  put("tokenizer_config.json", config);
  exported(folder_.path(), ExportFormat::gguf, "m.gguf");
  const auto file = formats::load_gguf(files_, at("m.gguf"));
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(*file->metadata().text("tokenizer.chat_template"), "{{ 'default' }}");
  EXPECT_EQ(*file->metadata().text("tokenizer.chat_template.tool_use"), "{{ 'tool_use' }}");
  EXPECT_EQ(*file->metadata().text("tokenizer.chat_template.rag_2"), "{{ 'rag-2' }}") << "as gguf-py names it";
  const auto names = file->metadata().array<std::string>("tokenizer.chat_templates");
  ASSERT_TRUE(names) << names.error().text();
  EXPECT_EQ(**names, (std::vector<std::string>{"tool_use", "rag_2"}));
  const auto model = load_language_model(files_, at("m.gguf"));
  ASSERT_TRUE(model) << model.error().text();
  EXPECT_TRUE(model->chat.chat && model->chat.tools);
  exported(at("m.gguf"), ExportFormat::hugging_face, "back");
  const Json back = json("back/tokenizer_config.json")["chat_template"];
  ASSERT_EQ(back.size(), 3u) << back.dump();
  EXPECT_EQ(back[1], (Json{{"name", "tool_use"}, {"template", "{{ 'tool_use' }}"}}));

  config["chat_template"] = Json::array({Json{{"name", "only"}, {"template", "{{ 'x' }}"}}});
  put("tokenizer_config.json", config);
  exported(folder_.path(), ExportFormat::gguf, "m.gguf");
  EXPECT_EQ(*formats::load_gguf(files_, at("m.gguf"))->metadata().text("tokenizer.chat_template"), "{{ 'x' }}");
}

}  // namespace
}  // namespace weft::models::config_keys_test
