// SPDX-License-Identifier: Apache-2.0

#include "models/internal/hugging_face_config.hpp"

#include "models/rope_scaling.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace weft::models::internal {
namespace {

class ConfigWriter {
 public:
  ConfigWriter(const Family& family, const Decoder& decoder, std::vector<std::string>& notes)
      : family_(family), d_(decoder), notes_(notes) {}

  Json write() && {
    config_["architectures"] = Json::array({std::string(family_.architecture)});
    config_["model_type"] = std::string(family_.name);
    config_["vocab_size"] = d_.vocabulary;
    config_["tie_word_embeddings"] = d_.is_tied;
    if (d_.has_positions)
      write_gpt2();
    else
      write_llama_like();
    return std::move(config_);
  }

 private:
  bool is_one_of(std::initializer_list<std::string_view> names) const {
    return std::find(names.begin(), names.end(), family_.name) != names.end();
  }

  void write_gpt2() {
    config_["n_embd"] = d_.width;
    config_["n_layer"] = d_.blocks;
    config_["n_head"] = d_.heads;
    config_["n_positions"] = d_.context;
    config_["n_inner"] = d_.hidden;
    config_["layer_norm_epsilon"] = d_.epsilon;
    config_["activation_function"] = d_.gate == "gelu" ? "gelu" : "gelu_new";
  }

  void write_llama_like() {
    config_["hidden_size"] = d_.width;
    config_["intermediate_size"] = d_.hidden;
    config_["num_hidden_layers"] = d_.blocks;
    config_["num_attention_heads"] = d_.heads;
    config_["num_key_value_heads"] = d_.kv_heads;
    config_["head_dim"] = d_.head_dim;
    config_["max_position_embeddings"] = d_.context;
    config_["rms_norm_eps"] = d_.epsilon;
    const std::string act = d_.gate == "gelu_tanh" ? "gelu_pytorch_tanh" : d_.gate;
    config_["hidden_act"] = act;
    if (is_one_of({"gemma", "gemma2"})) config_["hidden_activation"] = act;
    if (is_one_of({"llama", "qwen3", "gemma", "gemma2"})) config_["attention_bias"] = d_.has_out_bias;
    if (is_one_of({"llama"})) config_["mlp_bias"] = d_.has_mlp_bias;
    if (is_one_of({"gemma2"})) write_scores();
    write_windows();
    config_["rope_theta"] = d_.rope.theta;
    if (d_.rope.dims != d_.head_dim) config_["partial_rotary_factor"] = turning_share();
    write_scaling();
  }

  void write_scores() {
    const double exact = 1 / (d_.score_scale * d_.score_scale), whole = std::round(exact);
    // transformers 5 take whole numbers alone.
    if (1 / std::sqrt(whole) == d_.score_scale)
      config_["query_pre_attn_scalar"] = static_cast<std::uint64_t>(whole);
    else
      config_["query_pre_attn_scalar"] = exact;
    config_["attn_logit_softcapping"] = d_.score_cap == 0 ? Json() : Json(d_.score_cap);
    config_["final_logit_softcapping"] = d_.logit_cap == 0 ? Json() : Json(d_.logit_cap);
  }

  /// The share of a head whose product with its width is a whole number after it is cut.
  double turning_share() const {
    const auto all = static_cast<double>(d_.head_dim), some = static_cast<double>(d_.rope.dims);
    return some / all * all < some ? std::nextafter(some / all, 1.0) : some / all;
  }

  void write_windows() {
    const auto& windows = d_.windows;
    const std::size_t window = windows.empty() ? 0 : *std::max_element(windows.begin(), windows.end());
    const bool is_late = is_one_of({"qwen2", "qwen3"});
    if (is_late) config_["use_sliding_window"] = window != 0;
    if (is_late ? window != 0 : is_one_of({"mistral", "phi3", "gemma2"}))
      config_["sliding_window"] = window == 0 ? Json() : Json(window);
    if (window == 0) return;
    const auto first = static_cast<std::size_t>(std::find(windows.begin(), windows.end(), window) - windows.begin());
    std::vector<std::size_t> usual(windows.size(), window);
    for (std::size_t i = 0; i < usual.size(); ++i)
      if (is_late ? i < first : is_one_of({"gemma2"}) && i % 2 == 1) usual[i] = 0;
    if (is_late) config_["max_window_layers"] = first;
    if (windows == usual) return;
    config_["layer_types"] = Json::array();
    for (const std::size_t each : windows)
      config_["layer_types"].push_back(each != 0 ? "sliding_attention" : "full_attention");
    if (is_one_of({"mistral", "phi3"}))
      notes_.emplace_back(
          "config.json's layer_types is not read by transformers of this family: there all layers have "
          "the window");
  }

