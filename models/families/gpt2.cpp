// SPDX-License-Identifier: Apache-2.0

#include "models/family.hpp"

#include <array>
#include <optional>

namespace weft::models {
namespace {

constexpr std::array<PartName, 10> kGpt2Parts{{{"token_embd", "wte"},
                                               {"position_embd", "wpe"},
                                               {"output_norm", "ln_f"},
                                               {"output", "lm_head"},
                                               {"attn_norm", "ln_1"},
                                               {"attn_qkv", "attn.c_attn"},
                                               {"attn_output", "attn.c_proj"},
                                               {"ffn_norm", "ln_2"},
                                               {"ffn_up", "mlp.c_fc"},
                                               {"ffn_down", "mlp.c_proj"}}};

/// The value of a key that has two names: gpt2's own, and that of GGUF's metadata as others spell it.
std::size_t size_of(ConfigReader& config, const char* own, const char* other,
                    std::optional<std::size_t> fallback = std::nullopt, std::size_t most = 16777216) {
  return config.size(!config.has(own) && config.has(other) ? other : own, fallback, most);
}

void describe_gpt2(ConfigReader& config, Decoder& decoder) {
  decoder.vocabulary = config.size("vocab_size");
  decoder.width = size_of(config, "n_embd", "hidden_size");
  decoder.blocks = size_of(config, "n_layer", "num_hidden_layers", std::nullopt, kMostBlocks);
  decoder.heads = decoder.kv_heads = size_of(config, "n_head", "num_attention_heads");
  decoder.context = size_of(config, "n_positions", "max_position_embeddings", 1024);
  decoder.hidden = config.size(config.has("intermediate_size") ? "intermediate_size" : "n_inner", 4 * decoder.width);
  decoder.head_dim = decoder.width / decoder.heads;
  decoder.epsilon = config.number("layer_norm_epsilon", 1e-5);
  decoder.is_tied = config.flag("tie_word_embeddings", true);
  const std::string act = config.text("activation_function", "gelu_new");
  if (act != "gelu_new" && act != "gelu_pytorch_tanh" && act != "gelu")
    config.refuse_value("activation_function", "'" + act + "'; expected gelu_new, gelu_pytorch_tanh or gelu");
  decoder.gate = act == "gelu" ? "gelu" : "gelu_tanh";
  decoder.has_layer_norm = decoder.has_positions = decoder.is_fused_qkv = true;
  decoder.is_gated = false;
  decoder.has_qkv_bias = decoder.has_out_bias = decoder.has_mlp_bias = true;
}

}  // namespace

const Family& gpt2_family() noexcept {
  static const Family family{.name = "gpt2",
                             .architecture = "GPT2LMHeadModel",
                             .gguf = "gpt2",
                             .describe = describe_gpt2,
                             .parts = kGpt2Parts,
                             .prefix = "transformer.",
                             .blocks = "h.",
                             .has_transposed_matrices = true};
  return family;
}

}  // namespace weft::models
