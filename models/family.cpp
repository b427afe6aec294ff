// SPDX-License-Identifier: Apache-2.0

#include "models/family.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <array>

namespace weft::models {
namespace {

constexpr std::array<PartName, 14> kLlamaParts{{{"token_embd", "embed_tokens"},
                                                {"output_norm", "norm"},
                                                {"output", "lm_head"},
                                                {"attn_norm", "input_layernorm"},
                                                {"attn_q", "self_attn.q_proj"},
                                                {"attn_k", "self_attn.k_proj"},
                                                {"attn_v", "self_attn.v_proj"},
                                                {"attn_output", "self_attn.o_proj"},
                                                {"attn_q_norm", "self_attn.q_norm"},
                                                {"attn_k_norm", "self_attn.k_norm"},
                                                {"ffn_norm", "post_attention_layernorm"},
                                                {"ffn_gate", "mlp.gate_proj"},
                                                {"ffn_up", "mlp.up_proj"},
                                                {"ffn_down", "mlp.down_proj"}}};

}  // namespace

std::span<const Family* const> families() {
  static const std::vector<const Family*> all{
#define WEFT_FAMILY(name) &name##_family(),
#include "models/families.def"
#undef WEFT_FAMILY
  };
  return all;
}

const Family* find_family(std::string_view model_type) {
  for (const Family* const family : families())
    if (family->name == model_type) return family;
  return nullptr;
}

const Family* find_gguf_family(std::string_view architecture) {
  for (const Family* const family : families())
    if (family->gguf == architecture) return family;
  return nullptr;
}

std::string family_names() {
  std::string names;
  for (const Family* const family : families()) names += (names.empty() ? "" : ", ") + std::string(family->name);
  return names;
}

ConfigReport report_config(const Json& config) {
  ConfigReport report;
  const Json* const type = config.is_object() ? config.find("model_type") : nullptr;
  const Family* const family = type && type->is_string() ? find_family(type->text()) : nullptr;
  if (!family) {
    report.problems.push_back("config.json.model_type: " + (type ? printable(type->dump(), 60) : "nothing") +
                              " is no family that is imported; expected one of " + family_names());
    return report;
  }
  ConfigReader reader(config, "config.json");
  Decoder decoder;
  describe_model(*family, reader, decoder);
  report.is_supported = true;
  report.problems = reader.problems().texts();
  report.notes = reader.notes();
  report.unread = reader.unread();
  std::erase_if(report.unread, [](const std::string& key) { return key == "model_type" || key == "eos_token_id"; });
  return report;
}

std::span<const PartName> llama_parts() { return kLlamaParts; }

void describe_llama_like(ConfigReader& config, Decoder& decoder, double epsilon) {
  decoder.vocabulary = config.size("vocab_size");
  decoder.width = config.size("hidden_size");
  decoder.blocks = config.size("num_hidden_layers", std::nullopt, kMostBlocks);
  decoder.hidden = config.size("intermediate_size");
  const std::size_t problems = config.problems().texts().size();
  decoder.heads = config.size("num_attention_heads", std::nullopt, 65536);
  const bool knows_heads = config.problems().texts().size() == problems;
  decoder.kv_heads = config.size("num_key_value_heads", decoder.heads, 65536);
  decoder.context = config.size("max_position_embeddings", decoder.context ? decoder.context : 2048);
  if (config.has("head_dim"))
    decoder.head_dim = config.size("head_dim");
  else if (decoder.head_dim == 0)
    decoder.head_dim = decoder.width / decoder.heads;
  if (knows_heads && decoder.heads % decoder.kv_heads != 0)
    config.refuse("num_key_value_heads", std::to_string(decoder.kv_heads) + " does not divide num_attention_heads " +
                                             std::to_string(decoder.heads));
  if (decoder.head_dim == 0) config.refuse("head_dim", "is 0: hidden_size is less than num_attention_heads");
  decoder.epsilon = config.number("rms_norm_eps", epsilon);
  decoder.is_tied = config.flag("tie_word_embeddings", decoder.is_tied);
}

void describe_windows(ConfigReader& config, Decoder& decoder, std::size_t window) {
  decoder.windows.assign(decoder.blocks, window);
  if (!config.has("layer_types")) return;
  const std::vector<std::string> types = config.texts("layer_types");
  if (types.size() != decoder.blocks)
    return config.refuse("layer_types", std::to_string(types.size()) + " layers, num_hidden_layers says " +
                                            std::to_string(decoder.blocks));
  const std::size_t sliding = config.has("sliding_window") ? config.size("sliding_window") : window;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "full_attention" && types[i] != "sliding_attention")
      config.refuse("layer_types", "'" + types[i] + "' is not known; expected full_attention or sliding_attention");
    if (types[i] == "sliding_attention" && sliding == 0)
      return config.refuse("sliding_window", "is not there, and layer_types asks for it");
    decoder.windows[i] = types[i] == "sliding_attention" ? sliding : 0;
  }
}

void describe_late_windows(ConfigReader& config, Decoder& decoder) {
  const bool has_window = config.flag("use_sliding_window", false);
  describe_windows(config, decoder, has_window ? config.size("sliding_window", 4096) : 0);
  const auto is_wide = [](std::size_t each) { return each == 0; };
  if (!has_window && config.has("use_sliding_window") &&
      !std::all_of(decoder.windows.begin(), decoder.windows.end(), is_wide))
    config.refuse_value("use_sliding_window", "false, and layer_types names layers with a window");
  if (!has_window || config.has("layer_types")) return;
  const std::size_t first = std::min(config.size("max_window_layers", 28, kMostBlocks, 0), decoder.windows.size());
  std::fill_n(decoder.windows.begin(), first, 0);
}

void check_activation(ConfigReader& config, std::string_view expected) {
  const std::string found = config.text("hidden_act", std::string(expected));
  if (found != expected) config.refuse_value("hidden_act", "'" + found + "'; expected " + std::string(expected));
}

}  // namespace weft::models
