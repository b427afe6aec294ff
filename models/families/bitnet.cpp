// SPDX-License-Identifier: Apache-2.0

#include "models/family.hpp"

#include <array>
#include <string>

namespace weft::models {
namespace {

constexpr std::array<PartName, 14> kBitnetParts{{{"token_embd", "embed_tokens"},
                                                 {"output_norm", "norm"},
                                                 {"output", "lm_head"},
                                                 {"attn_norm", "input_layernorm"},
                                                 {"attn_q", "self_attn.q_proj"},
                                                 {"attn_k", "self_attn.k_proj"},
                                                 {"attn_v", "self_attn.v_proj"},
                                                 {"attn_sub_norm", "self_attn.attn_sub_norm"},
                                                 {"attn_output", "self_attn.o_proj"},
                                                 {"ffn_norm", "post_attention_layernorm"},
                                                 {"ffn_gate", "mlp.gate_proj"},
                                                 {"ffn_up", "mlp.up_proj"},
                                                 {"ffn_sub_norm", "mlp.ffn_sub_norm"},
                                                 {"ffn_down", "mlp.down_proj"}}};

// Types of blocks by quantization_config; without one all is float.
TernaryBlocks ternary_blocks(ConfigReader& config) {
  const Json* const found = config.object("quantization_config");
  if (!found) return TernaryBlocks::none;
  ConfigReader inside = config.inside(*found, "quantization_config");
  const auto choice = [&](const char* key, const char* fallback, const char* other) {
    const std::string text = inside.text(key, fallback);
    if (text != fallback && text != other) inside.refuse(key, "'" + text + "'; expected " + fallback + " or " + other);
    return text == other;
  };
  if (const std::string method = inside.text("quant_method", "bitnet"); method != "bitnet")
    inside.refuse("quant_method", "'" + method + "'; expected bitnet");
  // transformers: BitLinear divides by the scale, AutoBitLinear multiplies with it.
  const bool is_auto = choice("linear_class", "bitlinear", "autobitlinear");
  const bool is_online = choice("quantization_mode", "offline", "online");
  inside.refuse_given("use_rms_norm", "norms inside the linear layers are not imported");
  for (const std::string& name : inside.texts("modules_to_not_convert"))
    if (name != "lm_head") inside.refuse("modules_to_not_convert", "'" + name + "' is not packed; only lm_head may be");
  if (is_online && !is_auto) inside.refuse("quantization_mode", "'online' needs the linear_class autobitlinear");
  config.take(inside);
  return is_online ? TernaryBlocks::quantized : is_auto ? TernaryBlocks::packed : TernaryBlocks::packed_inverse;
}

void describe_bitnet(ConfigReader& config, Decoder& decoder) {
  decoder.is_tied = true;
  decoder.ternary = ternary_blocks(config);
  describe_llama_like(config, decoder, 1e-5);
  describe_rope(config, decoder, 500000);
  // llama.cpp's architecture of this name has silu, and no key for it.
  const std::string act = config.text("hidden_act", config.has("is_gguf") ? "silu" : "relu2");
  if (act != "silu" && act != "relu2") config.refuse("hidden_act", "'" + act + "'; expected silu or relu2");
  decoder.gate = act;
  config.refuse_given("use_rms_norm", "norms inside the linear layers are not imported");
  decoder.has_inner_norms = true;
}

}  // namespace

const Family& bitnet_family() noexcept {
  static const Family family{.name = "bitnet",
                             .architecture = "BitNetForCausalLM",
                             .gguf = "bitnet",
                             .describe = describe_bitnet,
                             .parts = kBitnetParts};
  return family;
}

}  // namespace weft::models
