// SPDX-License-Identifier: Apache-2.0

#include "models/family.hpp"

namespace weft::models {
namespace {

void describe_qwen3(ConfigReader& config, Decoder& decoder) {
  decoder.head_dim = 128;
  decoder.context = 32768;
  describe_llama_like(config, decoder);
  describe_rope(config, decoder);
  check_activation(config, "silu");
  decoder.has_qk_norm = true;
  decoder.has_qkv_bias = decoder.has_out_bias = config.flag("attention_bias", false);
  describe_late_windows(config, decoder);
}

}  // namespace

const Family& qwen3_family() noexcept {
  static const Family family{.name = "qwen3",
                             .architecture = "Qwen3ForCausalLM",
                             .gguf = "qwen3",
                             .describe = describe_qwen3,
                             .parts = llama_parts()};
  return family;
}

}  // namespace weft::models
