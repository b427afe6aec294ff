// SPDX-License-Identifier: Apache-2.0

// The passes of attention: forward, backward, and its state.

#include "mesh/layers/attention_settings.hpp"
#include "mesh/layers/tokens.hpp"
#include "mesh/layers/tokenwise_state.hpp"

#include "kernels/attention_state.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace weft::mesh {
namespace {

using kernels::Activation;
using kernels::ConstMatrixView;
using kernels::MatrixView;

/// From which on queries, keys and values are products for themselves, for which threads share the packing of rows.
/// Of 16 a product of keys alone takes twice what its weights need.
constexpr std::size_t kManyTokens = 32;

class Attention final : public Layer, public TokenwiseState {
 public:
  Attention(const Shape& in, std::size_t out, const AttentionSettings& settings, std::vector<ParameterSpec> parameters)
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
  AttentionSettings settings_;
  kernels::AttentionShape shape_;
  std::vector<std::uint64_t> turns_;
  std::vector<float> table_;
  kernels::Rope rope_;
  std::vector<ParameterSpec> parameters_;
};

}  // namespace

std::unique_ptr<Layer> attention_layer(const Shape& in, std::size_t out, const AttentionSettings& settings,
                                       std::vector<ParameterSpec> parameters) {
  return std::make_unique<Attention>(in, out, settings, std::move(parameters));
}

}  // namespace weft::mesh
