// SPDX-License-Identifier: Apache-2.0
// Keys of descriptions that change results and that a family does not know: what such a model computes is not imported.

#include "models/family.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace weft::models {
namespace {

/// A key that some family has, and the number that stands for its having no effect. Flags: 1 is true.
struct OtherKey {
  std::string_view key;
  double neutral;
  std::string_view why;
};

// Keys that decide which tensors there are.
constexpr std::array<OtherKey, 9> kOfTensors{{
    {"quantization_config", 0,
     "weights quantized in this way are not read; use the model as it was before, or a GGUF file"},
    {"num_experts", 0, "mixtures of experts are not imported"},
    {"num_local_experts", 0, "mixtures of experts are not imported"},
    {"n_routed_experts", 0, "mixtures of experts are not imported"},
    {"vision_config", 0, "models that see pictures are not imported"},
    {"audio_config", 0, "models that hear are not imported"},
    {"is_encoder_decoder", 0, "models with an encoder are not imported"},
    {"add_cross_attention", 0, "attention to an encoder is not imported"},
    {"pruned_heads", 0, "layers with fewer heads than others are not imported"},
}};
constexpr std::string_view kOtherFactor = "products with this factor are not imported; expected 1";
constexpr std::array<OtherKey, 24> kOfValues{{
    {"sliding_window_pattern", 0, "this pattern of windows is not known; layer_types says it layer by layer"},
    {"alibi", 0, "positions as biases of scores are not imported"},
    {"is_causal", 1, "attention to later tokens is not imported"},
    {"use_bidirectional_attention", 0, "attention to later tokens is not imported"},
    {"scale_attn_weights", 1, "scores that are not divided by the root of a head's width are not imported"},
    {"scale_attn_by_inverse_layer_idx", 0, "scores that depend on the layer are not imported"},
    {"reorder_and_upcast_attn", 0, "scores in another order of computing are not imported"},
    {"embedding_multiplier", 1, kOtherFactor},
    {"residual_multiplier", 1, kOtherFactor},
    {"logits_scaling", 1, kOtherFactor},
    {"logit_scale", 1, kOtherFactor},
    {"scale_emb", 1, kOtherFactor},
    {"residual_scale", 1, kOtherFactor},
    {"embedding_scale", 1, kOtherFactor},
    {"attn_logit_softcapping", 0, "this family has no cap of scores here"},
    {"final_logit_softcapping", 0, "this family has no cap of logits here"},
    {"clip_qkv", 0, "limits of queries, keys and values are not imported"},
    {"use_parallel_residual", 0, "attention and feed-forward parts side by side are not imported"},
    {"parallel_attn", 0, "attention and feed-forward parts side by side are not imported"},
    {"no_rope_layers", 0, "layers without rotary positions are not imported"},
    {"rotary_pct", 1, "this family turns all elements of a head here"},
    {"rope_local_base_freq", 0, "layers with different rotary positions are not imported"},
    {"use_dynamic_ntk", 0, "rotary positions that depend on the length are not imported"},
    {"use_logn_attn", 0, "scores that depend on the length are not imported"},
}};

bool has_no_effect(const Json& value, double neutral) {
  if (value.is_bool()) return value.get<bool>() == (neutral != 0);
  if (value.is_number())
    return value.get<double>() == 0 || static_cast<float>(value.get<double>()) == static_cast<float>(neutral);
  return value.is_string() ? value.text() == "none" : value.empty();
}

/// A list that says of each layer that it sees everything.
bool is_of_whole_layers(const Json& types) {
  return types.is_array() &&
         std::all_of(types.begin(), types.end(), [](const Json& each) { return each == Json("full_attention"); });
}

void refuse_other_keys(ConfigReader& config, const Decoder& decoder) {
  const auto told = [](const Json& found, std::string_view why) {
    return printable(found.dump(), 60) + ": " + std::string(why);
  };
  for (const OtherKey& row : kOfTensors)
    if (const Json* const found = config.find_unread(row.key); found && !has_no_effect(*found, row.neutral))
      config.refuse(row.key, told(*found, row.why));
  const auto check = [&](const OtherKey& row) {
    if (const Json* const found = config.find_unread(row.key); found && !has_no_effect(*found, row.neutral))
      config.refuse_value(row.key, told(*found, row.why));
  };
  for (const OtherKey& row : kOfValues) check(row);
  const auto head_dim = static_cast<double>(decoder.head_dim);
  const double scale = decoder.score_scale != 0 ? decoder.score_scale : 1 / std::sqrt(head_dim);
  const std::string product = "scores are multiplied with " + Json(scale).dump() + " in this family";
  check({"attention_multiplier", scale, product});
  check({"attention.scale", scale, product});  // of GGUF
  check({"query_pre_attn_scalar", head_dim, "scores are divided by the root of head_dim in this family"});
  if (const Json* const found = config.find_unread("layer_types"); found && !is_of_whole_layers(*found))
    config.refuse_value("layer_types", told(*found, "this family has no windows here"));
}

}  // namespace

void describe_model(const Family& family, ConfigReader& config, Decoder& decoder) {
  family.describe(config, decoder);
  refuse_other_keys(config, decoder);
}

}  // namespace weft::models
