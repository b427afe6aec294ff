// SPDX-License-Identifier: Apache-2.0

// Attention in products, with its positions and masks as constants.

#include "models/onnx/internal/layer_forms.hpp"

#include "kernels/rope.hpp"

#include <cmath>
#include <utility>

namespace weft::models::onnx {
namespace {

using Axes = std::vector<std::int64_t>;
constexpr float kNever = -3.4028235e38f;  // a score of what is not seen: its exponential is 0

/// 0 where token t sees token s, else a score below all others.
std::vector<float> mask_of(std::size_t tokens, bool is_causal, std::size_t window) {
  std::vector<float> mask(tokens * tokens, 0.0f);
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t s = 0; s < tokens; ++s)
      if ((is_causal && s > t) || (window != 0 && s + window <= t) || (window != 0 && !is_causal && t + window <= s))
        mask[t * tokens + s] = kNever;
  return mask;
}

Result<kernels::RopeSettings> rope_of(mesh::OptionReader& read, std::size_t head_dim, bool is_half) {
  kernels::RopeSettings rope;
  rope.head_dim = head_dim;
  rope.pairs = is_half ? kernels::RopePairs::half : kernels::RopePairs::interleaved;
  WEFT_TRY(rope.theta, read.number("rope_theta"));
  WEFT_TRY(rope.dims, read.integer("rope_dims"));
  WEFT_TRY(rope.divisors, read.numbers("rope_divisors"));
  WEFT_TRY(const std::string scaling, read.text("rope_scaling"));
  if (scaling == "none") return rope;
  using kernels::RopeScaling;
  rope.scaling = scaling == "linear" ? RopeScaling::linear : scaling == "ntk" ? RopeScaling::ntk : RopeScaling::llama3;
  WEFT_TRY(rope.factor, read.number("rope_factor"));
  if (rope.scaling != RopeScaling::llama3) return rope;
  WEFT_TRY(rope.low_frequency_factor, read.number("rope_low_freq_factor"));
  WEFT_TRY(rope.high_frequency_factor, read.number("rope_high_freq_factor"));
  WEFT_TRY(rope.original_context, read.number("rope_original_context"));
  return rope;
}

}  // namespace

/// Heads [tokens, heads, head_dim] turned by their positions, 0 on.
Result<Written> LayerForms::turned(const LayerSite& site, const Written& heads) {
  mesh::OptionReader read = options(site);
  WEFT_TRY(const std::string kind, read.text("rope"));
  if (kind == "none") return heads;
  const std::size_t tokens = heads.shape[0], head_dim = heads.shape[2];
  WEFT_TRY(const kernels::RopeSettings settings, rope_of(read, head_dim, kind == "half"));
  WEFT_TRY(const double gain, read.number("rope_gain"));
  const std::vector<std::uint64_t> turns = kernels::rope_turns(settings);
  const kernels::Rope rope{head_dim, settings.pairs, turns.data(), nullptr, 0, settings.dims, gain};
  const std::size_t dims = rope.dims();
  std::vector<float> row(2 * dims), cosines, sines;
  for (std::size_t t = 0; t < tokens; ++t) {
    kernels::rope_row(rope, t, row.data());
    cosines.insert(cosines.end(), row.begin(), row.begin() + static_cast<std::ptrdiff_t>(dims));
    sines.insert(sines.end(), row.begin() + static_cast<std::ptrdiff_t>(dims), row.end());
  }
  Axes partners;
  for (std::size_t i = 0; i < dims; ++i)
    partners.push_back(static_cast<std::int64_t>(kind == "half" ? (i + dims / 2) % dims : i ^ 1));
  std::vector<std::string> parts{heads.name};
  if (dims != head_dim)
    parts = to_.nodes(
        "Split",
        {heads.name, to_.integers({static_cast<std::int64_t>(dims), static_cast<std::int64_t>(head_dim - dims)})}, 2,
        {{"axis", std::int64_t{3}}});
  const Shape shape{tokens, heads.shape[1], dims};
  const Written x{parts[0], shape};
  const Written partner{to_.node("Gather", {x.name, to_.integers(std::move(partners))}, {{"axis", std::int64_t{3}}}),
                        shape};
  const Written y = to_.binary("Add", to_.binary("Mul", x, to_.floats({tokens, 1, dims}, std::move(cosines))),
                               to_.binary("Mul", partner, to_.floats({tokens, 1, dims}, std::move(sines))).name);
  if (dims == head_dim) return y;
  return Written{to_.node("Concat", {y.name, parts[1]}, {{"axis", std::int64_t{3}}}), heads.shape};
}

