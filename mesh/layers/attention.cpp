// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/attention.hpp"

#include "mesh/layers/attention_settings.hpp"
#include "mesh/layers/init.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include "kernels/attention_state.hpp"

#include "core/size_limit.hpp"

#include <cmath>
#include <string>
#include <utility>

namespace weft::mesh {
namespace {

constexpr std::size_t kMostTokens = 16777216, kMostState = size_limit(32);

Failure refused(const OptionReader& options, std::string_view key, const std::string& text) {
  return fail(Errc::out_of_range, options.object() + "." + std::string(key) + ": " + text);
}

Status read_heads(std::size_t width, OptionReader& options, AttentionSettings& settings) {
  kernels::AttentionShape& shape = settings.shape;
  WEFT_TRY(shape.heads, options.integer("heads"));
  WEFT_TRY(shape.kv_heads, options.integer("kv_heads", shape.heads));
  if (shape.heads % shape.kv_heads != 0)
    return refused(
        options, "kv_heads",
        std::to_string(shape.heads) + " heads do not fall into " + std::to_string(shape.kv_heads) + " equal groups");
  WEFT_TRY(shape.head_dim, options.integer("head_dim"));
  if (shape.head_dim == 0 && width % shape.heads != 0)
    return refused(options, "heads",
                   "an input of " + std::to_string(width) + " values is not " + std::to_string(shape.heads) +
                       " equal heads; give head_dim");
  if (shape.head_dim == 0) shape.head_dim = width / shape.heads;
  if (settings.query_width() > kMostTokens)
    return refused(options, "head_dim",
                   std::to_string(shape.heads) + " heads of " + std::to_string(shape.head_dim) +
                       " values are more than " + std::to_string(kMostTokens) + " together");
  WEFT_TRY(const double scale, options.number("scale", 1 / std::sqrt(static_cast<double>(shape.head_dim))));
  shape.scale = static_cast<float>(scale);
  WEFT_TRY(const double cap, options.number("score_cap"));
  if (cap != 0 && cap < 1e-3)
    return refused(options, "score_cap", std::to_string(cap) + " is neither 0 nor above 0.001");
  shape.score_cap = static_cast<float>(cap);
  return {};
}

Status read_sight(OptionReader& options, AttentionSettings& settings) {
  kernels::AttentionShape& shape = settings.shape;
  WEFT_TRY(shape.context, options.integer("context"));
  WEFT_TRY(shape.window, options.integer("window"));
  if (shape.context && shape.window > shape.context)
    return refused(
        options, "window",
        std::to_string(shape.window) + " tokens are more than the context of " + std::to_string(shape.context));
  if (shape.context && shape.has_mask())
    return refused(options, "mask",
                   "it has no numbers of the keys of earlier ticks that a context of " + std::to_string(shape.context) +
                       " tokens remembers; leave one of the two away");
  WEFT_TRY(shape.causal, options.boolean("causal", shape.context != 0));
  if (kernels::attention_state_size(shape) > kMostState)
    return refused(options, "context",
                   "keys and values of " + std::to_string(shape.context) + " tokens are more than " +
                       std::to_string(kMostState) + " numbers");
  if (shape.context && !shape.causal)
    return refused(options, "causal", "a context remembers what came before; with it no token sees a later one");
  return {};
}

/// Columns of the input that are a mask, and where its numbers stand. @pre tokens and heads are known
Status read_mask(std::size_t width, OptionReader& options, AttentionSettings& settings) {
  kernels::AttentionShape& shape = settings.shape;
  settings.features = width;
  WEFT_TRY(const std::string kind, options.text("mask"));
  if (kind == "none") return {};
  WEFT_TRY(shape.heads, options.integer("heads"));
  const std::size_t columns = kind == "keys" ? 1 : kind == "scores" ? shape.tokens : shape.heads * shape.tokens;
  if (columns >= width)
    return refused(options, "mask",
                   kind + " are the last " + std::to_string(columns) + " of " + std::to_string(width) +
                       " input columns, which leaves no values; name both in 'from': [values, mask]");
  settings.features = width - columns;
  if (kind == "keys")
    shape.mask = {0, 0, width};
  else
    shape.mask = {kind == "heads" ? shape.tokens : 0, width, 1};
  return {};
}

Status read_scaling(OptionReader& options, kernels::RopeSettings& rope) {
  using kernels::RopeScaling;
  WEFT_TRY(const std::string scaling, options.text("rope_scaling"));
  if (scaling == "none") return {};
  rope.scaling = scaling == "linear" ? RopeScaling::linear : scaling == "ntk" ? RopeScaling::ntk : RopeScaling::llama3;
  if (rope.scaling == RopeScaling::ntk && (rope.dims ? rope.dims : rope.head_dim) <= 2)
    return refused(options, "rope_scaling", "ntk wants a head_dim above 2");
  WEFT_TRY(rope.factor, options.number("rope_factor"));
  if (rope.scaling != RopeScaling::llama3) return {};
  WEFT_TRY(rope.low_frequency_factor, options.number("rope_low_freq_factor"));
  WEFT_TRY(rope.high_frequency_factor, options.number("rope_high_freq_factor"));
  WEFT_TRY(rope.original_context, options.number("rope_original_context"));
  if (rope.high_frequency_factor <= rope.low_frequency_factor)
    return refused(options, "rope_high_freq_factor", "it must be above rope_low_freq_factor");
  return {};
}

/// Elements that turn, and numbers that change their turns.
Status read_turns(OptionReader& options, AttentionSettings& settings) {
  const std::size_t head_dim = settings.shape.head_dim;
  WEFT_TRY(settings.rope.dims, options.integer("rope_dims"));
  if (settings.rope.dims % 2 != 0 || settings.rope.dims > head_dim)
    return refused(
        options, "rope_dims",
        std::to_string(settings.rope.dims) + ", expected an even number up to head_dim, " + std::to_string(head_dim));
  WEFT_TRY(settings.rope_gain, options.number("rope_gain"));
  WEFT_TRY(settings.rope.divisors, options.numbers("rope_divisors"));
  const std::size_t pairs = (settings.rope.dims ? settings.rope.dims : head_dim) / 2;
  if (!settings.rope.divisors.empty() && settings.rope.divisors.size() != pairs)
    return refused(options, "rope_divisors",
                   std::to_string(settings.rope.divisors.size()) + " numbers, expected " + std::to_string(pairs) +
                       ", one for each pair of elements that turns");
  for (const double divisor : settings.rope.divisors)
    if (divisor < 1e-3 || divisor > 1e9)
      return refused(options, "rope_divisors", std::to_string(divisor) + " is outside [0.001, 1000000000]");
  return {};
}

Status read_rope(OptionReader& options, AttentionSettings& settings) {
  WEFT_TRY(const std::string kind, options.text("rope"));
  if (kind == "none") return {};
  settings.has_rope = true;
  settings.rope.head_dim = settings.shape.head_dim;
  settings.rope.pairs = kind == "half" ? kernels::RopePairs::half : kernels::RopePairs::interleaved;
  if (settings.shape.head_dim % 2 != 0)
    return refused(options, "rope", "a head_dim of " + std::to_string(settings.shape.head_dim) + " has no pairs");
  WEFT_TRY(settings.rope.theta, options.number("rope_theta"));
  WEFT_CHECK(read_turns(options, settings));
  return read_scaling(options, settings.rope);
}

Status read_norm(OptionReader& options, AttentionSettings& settings) {
  WEFT_TRY(const std::string out_norm, options.text("out_norm"));
  settings.has_out_norm = out_norm == "rms";
  if (settings.has_out_norm) {
    WEFT_TRY(const double epsilon, options.number("out_epsilon"));
    settings.out_epsilon = static_cast<float>(epsilon);
  }
  WEFT_TRY(const std::string norm, options.text("qk_norm"));
  if (norm == "none") return {};
  settings.norm = norm == "rms" ? QkNorm::rms : QkNorm::layer;
  WEFT_TRY(const double epsilon, options.number("epsilon"));
  settings.epsilon = static_cast<float>(epsilon);
  return {};
}

Result<std::vector<ParameterSpec>> make_parameters(const AttentionSettings& settings, std::size_t in, std::size_t out,
                                                   std::string_view init, const std::string& object) {
  const std::size_t query = settings.query_width(), key = settings.key_width();
  WEFT_TRY(auto of_queries, make_initializer(init, in, query, object));
  WEFT_TRY(auto of_keys, make_initializer(init, in, key, object));
  WEFT_TRY(auto of_output, make_initializer(init, query, out, object));
  std::vector<ParameterSpec> all;
  all.push_back({"query", query, in, true, std::move(of_queries), LinearMap{0}});
  all.push_back({"key", key, in, true, of_keys, LinearMap{0}});
  all.push_back({"value", key, in, true, std::move(of_keys), LinearMap{0}});
  all.push_back({"output", out, query, true, std::move(of_output), LinearMap{1}});
  for (std::size_t i = kQuery; i <= kValue && settings.has_bias; ++i)
    all.push_back({all[i].name + "_bias", all[i].out, 0, false, constant(0.0f)});
  if (settings.has_out_bias) all.push_back({"output_bias", out, 0, false, constant(0.0f)});
  if (settings.norm != QkNorm::none)
    for (const char* name : {"query_gain", "key_gain"})
      all.push_back({name, settings.shape.head_dim, 0, false, constant(1.0f)});
  if (settings.has_out_norm) all.push_back({"out_gain", query, 0, false, constant(1.0f)});
  return all;
}

}  // namespace

LayerDeclaration declare_attention() {
  return {
      "in | tokens, in",
      "out | tokens, out",
      {option::out(option::computed("the input's width, without a mask"), "values", "width of the output"),
       option::whole("heads", 1, 1, 65536, "-", "query heads"),
       option::whole("kv_heads", option::computed("heads"), 1, 65536, "-", "key and value heads; divides heads"),
       option::whole("head_dim", 0, 0, 65536, "values", "width of a head; 0: the input's width / heads"),
       option::number("scale", option::computed("1 / sqrt(head_dim)"), 1e-6, 1e6, "-", "of the scores"),
       option::number("score_cap", 0, 0, 1e6, "-", "c: scaled scores s become c tanh(s / c); 0: they stay"),
       option::whole("context", 0, 0, 16777216, "tokens", "what a session remembers; 0: nothing"),
       option::flag("causal", option::computed("whether there is a context"),
                    "whether a token does not see later ones; a context wants true"),
       option::whole("window", 0, 0, 16777216, "tokens", "how far a token sees, itself counted; 0: without bound"),
       option::choice("mask", "none", {"none", "keys", "scores", "heads"},
                      "the input's last columns, added to the scores, -1e30 hides: one a token as a key; `tokens` a "
                      "token, one for each key; these of each head"),
       option::choice("rope", "none", {"none", "half", "interleaved"},
                      "turns q and k by their positions: i with i + head_dim/2, or 2i with 2i + 1"),
       option::only_with("rope=half|interleaved",
                         option::number("rope_theta", 10000, 1, 1e12, "-", "base of the frequencies")),
       option::only_with("rope=half|interleaved",
                         option::choice("rope_scaling", "none", {"none", "linear", "ntk", "llama3"},
                                        "how frequencies are stretched (kernels/rope.hpp)")),
       option::only_with("rope_scaling=linear|ntk|llama3",
                         option::number("rope_factor", 1, 1, 1e6, "-", "of the scaling")),
       option::only_with("rope_scaling=llama3", option::number("rope_low_freq_factor", 1, 1e-3, 1e6, "-", "of llama3")),
       option::only_with("rope_scaling=llama3",
                         option::number("rope_high_freq_factor", 4, 1e-3, 1e6, "-", "of llama3; above the low one")),
       option::only_with("rope_scaling=llama3",
                         option::number("rope_original_context", 8192, 1, 1e9, "tokens", "of llama3")),
       option::only_with("rope=half|interleaved",
                         option::whole("rope_dims", 0, 0, 65536, "values",
                                       "first elements of a head that turn, with pairs among themselves; 0: all")),
       option::only_with("rope=half|interleaved",
                         option::numbers("rope_divisors", option::none(), "-",
                                         "of the frequencies, after the scaling: one for each pair that turns")),
       option::only_with("rope=half|interleaved",
                         option::number("rope_gain", 1, 1e-3, 1e3, "-", "factor of cosines and sines")),
       option::choice("qk_norm", "none", {"none", "rms", "layer"}, "norm of q and k, head by head, with learned gains"),
       option::only_with("qk_norm=rms|layer", option::number("epsilon", 1e-5, 1e-12, 1, "-", "of the norms")),
       option::choice("out_norm", "none", {"none", "rms"},
                      "norm of all heads' results together, with learned gains, before W_o"),
       option::only_with("out_norm=rms", option::number("out_epsilon", 1e-5, 1e-12, 1, "-", "of that norm")),
       option::flag("bias", true, "whether b_q, b_k and b_v exist; they start at 0"),
       option::flag("out_bias", option::computed("as bias"), "whether b_o exists; it starts at 0"),
       option::init("xavier")}};
}

Result<std::unique_ptr<Layer>> make_attention(const Shape& in, std::size_t out, OptionReader& options) {
  if (in.size() > 2)
    return fail(Errc::shape_mismatch,
                options.object() + ": attention takes [features] or [tokens, features], not " + weft::to_string(in));
  AttentionSettings settings;
  settings.shape.tokens = in.size() == 2 ? in.front() : 1;
  WEFT_CHECK(read_mask(in.back(), options, settings));
  const std::size_t width = settings.features;
  if (out == 0) out = width;
  WEFT_CHECK(read_heads(width, options, settings));
  WEFT_CHECK(read_sight(options, settings));
  WEFT_CHECK(read_rope(options, settings));
  WEFT_CHECK(read_norm(options, settings));
  WEFT_TRY(settings.has_bias, options.boolean("bias"));
  WEFT_TRY(settings.has_out_bias, options.boolean("out_bias", settings.has_bias));
  WEFT_TRY(const std::string init, options.text("init"));
  WEFT_TRY(auto parameters, make_parameters(settings, width, out, init, options.object()));
  return attention_layer(in, out, settings, std::move(parameters));
}

}  // namespace weft::mesh
