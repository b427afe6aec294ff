// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/op_stream.hpp"
#include "kernels/parallel_for.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace weft::kernels {

/// Others' help for the operations of one stream.
struct Help {
  /// Multiply-adds of an operation that is worth a handover: about 2 us of one core, where asking another that is awake
  /// and waiting for it costs about 0.25 us (docs/decisions/0010-threads-inside-operations.md).
  static constexpr double kWorthwhile = 1 << 17;

  ParallelFor parallel;
  std::size_t threads = 1;           // parts of an operation, at most
  std::size_t workspace_stride = 0;  // floats from one part's workspace to the next one's
  double worthwhile = kWorthwhile;   // multiply-adds below which an operation stays on its thread
};

/// Runs each operation at once with the active instruction set: on the calling thread, or, with help, parts of its
/// outputs on several. Parts are never parts of a sum, so the bits are the same.
/// @thread one thread at a time, inside FlushSubnormals
class alignas(64) CpuStream final : public OpStream {
 public:
  /// Who helps from now on; null: nobody. With help, every workspace handed in is followed by one for each other part.
  void set_help(const Help* help) noexcept {
    help_.reset();
    if (help) help_.emplace(*help);
  }
  /// The weights that will be read after the next `linear` or `gated_linear`, which forgets them again; data null:
  /// unknown. For speed alone.
  void expect(const ConstPanels& ahead) noexcept { ahead_ = ahead; }
  /// Operations that were cut up so far.
  std::uint64_t forks() const noexcept { return forks_; }

