// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/activation.hpp"
#include "kernels/attention.hpp"
#include "kernels/gated.hpp"
#include "kernels/permute.hpp"
#include "kernels/pool.hpp"
#include "kernels/rope.hpp"
#include "kernels/views.hpp"
#include "kernels/weight.hpp"
#include "kernels/window.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace weft::kernels {

enum class BinaryOp : int { add, sub, mul, max, min };

/// Where a layer's arithmetic goes. A layer never knows the device it runs on: it calls these operations, the CPU
/// stream runs each at once, a GPU stream records it. Pointers are addresses in the stream's memory.
///
/// Every result is a function of the operands and their shapes alone (docs/numerics.md): not of thread count, vector
/// width, batch size, batch neighbours or device. Shapes are the caller's promise, checked when a mesh is built.
/// In-place use (output equal to an input, same stride) is allowed for unary, binary, scale, axpy and the backward
/// forms that say so; partial overlap never is.
/// @thread one thread at a time per stream; it runs inside FlushSubnormals
class OpStream {
 public:
  virtual ~OpStream() = default;

  /// What an element costs in multiply-adds where it is moved or added, and where a function of it is computed.
  static constexpr double kMoved = 6, kComputed = 24;
  /// Calls body(stream, first, count) for parts of [0, units), in order or at once on several threads: what a part
  /// computes must hang on no other, and parts write apart. `work` is what all of them cost, in multiply-adds. For
  /// chains of small operations over rows that stand alone.
  template <class Body>
  void split(std::size_t units, double work, Body&& body) {
    split_units(
        units, work,
        [](void* context, OpStream& stream, std::size_t first, std::size_t count) {
          (*static_cast<std::remove_reference_t<Body>*>(context))(stream, first, count);
        },
        const_cast<void*>(static_cast<const void*>(std::addressof(body))));
  }

  /// Within a part of `split`: the workspace of its own behind the one handed to the whole.
  virtual float* workspace_of(float* workspace) const noexcept { return workspace; }

  // --- linear.hpp (R1 over k); weights in any type: linear_decoded.hpp, linear_integer.hpp ---
  /// z = x w^T + bias, y = activation(z).  x [B, in], w [out, in], bias [out] or null, y [B, out];
  /// z [B, out] or data == null when the pre-activation is not wanted. z may be y only when activation is linear.
  virtual void linear(const ConstWeight& w, const float* bias, const ConstRows& x, Activation activation, const Rows& z,
                      const Rows& y) = 0;
  /// dx = dy w.  dx[b][k] = sum over o of w[o][k] dy[b][o], rule R2 over o. dy [B, out], dx [B, in].
  virtual void linear_transposed(const ConstWeight& w, const ConstRows& dy, const Rows& dx) = 0;
  /// dw[o][k] = fma(dy[b][o], x[b][k], dw[o][k]) for b ascending. dy [B, out], x [B, in].
  virtual void outer_accumulate(const ConstRows& dy, const ConstRows& x, const Panels& dw) = 0;
  /// s[k] = sum over o of |w[o][k]|, rule R2 over o. s [in].
  virtual void absolute_column_sums(const ConstWeight& w, float* s) = 0;

  // --- gated.hpp ---
  /// z = x gate^T + bias, g = activation(z), u = x up^T + up bias and g u, into y's four blocks.
  /// x [B, in], y [B, kGatedBlocks * out].
  virtual void gated_linear(const GatedWeights& w, const ConstRows& x, Activation activation, const Rows& y) = 0;
  /// dup = dy g; dgate = (dy u) activation'(z). values [B, kGatedBlocks * out] as gated_linear left them, the rest
  /// [B, out]. dgate may run in place on dy.
  virtual void gated_backward(Activation activation, const ConstRows& values, const ConstRows& dy, const Rows& dgate,
                              const Rows& dup) = 0;

