// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu_stream.hpp"

#include "kernels/binary.hpp"
#include "kernels/convolve_coded.hpp"
#include "kernels/distance.hpp"
#include "kernels/dropout.hpp"
#include "kernels/embedding.hpp"
#include "kernels/encode.hpp"
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

#include <atomic>
#include <utility>

namespace weft::kernels {
namespace {

double count(std::size_t a, std::size_t b, std::size_t c = 1) noexcept {
  return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}
/// Rows [first, first + rows) and columns [col, col + cols); without data nothing.
template <class View>
View part_of(const View& all, std::size_t first, std::size_t rows, std::size_t col, std::size_t cols) noexcept {
  return {all.data ? all.row(first) + col : nullptr, rows, cols, all.stride};
}
template <class View>
View rows_of(const View& all, std::size_t first, std::size_t rows) noexcept {
  return {all.data ? all.row(first) : nullptr, rows, all.cols, all.stride};
}

void linear_as_stored(const ConstWeight& w, const float* bias, const ConstRows& x, Activation activation, const Rows& z,
                      const Rows& y, const ConstPanels& ahead) noexcept {
  if (w.dtype == Dtype::float32)
    linear(w.panels(), bias, x, activation, z, y, ahead);
  else if (w.activations == Activations::int8 && has_integer_kernel(w.dtype))
    linear_integer(w, bias, x, activation, z, y);
  else
    linear_decoded(w, bias, x, activation, z, y);
}

/// Scores and sums over as many keys as a call has tokens, or as its context holds.
double attention_work(const AttentionShape& shape, std::size_t rows) noexcept {
  return 2 * count(shape.heads * shape.head_dim, shape.tokens, rows) *
         static_cast<double>(std::max(shape.tokens, shape.context));
}
/// Of either direction of a convolution.
double convolve_work(const Window& window, std::size_t out, std::size_t rows) noexcept {
  return count(window.positions(), window.columns(), rows) * static_cast<double>(out);
}

}  // namespace

/// body(part, first, count) over even parts of the units.
template <class Body>
void CpuStream::fork(std::size_t units, double work, const Body& body) {
  const std::size_t parts = parts_of(units, work);
  if (parts == 1) return body(std::size_t{0}, std::size_t{0}, units);
  ++forks_;
  const std::size_t size = units / parts, larger = units % parts;
  help_->parallel(parts, [&](std::size_t part) {
    body(part, part * size + std::min(part, larger), size + (part < larger ? 1 : 0));
  });
}

/// body(first row, rows, first column, columns): rows, or of few rows whole cache lines of columns.
template <class Body>
void CpuStream::fork_rows(std::size_t rows, std::size_t cols, double work, const Body& body) {
  if (!help_ || work < help_->worthwhile) return body(std::size_t{0}, rows, std::size_t{0}, cols);
  if (rows >= help_->threads)
    return fork(rows, work,
                [&](std::size_t, std::size_t first, std::size_t n) { body(first, n, std::size_t{0}, cols); });
  constexpr std::size_t kLine = 16;
  fork((cols + kLine - 1) / kLine, work, [&](std::size_t, std::size_t first, std::size_t n) {
    body(std::size_t{0}, rows, first * kLine, std::min(cols, (first + n) * kLine) - first * kLine);
  });
}

void CpuStream::split_units(std::size_t units, double work, Part part, void* context) {
  if (parts_of(units, work) == 1) return part(context, *this, 0, units);
  fork(units, work, [&](std::size_t index, std::size_t first, std::size_t n) {
    CpuStream own;
    own.workspace_shift_ = index * help_->workspace_stride;
    part(context, own, first, n);
  });
}

/// body(first row, rows, first panel, panels) over the outputs of linear layers: many rows are cut, else the weights,
/// which then are read once and lie with who reads them.
template <class Body>
void CpuStream::fork_outputs(std::size_t rows, std::size_t out, double work, const Body& body) {
  if (!help_ || work < help_->worthwhile) return body(std::size_t{0}, rows, std::size_t{0}, panel_count(out));
  constexpr std::size_t kManyRows = 64;
  if (rows >= kManyRows * help_->threads)
    return fork(rows, work, [&](std::size_t, std::size_t first, std::size_t n) {
      body(first, n, std::size_t{0}, panel_count(out));
    });
  fork(panel_count(out), work,
       [&](std::size_t, std::size_t first, std::size_t n) { body(std::size_t{0}, rows, first, n); });
}

void CpuStream::linear(const ConstWeight& w, const float* bias, const ConstRows& x, Activation activation,
                       const Rows& z, const Rows& y) {
  const ConstPanels ahead = std::exchange(ahead_, {});
  const double work = count(w.out, w.in, x.rows);
  if (!help_ || work < help_->worthwhile) return linear_as_stored(w, bias, x, activation, z, y, ahead);
  fork_outputs(x.rows, w.out, work, [&](auto first, auto rows, auto panel, auto panels) {
    const ConstWeight own = panel_range(w, panel, panels);
    const std::size_t o = panel * kPanelWidth;
    linear_as_stored(own, bias ? bias + o : nullptr, rows_of(x, first, rows), activation,
                     part_of(z, first, rows, o, own.out), part_of(y, first, rows, o, own.out), ahead);
  });
}

// Each part's product is made while what it multiplies is at hand.
void CpuStream::gated_linear(const GatedWeights& w, const ConstRows& x, Activation activation, const Rows& y) {
  const ConstPanels ahead = std::exchange(ahead_, {});
  const std::size_t out = w.gate.out;
  fork_outputs(x.rows, out, 2 * count(out, w.gate.in, x.rows), [&](auto first, auto rows, auto panel, auto panels) {
    const ConstWeight gate = panel_range(w.gate, panel, panels), up = panel_range(w.up, panel, panels);
    const std::size_t o = panel * kPanelWidth;
    const ConstRows from = rows_of(x, first, rows);
    const auto block = [&](GatedBlock which) { return part_of(gated_block(y, which), first, rows, o, gate.out); };
    linear_as_stored(gate, w.gate_bias ? w.gate_bias + o : nullptr, from, activation, block(GatedBlock::before),
                     block(GatedBlock::gate), up.dtype == Dtype::float32 ? up.panels() : ConstPanels{});
    linear_as_stored(up, w.up_bias ? w.up_bias + o : nullptr, from, Activation::linear, {}, block(GatedBlock::up),
                     ahead);
    kernels::binary(BinaryOp::mul, block(GatedBlock::gate), block(GatedBlock::up), block(GatedBlock::product));
  });
}

void CpuStream::gated_backward(Activation activation, const ConstRows& values, const ConstRows& dy, const Rows& dgate,
                               const Rows& dup) {
  fork_rows(dy.rows, dy.cols, 3 * kMoved * count(dy.rows, dy.cols), [&](auto... at) {
    const auto block = [&](GatedBlock which) { return part_of(gated_block(values, which), at...); };
    const Rows to_gate = part_of(dgate, at...);
    kernels::binary(BinaryOp::mul, part_of(dy, at...), block(GatedBlock::gate), part_of(dup, at...));
    kernels::binary(BinaryOp::mul, part_of(dy, at...), block(GatedBlock::up), to_gate);
    kernels::unary_backward(activation, block(GatedBlock::before), block(GatedBlock::gate), to_gate, to_gate);
  });
}

void CpuStream::linear_transposed(const ConstWeight& w, const ConstRows& dy, const Rows& dx) {
  const double work = count(w.out, w.in, dy.rows);
  if (w.dtype != Dtype::float32) {
    fork(dy.rows, work, [&](std::size_t, std::size_t first, std::size_t n) {
      linear_transposed_decoded(w, rows_of(dy, first, n), rows_of(dx, first, n));
    });
    return;
  }
  constexpr std::size_t kManyRows = 64;
  if (!help_ || dy.rows >= kManyRows * help_->threads)
    return fork(dy.rows, work, [&](std::size_t, std::size_t first, std::size_t n) {
      kernels::linear_transposed(w.panels(), rows_of(dy, first, n), rows_of(dx, first, n));
    });
  fork((w.in + kPanelWidth - 1) / kPanelWidth, work, [&](std::size_t, std::size_t first, std::size_t n) {
    const std::size_t k = first * kPanelWidth;
    linear_transposed_range(w.panels(), dy, dx, k, std::min(w.in, k + n * kPanelWidth) - k);
  });
}

void CpuStream::outer_accumulate(const ConstRows& dy, const ConstRows& x, const Panels& dw) {
  fork(panel_count(dw.out), count(dw.out, dw.in, dy.rows), [&](std::size_t, std::size_t first, std::size_t n) {
    const std::size_t o = first * kPanelWidth, out = std::min(dw.out, o + n * kPanelWidth) - o;
    kernels::outer_accumulate(part_of(dy, 0, dy.rows, o, out), x, {dw.data + o * dw.in, out, dw.in});
  });
}

void CpuStream::absolute_column_sums(const ConstWeight& w, float* s) {
  if (w.dtype == Dtype::float32)
    kernels::absolute_column_sums(w.panels(), s);
  else
    absolute_column_sums_decoded(w, s);
}

void CpuStream::unary(Activation activation, const ConstRows& x, const Rows& y) {
  fork_rows(x.rows, x.cols, kComputed * count(x.rows, x.cols),
            [&](auto... at) { kernels::unary(activation, part_of(x, at...), part_of(y, at...)); });
}

void CpuStream::unary_backward(Activation activation, const ConstRows& z, const ConstRows& y, const ConstRows& dy,
                               const Rows& dx) {
  fork_rows(dx.rows, dx.cols, kMoved * count(dx.rows, dx.cols), [&](auto... at) {
    kernels::unary_backward(activation, part_of(z, at...), part_of(y, at...), part_of(dy, at...), part_of(dx, at...));
  });
}

void CpuStream::binary(BinaryOp op, const ConstRows& a, const ConstRows& b, const Rows& y) {
  fork_rows(y.rows, y.cols, kMoved * count(y.rows, y.cols),
            [&](auto... at) { kernels::binary(op, part_of(a, at...), part_of(b, at...), part_of(y, at...)); });
}

void CpuStream::scale(float alpha, const ConstRows& x, const Rows& y) {
  fork_rows(y.rows, y.cols, kMoved * count(y.rows, y.cols),
            [&](auto... at) { kernels::scale(alpha, part_of(x, at...), part_of(y, at...)); });
}

void CpuStream::axpy(float alpha, const ConstRows& x, const Rows& y) {
  fork_rows(y.rows, y.cols, kMoved * count(y.rows, y.cols),
            [&](auto... at) { kernels::axpy(alpha, part_of(x, at...), part_of(y, at...)); });
}

void CpuStream::copy(const ConstRows& x, const Rows& y) {
  fork_rows(y.rows, y.cols, kMoved * count(y.rows, y.cols),
            [&](auto... at) { kernels::copy(part_of(x, at...), part_of(y, at...)); });
}

void CpuStream::fill(float value, const Rows& y) {
  fork_rows(y.rows, y.cols, kMoved * count(y.rows, y.cols),
            [&](auto... at) { kernels::fill(value, part_of(y, at...)); });
}

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
  fork(y.rows, attention_work(shape, y.rows), [&](std::size_t part, std::size_t first, std::size_t n) {
    const AttentionOperands own{rows_of(operands.q, first, n), rows_of(operands.k, first, n),
                                rows_of(operands.v, first, n), rows_of(operands.state, first, n)};
    kernels::attention(shape, own, rows_of(y, first, n), rows_of(statistics, first, n), rows_of(next_state, first, n),
                       part_workspace(workspace, part));
  });
}

