// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/options.hpp"

#include "mesh/weights/weight_store.hpp"

#include "kernels/op_stream.hpp"

#include "core/state_hash.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace weft::learning {

/// Arrays of state beside the parameters that an optimizer keeps.
std::size_t slots_of(OptimizerKind kind) noexcept;

/// Gradients, velocities and moments beside the weights, and the step that uses them up.
/// @thread each layer's part: the thread of the region that owns the layer
/// @exact  elementwise: same bits everywhere
class Optimizer {
 public:
  static Result<Optimizer> build(const mesh::WeightStore& weights, const OptimizerOptions& options);

  /// Destinations of the gradients of the weights that the layer computes with: its own and tied ones.
  mesh::Gradients gradients(mesh::NodeId node) const noexcept {
    return {joined_[node].empty() ? gradient_pointers_.data() + first_[node] : joined_[node].data()};
  }
  /// The gradients of parameter `i` of the store.
  float* gradient(std::size_t i) const noexcept { return gradient_pointers_[i]; }
  void clear_gradients(kernels::OpStream& stream, const mesh::WeightStore& weights, mesh::NodeId node) const;
  /// Moves the layer's weights; counts one update. False, with nothing moved, when a gradient is not finite.
  bool step(kernels::OpStream& stream, mesh::WeightStore& weights, mesh::NodeId node);

  /// Updates of each layer so far, by node.
  std::span<std::uint64_t> updates() noexcept { return updates_; }
  std::span<const std::uint64_t> updates() const noexcept { return updates_; }
  /// Two for each node, of the update under way: no state. AdamW's alone, as is that it reads its count of updates.
  std::span<const float> corrections() const noexcept { return corrections_; }
  /// Number of state arrays for each parameter: 0 (sgd), 1 (momentum), 2 (adamw).
  std::size_t slots() const noexcept;
  /// State array `slot` beside parameter `i` of the store, laid out as the parameter is.
  float* slot(std::size_t slot, std::size_t i) const noexcept { return slots_[slot].data(i); }
  /// Appends a layer's state, updates counted in, and takes it back; `restore` returns what follows it.
  void save_layer(const mesh::WeightStore& weights, mesh::NodeId node, std::vector<float>& out) const;
  const float* restore_layer(const mesh::WeightStore& weights, mesh::NodeId node, const float* from) noexcept;
  void hash_layer(const mesh::WeightStore& weights, mesh::NodeId node, StateHasher& hasher) const;
  const OptimizerOptions& options() const noexcept { return options_; }

 private:
  OptimizerOptions options_;
  mesh::ParameterBuffer gradients_;
  std::vector<mesh::ParameterBuffer> slots_;
  std::vector<float*> gradient_pointers_;
  std::vector<std::vector<float*>> joined_;  // by node; empty where the layer's weights are its own
  std::vector<std::size_t> first_;
  std::vector<std::uint64_t> updates_;
  std::vector<float> corrections_;
};

}  // namespace weft::learning
