// SPDX-License-Identifier: Apache-2.0

#include "models/family.hpp"

#include <cmath>
#include <string>

namespace weft::models {

void describe_gemma_like(ConfigReader& config, Decoder& decoder) {
  decoder.head_dim = 256;
  decoder.is_tied = true;
  decoder.context = 8192;
  describe_llama_like(config, decoder);
  describe_rope(config, decoder);
  // hidden_act says gelu in files of models that were trained with its form by tanh.
  const std::string act = config.text("hidden_activation", "gelu_pytorch_tanh");
  if (act != "gelu_pytorch_tanh" && act != "gelu")
    config.refuse_value("hidden_activation", "'" + act + "'; expected gelu_pytorch_tanh or gelu");
  const std::string other = config.text("hidden_act", act);
  if (!config.has("hidden_activation") && !other.starts_with("gelu"))
    config.refuse_value("hidden_act", "'" + other + "'; expected gelu_pytorch_tanh or gelu");
  decoder.gate = act == "gelu" ? "gelu" : "gelu_tanh";
  decoder.embedding_scale = std::sqrt(static_cast<double>(decoder.width));
  decoder.has_qkv_bias = decoder.has_out_bias = config.flag("attention_bias", false);
}

namespace {
void describe_gemma(ConfigReader& config, Decoder& decoder) { describe_gemma_like(config, decoder); }
}  // namespace

const Family& gemma_family() noexcept {
  static const Family family{.name = "gemma",
                             .architecture = "GemmaForCausalLM",
                             .gguf = "gemma",
                             .describe = describe_gemma,
                             .parts = llama_parts(),
                             .has_gains_less_one = true};
  return family;
}

}  // namespace weft::models