void CpuStream::attention_backward(const AttentionShape& shape, const AttentionOperands& operands, const ConstRows& y,
                                   const ConstRows& statistics, const AttentionGradients& gradients, float* workspace) {
  fork(y.rows, 3 * attention_work(shape, y.rows), [&](std::size_t part, std::size_t first, std::size_t n) {
    const AttentionOperands own{rows_of(operands.q, first, n), rows_of(operands.k, first, n),
                                rows_of(operands.v, first, n), rows_of(operands.state, first, n)};
    const AttentionGradients to{rows_of(gradients.dy, first, n), rows_of(gradients.dnext_state, first, n),
                                rows_of(gradients.dq, first, n), rows_of(gradients.dk, first, n),
                                rows_of(gradients.dv, first, n), rows_of(gradients.dstate, first, n)};
    kernels::attention_backward(shape, own, rows_of(y, first, n), rows_of(statistics, first, n), to,
                                part_workspace(workspace, part));
  });
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
  fork(x.rows, convolve_work(window, w.out, x.rows), [&](std::size_t part, std::size_t first, std::size_t n) {
    convolve_coded(window, w, bias, rows_of(x, first, n), activation, rows_of(z, first, n), rows_of(y, first, n),
                   part_workspace(workspace, part));
  });
}

void CpuStream::convolve_transposed(const Window& window, const ConstWeight& w, const float* bias, const ConstRows& x,
                                    Activation activation, const Rows& z, const Rows& y, float* workspace) {
  fork(x.rows, convolve_work(window, w.out, x.rows), [&](std::size_t part, std::size_t first, std::size_t n) {
    convolve_transposed_coded(window, w, bias, rows_of(x, first, n), activation, rows_of(z, first, n),
                              rows_of(y, first, n), part_workspace(workspace, part));
  });
}

