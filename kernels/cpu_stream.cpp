// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu_stream.hpp"

#include "kernels/binary.hpp"
#include "kernels/convolve_coded.hpp"
#include "kernels/distance.hpp"
#include "kernels/dropout.hpp"
#include "kernels/embedding.hpp"
#include "kernels/entmax.hpp"
#include "kernels/finite.hpp"
#include "kernels/gumbel.hpp"
#include "kernels/linear.hpp"
#include "kernels/linear_decoded.hpp"
#include "kernels/linear_integer.hpp"
#include "kernels/log_softmax.hpp"
#include "kernels/loss.hpp"
#include "kernels/mixture.hpp"
#include "kernels/norm.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/reduce.hpp"
#include "kernels/route.hpp"
#include "kernels/softmax.hpp"
#include "kernels/statistics.hpp"
#include "kernels/target_rules.hpp"
#include "kernels/unary.hpp"

namespace weft::kernels {

void CpuStream::linear(const ConstWeight& w, const float* bias, const ConstRows& x, Activation activation,
                       const Rows& z, const Rows& y) {
  if (w.dtype == Dtype::float32)
    kernels::linear(w.panels(), bias, x, activation, z, y);
  else if (w.activations == Activations::int8 && has_integer_kernel(w.dtype))
    linear_integer(w, bias, x, activation, z, y);
  else
    linear_decoded(w, bias, x, activation, z, y);
}

void CpuStream::linear_transposed(const ConstWeight& w, const ConstRows& dy, const Rows& dx) {
  if (w.dtype == Dtype::float32)
    kernels::linear_transposed(w.panels(), dy, dx);
  else
    linear_transposed_decoded(w, dy, dx);
}

void CpuStream::outer_accumulate(const ConstRows& dy, const ConstRows& x, const Panels& dw) {
  kernels::outer_accumulate(dy, x, dw);
}

void CpuStream::absolute_column_sums(const ConstWeight& w, float* s) {
  if (w.dtype == Dtype::float32)
    kernels::absolute_column_sums(w.panels(), s);
  else
    absolute_column_sums_decoded(w, s);
}

void CpuStream::unary(Activation activation, const ConstRows& x, const Rows& y) { kernels::unary(activation, x, y); }

void CpuStream::unary_backward(Activation activation, const ConstRows& z, const ConstRows& y, const ConstRows& dy,
                               const Rows& dx) {
  kernels::unary_backward(activation, z, y, dy, dx);
}

void CpuStream::binary(BinaryOp op, const ConstRows& a, const ConstRows& b, const Rows& y) {
  kernels::binary(op, a, b, y);
}

void CpuStream::scale(float alpha, const ConstRows& x, const Rows& y) { kernels::scale(alpha, x, y); }

void CpuStream::axpy(float alpha, const ConstRows& x, const Rows& y) { kernels::axpy(alpha, x, y); }

void CpuStream::copy(const ConstRows& x, const Rows& y) { kernels::copy(x, y); }

void CpuStream::fill(float value, const Rows& y) { kernels::fill(value, y); }

void CpuStream::route_equal(const ConstRows& source, const ConstRows& x, const Rows& left, const Rows& d) {
  kernels::route_equal(source, x, left, d);
}

void CpuStream::rms_norm(const ConstRows& x, const float* gain, float epsilon, const Rows& y, float* inverse_rms) {
  kernels::rms_norm(x, gain, epsilon, y, inverse_rms);
}

void CpuStream::rms_norm_backward(const ConstRows& x, const float* gain, const float* inverse_rms, const ConstRows& dy,
                                  const Rows& dx, float* dgain) {
  kernels::rms_norm_backward(x, gain, inverse_rms, dy, dx, dgain);
}

void CpuStream::layer_norm(const ConstRows& x, const float* gain, const float* bias, float epsilon, const Rows& y,
                           float* mean, float* inverse_deviation) {
  kernels::layer_norm(x, gain, bias, epsilon, y, mean, inverse_deviation);
}

void CpuStream::layer_norm_backward(const ConstRows& x, const float* gain, const float* mean,
                                    const float* inverse_deviation, const ConstRows& dy, const Rows& dx, float* dgain,
                                    float* dbias) {
  kernels::layer_norm_backward(x, gain, mean, inverse_deviation, dy, dx, dgain, dbias);
}

void CpuStream::softmax(const ConstRows& x, float temperature, const Rows& y) { kernels::softmax(x, temperature, y); }

void CpuStream::softmax_backward(const ConstRows& y, const ConstRows& dy, float temperature, const Rows& dx) {
  kernels::softmax_backward(y, dy, temperature, dx);
}

void CpuStream::entmax(const ConstRows& x, float alpha_minus_one, float temperature, const Rows& y) {
  kernels::entmax(x, alpha_minus_one, temperature, y);
}

void CpuStream::entmax_backward(const ConstRows& y, const ConstRows& dy, float alpha_minus_one, float temperature,
                                const Rows& dx) {
  kernels::entmax_backward(y, dy, alpha_minus_one, temperature, dx);
}

void CpuStream::gumbel_noise(const ConstRows& x, std::array<std::uint32_t, 2> key, const ConstRows& state,
                             const Rows& next_state, const Rows& y) {
  kernels::gumbel_noise(x, key, state, next_state, y);
}

void CpuStream::one_hot_largest(const ConstRows& x, const Rows& y) { kernels::one_hot_largest(x, y); }

void CpuStream::dropout_mask(std::array<std::uint32_t, 2> key, const ConstRows& state, const Rows& next_state,
                             std::uint32_t threshold, float scale, const Rows& mask) {
  kernels::dropout_mask(key, state, next_state, threshold, scale, mask);
}

void CpuStream::log_softmax(const ConstRows& x, const ConstRows& base, const Rows& y) {
  kernels::log_softmax(x, base, y);
}

void CpuStream::log_softmax_backward(const ConstRows& y, const ConstRows& base, const ConstRows& dy, const Rows& dx,
                                     const Rows& dbase) {
  kernels::log_softmax_backward(y, base, dy, dx, dbase);
}

void CpuStream::log_floored(const ConstRows& x, const Rows& y) { kernels::log_floored(x, y); }

void CpuStream::log_floored_backward(const ConstRows& x, const ConstRows& dy, const Rows& dx) {
  kernels::log_floored_backward(x, dy, dx);
}

void CpuStream::permute(const ConstRows& x, const AxisOrder& order, const Rows& y) { kernels::permute(x, order, y); }

void CpuStream::squared_distances(const ConstWeight& c, const ConstRows& x, const Rows& y) {
  kernels::squared_distances(c, x, y);
}

void CpuStream::squared_distances_backward(const ConstWeight& c, const ConstRows& x, const ConstRows& dy,
                                           const Rows& dx, const Panels& dc) {
  kernels::squared_distances_backward(c, x, dy, dx, dc);
}

void CpuStream::square_root(const ConstRows& x, const Rows& y) { kernels::square_root(x, y); }

void CpuStream::square_root_backward(const ConstRows& y, const ConstRows& dy, const Rows& dx) {
  kernels::square_root_backward(y, dy, dx);
}

void CpuStream::weighted_sum(const ConstRows& p, const ConstRows& x, const Rows& y) { kernels::weighted_sum(p, x, y); }
void CpuStream::weighted_sum_backward(const ConstRows& p, const ConstRows& x, const ConstRows& dy, const Rows& dp,
                                      const Rows& dx) {
  kernels::weighted_sum_backward(p, x, dy, dp, dx);
}
void CpuStream::keep_largest(const ConstRows& x, std::size_t count, const Rows& y) {
  kernels::keep_largest(x, count, y);
}
void CpuStream::attention(const AttentionShape& shape, const AttentionOperands& operands, const Rows& y,
                          const Rows& statistics, const Rows& next_state, float* workspace) {
  kernels::attention(shape, operands, y, statistics, next_state, workspace);
}

void CpuStream::attention_backward(const AttentionShape& shape, const AttentionOperands& operands, const ConstRows& y,
                                   const ConstRows& statistics, const AttentionGradients& gradients, float* workspace) {
  kernels::attention_backward(shape, operands, y, statistics, gradients, workspace);
}

void CpuStream::rope(const Rope& rope, std::size_t tokens, const ConstRows& x, const ConstRows& state, bool transposed,
                     const Rows& y, float* workspace) {
  kernels::rope(rope, tokens, x, state, transposed, y, workspace);
}

void CpuStream::embedding(const ConstWeight& w, const ConstRows& x, const Rows& y) { kernels::embedding(w, x, y); }

void CpuStream::embedding_backward(const ConstRows& x, const ConstRows& dy, std::size_t skipped, const Panels& dw) {
  kernels::embedding_backward(x, dy, skipped, dw);
}

void CpuStream::convolve(const Window& window, const ConstWeight& w, const float* bias, const ConstRows& x,
                         Activation activation, const Rows& z, const Rows& y, float* workspace) {
  convolve_coded(window, w, bias, x, activation, z, y, workspace);
}

void CpuStream::convolve_transposed(const Window& window, const ConstWeight& w, const float* bias, const ConstRows& x,
                                    Activation activation, const Rows& z, const Rows& y, float* workspace) {
  convolve_transposed_coded(window, w, bias, x, activation, z, y, workspace);
}

void CpuStream::convolve_outer(const Window& window, const ConstRows& dy, const ConstRows& x, const Panels& dw,
                               float* workspace) {
  kernels::convolve_outer(window, dy, x, dw, workspace);
}

void CpuStream::max_pool(const Pool& pool, const ConstRows& x, const Rows& y, const Rows& index) {
  kernels::max_pool(pool, x, y, index);
}

void CpuStream::max_pool_backward(const Pool& pool, const ConstRows& index, const ConstRows& dy, const Rows& dx) {
  kernels::max_pool_backward(pool, index, dy, dx);
}

void CpuStream::avg_pool(const Pool& pool, const ConstRows& x, const Rows& y) { kernels::avg_pool(pool, x, y); }

void CpuStream::avg_pool_backward(const Pool& pool, const ConstRows& dy, const Rows& dx) {
  kernels::avg_pool_backward(pool, dy, dx);
}

void CpuStream::row_sums(const ConstRows& a, float* s) { kernels::row_sums(a, s); }

void CpuStream::row_dots(const ConstRows& a, const ConstRows& b, float* s) { kernels::row_dots(a, b, s); }

void CpuStream::column_accumulate(const ConstRows& a, float* s) { kernels::column_accumulate(a, s); }

void CpuStream::row_argmax(const ConstRows& a, std::uint32_t* index) { kernels::row_argmax(a, index); }

void CpuStream::row_statistics(const ConstRows& x, float threshold, const Rows& y) {
  kernels::row_statistics(x, threshold, y);
}

void CpuStream::cross_entropy(const ConstRows& logits, const std::uint32_t* labels, float* loss, const Rows& dx) {
  kernels::cross_entropy(logits, labels, loss, dx);
}

void CpuStream::mean_squared_error(const ConstRows& x, const ConstRows& target, float* loss, const Rows& dx) {
  kernels::mean_squared_error(x, target, loss, dx);
}

void CpuStream::sgd(std::size_t n, float* w, const float* g, float lr, float weight_decay) {
  kernels::sgd(n, w, g, lr, weight_decay);
}

void CpuStream::momentum(std::size_t n, float* w, float* v, const float* g, float lr, float momentum, float dampening,
                         bool nesterov, float weight_decay) {
  kernels::momentum(n, w, v, g, lr, momentum, dampening, nesterov, weight_decay);
}

void CpuStream::adamw(std::size_t n, float* w, float* m, float* v, const float* g, float lr, float beta1, float beta2,
                      float epsilon, float weight_decay, std::uint64_t step) {
  kernels::adamw(n, w, m, v, g, lr, beta1, beta2, epsilon, weight_decay, step);
}

void CpuStream::link_budget(const ConstRows& a, const ConstRows& t, float* factor) {
  kernels::link_budget(a, t, factor);
}

void CpuStream::scale_rows(const float* s, const ConstRows& x, const Rows& y) { kernels::scale_rows(s, x, y); }

void CpuStream::gap_displacement(const ConstRows& weighted, const float* sums, const ConstRows& x, const Rows& d) {
  kernels::gap_displacement(weighted, sums, x, d);
}

bool CpuStream::is_finite(const ConstRows& x) { return kernels::is_finite(x); }

}  // namespace weft::kernels
