// SPDX-License-Identifier: Apache-2.0

#include "models/family.hpp"

#include <array>
#include <cmath>

namespace weft::models {
namespace {

// Of llama's name the norm after attention is one of attention's result here.
constexpr std::array<PartName, 14> kGemma2Parts{{{"token_embd", "embed_tokens"},
                                                 {"output_norm", "norm"},
                                                 {"output", "lm_head"},
                                                 {"attn_norm", "input_layernorm"},
                                                 {"attn_q", "self_attn.q_proj"},
                                                 {"attn_k", "self_attn.k_proj"},
                                                 {"attn_v", "self_attn.v_proj"},
                                                 {"attn_output", "self_attn.o_proj"},
                                                 {"post_attention_norm", "post_attention_layernorm"},
                                                 {"ffn_norm", "pre_feedforward_layernorm"},
                                                 {"ffn_gate", "mlp.gate_proj"},
                                                 {"ffn_up", "mlp.up_proj"},
                                                 {"ffn_down", "mlp.down_proj"},
                                                 {"post_ffw_norm", "post_feedforward_layernorm"}}};

void describe_gemma2(ConfigReader& config, Decoder& decoder) {
  describe_gemma_like(config, decoder);
  decoder.has_post_norms = true;
  const double scalar =
      config.number("query_pre_attn_scalar", config.has("is_gguf") ? static_cast<double>(decoder.head_dim) : 256);
  decoder.score_scale = 1 / std::sqrt(scalar);
  decoder.score_cap = config.is_null("attn_logit_softcapping") ? 0 : config.number("attn_logit_softcapping", 50);
  decoder.logit_cap = config.is_null("final_logit_softcapping") ? 0 : config.number("final_logit_softcapping", 30);
  const std::size_t window = config.size("sliding_window", 4096);
  describe_windows(config, decoder, window);
  for (std::size_t i = 1; i < decoder.windows.size() && !config.has("layer_types"); i += 2) decoder.windows[i] = 0;
}

}  // namespace

const Family& gemma2_family() noexcept {
  static const Family family{.name = "gemma2",
                             .architecture = "Gemma2ForCausalLM",
                             .gguf = "gemma2",
                             .describe = describe_gemma2,
                             .parts = kGemma2Parts,
                             .has_gains_less_one = true};
  return family;
}

}  // namespace weft::models
