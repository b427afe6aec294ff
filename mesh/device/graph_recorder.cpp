// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/graph_recorder.hpp"

#include <utility>

namespace weft::mesh {

using kernels::Activation;
using kernels::AttentionGradients;
using kernels::AttentionOperands;
using kernels::AttentionShape;
using kernels::AxisOrder;
using kernels::BinaryOp;
using kernels::ConstRows;
using kernels::ConstWeight;
using kernels::GatedWeights;
using kernels::Panels;
using kernels::Pool;
using kernels::Rope;
using kernels::Rows;
using kernels::Window;

ConstWeight GraphRecorder::there(const ConstWeight& w) const {
  ConstWeight moved = w;
  moved.codes = there(w.codes);
  moved.scales = there(w.scales);
  moved.zeros = there(w.zeros);
  moved.nan_free = nullptr;  // the host's hint to its own kernels
  return moved;
}

AttentionOperands GraphRecorder::there(const AttentionOperands& o) const {
  return {there(o.q), there(o.k), there(o.v), there(o.state)};
}

AttentionGradients GraphRecorder::there(const AttentionGradients& g) const {
  return {there(g.dy), there(g.dnext_state), there(g.dq), there(g.dk), there(g.dv), there(g.dstate)};
}

// A layer's own tables, which never change.
Rope GraphRecorder::there(const Rope& rope) const {
  Rope moved = rope;
  const auto constant = [&](auto* from, std::size_t count) {
    return reinterpret_cast<decltype(from)>(static_cast<std::uintptr_t>(mirror_.constant(from, count * sizeof *from)));
  };
  moved.turns = constant(rope.turns, rope.head_dim / 2);
  moved.table = constant(rope.table, rope.table_positions * 2 * rope.head_dim);
  return moved;
}

void GraphRecorder::watch_host(std::vector<gpu::Touched>* to) noexcept {
  watched_ = to;
  to_.watch(to, true);
  mirror_.watch_host(to != nullptr);
}

void GraphRecorder::touch(const ConstRows& rows, bool is_written) {
  for (std::size_t b = 0; rows.data && b < rows.rows; ++b) {
    const std::uint64_t begin = mirror_.there(rows.row(b));
    watched_->push_back({begin, begin + rows.cols * sizeof(float), is_written});
  }
}

// Weights and gradients are its own: no device has them.
void GraphRecorder::touch(const ForwardArgs& args) {
  for (const ConstRows& rows : {args.x, args.state}) touch(rows, false);
  for (const Rows& rows : {args.z, args.y, args.cache, args.next_state}) touch(rows, true);
}

void GraphRecorder::touch(const BackwardArgs& args) {
  for (const ConstRows& rows : {args.x, args.z, args.y, args.cache, args.state, args.dnext_state}) touch(rows, false);
  for (const Rows& rows : {args.dy, args.dx, args.dstate}) touch(rows, true);
}

bool GraphRecorder::any_nonzero(NodeId node, std::span<const float> values, bool may_skip) {
  if (!may_skip) {
    to_.note_all_zero(there(values.data()), values.size(), notes_, kAllZero);
    return true;
  }
  is_guarded_[node] = 1;
  std::uint32_t* const idle = guards_.idle + node;
  to_.fill(0.0f, {reinterpret_cast<float*>(idle), 1, 1, 1});
  to_.note_all_zero(there(values.data()), values.size(), idle, 1);
  return true;
}

void GraphRecorder::begin_move(NodeId node) {
  if (is_guarded_[node]) to_.skip_steps(guards_.idle + node);
}

void GraphRecorder::end_move(NodeId node) {
  if (!is_guarded_[node]) return;
  to_.sgd(1, guards_.updates + node, guards_.minus_one, 1.0f, 0.0f);  // one more, if it was moved
  to_.skip_steps(nullptr);
}

std::vector<NodeId> GraphRecorder::take_guarded() {
  std::vector<NodeId> nodes;
  for (NodeId node = 0; node < is_guarded_.size(); ++node)
    if (std::exchange(is_guarded_[node], 0)) nodes.push_back(node);
  return nodes;
}

bool GraphRecorder::is_finite(const ConstRows& x) {
  to_.note_not_finite(there(x), notes_, kNotFinite);
  return true;
}

void GraphRecorder::encode(const kernels::ConstPanels& master, const kernels::Weight& to) {
  kernels::Weight moved = to;
  moved.codes = there(to.codes), moved.scales = there(to.scales), moved.zeros = there(to.zeros);
  to_.encode({there(master.data), master.out, master.in}, moved);
}

void GraphRecorder::linear(const ConstWeight& w, const float* bias, const ConstRows& x, Activation activation,
                           const Rows& z, const Rows& y) {
  to_.linear(there(w), there(bias), there(x), activation, there(z), there(y));
}
void GraphRecorder::linear_transposed(const ConstWeight& w, const ConstRows& dy, const Rows& dx) {
  to_.linear_transposed(there(w), there(dy), there(dx));
}
void GraphRecorder::outer_accumulate(const ConstRows& dy, const ConstRows& x, const Panels& dw) {
  to_.outer_accumulate(there(dy), there(x), there(dw));
}
void GraphRecorder::absolute_column_sums(const ConstWeight& w, float* s) {
  to_.absolute_column_sums(there(w), there(s));
}
void GraphRecorder::gated_linear(const GatedWeights& w, const ConstRows& x, Activation activation, const Rows& y) {
  to_.gated_linear({there(w.gate), there(w.up), there(w.gate_bias), there(w.up_bias)}, there(x), activation, there(y));
}
void GraphRecorder::gated_backward(Activation activation, const ConstRows& values, const ConstRows& dy,
                                   const Rows& dgate, const Rows& dup) {
  to_.gated_backward(activation, there(values), there(dy), there(dgate), there(dup));
}
void GraphRecorder::unary(Activation activation, const ConstRows& x, const Rows& y) {
  to_.unary(activation, there(x), there(y));
}
void GraphRecorder::unary_backward(Activation activation, const ConstRows& z, const ConstRows& y, const ConstRows& dy,
                                   const Rows& dx) {
  to_.unary_backward(activation, there(z), there(y), there(dy), there(dx));
}
void GraphRecorder::binary(BinaryOp op, const ConstRows& a, const ConstRows& b, const Rows& y) {
  to_.binary(op, there(a), there(b), there(y));
}
void GraphRecorder::scale(float alpha, const ConstRows& x, const Rows& y) { to_.scale(alpha, there(x), there(y)); }
void GraphRecorder::axpy(float alpha, const ConstRows& x, const Rows& y) { to_.axpy(alpha, there(x), there(y)); }
void GraphRecorder::copy(const ConstRows& x, const Rows& y) { to_.copy(there(x), there(y)); }
void GraphRecorder::fill(float value, const Rows& y) { to_.fill(value, there(y)); }
void GraphRecorder::route_equal(const ConstRows& source, const ConstRows& x, const Rows& left, const Rows& d) {
  to_.route_equal(there(source), there(x), there(left), there(d));
}
void GraphRecorder::rms_norm(const ConstRows& x, const float* gain, float epsilon, const Rows& y, float* inverse_rms) {
  to_.rms_norm(there(x), there(gain), epsilon, there(y), there(inverse_rms));
}
void GraphRecorder::rms_norm_backward(const ConstRows& x, const float* gain, const float* inverse_rms,
                                      const ConstRows& dy, const Rows& dx, float* dgain) {
  to_.rms_norm_backward(there(x), there(gain), there(inverse_rms), there(dy), there(dx), there(dgain));
}
void GraphRecorder::layer_norm(const ConstRows& x, const float* gain, const float* bias, float epsilon, const Rows& y,
                               float* mean, float* inverse_deviation) {
  to_.layer_norm(there(x), there(gain), there(bias), epsilon, there(y), there(mean), there(inverse_deviation));
}
void GraphRecorder::layer_norm_backward(const ConstRows& x, const float* gain, const float* mean,
                                        const float* inverse_deviation, const ConstRows& dy, const Rows& dx,
                                        float* dgain, float* dbias) {
  to_.layer_norm_backward(there(x), there(gain), there(mean), there(inverse_deviation), there(dy), there(dx),
                          there(dgain), there(dbias));
}
void GraphRecorder::softmax(const ConstRows& x, float temperature, const Rows& y) {
  to_.softmax(there(x), temperature, there(y));
}
void GraphRecorder::softmax_backward(const ConstRows& y, const ConstRows& dy, float temperature, const Rows& dx) {
  to_.softmax_backward(there(y), there(dy), temperature, there(dx));
}
void GraphRecorder::entmax(const ConstRows& x, float alpha_minus_one, float temperature, const Rows& y) {
  to_.entmax(there(x), alpha_minus_one, temperature, there(y));
}
void GraphRecorder::entmax_backward(const ConstRows& y, const ConstRows& dy, float alpha_minus_one, float temperature,
                                    const Rows& dx) {
  to_.entmax_backward(there(y), there(dy), alpha_minus_one, temperature, there(dx));
}
void GraphRecorder::gumbel_noise(const ConstRows& x, std::array<std::uint32_t, 2> key, const ConstRows& state,
                                 const Rows& next_state, const Rows& y) {
  to_.gumbel_noise(there(x), key, there(state), there(next_state), there(y));
}
void GraphRecorder::one_hot_largest(const ConstRows& x, const Rows& y) { to_.one_hot_largest(there(x), there(y)); }
void GraphRecorder::dropout_mask(std::array<std::uint32_t, 2> key, const ConstRows& state, const Rows& next_state,
                                 std::uint32_t threshold, float scale, const Rows& mask) {
  to_.dropout_mask(key, there(state), there(next_state), threshold, scale, there(mask));
}
void GraphRecorder::log_softmax(const ConstRows& x, const ConstRows& base, const Rows& y) {
  to_.log_softmax(there(x), there(base), there(y));
}
void GraphRecorder::log_softmax_backward(const ConstRows& y, const ConstRows& base, const ConstRows& dy, const Rows& dx,
                                         const Rows& dbase) {
  to_.log_softmax_backward(there(y), there(base), there(dy), there(dx), there(dbase));
}
void GraphRecorder::log_floored(const ConstRows& x, const Rows& y) { to_.log_floored(there(x), there(y)); }
void GraphRecorder::log_floored_backward(const ConstRows& x, const ConstRows& dy, const Rows& dx) {
  to_.log_floored_backward(there(x), there(dy), there(dx));
}
void GraphRecorder::permute(const ConstRows& x, const AxisOrder& order, const Rows& y) {
  to_.permute(there(x), order, there(y));
}
void GraphRecorder::squared_distances(const ConstWeight& c, const ConstRows& x, const Rows& y) {
  to_.squared_distances(there(c), there(x), there(y));
}
void GraphRecorder::squared_distances_backward(const ConstWeight& c, const ConstRows& x, const ConstRows& dy,
                                               const Rows& dx, const Panels& dc) {
  to_.squared_distances_backward(there(c), there(x), there(dy), there(dx), there(dc));
}
void GraphRecorder::square_root(const ConstRows& x, const Rows& y) { to_.square_root(there(x), there(y)); }
void GraphRecorder::square_root_backward(const ConstRows& y, const ConstRows& dy, const Rows& dx) {
  to_.square_root_backward(there(y), there(dy), there(dx));
}
void GraphRecorder::weighted_sum(const ConstRows& p, const ConstRows& x, const Rows& y) {
  to_.weighted_sum(there(p), there(x), there(y));
}
void GraphRecorder::weighted_sum_backward(const ConstRows& p, const ConstRows& x, const ConstRows& dy, const Rows& dp,
                                          const Rows& dx) {
  to_.weighted_sum_backward(there(p), there(x), there(dy), there(dp), there(dx));
}
void GraphRecorder::keep_largest(const ConstRows& x, std::size_t count, const Rows& y) {
  to_.keep_largest(there(x), count, there(y));
}
void GraphRecorder::attention(const AttentionShape& shape, const AttentionOperands& operands, const Rows& y,
                              const Rows& statistics, const Rows& next_state, float* workspace) {
  to_.attention(shape, there(operands), there(y), there(statistics), there(next_state), there(workspace));
}
void GraphRecorder::attention_backward(const AttentionShape& shape, const AttentionOperands& operands,
                                       const ConstRows& y, const ConstRows& statistics,
                                       const AttentionGradients& gradients, float* workspace) {
  to_.attention_backward(shape, there(operands), there(y), there(statistics), there(gradients), there(workspace));
}
void GraphRecorder::rope(const Rope& rope, std::size_t tokens, const ConstRows& x, const ConstRows& state,
                         bool transposed, const Rows& y, float* workspace) {
  to_.rope(there(rope), tokens, there(x), there(state), transposed, there(y), there(workspace));
}
void GraphRecorder::embedding(const ConstWeight& w, const ConstRows& x, const Rows& y) {
  to_.embedding(there(w), there(x), there(y));
}
void GraphRecorder::embedding_backward(const ConstRows& x, const ConstRows& dy, std::size_t skipped, const Panels& dw) {
  to_.embedding_backward(there(x), there(dy), skipped, there(dw));
}
void GraphRecorder::convolve(const Window& window, const ConstWeight& w, const float* bias, const ConstRows& x,
                             Activation activation, const Rows& z, const Rows& y, float* workspace) {
  to_.convolve(window, there(w), there(bias), there(x), activation, there(z), there(y), there(workspace));
}
void GraphRecorder::convolve_transposed(const Window& window, const ConstWeight& w, const float* bias,
                                        const ConstRows& x, Activation activation, const Rows& z, const Rows& y,
                                        float* workspace) {
  to_.convolve_transposed(window, there(w), there(bias), there(x), activation, there(z), there(y), there(workspace));
}
void GraphRecorder::convolve_outer(const Window& window, const ConstRows& dy, const ConstRows& x, const Panels& dw,
                                   float* workspace) {
  to_.convolve_outer(window, there(dy), there(x), there(dw), there(workspace));
}
void GraphRecorder::max_pool(const Pool& pool, const ConstRows& x, const Rows& y, const Rows& index) {
  to_.max_pool(pool, there(x), there(y), there(index));
}
void GraphRecorder::max_pool_backward(const Pool& pool, const ConstRows& index, const ConstRows& dy, const Rows& dx) {
  to_.max_pool_backward(pool, there(index), there(dy), there(dx));
}
void GraphRecorder::avg_pool(const Pool& pool, const ConstRows& x, const Rows& y) {
  to_.avg_pool(pool, there(x), there(y));
}
void GraphRecorder::avg_pool_backward(const Pool& pool, const ConstRows& dy, const Rows& dx) {
  to_.avg_pool_backward(pool, there(dy), there(dx));
}
void GraphRecorder::row_sums(const ConstRows& a, float* s) { to_.row_sums(there(a), there(s)); }
void GraphRecorder::row_dots(const ConstRows& a, const ConstRows& b, float* s) {
  to_.row_dots(there(a), there(b), there(s));
}
void GraphRecorder::column_accumulate(const ConstRows& a, float* s) { to_.column_accumulate(there(a), there(s)); }
void GraphRecorder::row_argmax(const ConstRows& a, std::uint32_t* index) { to_.row_argmax(there(a), there(index)); }
void GraphRecorder::row_statistics(const ConstRows& x, float threshold, const Rows& y) {
  to_.row_statistics(there(x), threshold, there(y));
}
void GraphRecorder::cross_entropy(const ConstRows& logits, const std::uint32_t* labels, float* loss, const Rows& dx) {
  to_.cross_entropy(there(logits), there(labels), there(loss), there(dx));
}
void GraphRecorder::mean_squared_error(const ConstRows& x, const ConstRows& target, float* loss, const Rows& dx) {
  to_.mean_squared_error(there(x), there(target), there(loss), there(dx));
}
void GraphRecorder::sgd(std::size_t n, float* w, const float* g, float lr, float weight_decay) {
  to_.sgd(n, there(w), there(g), lr, weight_decay);
}
void GraphRecorder::momentum(std::size_t n, float* w, float* v, const float* g, float lr, float momentum,
                             float dampening, bool nesterov, float weight_decay) {
  to_.momentum(n, there(w), there(v), there(g), lr, momentum, dampening, nesterov, weight_decay);
}
// The host counts along, so that it need not ask how many steps there were.
void GraphRecorder::adamw_step(std::uint64_t* step, float beta1, float beta2, float* corrections) {
  to_.adamw_step(there(step), beta1, beta2, there(corrections));
  ++*step;
}
void GraphRecorder::adamw(std::size_t n, float* w, float* m, float* v, const float* g, float lr, float beta1,
                          float beta2, float epsilon, float weight_decay, const float* corrections) {
  to_.adamw(n, there(w), there(m), there(v), there(g), lr, beta1, beta2, epsilon, weight_decay, there(corrections));
}
void GraphRecorder::one_hot(const std::uint32_t* labels, float value, const Rows& y) {
  to_.one_hot(there(labels), value, there(y));
}
void GraphRecorder::link_budget(const ConstRows& a, const ConstRows& t, float* factor) {
  to_.link_budget(there(a), there(t), there(factor));
}
void GraphRecorder::scale_rows(const float* s, const ConstRows& x, const Rows& y) {
  to_.scale_rows(there(s), there(x), there(y));
}
void GraphRecorder::gap_displacement(const ConstRows& weighted, const float* sums, const ConstRows& x, const Rows& d) {
  to_.gap_displacement(there(weighted), there(sums), there(x), there(d));
}

}  // namespace weft::mesh
