// SPDX-License-Identifier: Apache-2.0

#include "models/internal/decoder_difference.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace weft::models::internal {
namespace {

class Comparison {
 public:
  void count(const char* what, std::size_t a, std::size_t b) {
    if (a != b) told(what, std::to_string(a), std::to_string(b));
  }
  void number(const char* what, double a, double b, double tolerance = 1e-6) {
    if (!(std::abs(a - b) <= tolerance * std::abs(a))) told(what, Json(a).dump(), Json(b).dump());
  }
  void text(const char* what, const std::string& a, const std::string& b) {
    if (a != b) told(what, in_quotes(a), in_quotes(b));
  }
  void divisors(std::vector<double> a, std::vector<double> b) {
    const std::size_t most = std::max(a.size(), b.size());
    if (a.empty()) a.assign(most, 1);
    if (b.empty()) b.assign(most, 1);
    count("divisors of rotary positions", a.size(), b.size());
    // Other programs make them in float32.
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
      number("a divisor of rotary positions", a[i], b[i], 2e-5);
  }
  void windows(std::vector<std::size_t> a, std::vector<std::size_t> b) {
    a.resize(std::max(a.size(), b.size()));
    b.resize(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) count("the window of a block (sliding_window)", a[i], b[i]);
  }
  std::string first() && { return std::move(first_); }

 private:
  void told(const char* what, const std::string& a, const std::string& b) {
    if (first_.empty()) first_ = std::string(what) + ": " + a + ", not " + b;
  }
  std::string first_;
};

double scale_of_scores(const Decoder& decoder) {
  return decoder.score_scale != 0 ? decoder.score_scale : 1 / std::sqrt(static_cast<double>(decoder.head_dim));
}

}  // namespace

std::string difference_of(const Decoder& is, const Decoder& said) {
  Comparison two;
  two.count("vocab_size", is.vocabulary, said.vocabulary);
  two.count("the width (hidden_size)", is.width, said.width);
  two.count("num_hidden_layers", is.blocks, said.blocks);
  two.count("num_attention_heads", is.heads, said.heads);
  two.count("num_key_value_heads", is.kv_heads, said.kv_heads);
  two.count("head_dim", is.head_dim, said.head_dim);
  two.count("intermediate_size", is.hidden, said.hidden);
  two.count("positions (max_position_embeddings)", is.context, said.context);
  two.number("epsilon of norms", is.epsilon, said.epsilon);
  two.text("the activation", is.gate, said.gate);
  two.count("biases of queries, keys and values", is.has_qkv_bias, said.has_qkv_bias);
  two.count("a bias of attention's output", is.has_out_bias, said.has_out_bias);
  two.count("biases of the feed-forward part", is.has_mlp_bias, said.has_mlp_bias);
  two.count("tie_word_embeddings", is.is_tied, said.is_tied);
  two.count("ternary blocks", static_cast<std::size_t>(is.ternary), static_cast<std::size_t>(said.ternary));
  two.number("the scale of embeddings", is.embedding_scale, said.embedding_scale);
  two.number("the scale of scores (query_pre_attn_scalar)", scale_of_scores(is), scale_of_scores(said));
  two.number("attn_logit_softcapping", is.score_cap, said.score_cap);
  two.number("final_logit_softcapping", is.logit_cap, said.logit_cap);
  two.count("elements of a head that turn (partial_rotary_factor)", is.rope.dims, said.rope.dims);
  two.number("rope_theta", is.rope.theta, said.rope.theta);
  two.number("the gain of rotary positions (attention_factor)", is.rope.gain, said.rope.gain);
  two.divisors(is.rope.divisors, said.rope.divisors);
  two.windows(is.windows, said.windows);
  return std::move(two).first();
}

}  // namespace weft::models::internal