void CpuStream::convolve_outer(const Window& window, const ConstRows& dy, const ConstRows& x, const Panels& dw,
                               float* workspace) {
  fork(dw.in, convolve_work(window, dw.out, x.rows), [&](std::size_t part, std::size_t first, std::size_t n) {
    kernels::convolve_outer(window, dy, x, dw, first, n, part_workspace(workspace, part));
  });
}

void CpuStream::max_pool(const Pool& pool, const ConstRows& x, const Rows& y, const Rows& index) {
  fork(x.rows, kMoved * count(x.rows, x.cols), [&](std::size_t, std::size_t first, std::size_t n) {
    kernels::max_pool(pool, rows_of(x, first, n), rows_of(y, first, n), rows_of(index, first, n));
  });
}

void CpuStream::max_pool_backward(const Pool& pool, const ConstRows& index, const ConstRows& dy, const Rows& dx) {
  fork(dx.rows, kMoved * count(dx.rows, dx.cols), [&](std::size_t, std::size_t first, std::size_t n) {
    kernels::max_pool_backward(pool, rows_of(index, first, n), rows_of(dy, first, n), rows_of(dx, first, n));
  });
}

void CpuStream::avg_pool(const Pool& pool, const ConstRows& x, const Rows& y) {
  fork(x.rows, kMoved * count(x.rows, x.cols), [&](std::size_t, std::size_t first, std::size_t n) {
    kernels::avg_pool(pool, rows_of(x, first, n), rows_of(y, first, n));
  });
}