  void write_scaling() {
    const DecoderRope& rope = d_.rope;
    const bool is_phi3 = is_one_of({"phi3"});
    config_["rope_scaling"] = Json();
    if (is_phi3) config_["original_max_position_embeddings"] = d_.context;
    const auto is_one = [](double divisor) { return divisor == 1; };
    if (rope.gain == 1 && std::all_of(rope.divisors.begin(), rope.divisors.end(), is_one)) return;
    const std::string& type = rope.scaling.type;
    if (type == "longrope")
      write_longrope(rope.scaling.long_factors, rope.scaling.short_factors, rope.scaling.original);
    else if (type == "linear" && rope.gain == 1 && !is_phi3)
      config_["rope_scaling"] = {{"rope_type", "linear"}, {"factor", rope.scaling.factor}};
    else if (type == "yarn" && !is_phi3)
      write_yarn();
    else if (is_phi3 || !write_llama3())
      write_divisors();
  }

  void write_yarn() {
    const DecoderRope::Scaling& from = d_.rope.scaling;
    Json& to = config_["rope_scaling"];
    to = {{"rope_type", "yarn"},
          {"factor", from.factor},
          {"original_max_position_embeddings", static_cast<std::uint64_t>(from.original)}};
    if (from.beta_fast != 32) to["beta_fast"] = from.beta_fast;
    if (from.beta_slow != 1) to["beta_slow"] = from.beta_slow;
    if (!from.is_whole) to["truncate"] = false;
    const double own = from.factor <= 1 ? 1 : 0.1 * std::log(from.factor) + 1;
    if (static_cast<float>(own) != static_cast<float>(d_.rope.gain)) to["attention_factor"] = d_.rope.gain;
  }

  void write_longrope(const std::vector<double>& longer, const std::vector<double>& shorter, double original) {
    Json& to = config_["rope_scaling"];
    to = {{"long_factor", longer}, {"short_factor", shorter}};
    const double own = longrope_gain(static_cast<double>(d_.context) / original, original);
    const bool has_gain = static_cast<float>(own) != static_cast<float>(d_.rope.gain);
    if (has_gain) to["attention_factor"] = d_.rope.gain;
    config_["original_max_position_embeddings"] = static_cast<std::uint64_t>(original);
    if (!is_one_of({"phi3"})) {
      to["rope_type"] = "longrope";
      to["original_max_position_embeddings"] = config_["original_max_position_embeddings"];
      return;
    }
    // transformers 4 take these three keys of it, and refuse a fourth.
    to["type"] = "longrope";
    if (has_gain)
      notes_.emplace_back(
          "config.json's rope_scaling has an attention_factor, which transformers 4 refuse in this "
          "family; transformers 5 read it");
  }

  bool write_llama3() {
    const auto found = find_llama3(d_.rope, d_.context);
    if (!found) return false;
    config_["rope_scaling"] = {{"rope_type", "llama3"},
                               {"factor", found->factor},
                               {"low_freq_factor", found->low},
                               {"high_freq_factor", found->high},
                               {"original_max_position_embeddings", static_cast<std::uint64_t>(found->original)}};
    if (found->error != 0)
      notes_.push_back("rope_freqs.weight becomes the scaling llama3 that makes it, up to " +
                       Json(found->error).dump() + " of a divisor, which is the rounding of another program");
    return true;
  }

  /// Divisors of whatever origin are those of longrope for each length.
  void write_divisors() {
    std::vector<double> divisors = d_.rope.divisors;
    if (divisors.empty()) divisors.assign(d_.rope.dims / 2, 1.0);
    write_longrope(divisors, divisors, static_cast<double>(d_.context));
    notes_.emplace_back(
        "config.json has no scaling like that of the GGUF file (rope_freqs.weight, attn_factor): it is "
        "longrope with the same factors for each length");
  }

  const Family& family_;
  const Decoder& d_;
  std::vector<std::string>& notes_;
  Json config_ = Json::object();
};

}  // namespace

Json hugging_face_config(const Family& family, const Decoder& decoder, std::vector<std::string>& notes) {
  return ConfigWriter(family, decoder, notes).write();
}

}  // namespace weft::models::internal
