// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/recorder.hpp"
#include "gpu/memory.hpp"
#include "gpu/vulkan_stream.hpp"

#include <memory>
#include <string>

namespace weft::gpu {

using kernels::Activation;
using kernels::AttentionGradients;
using kernels::AttentionOperands;
using kernels::AttentionShape;
using kernels::AxisOrder;
using kernels::BinaryOp;
using kernels::ConstPanels;
using kernels::ConstRows;
using kernels::ConstWeight;
using kernels::GatedBlock;
using kernels::GatedWeights;
using kernels::Panels;
using kernels::Pool;
using kernels::Rope;
using kernels::Rows;
using kernels::Weight;
using kernels::Window;

/// The operations, each as a dispatch or a few. A family of them has a file gpu/stream_<family>.cpp; those that have no
/// shader yet stand in gpu/stream_missing.cpp. docs/gpu.md says how one moves.
class Stream final : public VulkanStream {
 public:
  explicit Stream(std::unique_ptr<Recorder> recorder) : recorder_(std::move(recorder)) {}

  Result<std::uint64_t> submit() override { return recorder_->submit(); }
  Status wait(std::uint64_t number) override { return recorder_->wait(number); }
  Status status() const override { return recorder_->status(); }
  void upload(const void* from, std::size_t bytes, void* to) override { recorder_->upload(from, bytes, to); }
  Status download(const void* from, std::size_t bytes, void* to) override {
    return recorder_->download(from, bytes, to);
  }
  Status begin_program() override {
    last_linear_ = {};
    return recorder_->begin_program();
  }
  Result<std::shared_ptr<Program>> end_program() override { return recorder_->end_program(); }
  Status run(const std::shared_ptr<Program>& program, std::uint64_t times) override {
    return recorder_->run(program, times);
  }
  void watch(std::vector<Touched>* to, bool instead) override { recorder_->watch(to, instead); }
  void note_not_finite(const ConstRows& x, std::uint32_t* word, std::uint32_t bits) override;
  void skip_steps(const std::uint32_t* word) override { skip_ = address(word); }
  void note_all_zero(const float* x, std::size_t n, std::uint32_t* word, std::uint32_t bits) override;
  void transfer(const void* from, std::size_t bytes, void* to) override { recorder_->transfer(from, bytes, to); }
  std::uint64_t dispatches() const noexcept override { return recorder_->dispatches(); }
  std::uint64_t barriers() const noexcept override { return recorder_->barriers(); }

