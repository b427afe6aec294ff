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
/// From which on queries, keys and values are products for themselves, for which threads share the packing of rows.
/// Of 16 a product of keys alone takes twice what its weights need.
constexpr std::size_t kManyTokens = 32;

struct Settings {
  kernels::AttentionShape shape;
  kernels::RopeSettings rope;
  double rope_gain = 1;
  bool has_rope = false, has_bias = true, has_out_bias = true;
  QkNorm norm = QkNorm::none;
  bool has_out_norm = false;
  float epsilon = 1e-5f, out_epsilon = 1e-5f;
  std::size_t features = 0;  // of a token, those of its mask left out
  std::size_t query_width() const noexcept { return shape.heads * shape.head_dim; }
  std::size_t key_width() const noexcept { return shape.kv_heads * shape.head_dim; }
};

// Parameters in order: four matrices, then those of biases and gains that exist.
constexpr std::size_t kQuery = 0, kKey = 1, kValue = 2, kOutput = 3, kProjections = 4;

class Attention final : public Layer, public TokenwiseState {
 public:
  Attention(const Shape& in, std::size_t out, const Settings& settings, std::vector<ParameterSpec> parameters)
      : Layer(in, with_features(in, out)),
        tokens_(in),
        settings_(settings),
        shape_(settings.shape),
        parameters_(std::move(parameters)) {
    if (!settings.has_rope) return;
    turns_ = kernels::rope_turns(settings.rope);
    rope_ = {shape_.head_dim, settings.rope.pairs, turns_.data(), nullptr, 0, settings.rope.dims, settings.rope_gain};
    // Ticks that stand alone know their positions.
    const std::size_t row = 2 * rope_.dims();
    if (shape_.context == 0) table_.resize(shape_.tokens * row);
    for (std::size_t p = 0; p < table_.size() / row; ++p) kernels::rope_row(rope_, p, table_.data() + p * row);
    rope_.table = table_.data();
    rope_.table_positions = shape_.context == 0 ? shape_.tokens : 0;
  }

  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  std::size_t state_size() const noexcept override { return kernels::attention_state_size(shape_); }
  StateErrors state_errors() const noexcept override {
    return state_size() == 0 ? StateErrors::none : StateErrors::gradients;
  }
  bool updates_state_in_place() const noexcept override { return true; }
  void cut(kernels::OpStream& stream, std::size_t tokens, float* state) const override {
    if (shape_.context) kernels::attention_cut(stream, tokens, state);
  }
  std::size_t saved_size(std::size_t tokens) const noexcept override {
    return kernels::attention_saved_size(shape_, tokens);
  }
  void save(const float* state, std::size_t first, std::size_t tokens, float* to) const noexcept override {
    kernels::attention_save(shape_, state, first, tokens, to);
  }
  void load(const float* from, std::size_t first, std::size_t tokens, float* state) const noexcept override {
    kernels::attention_load(shape_, from, first, tokens, state);
  }
  void add_places(std::size_t first, std::size_t tokens, std::size_t offset,
                  std::vector<StatePlace>& to) const override {
    kernels::attention_places(shape_, first, tokens, [&](std::size_t at, std::size_t count) {
      to.push_back({offset + at, count});
    });
  }
  std::size_t cache_size() const noexcept override { return place(kEnd); }
  // Errors of the heads' results, q, k and v, and what one of the three sends to the input.
  std::size_t scratch_size() const noexcept override {
    return shape_.tokens * (2 * settings_.query_width() + 2 * settings_.key_width()) + in();
  }
  std::size_t workspace_size() const noexcept override {
    return std::max(kernels::attention_workspace_size(shape_), 2 * shape_.head_dim);
  }
  double multiply_adds() const noexcept override {
    const auto tokens = static_cast<double>(shape_.tokens), width = static_cast<double>(settings_.query_width());
    const double d = static_cast<double>(settings_.features), out = static_cast<double>(out_shape().back());
    double seen = shape_.causal ? (tokens + 1) / 2 : tokens;
    if (shape_.context) seen = static_cast<double>(shape_.context);
    if (shape_.window) seen = std::min(seen, static_cast<double>(shape_.window) * (shape_.causal ? 1 : 2));
    return tokens * (d * (width + 2 * static_cast<double>(settings_.key_width())) + width * (out + 2 * seen));
  }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    const MatrixView q = part(args.cache, kQ), k = part(args.cache, kK), v = part(args.cache, kV),
                     y = part(args.cache, kY);
    const bool norms = settings_.norm != QkNorm::none;
    project_input(stream, args, {norms ? part(args.cache, kRawQ) : q, norms ? part(args.cache, kRawK) : k, v});
    if (norms) {
      normalize(stream, args.weights.vector(gain()), args.cache, kRawQ, kQStatistics, q);
      normalize(stream, args.weights.vector(gain() + 1), args.cache, kRawK, kKStatistics, k);
    }
    if (settings_.has_rope) {
      stream.rope({rope_, shape_.tokens, q, args.state, false, q, args.workspace});
      stream.rope({rope_, shape_.tokens, k, args.state, false, k, args.workspace});
    }
    stream.attention({shape_,
                      {q, k, v, args.state, mask_of(args.x)},
                      y,
                      part(args.cache, kStatistics),
                      args.next_state,
                      args.workspace});
    if (settings_.has_out_norm) {
      const MatrixView to = part(args.cache, kNormedY), numbers = part(args.cache, kYStatistics);
      for (std::size_t b = 0; b < y.rows; ++b)
        stream.rms_norm({tokens_of(y, b), args.weights.vector(out_gain()), settings_.out_epsilon, tokens_of(to, b),
                         numbers.row(b)});
    }
    project(stream, args.weights, kOutput, settings_.has_out_norm ? part(args.cache, kNormedY) : y, args.y);
  }

  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    const std::size_t tokens = shape_.tokens, width = settings_.query_width(), keys = settings_.key_width();
    const auto scratch = [&](std::size_t at, std::size_t cols) {
      return MatrixView{args.scratch.data + at, args.scratch.rows, cols, args.scratch.stride};
    };
    const MatrixView dy = scratch(0, tokens * width), dq = scratch(tokens * width, tokens * width),
                     dk = scratch(2 * tokens * width, tokens * keys),
                     dv = scratch(tokens * (2 * width + keys), tokens * keys),
                     through = scratch(2 * tokens * (width + keys), in());
    const ConstMatrixView y = part(args.cache, kY);
    add_gradients(stream, args, kOutput, args.dy, settings_.has_out_norm ? part(args.cache, kNormedY) : y);
    send_back(stream, args.weights, kOutput, args.dy, dy);
    if (settings_.has_out_norm) {
      const ConstMatrixView numbers = part(args.cache, kYStatistics);
      float* const dgain = args.gradients.data ? args.gradients[out_gain()] : nullptr;
      for (std::size_t b = 0; b < dy.rows; ++b)
        stream.rms_norm_backward({tokens_of(y, b), args.weights.vector(out_gain()), numbers.row(b), tokens_of(dy, b),
                                  tokens_of(dy, b), dgain});
    }
    stream.attention_backward(
        {shape_,
         {part(args.cache, kQ), part(args.cache, kK), part(args.cache, kV), args.state, mask_of(args.x)},
         y,
         part(args.cache, kStatistics),
         {dy, args.dnext_state, dq, dk, dv, args.dstate, mask_of(args.dx)},
         args.workspace});
    if (settings_.has_rope) {
      stream.rope({rope_, tokens, dq, args.state, true, dq, args.workspace});
      stream.rope({rope_, tokens, dk, args.state, true, dk, args.workspace});
    }
    if (settings_.norm != QkNorm::none) {
      normalize_backward(stream, args, gain(), kRawQ, kQStatistics, dq);
      normalize_backward(stream, args, gain() + 1, kRawK, kKStatistics, dk);
    }
    add_gradients(stream, args, kQuery, dq, args.x);
    add_gradients(stream, args, kKey, dk, args.x);
    add_gradients(stream, args, kValue, dv, args.x);
    if (!args.dx.data) return;
    send_back(stream, args.weights, kQuery, dq, args.dx);
    for (const auto& [i, d] : {std::pair(kKey, dk), std::pair(kValue, dv)}) {
      send_back(stream, args.weights, i, d, through);
      add_to(stream, through, args.dx);
    }
  }

 private:
  /// Parts of a row of the cache. Those from kRawQ on exist with norms only: four of q and k, two of y.
  enum Part : std::size_t {
    kQ,
    kK,
    kV,
    kY,
    kStatistics,
    kRawQ,
    kRawK,
    kQStatistics,
    kKStatistics,
    kNormedY,
    kYStatistics,
    kEnd
  };
  std::size_t size(std::size_t i) const noexcept {
    const std::size_t q = shape_.tokens * settings_.query_width(), k = shape_.tokens * settings_.key_width();
    const std::size_t numbers = settings_.norm == QkNorm::none ? 0 : settings_.norm == QkNorm::rms ? 1 : 2;
    switch (i) {
      case kQ:
      case kY:
        return q;
      case kK:
      case kV:
        return k;
      case kStatistics:
        return kernels::attention_statistics_size(shape_);
      case kRawQ:
        return numbers ? q : 0;
      case kRawK:
        return numbers ? k : 0;
      case kQStatistics:
        return numbers * shape_.tokens * shape_.heads;
      case kKStatistics:
        return numbers * shape_.tokens * shape_.kv_heads;
      case kNormedY:
        return settings_.has_out_norm ? q : 0;
      default:
        return settings_.has_out_norm ? shape_.tokens : 0;
    }
  }
  std::size_t place(std::size_t end) const noexcept {
    std::size_t at = 0;
    for (std::size_t i = 0; i < end; ++i) at += size(i);
    return at;
  }
  template <class View>
  View part(const View& cache, Part i) const noexcept {
    return {cache.data + place(i), cache.rows, size(i), cache.stride};
  }
  /// Places of gains among the parameters: of q, followed by that of k; of the heads' results.
  std::size_t gain() const noexcept { return parameters_.size() - 2 - (settings_.has_out_norm ? 1 : 0); }
  std::size_t out_gain() const noexcept { return parameters_.size() - 1; }
  /// All heads' results of each token of one session.
  template <class View>
  View tokens_of(const View& rows, std::size_t b) const noexcept {
    return {rows.row(b), shape_.tokens, settings_.query_width(), settings_.query_width()};
  }

  /// Columns that projection i takes of tokens: of the layer's input, the values without the mask.
  template <class View>
  View operand(std::size_t i, const View& tokens) const noexcept {
    return i == kOutput ? tokens : columns(tokens, 0, settings_.features);
  }
  /// The mask's numbers in an input, or in its errors.
  template <class View>
  View mask_of(const View& x) const noexcept {
    if (!shape_.has_mask() || !x.data) return {};
    return columns(x, settings_.features, kernels::attention_mask_size(shape_));
  }

  /// The bias of matrix i: its place among the parameters, or 0.
  std::size_t bias(std::size_t i) const noexcept {
    if (i != kOutput) return settings_.has_bias ? kProjections + i : 0;
    return settings_.has_out_bias ? kProjections + (settings_.has_bias ? 3 : 0) : 0;
  }
  /// Queries, keys and values. Of few tokens threads share the outputs of all three together, as those of keys alone
  /// pay for no handover; of more, each matrix, for which they pack the tokens together.
  void project_input(kernels::OpStream& stream, const ForwardArgs& args, const std::array<MatrixView, 3>& y) const {
    const std::size_t tokens = args.x.rows * shape_.tokens;
    if (!stream.computes_at_once() || tokens >= kManyTokens) {
      for (std::size_t i = kQuery; i <= kValue; ++i) project(stream, args.weights, i, args.x, y[i]);
      return;
    }
    const auto panels_of = [&](std::size_t i) { return kernels::panel_count(args.weights.matrix(i).out); };
    const std::size_t width = settings_.query_width() + 2 * settings_.key_width();
    stream.split(panels_of(kQuery) + 2 * panels_of(kKey), kernels::ops::product(width, settings_.features, tokens),
                 [&](kernels::OpStream& own, std::size_t first, std::size_t count) {
                   std::size_t begin = 0;
                   for (std::size_t i = kQuery; i <= kValue; ++i) {
                     const std::size_t end = begin + panels_of(i), from = std::max(first, begin),
                                       to = std::min(first + count, end);
                     if (from < to) project_panels(own, args, i, from - begin, to - from, y[i]);
                     begin = end;
                   }
                 });
  }
  /// Outputs of some panels of matrix i.
  void project_panels(kernels::OpStream& stream, const ForwardArgs& args, std::size_t i, std::size_t first,
                      std::size_t panels, const MatrixView& y) const {
    const kernels::ConstWeight w = kernels::panel_range(args.weights.matrix(i), first, panels);
    const std::size_t o = first * kernels::kPanelWidth;
    tokens_.each(
        [&](const auto& own) {
          stream.linear({w,
                         bias(i) ? args.weights.vector(bias(i)) + o : nullptr,
                         operand(i, own(args.x)),
                         Activation::linear,
                         {},
                         columns(own(y), o, w.out)});
        },
        args.x, y);
  }
  void project(kernels::OpStream& stream, const ConstWeights& weights, std::size_t i, const ConstMatrixView& x,
               const MatrixView& y) const {
    tokens_.each(
        [&](const auto& own) {
          stream.linear({weights.matrix(i),
                         bias(i) ? weights.vector(bias(i)) : nullptr,
                         operand(i, own(x)),
                         Activation::linear,
                         {},
                         own(y)});
        },
        x, y);
  }
  void send_back(kernels::OpStream& stream, const ConstWeights& weights, std::size_t i, const ConstMatrixView& d,
                 const MatrixView& dx) const {
    tokens_.each(
        [&](const auto& own) {
          stream.linear_transposed({weights.matrix(i), own(d), operand(i, own(dx))});
        },
        d, dx);
  }
  /// Adds a projection's errors of the input to those of others, the mask's columns left out.
  void add_to(kernels::OpStream& stream, const MatrixView& more, const MatrixView& dx) const {
    if (!shape_.has_mask()) return stream.binary({kernels::BinaryOp::add, dx, more, dx});
    tokens_.each(
        [&](const auto& own) {
          const MatrixView to = operand(kValue, own(dx));
          stream.binary({kernels::BinaryOp::add, to, operand(kValue, own(more)), to});
        },
        dx, more);
  }
  void add_gradients(kernels::OpStream& stream, const BackwardArgs& args, std::size_t i, const ConstMatrixView& d,
                     const ConstMatrixView& x) const {
    if (!args.gradients.data) return;
    tokens_.each(
        [&](const auto& own) {
          const ConstMatrixView errors = own(d), inputs = operand(i, own(x));
          stream.outer_accumulate({errors, inputs, {args.gradients[i], errors.cols, inputs.cols}});
          if (bias(i)) stream.column_accumulate({errors, args.gradients[bias(i)]});
        },
        d, x);
  }

  /// The heads of all tokens of one session.
  template <class View>
  View heads(const View& rows, std::size_t b) const noexcept {
    return {rows.row(b), rows.cols / shape_.head_dim, shape_.head_dim, shape_.head_dim};
  }
  void normalize(kernels::OpStream& stream, const float* gain, const MatrixView& cache, Part raw, Part statistics,
                 const MatrixView& to) const {
    const MatrixView from = part(cache, raw), numbers = part(cache, statistics);
    for (std::size_t b = 0; b < cache.rows; ++b) {
      const MatrixView x = heads(from, b), y = heads(to, b);
      float* const inverse = numbers.row(b);
      if (settings_.norm == QkNorm::rms)
        stream.rms_norm({x, gain, settings_.epsilon, y, inverse});
      else
        stream.layer_norm({x, gain, nullptr, settings_.epsilon, y, inverse + x.rows, inverse});
    }
  }
  void normalize_backward(kernels::OpStream& stream, const BackwardArgs& args, std::size_t gain, Part raw,
                          Part statistics, const MatrixView& d) const {
    const ConstMatrixView from = part(args.cache, raw), numbers = part(args.cache, statistics);
    float* const dgain = args.gradients.data ? args.gradients[gain] : nullptr;
    for (std::size_t b = 0; b < d.rows; ++b) {
      const ConstMatrixView x = heads(from, b);
      const MatrixView error = heads(d, b);
      const float* const inverse = numbers.row(b);
      if (settings_.norm == QkNorm::rms)
        stream.rms_norm_backward({x, args.weights.vector(gain), inverse, error, error, dgain});
      else
        stream.layer_norm_backward(
            {x, args.weights.vector(gain), inverse + x.rows, inverse, error, error, dgain, nullptr});
    }
  }

  Tokens tokens_;
  Settings settings_;
  kernels::AttentionShape shape_;
  std::vector<std::uint64_t> turns_;
  std::vector<float> table_;
  kernels::Rope rope_;
  std::vector<ParameterSpec> parameters_;
};

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
