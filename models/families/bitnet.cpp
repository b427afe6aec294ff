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

// With float weights and activations. Those of the published model are packed and take int8 activations with one scale
// a row, which no layer computes: quantization_config is refused.
void describe_bitnet(ConfigReader& config, Decoder& decoder) {
  decoder.is_tied = true;
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