  // --- unary.hpp, binary.hpp ---
  virtual void unary(Activation activation, const ConstRows& x, const Rows& y) = 0;
  /// dx = dy * activation'(z), with y = activation(z) at hand. May run in place on dy.
  virtual void unary_backward(Activation activation, const ConstRows& z, const ConstRows& y, const ConstRows& dy,
                              const Rows& dx) = 0;
  virtual void binary(BinaryOp op, const ConstRows& a, const ConstRows& b, const Rows& y) = 0;
  /// y = alpha x.
  virtual void scale(float alpha, const ConstRows& x, const Rows& y) = 0;
  /// y = fma(alpha, x, y).
  virtual void axpy(float alpha, const ConstRows& x, const Rows& y) = 0;
  virtual void copy(const ConstRows& x, const Rows& y) = 0;
  virtual void fill(float value, const Rows& y) = 0;
  /// The backward of an elementwise maximum, source by source (route.hpp).
  virtual void route_equal(const ConstRows& source, const ConstRows& x, const Rows& left, const Rows& d) = 0;

  // --- norm.hpp (R2 along each row) ---
  /// y = x / sqrt(mean(x^2) + epsilon) * gain; gain [cols] or null. inverse_rms [rows] is kept for backward.
  virtual void rms_norm(const ConstRows& x, const float* gain, float epsilon, const Rows& y, float* inverse_rms) = 0;
  /// dx, and dgain[j] accumulated over rows ascending (null: not wanted).
  virtual void rms_norm_backward(const ConstRows& x, const float* gain, const float* inverse_rms, const ConstRows& dy,
                                 const Rows& dx, float* dgain) = 0;
  /// y = (x - mean) / sqrt(variance + epsilon) * gain + bias, biased variance; gain, bias [cols] or null.
  virtual void layer_norm(const ConstRows& x, const float* gain, const float* bias, float epsilon, const Rows& y,
                          float* mean, float* inverse_deviation) = 0;
  virtual void layer_norm_backward(const ConstRows& x, const float* gain, const float* mean,
                                   const float* inverse_deviation, const ConstRows& dy, const Rows& dx, float* dgain,
                                   float* dbias) = 0;

  // --- softmax.hpp (R2 along each row) ---
  /// y = softmax(x / temperature) along each row, the row's maximum subtracted first.
  virtual void softmax(const ConstRows& x, float temperature, const Rows& y) = 0;
  /// dx = y (dy - sum(y dy)) / temperature. May run in place on dy.
  virtual void softmax_backward(const ConstRows& y, const ConstRows& dy, float temperature, const Rows& dx) = 0;
  // --- entmax.hpp (bisection, R2 along each row) ---
  /// y = alpha-entmax(x / temperature) along each row, alpha_minus_one > 0: 0.5 is 1.5-entmax, 1 sparsemax. May run in
  /// place.
  virtual void entmax(const ConstRows& x, float alpha_minus_one, float temperature, const Rows& y) = 0;
  /// dx = s (dy - sum(s dy) / sum(s)) / temperature, s = y^(2 - alpha) where y > 0. May run in place on dy.
  virtual void entmax_backward(const ConstRows& y, const ConstRows& dy, float alpha_minus_one, float temperature,
                               const Rows& dx) = 0;

  // --- gumbel.hpp ---
  /// y = x + standard Gumbel noise, a function of key, column and the row's state [rows, kNoiseState] alone; next_state
  /// stands one draw further. May run in place.
  virtual void gumbel_noise(const ConstRows& x, std::array<std::uint32_t, 2> key, const ConstRows& state,
                            const Rows& next_state, const Rows& y) = 0;
  /// y = 1 at the first of a row's largest elements, 0 elsewhere. May run in place.
  virtual void one_hot_largest(const ConstRows& x, const Rows& y) = 0;

  /// mask = 0 with a chance of threshold / 2^32, else scale; state as gumbel_noise's (dropout.hpp).
  virtual void dropout_mask(std::array<std::uint32_t, 2> key, const ConstRows& state, const Rows& next_state,
                            std::uint32_t threshold, float scale, const Rows& mask) = 0;

  // --- log_softmax.hpp (R2 along each row) ---
  /// y = log softmax(x) + base[row]; base [rows, 1] or data null. May run in place.
  virtual void log_softmax(const ConstRows& x, const ConstRows& base, const Rows& y) = 0;
  /// dx = dy - exp(y - base) sum(dy); sum(dy) is added to dbase [rows, 1], unless data is null. May run in place on dy.
  virtual void log_softmax_backward(const ConstRows& y, const ConstRows& base, const ConstRows& dy, const Rows& dx,
                                    const Rows& dbase) = 0;
  /// y = log(max(x, 2^-126)); dx = dy / max(x, 2^-126). Both may run in place.
  virtual void log_floored(const ConstRows& x, const Rows& y) = 0;
  virtual void log_floored_backward(const ConstRows& x, const ConstRows& dy, const Rows& dx) = 0;