void CpuStream::avg_pool_backward(const Pool& pool, const ConstRows& dy, const Rows& dx) {
  fork(dx.rows, kMoved * count(dx.rows, dx.cols), [&](std::size_t, std::size_t first, std::size_t n) {
    kernels::avg_pool_backward(pool, rows_of(dy, first, n), rows_of(dx, first, n));
  });
}

void CpuStream::row_sums(const ConstRows& a, float* s) {
  fork(a.rows, kMoved * count(a.rows, a.cols),
       [&](std::size_t, std::size_t first, std::size_t n) { kernels::row_sums(rows_of(a, first, n), s + first); });
}

void CpuStream::row_dots(const ConstRows& a, const ConstRows& b, float* s) { kernels::row_dots(a, b, s); }

void CpuStream::column_accumulate(const ConstRows& a, float* s) {
  constexpr std::size_t kLine = 16;
  fork((a.cols + kLine - 1) / kLine, kMoved * count(a.rows, a.cols),
       [&](std::size_t, std::size_t first, std::size_t n) {
         const std::size_t at = first * kLine;
         kernels::column_accumulate(part_of(a, 0, a.rows, at, std::min(a.cols, at + n * kLine) - at), s + at);
       });
}

void CpuStream::row_argmax(const ConstRows& a, std::uint32_t* index) {
  fork(a.rows, kMoved * count(a.rows, a.cols), [&](std::size_t, std::size_t first, std::size_t n) {
    kernels::row_argmax(rows_of(a, first, n), index + first);
  });
}

