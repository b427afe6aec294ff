// SPDX-License-Identifier: Apache-2.0

#include "models/family.hpp"

namespace weft::models {
namespace {

void describe_mistral(ConfigReader& config, Decoder& decoder) {
  decoder.context = 131072;
  describe_llama_like(config, decoder);
  describe_rope(config, decoder);
  check_activation(config, "silu");
  // Absent: 4096; null: no window.
  describe_windows(config, decoder, config.is_null("sliding_window") ? 0 : config.size("sliding_window", 4096));
}

}  // namespace

/// In GGUF files it is a llama.
const Family& mistral_family() noexcept {
  static const Family family{.name = "mistral",
                             .architecture = "MistralForCausalLM",
                             .gguf = "llama",
                             .describe = describe_mistral,
                             .parts = llama_parts(),
                             .has_paired_rows = true};
  return family;
}

}  // namespace weft::models