Result<Written> LayerForms::attention(const LayerSite& site, const Written& x) {
  mesh::OptionReader read = options(site);
  WEFT_TRY(const std::size_t context, read.integer("context"));
  if (context != 0)
    return fail(Errc::unsupported, "attention that remembers earlier ticks (context) has no form in ONNX");
  WEFT_TRY(const std::size_t heads, read.integer("heads"));
  WEFT_TRY(const std::size_t kv_heads, read.integer("kv_heads", heads));
  WEFT_TRY(const bool is_causal, read.boolean("causal", false));
  WEFT_TRY(const std::size_t window, read.integer("window"));
  WEFT_TRY(const double cap, read.number("score_cap"));
  WEFT_TRY(const std::string qk_norm, read.text("qk_norm"));
  WEFT_TRY(const std::string out_norm, read.text("out_norm"));
  const std::size_t tokens = x.shape.size() == 1 ? 1 : x.shape[0], head_dim = find(site, "query")->out / heads,
                    groups = heads / kv_heads;
  WEFT_TRY(const double scale, read.number("scale", 1.0 / std::sqrt(static_cast<double>(head_dim))));
  WEFT_TRY(const std::string mask, read.text("mask"));
  const std::size_t width = x.shape.back(), features = find(site, "query")->in;
  Written in = to_.reshaped(x, {tokens, width}), numbers{};
  if (mask != "none") {
    const auto parts = to_.nodes(
        "Split",
        {in.name, to_.integers({static_cast<std::int64_t>(features), static_cast<std::int64_t>(width - features)})}, 2,
        {{"axis", std::int64_t{2}}});
    in = {parts[0], {tokens, features}};
    numbers = {parts[1], {tokens, width - features}};
  }
  const auto by_head = [&](const char* part, const char* bias, std::size_t count, const char* gain) -> Result<Written> {
    Written parts = to_.reshaped(product(site, in, part, bias), {tokens, count, head_dim});
    if (!gain) return parts;
    if (qk_norm != "none") {
      WEFT_TRY(const double epsilon, read.number("epsilon"));
      if (qk_norm == "layer") return fail(Errc::unsupported, "qk_norm layer has no form in ONNX");
      parts = rms(parts, epsilon, vector(site, gain));
    }
    return turned(site, parts);
  };
  WEFT_TRY(const Written q, by_head("query", "query_bias", heads, "query_gain"));
  WEFT_TRY(const Written k, by_head("key", "key_bias", kv_heads, "key_gain"));
  WEFT_TRY(const Written v, by_head("value", "value_bias", kv_heads, nullptr));
  // Groups of query heads share a key and a value head: [kv_heads, groups, tokens, head_dim] with [kv_heads, 1, ...].
  const Written queries =
      to_.reshaped({to_.node("Transpose", {q.name}, {{"perm", Axes{0, 2, 1, 3}}}), {heads, tokens, head_dim}},
                   {kv_heads, groups, tokens, head_dim});
  const Written keys =
      to_.reshaped({to_.node("Transpose", {k.name}, {{"perm", Axes{0, 2, 3, 1}}}), {kv_heads, head_dim, tokens}},
                   {kv_heads, 1, head_dim, tokens});
  const Written values =
      to_.reshaped({to_.node("Transpose", {v.name}, {{"perm", Axes{0, 2, 1, 3}}}), {kv_heads, tokens, head_dim}},
                   {kv_heads, 1, tokens, head_dim});
  const Shape square{kv_heads, groups, tokens, tokens};
  Written scores =
      to_.binary("Mul", {to_.node("MatMul", {queries.name, keys.name}), square}, to_.number(static_cast<float>(scale)));
  if (cap != 0) {
    const auto c = static_cast<float>(cap);
    scores = to_.binary("Mul", to_.unary("Tanh", to_.binary("Mul", scores, to_.number(1.0f / c))), to_.number(c));
  }
  if (is_causal || window != 0)
    scores = to_.binary("Add", scores, to_.floats({tokens, tokens}, mask_of(tokens, is_causal, window)));
  // Queries that see nothing get the values' mean there, and not 0.
  if (mask == "keys")
    scores = to_.binary(
        "Add", scores,
        to_.reshaped({to_.node("Transpose", {numbers.name}, {{"perm", Axes{0, 2, 1}}}), {1, tokens}}, {1, 1, 1, tokens})
            .name);
  else if (mask == "scores")
    scores = to_.binary("Add", scores, to_.reshaped(numbers, {1, 1, tokens, tokens}).name);
  else if (mask == "heads")
    scores = to_.binary("Add", scores,
                        to_.reshaped({to_.node("Transpose", {to_.reshaped(numbers, {tokens, heads, tokens}).name},
                                               {{"perm", Axes{0, 2, 1, 3}}}),
                                      {heads, tokens, tokens}},
                                     square)
                            .name);
  const Written shares = to_.unary("Softmax", scores, {{"axis", std::int64_t{-1}}});
  const Written mixed =
      to_.reshaped({to_.node("MatMul", {shares.name, values.name}), {kv_heads, groups, tokens, head_dim}},
                   {heads, tokens, head_dim});
  Written together =
      to_.reshaped({to_.node("Transpose", {mixed.name}, {{"perm", Axes{0, 2, 1, 3}}}), {tokens, heads, head_dim}},
                   {tokens, heads * head_dim});
  if (out_norm == "rms") {
    WEFT_TRY(const double epsilon, read.number("out_epsilon"));
    together = rms(together, epsilon, vector(site, "out_gain"));
  }
  return to_.reshaped(product(site, together, "output", "output_bias"), site.layer.out_shape());
}

}  // namespace weft::models::onnx
