// SPDX-License-Identifier: Apache-2.0

#include "models/family.hpp"

namespace weft::models {
namespace {

void describe_qwen2(ConfigReader& config, Decoder& decoder) {
  decoder.context = 32768;
  describe_llama_like(config, decoder);
  describe_rope(config, decoder);
  check_activation(config, "silu");
  decoder.has_qkv_bias = true;  // there is no key for it
  describe_late_windows(config, decoder);
}

}  // namespace

/// Qwen 2 and 2.5.
const Family& qwen2_family() noexcept {
  static const Family family{.name = "qwen2",
                             .architecture = "Qwen2ForCausalLM",
                             .gguf = "qwen2",
                             .describe = describe_qwen2,
                             .parts = llama_parts()};
  return family;
}

}  // namespace weft::models