  // --- linear
  void linear(const ConstWeight& w, const float* bias, const ConstRows& x, Activation activation, const Rows& z,
              const Rows& y) override;
  void linear_transposed(const ConstWeight& w, const ConstRows& dy, const Rows& dx) override;
  void outer_accumulate(const ConstRows& dy, const ConstRows& x, const Panels& dw) override;
  void absolute_column_sums(const ConstWeight& w, float* s) override;
  void gated_linear(const GatedWeights& w, const ConstRows& x, Activation activation, const Rows& y) override;
  // --- elementwise
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
  void square_root(const ConstRows& x, const Rows& y) override;
  void square_root_backward(const ConstRows& y, const ConstRows& dy, const Rows& dx) override;
  void log_floored(const ConstRows& x, const Rows& y) override;
  void log_floored_backward(const ConstRows& x, const ConstRows& dy, const Rows& dx) override;
  void scale_rows(const float* s, const ConstRows& x, const Rows& y) override;
  void gap_displacement(const ConstRows& weighted, const float* sums, const ConstRows& x, const Rows& d) override;
  void route_equal(const ConstRows& source, const ConstRows& x, const Rows& left, const Rows& d) override;
  // --- rows
  void row_sums(const ConstRows& a, float* s) override;
  void row_dots(const ConstRows& a, const ConstRows& b, float* s) override;
  void column_accumulate(const ConstRows& a, float* s) override;
  void row_argmax(const ConstRows& a, std::uint32_t* index) override;
  void row_statistics(const ConstRows& x, float threshold, const Rows& y) override;
  void link_budget(const ConstRows& a, const ConstRows& t, float* factor) override;
  bool is_finite(const ConstRows& x) override;
  // --- norm
  void rms_norm(const ConstRows& x, const float* gain, float epsilon, const Rows& y, float* inverse_rms) override;
  void rms_norm_backward(const ConstRows& x, const float* gain, const float* inverse_rms, const ConstRows& dy,
                         const Rows& dx, float* dgain) override;
  void layer_norm(const ConstRows& x, const float* gain, const float* bias, float epsilon, const Rows& y, float* mean,
                  float* inverse_deviation) override;
  void layer_norm_backward(const ConstRows& x, const float* gain, const float* mean, const float* inverse_deviation,
                           const ConstRows& dy, const Rows& dx, float* dgain, float* dbias) override;
  // --- softmax
  void softmax(const ConstRows& x, float temperature, const Rows& y) override;
  void softmax_backward(const ConstRows& y, const ConstRows& dy, float temperature, const Rows& dx) override;
  void log_softmax(const ConstRows& x, const ConstRows& base, const Rows& y) override;
  void log_softmax_backward(const ConstRows& y, const ConstRows& base, const ConstRows& dy, const Rows& dx,
                            const Rows& dbase) override;
  void keep_largest(const ConstRows& x, std::size_t count, const Rows& y) override;
  void one_hot_largest(const ConstRows& x, const Rows& y) override;
  void entmax(const ConstRows& x, float alpha_minus_one, float temperature, const Rows& y) override;
  void entmax_backward(const ConstRows& y, const ConstRows& dy, float alpha_minus_one, float temperature,
                       const Rows& dx) override;
  // --- loss
  void cross_entropy(const ConstRows& logits, const std::uint32_t* labels, float* loss, const Rows& dx) override;
  void mean_squared_error(const ConstRows& x, const ConstRows& target, float* loss, const Rows& dx) override;
  // --- optimizer
  void sgd(std::size_t n, float* w, const float* g, float lr, float weight_decay) override;
  void momentum(std::size_t n, float* w, float* v, const float* g, float lr, float momentum, float dampening,
                bool nesterov, float weight_decay) override;
  void adamw_step(std::uint64_t* step, float beta1, float beta2, float* corrections) override;
  void adamw(std::size_t n, float* w, float* m, float* v, const float* g, float lr, float beta1, float beta2,
             float epsilon, float weight_decay, const float* corrections) override;
  // --- noise
  void gumbel_noise(const ConstRows& x, std::array<std::uint32_t, 2> key, const ConstRows& state,
                    const Rows& next_state, const Rows& y) override;
  void dropout_mask(std::array<std::uint32_t, 2> key, const ConstRows& state, const Rows& next_state,
                    std::uint32_t threshold, float scale, const Rows& mask) override;
  // --- target_rules
  void one_hot(const std::uint32_t* labels, float value, const Rows& y) override;
  // --- mixture
  void weighted_sum(const ConstRows& p, const ConstRows& x, const Rows& y) override;
  void weighted_sum_backward(const ConstRows& p, const ConstRows& x, const ConstRows& dy, const Rows& dp,
                             const Rows& dx) override;
  // --- distance
  void squared_distances(const ConstWeight& c, const ConstRows& x, const Rows& y) override;
  void squared_distances_backward(const ConstWeight& c, const ConstRows& x, const ConstRows& dy, const Rows& dx,
                                  const Panels& dc) override;
  // --- encode
  void encode(const ConstPanels& master, const Weight& to) override;
  // --- move
  void permute(const ConstRows& x, const AxisOrder& order, const Rows& y) override;
  void embedding(const ConstWeight& w, const ConstRows& x, const Rows& y) override;
  void embedding_backward(const ConstRows& x, const ConstRows& dy, std::size_t skipped, const Panels& dw) override;
  // --- attention
  void attention(const AttentionShape& shape, const AttentionOperands& operands, const Rows& y, const Rows& statistics,
                 const Rows& next_state, float* workspace) override;
  void attention_backward(const AttentionShape& shape, const AttentionOperands& operands, const ConstRows& y,
                          const ConstRows& statistics, const AttentionGradients& gradients, float* workspace) override;
  void rope(const Rope& rope, std::size_t tokens, const ConstRows& x, const ConstRows& state, bool transposed,
            const Rows& y, float* workspace) override;
  // --- convolve
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

 private:
  /// For an operation that the stream does not have: the mesh should have asked `supports` first.
  void refuse(Op op);
  template <Op op>
  void refuse_missing() {
    static_assert(!supports(op), "gpu/ops.def says that this operation is recorded");
    refuse(op);
  }

  struct QuantizedOnDevice {
    Range codes, scales;
  };
  /// x as int8, in scratch memory, in the order in which codes of a type are unpacked (gpu/shaders/code_dots.glsl).
  QuantizedOnDevice quantize(const ConstRows& x, Dtype codes);
  /// The same as the operands that a layer's shader reads, and where they stand.
  template <class Push>
  Range quantized_into(Push& push, const ConstRows& x, Dtype codes);
  /// Weights of 32 and 64 bits as float32, in scratch memory; others as they are.
  ConstWeight decoded(const ConstWeight& w);
  /// As float32 at an address with room for its panels.
  ConstWeight decoded(const ConstWeight& w, std::uint64_t at);
  /// Where x is what the last operation of a program, a linear layer, puts out: lets that note what is asked of x.
  bool note_in_last_linear(const ConstRows& x, std::uint32_t* noted, std::uint32_t bits);
  /// row_dots into every s_stride-th place.
  void record_dots(const ConstRows& a, const ConstRows& b, float* s, std::size_t s_stride);
  void record_transposed(const ConstWeight& w, const ConstRows& dy, const Rows& dx, bool absolute);
  /// Memory of one operation, 0 after a failure; see Recorder::scratch.
  std::uint64_t scratch(std::size_t bytes) { return recorder_->scratch(bytes); }

  std::unique_ptr<Recorder> recorder_;
  struct LastLinear {
    const float* y = nullptr;
    std::size_t rows = 0, cols = 0, stride = 0, dispatch = 0;  // counted from 1
  } last_linear_;
  std::uint64_t skip_ = 0;  // a word that holds optimiser steps back
  Buffer finite_;           // a word that is_finite asks for
};

}  // namespace weft::gpu
