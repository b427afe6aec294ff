// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_buffers.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/network/layer.hpp"

#include "gpu/vulkan_stream.hpp"

#include "kernels/op_stream.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::mesh {

/// Takes operations on the host's memory and records them on the device that mirrors it. So cells and learning rules
/// run unchanged: they hand out the pointers they always do. What would ask for a value (is a result finite?) is
/// answered as hoped, and noted on the device; `kNotFinite`, `kAllZero` in `notes` say later that the hope was wrong.
///
/// Operands outside of mirrored memory stay as an error in `status`.
/// @thread one thread at a time
class GraphRecorder final : public kernels::OpStream {
 public:
  static constexpr std::uint32_t kNotFinite = 1, kAllZero = 2;

  /// What a device decides for itself, by node.
  struct Guards {
    std::uint32_t* idle = nullptr;     // not 0: the node has nothing to learn in this step
    float* updates = nullptr;          // counts
    const float* minus_one = nullptr;  // one value
  };
  GraphRecorder(gpu::VulkanStream& to, DeviceBuffers& mirror, std::uint32_t* notes, const Guards& guards,
                std::size_t nodes)
      : to_(to), mirror_(mirror), notes_(notes), guards_(guards), is_guarded_(nodes) {}

  /// The device's own stream, for operands that have no place on the host.
  gpu::VulkanStream& device() noexcept { return to_; }
  DeviceBuffers& mirror() noexcept { return mirror_; }
  kernels::ConstRows there(const kernels::ConstRows& rows) const {
    return {there(rows.data), rows.rows, rows.cols, rows.stride};
  }
  kernels::Rows there(const kernels::Rows& rows) const { return {there(rows.data), rows.rows, rows.cols, rows.stride}; }

  /// Says yes. Where all are 0, that is noted, or with `may_skip` holds back what the node moves in this step.
  bool any_nonzero(NodeId node, std::span<const float> values, bool may_skip);
  void begin_move(NodeId node);
  void end_move(NodeId node);
  /// Nodes that were held back or might have been, since this was last asked.
  std::vector<NodeId> take_guarded();
  /// From here on operations, which the device does not run, only say what they touch; null: they are recorded again.
  void watch_host(std::vector<gpu::Touched>* to) noexcept;
  /// What a layer that nobody can watch might touch, in a firing or its reverse. @pre watch_host
  void touch(const ForwardArgs& args);
  void touch(const BackwardArgs& args);
  /// Nothing, or the first operand that had no place on the device.
  Status status() const { return mirror_.status(); }

