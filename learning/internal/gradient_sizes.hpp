// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/optimizer.hpp"

#include "mesh/network/graph.hpp"
#include "mesh/runtime/step_rule.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::learning {

/// The rms of the last gradient of each layer that an observer asks about, double-buffered as messages are.
class GradientSizes {
 public:
  GradientSizes() = default;
  explicit GradientSizes(const mesh::Graph& graph);

  bool is_measured(mesh::NodeId node) const noexcept { return is_measured_[node]; }
  /// A step without an update keeps the size.
  void carry(mesh::NodeId node, std::uint64_t parity) noexcept {
    if (is_measured_[node]) sizes_[node][parity] = sizes_[node][parity ^ 1];
  }
  void measure(mesh::StepContext& context, mesh::NodeId node, std::uint64_t parity,
               const Optimizer& optimizer) noexcept;
  float last(mesh::NodeId node, std::uint64_t parity) const noexcept { return sizes_[node][parity ^ 1]; }

  std::vector<std::array<float, 2>>& sizes() noexcept { return sizes_; }
  const std::vector<std::array<float, 2>>& sizes() const noexcept { return sizes_; }
  const std::vector<bool>& measured() const noexcept { return is_measured_; }
  /// Result of the operation that measures a node.
  const float* square(mesh::NodeId node) const noexcept { return &squares_[node]; }

 private:
  std::vector<std::array<float, 2>> sizes_;  // by node
  std::vector<float> squares_;
  std::vector<bool> is_measured_;
};

}  // namespace weft::learning
