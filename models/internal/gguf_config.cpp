// SPDX-License-Identifier: Apache-2.0

#include "models/internal/gguf_config.hpp"

#include "models/family.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace weft::models::internal {
namespace {

/// A key of a GGUF file, behind its architecture's name, and the one of config.json.
struct KeyRow {
  std::string_view gguf, config;
};

constexpr std::array<KeyRow, 19> kKeys{{{"embedding_length", "hidden_size"},
                                        {"block_count", "num_hidden_layers"},
                                        {"feed_forward_length", "intermediate_size"},
                                        {"attention.head_count", "num_attention_heads"},
                                        {"attention.head_count_kv", "num_key_value_heads"},
                                        {"attention.key_length", "head_dim"},
                                        {"context_length", "max_position_embeddings"},
                                        {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                        {"attention.layer_norm_epsilon", "layer_norm_epsilon"},
                                        {"rope.freq_base", "rope_theta"},
                                        {"rope.dimension_count", "rope_dimension_count"},
                                        {"attn_logit_softcapping", "attn_logit_softcapping"},
                                        {"final_logit_softcapping", "final_logit_softcapping"},
                                        {"attention.causal", "is_causal"},
                                        {"expert_count", "num_local_experts"},
                                        {"attention.scale", "attention.scale"},
                                        {"logit_scale", "logit_scale"},
                                        {"residual_scale", "residual_scale"},
                                        {"embedding_scale", "embedding_scale"}}};

/// Keys of rope_scaling.
constexpr std::array<KeyRow, 6> kScalingKeys{
    {{"rope.scaling.type", "rope_type"},
     {"rope.scale_linear", "factor"},  // its first name
     {"rope.scaling.factor", "factor"},
     {"rope.scaling.original_context_length", "original_max_position_embeddings"},
     {"rope.scaling.yarn_beta_fast", "beta_fast"},
     {"rope.scaling.yarn_beta_slow", "beta_slow"}}};

/// The number that the shortest text of a float32 stands for: 1e-05 and not 9.999999747378752e-06.
double shortest(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double number = 0;
  std::from_chars(text.data(), end, number);
  return number;
}

Json json_of(const formats::GgufValue& value) {
  return std::visit(
      [](const auto& held) -> Json {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, formats::GgufArray>)
          return "an array (" + formats::type_name(held) + ")";  // is refused where a number is wanted
        else if constexpr (std::is_same_v<Held, float>)
          return shortest(held);
        else if constexpr (std::is_integral_v<Held> && std::is_signed_v<Held>)
          return held >= 0 ? Json(static_cast<std::uint64_t>(held)) : Json(held);
        else
          return held;
      },
      value);
}

/// The number that an array has for each of so many blocks, where it is the same for all.
std::optional<Json> number_of_blocks(const formats::GgufValue& value, std::uint64_t blocks) {
  const auto* const array = std::get_if<formats::GgufArray>(&value);
  if (!array || blocks == 0 || formats::size(*array) != blocks) return std::nullopt;
  const auto same = [](const auto& elements) -> std::optional<Json> {
    for (const auto element : elements)
      if (element != elements[0] || element < 0) return std::nullopt;
    return Json(static_cast<std::uint64_t>(elements[0]));
  };
  if (const auto* const counts = std::get_if<std::vector<std::uint32_t>>(array)) return same(*counts);
  if (const auto* const counts = std::get_if<std::vector<std::int32_t>>(array)) return same(*counts);
  return std::nullopt;
}

/// Values of a tensor of float32, as llama.cpp keeps what rotary positions are divided by.
Result<Json> numbers_of(const formats::TensorFile& file, std::string_view name) {
  WEFT_TRY(const auto values, file.values<float>(name));
  Json numbers = Json::array();
  for (const float value : values) numbers.push_back(static_cast<double>(value));
  return numbers;
}

/// A number of float32 under a key; 0 where it is not there.
double number_of(const formats::GgufMetadata& metadata, const std::string& key) {
  const auto* const value = metadata.find(key);
  const Json number = value ? json_of(*value) : Json();
  return number.is_number() ? static_cast<double>(static_cast<float>(number.get<double>())) : 0;
}

/// Keys of a scaling that change what it is and are not read.
Status check_yarn(const formats::GgufMetadata& metadata, const std::string& prefix, bool is_yarn) {
  const std::string mix = prefix + "rope.scaling.yarn_ext_factor", gain = prefix + "rope.scaling.yarn_attn_factor";
  const double part = number_of(metadata, mix), factor = number_of(metadata, gain);
  if (metadata.contains(mix) && !(part < 0) && part != (is_yarn ? 1 : 0))
    return fail(Errc::unsupported, mix + ": " + std::to_string(part) + "; only 1 with yarn, and 0 without, are read");
  if (metadata.contains(gain) && factor != 1)
    return fail(Errc::unsupported, gain + ": " + std::to_string(factor) + "; only 1 is read");
  return {};
}

/// Sets what llama.cpp makes of the keys, in the words of config.json. Its factor of attention comes on top of that
/// which a scaling has by itself, transformers' takes its place.
/// A NaN goes on, and is refused where it is read.
Status set_gain(const formats::GgufMetadata& metadata, const std::string& prefix, Json& scaling) {
  const double given = number_of(metadata, prefix + "rope.scaling.attn_factor"),
               share = number_of(metadata, prefix + "rope.scaling.yarn_log_multiplier"), more = given <= 0 ? 1 : given;
  const Json type = scaling["rope_type"];
  if (type == Json("longrope")) {
    scaling["attention_factor"] = more;
  } else if (type == Json("yarn")) {
    const double factor = static_cast<float>(scaling["factor"].is_number() ? scaling["factor"].get<double>() : 1.0);
    const auto gain = [&](double part) { return factor <= 1 ? 1 : 0.1 * part * std::log(factor) + 1; };
    if (!(given <= 0))
      scaling["attention_factor"] = more * gain(1) / (share <= 0 ? 1 : gain(share));
    else if (!(share <= 0))
      scaling["mscale"] = 1.0, scaling["mscale_all_dim"] = share;
  } else if (!(given <= 0)) {
    scaling["attn_factor"] = more;
  }
  return check_yarn(metadata, prefix, type == Json("yarn"));
}

Result<Json> scaling_of(const formats::GgufMetadata& metadata, const formats::TensorFile& file,
                        const std::string& prefix) {
  Json scaling = Json::object();
  for (const KeyRow& row : kScalingKeys)
    if (const auto* const value = metadata.find(prefix + std::string(row.gguf))) scaling[row.config] = json_of(*value);
  const Json* const found = scaling.find("factor");
  const bool has_factor = found && !(found->is_number() && found->get<double>() == 0);  // 0 stands for none
  if (!has_factor) scaling.erase("factor");
  if (file.contains("rope_factors_long.weight")) {
    WEFT_TRY(scaling["long_factor"], numbers_of(file, "rope_factors_long.weight"));
    WEFT_TRY(scaling["short_factor"], numbers_of(file, "rope_factors_short.weight"));
    // A factor beside them divides too.
    const double more = number_of(metadata, prefix + "rope.scaling.factor");
    for (const char* const key : {"long_factor", "short_factor"})
      if (more > 0 && more != 1)
        for (Json& number : scaling[key]) number = number.get<double>() * more;
    scaling.erase("factor");
    scaling["rope_type"] = "longrope";
  } else if (!scaling.contains("rope_type") && has_factor) {
    scaling["rope_type"] = "linear";
  }
  if (file.contains("rope_freqs.weight")) {
    WEFT_TRY(scaling["divisors"], numbers_of(file, "rope_freqs.weight"));
    if (!scaling.contains("rope_type")) scaling["rope_type"] = "divisors";
  }
  if (!scaling.contains("rope_type") && metadata.contains(prefix + "rope.scaling.attn_factor"))
    scaling["rope_type"] = "default";
  if (!scaling.contains("rope_type")) {
    WEFT_CHECK(check_yarn(metadata, prefix, false));
    return scaling;
  }
  const Json type = scaling["rope_type"];
  if ((type == Json("linear") || type == Json("yarn")) && !has_factor) scaling["factor"] = 1.0;
  WEFT_CHECK(set_gain(metadata, prefix, scaling));
  return scaling;
}

/// Kinds of layers, from a list or from a number N: each Nth block sees everything, and with 0 none does.
Result<Json> layer_types(const formats::GgufMetadata& metadata, const std::string& pattern, std::uint64_t blocks) {
  Json types = Json::array();
  const auto add = [&](bool slides) { types.push_back(slides ? "sliding_attention" : "full_attention"); };
  if (std::holds_alternative<formats::GgufArray>(*metadata.find(pattern))) {
    WEFT_TRY(const std::vector<bool>* const slides, metadata.array<bool>(pattern));
    for (const bool each : *slides) add(each);
  } else {
    WEFT_TRY(const std::uint64_t period, metadata.natural(pattern, UINT32_MAX));
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(blocks, kMostBlocks); ++i)
      add(period == 0 || i % period < period - 1);
  }
  return types;
}