  void linear(const kernels::ConstWeight& w, const float* bias, const kernels::ConstRows& x,
              kernels::Activation activation, const kernels::Rows& z, const kernels::Rows& y) override;
  void linear_transposed(const kernels::ConstWeight& w, const kernels::ConstRows& dy, const kernels::Rows& dx) override;
  void outer_accumulate(const kernels::ConstRows& dy, const kernels::ConstRows& x, const kernels::Panels& dw) override;
  void absolute_column_sums(const kernels::ConstWeight& w, float* s) override;
  void gated_linear(const kernels::GatedWeights& w, const kernels::ConstRows& x, kernels::Activation activation,
                    const kernels::Rows& y) override;
  void gated_backward(kernels::Activation activation, const kernels::ConstRows& values, const kernels::ConstRows& dy,
                      const kernels::Rows& dgate, const kernels::Rows& dup) override;
  void unary(kernels::Activation activation, const kernels::ConstRows& x, const kernels::Rows& y) override;
  void unary_backward(kernels::Activation activation, const kernels::ConstRows& z, const kernels::ConstRows& y,
                      const kernels::ConstRows& dy, const kernels::Rows& dx) override;
  void binary(kernels::BinaryOp op, const kernels::ConstRows& a, const kernels::ConstRows& b,
              const kernels::Rows& y) override;
  void scale(float alpha, const kernels::ConstRows& x, const kernels::Rows& y) override;
  void axpy(float alpha, const kernels::ConstRows& x, const kernels::Rows& y) override;
  void copy(const kernels::ConstRows& x, const kernels::Rows& y) override;
  void fill(float value, const kernels::Rows& y) override;
  void route_equal(const kernels::ConstRows& source, const kernels::ConstRows& x, const kernels::Rows& left,
                   const kernels::Rows& d) override;
  void rms_norm(const kernels::ConstRows& x, const float* gain, float epsilon, const kernels::Rows& y,
                float* inverse_rms) override;
  void rms_norm_backward(const kernels::ConstRows& x, const float* gain, const float* inverse_rms,
                         const kernels::ConstRows& dy, const kernels::Rows& dx, float* dgain) override;
  void layer_norm(const kernels::ConstRows& x, const float* gain, const float* bias, float epsilon,
                  const kernels::Rows& y, float* mean, float* inverse_deviation) override;
  void layer_norm_backward(const kernels::ConstRows& x, const float* gain, const float* mean,
                           const float* inverse_deviation, const kernels::ConstRows& dy, const kernels::Rows& dx,
                           float* dgain, float* dbias) override;
  void softmax(const kernels::ConstRows& x, float temperature, const kernels::Rows& y) override;
  void softmax_backward(const kernels::ConstRows& y, const kernels::ConstRows& dy, float temperature,
                        const kernels::Rows& dx) override;
  void entmax(const kernels::ConstRows& x, float alpha_minus_one, float temperature, const kernels::Rows& y) override;
  void entmax_backward(const kernels::ConstRows& y, const kernels::ConstRows& dy, float alpha_minus_one,
                       float temperature, const kernels::Rows& dx) override;
  void gumbel_noise(const kernels::ConstRows& x, std::array<std::uint32_t, 2> key, const kernels::ConstRows& state,
                    const kernels::Rows& next_state, const kernels::Rows& y) override;
  void one_hot_largest(const kernels::ConstRows& x, const kernels::Rows& y) override;
  void dropout_mask(std::array<std::uint32_t, 2> key, const kernels::ConstRows& state, const kernels::Rows& next_state,
                    std::uint32_t threshold, float scale, const kernels::Rows& mask) override;
  void log_softmax(const kernels::ConstRows& x, const kernels::ConstRows& base, const kernels::Rows& y) override;
  void log_softmax_backward(const kernels::ConstRows& y, const kernels::ConstRows& base, const kernels::ConstRows& dy,
                            const kernels::Rows& dx, const kernels::Rows& dbase) override;
  void log_floored(const kernels::ConstRows& x, const kernels::Rows& y) override;
  void log_floored_backward(const kernels::ConstRows& x, const kernels::ConstRows& dy,
                            const kernels::Rows& dx) override;
  void permute(const kernels::ConstRows& x, const kernels::AxisOrder& order, const kernels::Rows& y) override;
  void squared_distances(const kernels::ConstWeight& c, const kernels::ConstRows& x, const kernels::Rows& y) override;
  void squared_distances_backward(const kernels::ConstWeight& c, const kernels::ConstRows& x,
                                  const kernels::ConstRows& dy, const kernels::Rows& dx,
                                  const kernels::Panels& dc) override;
  void square_root(const kernels::ConstRows& x, const kernels::Rows& y) override;
  void square_root_backward(const kernels::ConstRows& y, const kernels::ConstRows& dy,
                            const kernels::Rows& dx) override;
  void weighted_sum(const kernels::ConstRows& p, const kernels::ConstRows& x, const kernels::Rows& y) override;
  void weighted_sum_backward(const kernels::ConstRows& p, const kernels::ConstRows& x, const kernels::ConstRows& dy,
                             const kernels::Rows& dp, const kernels::Rows& dx) override;
  void keep_largest(const kernels::ConstRows& x, std::size_t count, const kernels::Rows& y) override;
  void attention(const kernels::AttentionShape& shape, const kernels::AttentionOperands& operands,
                 const kernels::Rows& y, const kernels::Rows& statistics, const kernels::Rows& next_state,
                 float* workspace) override;
  void attention_backward(const kernels::AttentionShape& shape, const kernels::AttentionOperands& operands,
                          const kernels::ConstRows& y, const kernels::ConstRows& statistics,
                          const kernels::AttentionGradients& gradients, float* workspace) override;
  void rope(const kernels::Rope& rope, std::size_t tokens, const kernels::ConstRows& x, const kernels::ConstRows& state,
            bool transposed, const kernels::Rows& y, float* workspace) override;
  void embedding(const kernels::ConstWeight& w, const kernels::ConstRows& x, const kernels::Rows& y) override;
  void embedding_backward(const kernels::ConstRows& x, const kernels::ConstRows& dy, std::size_t skipped,
                          const kernels::Panels& dw) override;
  void convolve(const kernels::Window& window, const kernels::ConstWeight& w, const float* bias,
                const kernels::ConstRows& x, kernels::Activation activation, const kernels::Rows& z,
                const kernels::Rows& y, float* workspace) override;
  void convolve_transposed(const kernels::Window& window, const kernels::ConstWeight& w, const float* bias,
                           const kernels::ConstRows& x, kernels::Activation activation, const kernels::Rows& z,
                           const kernels::Rows& y, float* workspace) override;
  void convolve_outer(const kernels::Window& window, const kernels::ConstRows& dy, const kernels::ConstRows& x,
                      const kernels::Panels& dw, float* workspace) override;
  void max_pool(const kernels::Pool& pool, const kernels::ConstRows& x, const kernels::Rows& y,
                const kernels::Rows& index) override;
  void max_pool_backward(const kernels::Pool& pool, const kernels::ConstRows& index, const kernels::ConstRows& dy,
                         const kernels::Rows& dx) override;
  void avg_pool(const kernels::Pool& pool, const kernels::ConstRows& x, const kernels::Rows& y) override;
  void avg_pool_backward(const kernels::Pool& pool, const kernels::ConstRows& dy, const kernels::Rows& dx) override;
  void row_sums(const kernels::ConstRows& a, float* s) override;
  void row_dots(const kernels::ConstRows& a, const kernels::ConstRows& b, float* s) override;
  void column_accumulate(const kernels::ConstRows& a, float* s) override;
  void row_argmax(const kernels::ConstRows& a, std::uint32_t* index) override;
  void row_statistics(const kernels::ConstRows& x, float threshold, const kernels::Rows& y) override;
  void cross_entropy(const kernels::ConstRows& logits, const std::uint32_t* labels, float* loss,
                     const kernels::Rows& dx) override;
  void mean_squared_error(const kernels::ConstRows& x, const kernels::ConstRows& target, float* loss,
                          const kernels::Rows& dx) override;
  void sgd(std::size_t n, float* w, const float* g, float lr, float weight_decay) override;
  void momentum(std::size_t n, float* w, float* v, const float* g, float lr, float momentum, float dampening,
                bool nesterov, float weight_decay) override;
  void adamw_step(std::uint64_t* step, float beta1, float beta2, float* corrections) override;
  void adamw(std::size_t n, float* w, float* m, float* v, const float* g, float lr, float beta1, float beta2,
             float epsilon, float weight_decay, const float* corrections) override;
  void one_hot(const std::uint32_t* labels, float value, const kernels::Rows& y) override;
  void link_budget(const kernels::ConstRows& a, const kernels::ConstRows& t, float* factor) override;
  void scale_rows(const float* s, const kernels::ConstRows& x, const kernels::Rows& y) override;
  void gap_displacement(const kernels::ConstRows& weighted, const float* sums, const kernels::ConstRows& x,
                        const kernels::Rows& d) override;
  bool is_finite(const kernels::ConstRows& x) override;
  void encode(const kernels::ConstPanels& master, const kernels::Weight& to) override;

 private:
  void touch(const kernels::ConstRows& rows, bool is_written);
  template <class T>
  T* there(T* host) const {
    return reinterpret_cast<T*>(static_cast<std::uintptr_t>(mirror_.there(host)));
  }
  kernels::ConstWeight there(const kernels::ConstWeight& w) const;
  kernels::Panels there(const kernels::Panels& w) const { return {there(w.data), w.out, w.in}; }
  kernels::AttentionOperands there(const kernels::AttentionOperands& o) const;
  kernels::AttentionGradients there(const kernels::AttentionGradients& g) const;
  kernels::Rope there(const kernels::Rope& rope) const;

  gpu::VulkanStream& to_;
  DeviceBuffers& mirror_;
  std::uint32_t* notes_;
  Guards guards_;
  std::vector<std::uint8_t> is_guarded_;  // by node
  std::vector<gpu::Touched>* watched_ = nullptr;
};

}  // namespace weft::mesh