  // --- permute.hpp ---
  /// Each row's values in another order of their axes.
  virtual void permute(const ConstRows& x, const AxisOrder& order, const Rows& y) = 0;

  // --- distance.hpp (R1 over features, R2 over points) ---
  /// y[b][k] = sum over j of (x[b][j] - c[k][j])^2. c [points, features], x [rows, features], y [rows, points].
  virtual void squared_distances(const ConstWeight& c, const ConstRows& x, const Rows& y) = 0;
  /// dx is written, dc added to; data == null: not wanted.
  virtual void squared_distances_backward(const ConstWeight& c, const ConstRows& x, const ConstRows& dy, const Rows& dx,
                                          const Panels& dc) = 0;
  /// y = sqrt(x); dx = dy / (2 y), 0 where y is 0. Both may run in place.
  virtual void square_root(const ConstRows& x, const Rows& y) = 0;
  virtual void square_root_backward(const ConstRows& y, const ConstRows& dy, const Rows& dx) = 0;

  // --- mixture.hpp ---
  /// y[b][j] = sum over e ascending of p[b][e] x[b][e * cols + j], from +0.
  virtual void weighted_sum(const ConstRows& p, const ConstRows& x, const Rows& y) = 0;
  /// dp[b][e] = sum over j of dy[b][j] x[b][e * cols + j] (R2); dx[b][e * cols + j] = p[b][e] dy[b][j].
  virtual void weighted_sum_backward(const ConstRows& p, const ConstRows& x, const ConstRows& dy, const Rows& dp,
                                     const Rows& dx) = 0;
  /// y = x where it is among the `count` largest of its row (of equal ones the first), -inf elsewhere. In place
  /// allowed.
  virtual void keep_largest(const ConstRows& x, std::size_t count, const Rows& y) = 0;
  // --- attention.hpp (R1 over features; sums over keys by absolute position) ---
  /// y = softmax(scale q k^T) v of every head, over the keys that each token sees; next_state has learned the call's.
  virtual void attention(const AttentionShape& shape, const AttentionOperands& operands, const Rows& y,
                         const Rows& statistics, const Rows& next_state, float* workspace) = 0;
  virtual void attention_backward(const AttentionShape& shape, const AttentionOperands& operands, const ConstRows& y,
                                  const ConstRows& statistics, const AttentionGradients& gradients,
                                  float* workspace) = 0;
  // --- rope.hpp ---
  /// Turns pairs of features by angles that grow with the position; transposed: back again. May run in place.
  virtual void rope(const Rope& rope, std::size_t tokens, const ConstRows& x, const ConstRows& state, bool transposed,
                    const Rows& y, float* workspace) = 0;
  // --- embedding.hpp ---
  /// y[b][t] = column x[b][t] of w, decoded; x holds whole numbers, and others name the nearest column below.
  virtual void embedding(const ConstWeight& w, const ConstRows& x, const Rows& y) = 0;
  /// dw[:, x[b][t]] += dy[b][t] for b, then t ascending; column `skipped` gets nothing.
  virtual void embedding_backward(const ConstRows& x, const ConstRows& dy, std::size_t skipped, const Panels& dw) = 0;

  // --- convolve.hpp (R1 over columns); weights in any type: convolve_coded.hpp. Workspaces: convolve_workspace() ---
  /// z[o][p] = sum over k of w[o][k] x(p, k) + bias[o], y = activation(z), x(p, k) the image under window p at column
  /// k. x [B, image], z and y [B, out * positions].
  virtual void convolve(const Window& window, const ConstWeight& w, const float* bias, const ConstRows& x,
                        Activation activation, const Rows& z, const Rows& y, float* workspace) = 0;
  /// The mirror: every (p, k) adds sum over o of w[o][k] x[o][p] to its element, p ascending. bias [channels] or null.
  /// x [B, out * positions], z and y [B, image].
  virtual void convolve_transposed(const Window& window, const ConstWeight& w, const float* bias, const ConstRows& x,
                                   Activation activation, const Rows& z, const Rows& y, float* workspace) = 0;
  /// dw[o][k] = fma(dy[b][o][p], x(b, p, k), dw[o][k]) for b ascending, within it p ascending.
  virtual void convolve_outer(const Window& window, const ConstRows& dy, const ConstRows& x, const Panels& dw,
                              float* workspace) = 0;

