// SPDX-License-Identifier: Apache-2.0

#include "models/decoder_network.hpp"

#include <algorithm>
#include <utility>

namespace weft::models {
namespace {

using mesh::LayerSpec;
using mesh::Options;

/// A layer of a block, and what its parameters are called before their names: "layers[1].".
class NetworkMaker {
 public:
  NetworkMaker(const Decoder& decoder, std::size_t tokens) : d_(decoder), tokens_(tokens) {}

  DecoderNetwork make(const std::string& name) && {
    mesh::NetworkSpec& spec = network_.spec;
    spec.name = name;
    spec.inputs.push_back({"tokens", Shape{tokens_}});
    add_embedding();
    if (d_.has_positions) {
      add("position_embedding", 0, {{"positions", static_cast<double>(d_.context)}});
      place("table", "position_embd", d_.width, d_.context).is_transposed = true;
    }
    for (std::size_t block = 0; block < d_.blocks; ++block) add_block(block);
    block_.reset();
    add(norm_type(), 0, {{"epsilon", d_.epsilon}});
    place_norm("", "output_norm");
    add("dense", d_.vocabulary, {{"bias", false}});
    place("weight", "output", d_.vocabulary, d_.width);
    const std::uint32_t head = last();
    if (d_.is_tied) {
      spec.layers.front().options["weight"] = std::vector<double>{static_cast<double>(head), 0, 0, 0};
      // The head, whose matrix it is, is made later than what reads it.
      spec.layers.front().shape = tokens_ == 1 ? Shape{d_.width} : Shape{tokens_, d_.width};
    }
    if (d_.logit_cap != 0) add("soft_cap", 0, {{"cap", d_.logit_cap}});
    const auto depth = static_cast<std::uint32_t>(spec.layers.size());
    spec.grid = {.z = depth, .y = 1, .x = 1, .layers = 1};
    spec.outputs.push_back({"logits", {depth - 1, 0, 0, 0}});
    return std::move(network_);
  }

 private:
  void add_embedding() {
    Options options{{"vocabulary", static_cast<double>(d_.vocabulary)}};
    if (d_.embedding_scale != 1) options["scale"] = d_.embedding_scale;
    add("embedding", d_.width, std::move(options));
    if (!d_.is_tied) place("table", "token_embd", d_.width, d_.vocabulary).is_transposed = true;
  }
  const char* norm_type() const { return d_.has_layer_norm ? "layer_norm" : "rms_norm"; }
  std::uint32_t last() const { return static_cast<std::uint32_t>(network_.spec.layers.size() - 1); }

  LayerSpec& add(const char* type, std::size_t out, Options options) {
    LayerSpec& layer = network_.spec.layers.emplace_back();
    layer.at = {last(), 0, 0, 0};
    layer.type = type;
    layer.out = out;
    layer.options = std::move(options);
    return layer;
  }
  ParameterPlace& place(std::string parameter, std::string_view part, std::size_t out, std::size_t in,
                        bool is_bias = false) {
    return network_.places.emplace_back(
        ParameterPlace{last(), std::move(parameter), part, is_bias, block_, out, in, 0, out, 0});
  }
  void place_norm(const std::string& before, std::string_view part) {
    place(before + "gain", part, d_.width, 0);
    if (d_.has_layer_norm) place(before + "bias", part, d_.width, 0, true);
  }

  /// A layer inside the block that is added now; gives what its parameters' names begin with.
  std::string inner(const char* type, std::size_t out, Options options) {
    std::vector<LayerSpec>& inside = network_.spec.layers.back().layers;
    LayerSpec layer;
    layer.type = type;
    layer.out = out;
    layer.options = std::move(options);
    inside.push_back(std::move(layer));
    return "layers[" + std::to_string(inside.size() - 1) + "].";
  }
  void inner_norm(std::string_view part) { place_norm(inner(norm_type(), 0, {{"epsilon", d_.epsilon}}), part); }
  /// The sum of what was at the layer `skipped` and of the last one.
  void inner_residual(const char* skipped, const char* branch, const char* name) {
    network_.spec.layers.back().layers.back().name = branch;
    inner("residual", 0, {});
    LayerSpec& residual = network_.spec.layers.back().layers.back();
    residual.from = {mesh::Source(skipped), mesh::Source(branch)};
    residual.name = name;
  }

  void add_block(std::size_t block) {
    block_ = block;
    LayerSpec& layer = add("sequential", 0, {});
    if (d_.ternary != TernaryBlocks::none) layer.activations = Activations::int8_row;
    inner_norm("attn_norm");
    add_attention(block);
    if (d_.has_post_norms) inner_norm("post_attention_norm");
    inner_residual("input", "attention", "middle");
    inner_norm("ffn_norm");
    if (d_.is_gated)
      add_gated();
    else
      add_plain();
    if (d_.has_post_norms) inner_norm("post_ffw_norm");
    inner_residual("middle", "feed_forward", "");
  }

