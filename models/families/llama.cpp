// SPDX-License-Identifier: Apache-2.0

#include "models/family.hpp"

namespace weft::models {
namespace {

void describe_llama(ConfigReader& config, Decoder& decoder) {
  describe_llama_like(config, decoder);
  describe_rope(config, decoder);
  check_activation(config, "silu");
  decoder.has_qkv_bias = decoder.has_out_bias = config.flag("attention_bias", false);
  decoder.has_mlp_bias = config.flag("mlp_bias", false);
}

}  // namespace

/// Llama 1 to 3, and those built like them: TinyLlama, SmolLM2.
const Family& llama_family() noexcept {
  static const Family family{.name = "llama",
                             .architecture = "LlamaForCausalLM",
                             .gguf = "llama",
                             .describe = describe_llama,
                             .parts = llama_parts(),
                             .has_paired_rows = true};
  return family;
}

}  // namespace weft::models