/// Numbers that llama.cpp takes without a key for them, where other programs take others.
void set_defaults(const std::string& architecture, std::uint64_t blocks, Json& config) {
  if (architecture == "gpt2") return;
  if (!config.contains("rope_theta")) config["rope_theta"] = 10000.0;
  if (architecture != "gemma2") return;
  const Json *const width = config.find("hidden_size"), *const heads = config.find("num_attention_heads");
  const auto is_count = [](const Json* found) { return found && found->is_natural() && *found != Json(0u); };
  // The 27 billion weights are known by their blocks.
  if (blocks == 46 && is_count(width) && is_count(heads))
    config["query_pre_attn_scalar"] = width->get<std::uint64_t>() / heads->get<std::uint64_t>();
  else if (config.contains("head_dim"))
    config["query_pre_attn_scalar"] = config["head_dim"];
}

}  // namespace

Result<Json> gguf_config(const formats::GgufMetadata& metadata, const formats::TensorFile& file) {
  WEFT_TRY(const std::string architecture, metadata.text("general.architecture"));
  const std::string prefix = architecture + ".";
  Json config{{"model_type", architecture}, {"is_gguf", true}};
  WEFT_TRY(const std::uint64_t blocks, metadata.natural_or(prefix + "block_count", 0));
  for (const KeyRow& row : kKeys)
    if (const auto* const value = metadata.find(prefix + std::string(row.gguf)))
      config[row.config] = number_of_blocks(*value, blocks).value_or(json_of(*value));
  const Json* const base = config.find("rope_theta");
  if (const auto* const local = metadata.find(prefix + "rope.freq_base_swa");
      local && json_of(*local) != (base ? *base : Json(10000.0)))
    config["rope_local_base_freq"] = json_of(*local);
  // Without a key a head is its part of the width, whatever the family's default elsewhere.
  if (const Json* const width = config.find("hidden_size"), * const heads = config.find("num_attention_heads");
      !config.contains("head_dim") && width && heads && width->is_natural() && heads->is_natural() &&
      heads->get<std::uint64_t>() != 0)
    config["head_dim"] = width->get<std::uint64_t>() / heads->get<std::uint64_t>();
  // 0 stands for none there.
  WEFT_TRY(const std::uint64_t window, metadata.natural_or(prefix + "attention.sliding_window", 0));
  config["sliding_window"] = window == 0 ? Json() : Json(window);
  const std::string pattern = prefix + "attention.sliding_window_pattern";
  if (metadata.contains(pattern)) {
    WEFT_TRY(Json types, layer_types(metadata, pattern, blocks));
    const bool has_list = std::holds_alternative<formats::GgufArray>(*metadata.find(pattern));
    if (has_list || window != 0 || architecture == "gemma2") config["layer_types"] = std::move(types);
  }
  // Mistral has its architecture's name from llama, and a window.
  if (architecture == "llama" && window != 0) config["model_type"] = "mistral";
  if (architecture == "bitnet" && metadata.contains("bitnet.hidden_activation")) {
    WEFT_TRY(config["hidden_act"], metadata.text("bitnet.hidden_activation"));
  }
  // Architectures whose matrices are fused have biases always or never.
  if (!file.contains("blk.0.attn_qkv.weight")) {
    if (file.contains("blk.0.attn_output.bias")) config["attention_bias"] = true;
    if (file.contains("blk.0.ffn_down.bias")) config["mlp_bias"] = true;
  }
  set_defaults(architecture, blocks, config);
  WEFT_TRY(const Json scaling, scaling_of(metadata, file, prefix));
  if (scaling.contains("rope_type")) config["rope_scaling"] = scaling;
  if (scaling.contains("original_max_position_embeddings"))
    config["original_max_position_embeddings"] = scaling["original_max_position_embeddings"];
  config["tie_word_embeddings"] = !file.contains("output.weight");
  WEFT_TRY(const formats::Tensor table, file.describe("token_embd.weight"));
  if (!table.shape.empty()) config["vocab_size"] = table.shape.front();
  return config;
}