  Options rope_options() const {
    Options options;
    if (d_.rope.dims == 0) return options;
    options["rope"] = "half";
    options["rope_theta"] = d_.rope.theta;
    if (d_.rope.dims != d_.head_dim) options["rope_dims"] = static_cast<double>(d_.rope.dims);
    const auto is_one = [](double divisor) { return divisor == 1; };
    if (!std::all_of(d_.rope.divisors.begin(), d_.rope.divisors.end(), is_one))
      options["rope_divisors"] = d_.rope.divisors;
    if (d_.rope.gain != 1) options["rope_gain"] = d_.rope.gain;
    return options;
  }

  void add_attention(std::size_t block) {
    Options options = rope_options();
    options["heads"] = static_cast<double>(d_.heads);
    options["kv_heads"] = static_cast<double>(d_.kv_heads);
    options["head_dim"] = static_cast<double>(d_.head_dim);
    options["causal"] = true;
    options["bias"] = d_.has_qkv_bias;
    options["out_bias"] = d_.has_out_bias;
    if (d_.score_scale != 0) options["scale"] = d_.score_scale;
    if (d_.score_cap != 0) options["score_cap"] = d_.score_cap;
    if (block < d_.windows.size() && d_.windows[block] != 0) options["window"] = static_cast<double>(d_.windows[block]);
    if (d_.has_qk_norm) options["qk_norm"] = "rms";
    if (d_.has_inner_norms) options["out_norm"] = "rms";
    if (d_.has_qk_norm) options["epsilon"] = d_.epsilon;
    if (d_.has_inner_norms) options["out_epsilon"] = d_.epsilon;
    place_attention(inner("attention", d_.width, std::move(options)));
  }

  void place_attention(const std::string& before) {
    const std::size_t queries = d_.heads * d_.head_dim, keys = d_.kv_heads * d_.head_dim, all = queries + 2 * keys;
    struct Row {
      const char *parameter, *part;
      std::size_t out, first, heads;
    };
    const Row rows[] = {{"query", "attn_q", queries, 0, d_.heads},
                        {"key", "attn_k", keys, queries, d_.kv_heads},
                        {"value", "attn_v", keys, queries + keys, 0}};
    for (const bool is_bias : {false, true})
      for (const Row& row : rows) {
        if (is_bias && !d_.has_qkv_bias) continue;
        ParameterPlace& at = place(before + row.parameter + (is_bias ? "_bias" : ""), row.part, row.out,
                                   is_bias ? 0 : d_.width, is_bias);
        at.heads = row.heads;
        if (d_.is_fused_qkv) at.part = "attn_qkv", at.first_row = row.first, at.rows = all;
      }
    place(before + "output", "attn_output", d_.width, queries);
    if (d_.has_out_bias) place(before + "output_bias", "attn_output", d_.width, 0, true);
    if (d_.has_qk_norm) {
      place(before + "query_gain", "attn_q_norm", d_.head_dim, 0);
      place(before + "key_gain", "attn_k_norm", d_.head_dim, 0);
    }
    if (d_.has_inner_norms) place(before + "out_gain", "attn_sub_norm", queries, 0);
  }

  void add_gated() {
    Options options{{"hidden", static_cast<double>(d_.hidden)}, {"gate", d_.gate}, {"bias", d_.has_mlp_bias}};
    if (d_.has_inner_norms) options["inner_norm"] = "rms", options["epsilon"] = d_.epsilon;
    const std::string before = inner("swiglu", d_.width, std::move(options));
    for (const bool is_bias : {false, true}) {
      if (is_bias && !d_.has_mlp_bias) continue;
      const std::string after = is_bias ? "_bias" : "";
      const std::size_t in = is_bias ? 0 : d_.width;
      ParameterPlace& gate = place(before + "gate" + after, "ffn_gate", d_.hidden, in, is_bias);
      if (d_.is_fused_gate) gate.part = "ffn_up", gate.rows = 2 * d_.hidden;
      ParameterPlace& up = place(before + "up" + after, "ffn_up", d_.hidden, in, is_bias);
      if (d_.is_fused_gate) up.first_row = d_.hidden, up.rows = 2 * d_.hidden;
      place(before + "down" + after, "ffn_down", d_.width, is_bias ? 0 : d_.hidden, is_bias);
    }
    if (d_.has_inner_norms) place(before + "inner_gain", "ffn_sub_norm", d_.hidden, 0);
  }

  void add_plain() {
    const std::string up = inner("dense", d_.hidden, {{"activation", d_.gate}, {"bias", d_.has_mlp_bias}});
    place(up + "weight", "ffn_up", d_.hidden, d_.width);
    if (d_.has_mlp_bias) place(up + "bias", "ffn_up", d_.hidden, 0, true);
    const std::string down = inner("dense", d_.width, {{"bias", d_.has_mlp_bias}});
    place(down + "weight", "ffn_down", d_.width, d_.hidden);
    if (d_.has_mlp_bias) place(down + "bias", "ffn_down", d_.width, 0, true);
  }

  const Decoder& d_;
  std::size_t tokens_;
  DecoderNetwork network_;
  std::optional<std::size_t> block_;
};

}  // namespace

DecoderNetwork decoder_network(const Decoder& decoder, const std::string& name, std::size_t tokens) {
  return NetworkMaker(decoder, tokens).make(name);
}

}  // namespace weft::models
