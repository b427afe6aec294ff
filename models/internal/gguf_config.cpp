// SPDX-License-Identifier: Apache-2.0

#include "models/internal/gguf_config.hpp"

#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

namespace weft::models::internal {
namespace {

/// A key of a GGUF file, behind its architecture's name, and the one of config.json.
struct KeyRow {
  std::string_view gguf, config;
};

constexpr std::array<KeyRow, 13> kKeys{{{"embedding_length", "hidden_size"},
                                        {"block_count", "num_hidden_layers"},
                                        {"feed_forward_length", "intermediate_size"},
                                        {"attention.head_count", "num_attention_heads"},
                                        {"attention.head_count_kv", "num_key_value_heads"},
                                        {"attention.key_length", "head_dim"},
                                        {"context_length", "max_position_embeddings"},
                                        {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                        {"attention.layer_norm_epsilon", "layer_norm_epsilon"},
                                        {"rope.freq_base", "rope_theta"},
                                        {"rope.dimension_count", "rope_dimension_count"},
                                        {"attn_logit_softcapping", "attn_logit_softcapping"},
                                        {"final_logit_softcapping", "final_logit_softcapping"}}};

/// Keys of rope_scaling.
constexpr std::array<KeyRow, 6> kScalingKeys{
    {{"rope.scaling.type", "rope_type"},
     {"rope.scaling.factor", "factor"},
     {"rope.scaling.original_context_length", "original_max_position_embeddings"},
     {"rope.scaling.attn_factor", "attention_factor"},
     {"rope.scaling.yarn_beta_fast", "beta_fast"},
     {"rope.scaling.yarn_beta_slow", "beta_slow"}}};

/// The number that the shortest text of a float32 stands for: 1e-05 and not 9.999999747378752e-06.
double shortest(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double number = 0;
  std::from_chars(text.data(), end, number);
  return number;
}

Json json_of(const formats::GgufValue& value) {
  return std::visit(
      [](const auto& held) -> Json {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, formats::GgufArray>)
          return "an array (" + formats::type_name(held) + ")";  // is refused where a number is wanted
        else if constexpr (std::is_same_v<Held, float>)
          return shortest(held);
        else if constexpr (std::is_integral_v<Held> && std::is_signed_v<Held>)
          return held >= 0 ? Json(static_cast<std::uint64_t>(held)) : Json(held);
        else
          return held;
      },
      value);
}

/// Values of a tensor of float32, as llama.cpp keeps what rotary positions are divided by.
Result<Json> numbers_of(const formats::GgufFile& file, std::string_view name) {
  WEFT_TRY(const auto values, file.values<float>(name));
  Json numbers = Json::array();
  for (const float value : values) numbers.push_back(static_cast<double>(value));
  return numbers;
}

Result<Json> scaling_of(const formats::GgufFile& file, const std::string& prefix) {
  Json scaling = Json::object();
  for (const KeyRow& row : kScalingKeys)
    if (const auto* const value = file.metadata().find(prefix + std::string(row.gguf)))
      scaling[row.config] = json_of(*value);
  if (file.contains("rope_freqs.weight")) {
    WEFT_TRY(scaling["divisors"], numbers_of(file, "rope_freqs.weight"));
    scaling["rope_type"] = "divisors";
  }
  if (file.contains("rope_factors_long.weight")) {
    WEFT_TRY(scaling["long_factor"], numbers_of(file, "rope_factors_long.weight"));
    WEFT_TRY(scaling["short_factor"], numbers_of(file, "rope_factors_short.weight"));
    scaling["rope_type"] = "longrope";
  }
  return scaling;
}

}  // namespace

Result<Json> gguf_config(const formats::GgufFile& file) {
  const formats::GgufMetadata& metadata = file.metadata();
  WEFT_TRY(const std::string architecture, metadata.text("general.architecture"));
  const std::string prefix = architecture + ".";
  Json config{{"model_type", architecture}, {"is_gguf", true}};
  for (const KeyRow& row : kKeys)
    if (const auto* const value = metadata.find(prefix + std::string(row.gguf))) config[row.config] = json_of(*value);
  // 0 stands for none there.
  WEFT_TRY(const std::uint64_t window, metadata.natural_or(prefix + "attention.sliding_window", 0));
  config["sliding_window"] = window == 0 ? Json() : Json(window);
  WEFT_TRY(const Json scaling, scaling_of(file, prefix));
  if (scaling.contains("rope_type")) config["rope_scaling"] = scaling;
  if (scaling.contains("original_max_position_embeddings"))
    config["original_max_position_embeddings"] = scaling["original_max_position_embeddings"];
  config["tie_word_embeddings"] = !file.contains("output.weight");
  WEFT_TRY(const formats::Tensor table, file.describe("token_embd.weight"));
  if (!table.shape.empty()) config["vocab_size"] = table.shape.front();
  return config;
}

}  // namespace weft::models::internal