namespace {

/// Tensors that are not in a file yet; those whose values are asked for have their bytes.
class TensorList : public formats::TensorFile {
 public:
  explicit TensorList(std::vector<formats::Tensor> tensors) : tensors_(std::move(tensors)) {}

  const std::vector<formats::Tensor>& tensors() const noexcept override { return tensors_; }
  bool contains(std::string_view name) const noexcept override { return at(name) != tensors_.end(); }
  Result<formats::Tensor> describe(std::string_view name) const override { return find(name); }
  Result<formats::Tensor> find(std::string_view name) const override {
    const auto found = at(name);
    if (found == tensors_.end()) return fail(Errc::not_found, "tensor '" + std::string(name) + "' is not there");
    return *found;
  }
  Status read(std::string_view name, std::size_t unit, const ByteSource::Sink& sink) const override {
    WEFT_TRY(const formats::Tensor tensor, find(name));
    return formats::each_part(tensor.bytes, unit, sink);
  }
  void forget(std::string_view) const noexcept override {}
  Status intact() const override { return {}; }

 private:
  std::vector<formats::Tensor>::const_iterator at(std::string_view name) const noexcept {
    return std::find_if(tensors_.begin(), tensors_.end(), [&](const auto& each) { return each.name == name; });
  }
  std::vector<formats::Tensor> tensors_;
};

}  // namespace

Result<Decoder> described_by(const formats::GgufMetadata& metadata, std::vector<formats::Tensor> tensors) {
  WEFT_TRY(const Json config, gguf_config(metadata, TensorList(std::move(tensors))));
  ConfigReader reader(config, "metadata");
  Decoder decoder;
  describe_model(*find_family(config["model_type"].text()), reader, decoder);
  if (!reader.problems().empty()) return reader.problems().failure(Errc::unsupported, "the GGUF file");
  return decoder;
}

}  // namespace weft::models::internal