  // --- pool.hpp ---
  /// y = the largest element of each window, index = its place in its plane (or data == null).
  virtual void max_pool(const Pool& pool, const ConstRows& x, const Rows& y, const Rows& index) = 0;
  virtual void max_pool_backward(const Pool& pool, const ConstRows& index, const ConstRows& dy, const Rows& dx) = 0;
  /// y = the mean of each window.
  virtual void avg_pool(const Pool& pool, const ConstRows& x, const Rows& y) = 0;
  virtual void avg_pool_backward(const Pool& pool, const ConstRows& dy, const Rows& dx) = 0;

  // --- reduce.hpp ---
  /// s[b] = sum over j of a[b][j] (R2).
  virtual void row_sums(const ConstRows& a, float* s) = 0;
  /// s[b] = sum over j of a[b][j] b[b][j], one fma an element (R2).
  virtual void row_dots(const ConstRows& a, const ConstRows& b, float* s) = 0;
  /// s[j] = s[j] + a[b][j] for b ascending.
  virtual void column_accumulate(const ConstRows& a, float* s) = 0;
  /// index[b] = the first j with the largest a[b][j].
  virtual void row_argmax(const ConstRows& a, std::uint32_t* index) = 0;

  // --- statistics.hpp (R2 along each row) ---
  /// y[b] = mean, deviation, share of |x| above the threshold, rms of row b. y [rows, kStatistics].
  virtual void row_statistics(const ConstRows& x, float threshold, const Rows& y) = 0;

  // --- loss.hpp ---
  /// loss[b] = -log softmax(x)[label[b]]; dx = softmax(x) - onehot(label). Labels below cols.
  virtual void cross_entropy(const ConstRows& logits, const std::uint32_t* labels, float* loss, const Rows& dx) = 0;
  /// loss[b] = mean over j of (x - target)^2; dx = 2 (x - target) / cols.
  virtual void mean_squared_error(const ConstRows& x, const ConstRows& target, float* loss, const Rows& dx) = 0;

  // --- optimizer.hpp (elementwise over n) ---
  /// w = w - lr (g + weight_decay w).
  virtual void sgd(std::size_t n, float* w, const float* g, float lr, float weight_decay) = 0;
  /// v = momentum v + (1 - dampening) g; w = w - lr v, or with nesterov w = w - lr (g + momentum v). g includes decay.
  virtual void momentum(std::size_t n, float* w, float* v, const float* g, float lr, float momentum, float dampening,
                        bool nesterov, float weight_decay) = 0;
  /// One more step of AdamW: counts `*step` up and sets the two corrections that go with it.
  virtual void adamw_step(std::uint64_t* step, float beta1, float beta2, float* corrections) = 0;
  /// AdamW with decoupled decay; `corrections` as `adamw_step` set them.
  virtual void adamw(std::size_t n, float* w, float* m, float* v, const float* g, float lr, float beta1, float beta2,
                     float epsilon, float weight_decay, const float* corrections) = 0;

  // --- target_rules.hpp ---
  /// y[b][j] = value where j is labels[b], else 0. Labels below cols.
  virtual void one_hot(const std::uint32_t* labels, float value, const Rows& y) = 0;
  virtual void link_budget(const ConstRows& a, const ConstRows& t, float* factor) = 0;
  virtual void scale_rows(const float* s, const ConstRows& x, const Rows& y) = 0;
  virtual void gap_displacement(const ConstRows& weighted, const float* sums, const ConstRows& x, const Rows& d) = 0;

  // --- encode.hpp ---
  /// Scales, zero points and codes of a float32 matrix in the encoding that `to` names, over all of its arrays.
  virtual void encode(const ConstPanels& master, const Weight& to) = 0;

  // --- finite.hpp ---
  /// True when no element is infinite or NaN. On a GPU stream this waits for the device.
  virtual bool is_finite(const ConstRows& x) = 0;

 protected:
  using Part = void (*)(void* context, OpStream& stream, std::size_t first, std::size_t count);
  virtual void split_units(std::size_t units, double, Part part, void* context) { part(context, *this, 0, units); }
};

}  // namespace weft::kernels
