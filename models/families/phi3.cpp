// SPDX-License-Identifier: Apache-2.0

#include "models/family.hpp"

#include <array>

namespace weft::models {
namespace {

constexpr std::array<PartName, 9> kPhi3Parts{{{"token_embd", "embed_tokens"},
                                              {"output_norm", "norm"},
                                              {"output", "lm_head"},
                                              {"attn_norm", "input_layernorm"},
                                              {"attn_qkv", "self_attn.qkv_proj"},
                                              {"attn_output", "self_attn.o_proj"},
                                              {"ffn_norm", "post_attention_layernorm"},
                                              {"ffn_up", "mlp.gate_up_proj"},
                                              {"ffn_down", "mlp.down_proj"}}};

void describe_phi3(ConfigReader& config, Decoder& decoder) {
  decoder.context = 4096;
  if (!config.has("is_gguf")) decoder.rope.scaling.original = 4096;
  describe_llama_like(config, decoder, 1e-5);
  describe_rope(config, decoder, 10000, true);
  // transformers take it for longrope.
  if (decoder.rope.scaling.type == "yarn" && !config.has("is_gguf"))
    config.refuse_value("rope_scaling", "'yarn' is none of this family's; expected longrope, su or default");
  check_activation(config, "silu");
  decoder.is_fused_qkv = decoder.is_fused_gate = true;
  describe_windows(config, decoder, config.has("sliding_window") ? config.size("sliding_window") : 0);
}

}  // namespace

/// Phi-3 and Phi-4-mini.
const Family& phi3_family() noexcept {
  static const Family family{.name = "phi3",
                             .architecture = "Phi3ForCausalLM",
                             .gguf = "phi3",
                             .describe = describe_phi3,
                             .parts = kPhi3Parts};
  return family;
}

}  // namespace weft::models