void CpuStream::row_statistics(const ConstRows& x, float threshold, const Rows& y) {
  kernels::row_statistics(x, threshold, y);
}

void CpuStream::cross_entropy(const ConstRows& logits, const std::uint32_t* labels, float* loss, const Rows& dx) {
  kernels::cross_entropy(logits, labels, loss, dx);
}

void CpuStream::mean_squared_error(const ConstRows& x, const ConstRows& target, float* loss, const Rows& dx) {
  fork(x.rows, kMoved * count(x.rows, x.cols), [&](std::size_t, std::size_t first, std::size_t n) {
    kernels::mean_squared_error(rows_of(x, first, n), rows_of(target, first, n), loss + first, rows_of(dx, first, n));
  });
}

void CpuStream::sgd(std::size_t n, float* w, const float* g, float lr, float weight_decay) {
  fork_rows(1, n, 2 * kMoved * count(1, n), [&](std::size_t, std::size_t, std::size_t at, std::size_t many) {
    kernels::sgd(many, w + at, g + at, lr, weight_decay);
  });
}

void CpuStream::momentum(std::size_t n, float* w, float* v, const float* g, float lr, float momentum, float dampening,
                         bool nesterov, float weight_decay) {
  fork_rows(1, n, 3 * kMoved * count(1, n), [&](std::size_t, std::size_t, std::size_t at, std::size_t many) {
    kernels::momentum(many, w + at, v + at, g + at, lr, momentum, dampening, nesterov, weight_decay);
  });
}

void CpuStream::adamw_step(std::uint64_t* step, float beta1, float beta2, float* corrections) {
  kernels::adamw_step(step, beta1, beta2, corrections);
}

void CpuStream::adamw(std::size_t n, float* w, float* m, float* v, const float* g, float lr, float beta1, float beta2,
                      float epsilon, float weight_decay, const float* corrections) {
  fork_rows(1, n, kComputed * count(1, n), [&](std::size_t, std::size_t, std::size_t at, std::size_t many) {
    kernels::adamw(many, w + at, m + at, v + at, g + at, lr, beta1, beta2, epsilon, weight_decay, corrections);
  });
}

void CpuStream::one_hot(const std::uint32_t* labels, float value, const Rows& y) { kernels::one_hot(labels, value, y); }

void CpuStream::link_budget(const ConstRows& a, const ConstRows& t, float* factor) {
  kernels::link_budget(a, t, factor);
}

void CpuStream::scale_rows(const float* s, const ConstRows& x, const Rows& y) { kernels::scale_rows(s, x, y); }

void CpuStream::gap_displacement(const ConstRows& weighted, const float* sums, const ConstRows& x, const Rows& d) {
  kernels::gap_displacement(weighted, sums, x, d);
}

void CpuStream::encode(const ConstPanels& master, const Weight& to) { kernels::encode(master, to); }

bool CpuStream::is_finite(const ConstRows& x) {
  std::atomic<bool> all{true};
  fork_rows(x.rows, x.cols, kMoved / 2 * count(x.rows, x.cols), [&](auto... at) {
    if (!kernels::is_finite(part_of(x, at...))) all.store(false, std::memory_order_relaxed);
  });
  return all.load(std::memory_order_relaxed);
}

}  // namespace weft::kernels
