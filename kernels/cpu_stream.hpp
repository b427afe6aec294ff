// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/op_stream.hpp"

namespace weft::kernels {

/// Runs each operation at once, on the calling thread, with the active instruction set. Holds nothing.
/// @thread one thread at a time, inside FlushSubnormals
class CpuStream final : public OpStream {
 public:
  void linear(ConstPanels w, const float* bias, ConstRows x, Activation activation, Rows z, Rows y) override;
  void linear_transposed(ConstPanels w, ConstRows dy, Rows dx) override;
  void outer_accumulate(ConstRows dy, ConstRows x, Panels dw) override;
  void absolute_column_sums(ConstPanels w, float* s) override;
  void unary(Activation activation, ConstRows x, Rows y) override;
  void unary_backward(Activation activation, ConstRows z, ConstRows y, ConstRows dy, Rows dx) override;
  void binary(BinaryOp op, ConstRows a, ConstRows b, Rows y) override;
  void scale(float alpha, ConstRows x, Rows y) override;
  void axpy(float alpha, ConstRows x, Rows y) override;
  void copy(ConstRows x, Rows y) override;
  void fill(float value, Rows y) override;
  void route_equal(ConstRows source, ConstRows x, Rows left, Rows d) override;
  void rms_norm(ConstRows x, const float* gain, float epsilon, Rows y, float* inverse_rms) override;
  void rms_norm_backward(ConstRows x, const float* gain, const float* inverse_rms, ConstRows dy, Rows dx,
                         float* dgain) override;
  void layer_norm(ConstRows x, const float* gain, const float* bias, float epsilon, Rows y, float* mean,
                  float* inverse_deviation) override;
  void layer_norm_backward(ConstRows x, const float* gain, const float* mean, const float* inverse_deviation,
                           ConstRows dy, Rows dx, float* dgain, float* dbias) override;
  void softmax(ConstRows x, float temperature, Rows y) override;
  void softmax_backward(ConstRows y, ConstRows dy, float temperature, Rows dx) override;
  void row_sums(ConstRows a, float* s) override;
  void row_dots(ConstRows a, ConstRows b, float* s) override;
  void column_accumulate(ConstRows a, float* s) override;
  void row_argmax(ConstRows a, std::uint32_t* index) override;
  void cross_entropy(ConstRows logits, const std::uint32_t* labels, float* loss, Rows dx) override;
  void mean_squared_error(ConstRows x, ConstRows target, float* loss, Rows dx) override;
  void sgd(std::size_t n, float* w, const float* g, float lr, float weight_decay) override;
  void momentum(std::size_t n, float* w, float* v, const float* g, float lr, float momentum, float dampening,
                bool nesterov, float weight_decay) override;
  void adamw(std::size_t n, float* w, float* m, float* v, const float* g, float lr, float beta1, float beta2,
             float epsilon, float weight_decay, std::uint64_t step) override;
  void link_budget(ConstRows a, ConstRows t, float* factor) override;
  void scale_rows(const float* s, ConstRows x, Rows y) override;
  void gap_displacement(ConstRows weighted, const float* sums, ConstRows x, Rows d) override;
  bool is_finite(ConstRows x) override;
};

}  // namespace weft::kernels
