// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/config_reader.hpp"
#include "models/decoder.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace weft::models {

/// Name of a part of a model in a GGUF file ("attn_q") and in a Hugging Face one ("self_attn.q_proj").
struct PartName {
  std::string_view gguf, hugging_face;
};

/// A family of models: what the keys of its description mean, and how its tensors are called and lie.
struct Family {
  std::string_view name;          // model_type of config.json
  std::string_view architecture;  // of config.json
  std::string_view gguf;          // general.architecture
  /// Sets what the description says; what it cannot be is a problem of the reader's.
  void (*describe)(ConfigReader& config, Decoder& decoder);
  std::span<const PartName> parts;
  std::string_view prefix = "model.", blocks = "layers.";  // of Hugging Face's names
  bool has_gains_less_one = false;                         // Hugging Face's files hold a norm's gain less 1
  bool has_transposed_matrices = false;                    // Hugging Face's matrices inside blocks are [in, out]
  bool has_paired_rows = false;  // rows of queries and keys in GGUF are reordered for turns of 2i with 2i + 1
};

/// All families, in the order of families.def.
std::span<const Family* const> families();
/// Null where there is none of that name. A GGUF name several have: the first.
const Family* find_family(std::string_view model_type);
const Family* find_gguf_family(std::string_view architecture);
/// "llama, mistral, ...".
std::string family_names();

/// Sets what a description says. Keys of other families' that change results are problems, with their values.
void describe_model(const Family& family, ConfigReader& config, Decoder& decoder);

/// A config.json as weft import would read it, without the tensors.
struct ConfigReport {
  bool is_supported = false;  // its family
  std::vector<std::string> problems, notes;
  std::vector<std::string> unread;  // keys that nothing asks for
};
ConfigReport report_config(const Json& config);

/// Blocks that a model may have: its network is made before its tensors are looked for.
inline constexpr std::size_t kMostBlocks = 4096;

/// Names that llama has, and most others with it.
std::span<const PartName> llama_parts();
/// Keys that llama and those after it share: sizes, heads, norms, rope. `epsilon`: where rms_norm_eps is absent. The
/// decoder's own head_dim, is_tied and context, where set, are those of the family where these keys are absent.
void describe_llama_like(ConfigReader& config, Decoder& decoder, double epsilon = 1e-6);
/// Rotary positions: rope_theta, and rope_scaling or rope_parameters in whatever spelling. `can_be_partial`:
/// partial_rotary_factor has a meaning. The decoder's own original length, where set, is the family's.
void describe_rope(ConfigReader& config, Decoder& decoder, double theta = 10000, bool can_be_partial = false);
/// Windows of all blocks, or of those that layer_types names; `window`: where sliding_window is absent; 0: none.
void describe_windows(ConfigReader& config, Decoder& decoder, std::size_t window);
/// Windows as qwen has them: of blocks from max_window_layers on, where use_sliding_window says so.
void describe_late_windows(ConfigReader& config, Decoder& decoder);
/// Keys that gemma and gemma2 share.
void describe_gemma_like(ConfigReader& config, Decoder& decoder);
/// Refuses another activation than `expected` under `hidden_act`.
void check_activation(ConfigReader& config, std::string_view expected);

/// Of each row, defined in models/families/<name>.cpp.
#define WEFT_FAMILY(name) const Family& name##_family() noexcept;
#include "models/families.def"
#undef WEFT_FAMILY

}  // namespace weft::models