  float* workspace_of(float* workspace) const noexcept override { return workspace + workspace_shift_; }
  void linear(const ConstWeight& w, const float* bias, const ConstRows& x, Activation activation, const Rows& z,
              const Rows& y) override;
  void linear_transposed(const ConstWeight& w, const ConstRows& dy, const Rows& dx) override;
  void outer_accumulate(const ConstRows& dy, const ConstRows& x, const Panels& dw) override;
  void absolute_column_sums(const ConstWeight& w, float* s) override;
  void gated_linear(const GatedWeights& w, const ConstRows& x, Activation activation, const Rows& y) override;
  void gated_backward(Activation activation, const ConstRows& values, const ConstRows& dy, const Rows& dgate,
                      const Rows& dup) override;
  void unary(Activation activation, const ConstRows& x, const Rows& y) override;
  void unary_backward(Activation activation, const ConstRows& z, const ConstRows& y, const ConstRows& dy,
                      const Rows& dx) override;
  void binary(BinaryOp op, const ConstRows& a, const ConstRows& b, const Rows& y) override;
  void scale(float alpha, const ConstRows& x, const Rows& y) override;
  void axpy(float alpha, const ConstRows& x, const Rows& y) override;
  void copy(const ConstRows& x, const Rows& y) override;
  void fill(float value, const Rows& y) override;
  void route_equal(const ConstRows& source, const ConstRows& x, const Rows& left, const Rows& d) override;
  void rms_norm(const ConstRows& x, const float* gain, float epsilon, const Rows& y, float* inverse_rms) override;
  void rms_norm_backward(const ConstRows& x, const float* gain, const float* inverse_rms, const ConstRows& dy,
                         const Rows& dx, float* dgain) override;
  void layer_norm(const ConstRows& x, const float* gain, const float* bias, float epsilon, const Rows& y, float* mean,
                  float* inverse_deviation) override;
  void layer_norm_backward(const ConstRows& x, const float* gain, const float* mean, const float* inverse_deviation,
                           const ConstRows& dy, const Rows& dx, float* dgain, float* dbias) override;
  void softmax(const ConstRows& x, float temperature, const Rows& y) override;
  void softmax_backward(const ConstRows& y, const ConstRows& dy, float temperature, const Rows& dx) override;
  void entmax(const ConstRows& x, float alpha_minus_one, float temperature, const Rows& y) override;
  void entmax_backward(const ConstRows& y, const ConstRows& dy, float alpha_minus_one, float temperature,
                       const Rows& dx) override;
  void gumbel_noise(const ConstRows& x, std::array<std::uint32_t, 2> key, const ConstRows& state,
                    const Rows& next_state, const Rows& y) override;
  void one_hot_largest(const ConstRows& x, const Rows& y) override;
  void dropout_mask(std::array<std::uint32_t, 2> key, const ConstRows& state, const Rows& next_state,
                    std::uint32_t threshold, float scale, const Rows& mask) override;
  void log_softmax(const ConstRows& x, const ConstRows& base, const Rows& y) override;
  void log_softmax_backward(const ConstRows& y, const ConstRows& base, const ConstRows& dy, const Rows& dx,
                            const Rows& dbase) override;
  void log_floored(const ConstRows& x, const Rows& y) override;
  void log_floored_backward(const ConstRows& x, const ConstRows& dy, const Rows& dx) override;
  void permute(const ConstRows& x, const AxisOrder& order, const Rows& y) override;
  void squared_distances(const ConstWeight& c, const ConstRows& x, const Rows& y) override;
  void squared_distances_backward(const ConstWeight& c, const ConstRows& x, const ConstRows& dy, const Rows& dx,
                                  const Panels& dc) override;
  void square_root(const ConstRows& x, const Rows& y) override;
  void square_root_backward(const ConstRows& y, const ConstRows& dy, const Rows& dx) override;
  void weighted_sum(const ConstRows& p, const ConstRows& x, const Rows& y) override;
  void weighted_sum_backward(const ConstRows& p, const ConstRows& x, const ConstRows& dy, const Rows& dp,
                             const Rows& dx) override;
  void keep_largest(const ConstRows& x, std::size_t count, const Rows& y) override;
  void attention(const AttentionShape& shape, const AttentionOperands& operands, const Rows& y, const Rows& statistics,
                 const Rows& next_state, float* workspace) override;
  void attention_backward(const AttentionShape& shape, const AttentionOperands& operands, const ConstRows& y,
                          const ConstRows& statistics, const AttentionGradients& gradients, float* workspace) override;
  void rope(const Rope& rope, std::size_t tokens, const ConstRows& x, const ConstRows& state, bool transposed,
            const Rows& y, float* workspace) override;
  void embedding(const ConstWeight& w, const ConstRows& x, const Rows& y) override;
  void embedding_backward(const ConstRows& x, const ConstRows& dy, std::size_t skipped, const Panels& dw) override;
  void convolve(const Window& window, const ConstWeight& w, const float* bias, const ConstRows& x,
                Activation activation, const Rows& z, const Rows& y, float* workspace) override;
  void convolve_transposed(const Window& window, const ConstWeight& w, const float* bias, const ConstRows& x,
                           Activation activation, const Rows& z, const Rows& y, float* workspace) override;
  void convolve_outer(const Window& window, const ConstRows& dy, const ConstRows& x, const Panels& dw,
                      float* workspace) override;
  void max_pool(const Pool& pool, const ConstRows& x, const Rows& y, const Rows& index) override;
  void max_pool_backward(const Pool& pool, const ConstRows& index, const ConstRows& dy, const Rows& dx) override;
  void avg_pool(const Pool& pool, const ConstRows& x, const Rows& y) override;
  void avg_pool_backward(const Pool& pool, const ConstRows& dy, const Rows& dx) override;
  void row_sums(const ConstRows& a, float* s) override;
  void row_dots(const ConstRows& a, const ConstRows& b, float* s) override;
  void column_accumulate(const ConstRows& a, float* s) override;
  void row_argmax(const ConstRows& a, std::uint32_t* index) override;
  void row_statistics(const ConstRows& x, float threshold, const Rows& y) override;
  void cross_entropy(const ConstRows& logits, const std::uint32_t* labels, float* loss, const Rows& dx) override;
  void mean_squared_error(const ConstRows& x, const ConstRows& target, float* loss, const Rows& dx) override;
  void sgd(std::size_t n, float* w, const float* g, float lr, float weight_decay) override;
  void momentum(std::size_t n, float* w, float* v, const float* g, float lr, float momentum, float dampening,
                bool nesterov, float weight_decay) override;
  void adamw_step(std::uint64_t* step, float beta1, float beta2, float* corrections) override;
  void adamw(std::size_t n, float* w, float* m, float* v, const float* g, float lr, float beta1, float beta2,
             float epsilon, float weight_decay, const float* corrections) override;
  void one_hot(const std::uint32_t* labels, float value, const Rows& y) override;
  void link_budget(const ConstRows& a, const ConstRows& t, float* factor) override;
  void scale_rows(const float* s, const ConstRows& x, const Rows& y) override;
  void gap_displacement(const ConstRows& weighted, const float* sums, const ConstRows& x, const Rows& d) override;
  void encode(const ConstPanels& master, const Weight& to) override;
  bool is_finite(const ConstRows& x) override;

 private:
  void split_units(std::size_t units, double work, Part part, void* context) override;
  /// Parts that an operation of so many units falls into.
  std::size_t parts_of(std::size_t units, double work) const noexcept {
    return help_ && units > 1 && work >= help_->worthwhile ? std::min(units, help_->threads) : 1;
  }
  template <class Body>
  void fork(std::size_t units, double work, const Body& body);
  template <class Body>
  void fork_rows(std::size_t rows, std::size_t cols, double work, const Body& body);
  template <class Body>
  void fork_outputs(std::size_t rows, std::size_t out, double work, const Body& body);
  float* part_workspace(float* workspace, std::size_t part) const noexcept {
    return part > 0 ? workspace + part * help_->workspace_stride : workspace;
  }

  std::optional<Help> help_;
  std::uint64_t forks_ = 0;
  ConstPanels ahead_{};  // written for each cell: hence a cache line of its own for each region's stream
  std::size_t workspace_shift_ = 0;
};

}  // namespace weft::kernels
