// SPDX-License-Identifier: Apache-2.0
// Targets by weighted means, and steps of their own, of the layer types that Loom, the system that Weft follows, has
// them for. No derivative of any layer is taken.

#include "learning/rules/rule.hpp"

#include <algorithm>

namespace weft::learning::rules {
namespace {

using kernels::ConstMatrixView;
using kernels::MatrixView;

enum class Kind { dense, rnn, lstm, attention, swiglu, norm, other };

constexpr std::size_t kLstmGates = 4, kInputMatrix = 0, kStateMatrix = 1, kInputBias = 2;
constexpr std::size_t kAttentionOutput = 3, kSwigluDown = 2;

std::size_t tokens_of(const mesh::Layer& layer) { return layer.in() / layer.in_shape().back(); }

Kind kind_of(const LayerStep& s) {
  // One token of the output for each of the input.
  if (s.layer.out() / s.layer.out_shape().back() != tokens_of(s.layer)) return Kind::other;
  if (s.type == "dense") return Kind::dense;
  if (s.type == "rnn") return Kind::rnn;
  if (s.type == "lstm") return Kind::lstm;
  if (s.type == "swiglu") return Kind::swiglu;
  if (s.type == "layer_norm" || s.type == "rms_norm") return Kind::norm;
  // The columns of W_o stand for inputs where there are as many.
  const bool is_square =
      s.type == "attention" && s.layer.parameters()[kAttentionOutput].in == s.layer.in_shape().back();
  return is_square ? Kind::attention : Kind::other;
}

template <class View>
View columns(const View& rows, std::size_t first, std::size_t count) {
  return {rows.data + first, rows.rows, count, rows.stride};
}

/// `copies` scaled copies of a row, side by side in `to`.
MatrixView side_by_side(const LayerStep& s, const ConstMatrixView& row, float scale, std::size_t copies) {
  const MatrixView all = columns(s.target, 0, copies * row.cols);
  for (std::size_t i = 0; i < copies; ++i) s.stream.scale({scale, row, columns(all, i * row.cols, row.cols)});
  return all;
}

/// dx[k] = sum_o W[o][k] t[o] / S[k] - x[k], where S[k] = sum_o abs(W[o][k]) > 0.01, else -x[k]; t = a + d. Of the
/// types that have no such means, 0.
void through_means(const LayerStep& s) {
  const Kind kind = kind_of(s);
  s.stream.fill({0.0f, s.dx});
  if (kind == Kind::swiglu || kind == Kind::norm || kind == Kind::other) return;
  const kernels::ConstWeight matrix = s.past.weights.matrix(kind == Kind::attention ? kAttentionOutput : kInputMatrix);
  const std::size_t in = s.layer.in_shape().back(), out = s.layer.out_shape().back();
  s.stream.column_l1_norms({matrix, s.sums});
  for (std::size_t t = 0; t < tokens_of(s.layer); ++t) {
    const std::size_t copies = kind == Kind::lstm ? kLstmGates : 1;
    const MatrixView target = columns(s.target, 0, out);
    s.stream.binary(
        {kernels::BinaryOp::add, columns(s.past.y, t * out, out), columns(s.residual, t * out, out), target});
    for (std::size_t i = 1; i < copies; ++i) s.stream.copy({target, columns(s.target, i * out, out)});
    const MatrixView weighted = columns(s.weighted, 0, in), dx = columns(s.dx, t * in, in);
    s.stream.linear_transposed({matrix, columns(s.target, 0, copies * out), weighted});
    s.stream.gap_residual({weighted, s.sums, dx, dx});
    s.stream.binary({kernels::BinaryOp::sub, dx, columns(s.past.x, t * in, in), dx});
  }
}

/// The hidden state that a token read; data null: zeros that stand for none.
ConstMatrixView state_before(const LayerStep& s, std::size_t token) {
  const std::size_t hidden = s.layer.out_shape().back();
  if (token > 0) return columns(s.past.y, (token - 1) * hidden, hidden);
  return s.past.state.data ? columns(s.past.state, 0, hidden) : ConstMatrixView();
}

/// Hebbian steps: W += share x (t - a), a share for each kind of weights.
bool step_by_gap(const LayerStep& s) {
  const Kind kind = kind_of(s);
  if (kind == Kind::other) return false;
  const std::size_t in = s.layer.in_shape().back(), out = s.layer.out_shape().back();
  const auto& parameters = s.layer.parameters();
  const auto add = [&](std::size_t i, const MatrixView& d, const ConstMatrixView& x) {
    s.stream.outer_accumulate({d, x, {s.gradients[i], parameters[i].out, parameters[i].in}});
  };
  for (std::size_t t = 0; t < tokens_of(s.layer); ++t) {
    const MatrixView d = columns(s.residual, t * out, out);
    const ConstMatrixView x = columns(s.past.x, t * in, in);
    if (kind == Kind::dense) {
      add(kInputMatrix, d, x);
      if (parameters.size() > 1) s.stream.column_accumulate({d, s.gradients[1]});
    } else if (kind == Kind::rnn || kind == Kind::lstm) {
      const std::size_t gates = kind == Kind::lstm ? kLstmGates : 1;
      const MatrixView own = side_by_side(s, d, kind == Kind::lstm ? 0.25f : 1.0f, gates);
      add(kInputMatrix, own, x);
      if (parameters.size() > kInputBias) s.stream.column_accumulate({own, s.gradients[kInputBias]});
      if (const ConstMatrixView h = state_before(s, t); h.data)
        add(kStateMatrix, side_by_side(s, d, kind == Kind::lstm ? 0.1f : 0.5f, gates), h);
    } else if (kind == Kind::attention) {
      add(kAttentionOutput, side_by_side(s, d, 0.5f, 1), x);
    } else if (kind == Kind::swiglu) {
      // Whatever the product was.
      const std::size_t hidden = parameters[kSwigluDown].in;
      const MatrixView ones = columns(s.target, 0, hidden);
      s.stream.scale({0.1f, d, d});
      s.stream.fill({1.0f, ones});
      add(kSwigluDown, d, ones);
    } else {
      s.stream.column_accumulate({side_by_side(s, d, 0.01f, 1), s.gradients[0]});
    }
  }
  return true;
}

}  // namespace

constinit const RuleDefinition gap_original{.name = "gap_original",
                                            .lr = 0.01f,
                                            .output_step = 1.0f,
                                            .takes_wanted_output = true,
                                            .gives_state_targets = false,
                                            .through_layer = through_means,
                                            .own_step = step_by_gap};

}  // namespace weft::learning::rules
