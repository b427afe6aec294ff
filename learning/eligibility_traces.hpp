// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/options.hpp"
#include "learning/trace_signal.hpp"

#include "mesh/network/layer.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/op_stream.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::learning {

struct LearningPlan;

/// Memory of one parameter that traces work with. Null: it never moves.
struct TracedParameter {
  float* gradient = nullptr;
  std::size_t size = 0;        // floats of the gradient and of each trace
  std::vector<float*> traces;  // by learner
};

/// Eligibility traces and the rates of bounded steps (LearningOptions::traces). Traces are arrays beside the weights,
/// which the optimiser owns; what stands here lasts for an update. Signals are kernels::kTraceSignal numbers for each
/// learner (TraceSignal), in memory that a device has too: null means that the output has no target.
/// @thread each layer's part: the thread of the region that owns the layer
/// @exact  same bits everywhere; where values are at hand, gradients that are outer products stay out of memory
class EligibilityTraces {
 public:
  EligibilityTraces() = default;
  /// `parameters`: by parameter of the store.
  EligibilityTraces(const LearningOptions& options, const LearningPlan& plan, const mesh::WeightStore& weights,
                    std::vector<TracedParameter> parameters);

  bool is_on() const noexcept { return learners_ > 0; }
  std::size_t learners() const noexcept { return learners_; }
  /// Gradients are kept row by row, of each learner by itself.
  bool has_rows() const noexcept { return learners_ > 1; }
  /// Places for the products that are the gradients of a layer with parameters from `first` on; null: in memory.
  mesh::MatrixGradient* products(std::size_t first) noexcept {
    return products_.empty() ? nullptr : products_.data() + first;
  }
  mesh::RowGradients* rows(std::size_t first) noexcept { return rows_.empty() ? nullptr : rows_.data() + first; }

  /// Before an update's first gradient of parameter `i`; `keeps_product`: an outer product may stay out of memory.
  /// @return true where gradients go to memory, which is to be cleared
  bool begin(std::size_t i, bool keeps_product) noexcept;
  /// The same of a layer: it adds nothing to the sums over traces yet.
  void forget(kernels::OpStream& stream, mesh::NodeId node);
  /// True where the gradient of parameter `i` is in memory. A product that is not is of moderate numbers.
  bool is_in_memory(std::size_t i) const noexcept {
    return rows_.empty() && (products_.empty() || products_[i].is_in_memory);
  }
  /// True where the gradients of all rows of parameter `i` are finite.
  bool are_rows_finite(kernels::OpStream& stream, std::size_t i) const;

  /// Takes the gradients of a layer in, and sums its traces. `is_recorded`: the operations run later, so no value is
  /// known.
  void take(kernels::OpStream& stream, mesh::NodeId node, const float* signals, bool is_recorded);
  /// Rates of the steps of an output's layers, of which all have taken their gradients in.
  void find_rates(kernels::OpStream& stream, std::size_t output, const float* signals);
  /// kOptimizerFactors for each learner, of a step of the layer at `shares` of the rate, one after the other.
  const float* factors(kernels::OpStream& stream, mesh::NodeId node, std::span<const float> shares);
  /// After the step: an episode may have ended.
  void end(kernels::OpStream& stream, mesh::NodeId node, const float* signals, bool is_recorded);

  /// Traces of parameter `i`.
  float* trace(std::size_t i, std::size_t learner = 0) const noexcept { return parameters_[i].traces[learner]; }
  /// Numbers of an update: sums over traces, rates, rates by layer.
  std::span<const float> sums() const noexcept { return sums_; }
  std::span<const float> rates() const noexcept { return rates_; }
  std::span<const float> layer_rates() const noexcept { return layer_rates_; }

 private:
  /// Layers that move by the error of one output.
  struct Output {
    std::vector<std::uint32_t> counts;    // of each of its layers, in their order: parameters
    std::size_t first_sum = 0, sums = 0;  // sums of the first learner; of each
  };
  struct TracedLayer {
    std::int32_t output = -1;                              // -1: no error reaches it
    std::size_t first = 0, parameters = 0, first_sum = 0;  // of the first learner
  };
  float* sum(const TracedLayer& layer, std::size_t parameter, std::size_t learner) noexcept {
    const Output& output = outputs_[static_cast<std::size_t>(layer.output)];
    return sums_.data() + layer.first_sum + learner * output.sums + parameter;
  }
  /// The gradients of one learner of several, and the same written to memory.
  mesh::RowGradients row_of(std::size_t i, std::size_t learner) const noexcept;
  void write_row(kernels::OpStream& stream, std::size_t i, std::size_t learner) const;
  void take_row(kernels::OpStream& stream, std::size_t i, std::size_t learner, const float* signal, float* sum,
                bool is_recorded);

  std::size_t learners_ = 0;  // 0: traces are off
  float lr_ = 0.0f;
  std::vector<TracedParameter> parameters_;
  std::vector<TracedLayer> layers_;  // by node
  std::vector<Output> outputs_;
  std::vector<mesh::MatrixGradient> products_;  // by parameter, of the update under way; of one learner
  std::vector<mesh::RowGradients> rows_;        // the same of several
  std::vector<float> sums_;                     // [output][learner][layer][parameter]
  std::vector<float> rates_;                    // [output][learner][kOptimizerFactors]
  std::vector<float> layer_rates_;              // [node][learner][kOptimizerFactors]
};

/// A signal as memory has it.
void write_signal(const TraceSignal& signal, float* to) noexcept;

}  // namespace weft::learning
