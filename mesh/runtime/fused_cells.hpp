// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/layer_runner.hpp"
#include "mesh/runtime/region_plan.hpp"

#include "kernels/linear.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace weft::mesh {

/// Cells of a list that are one product of one row each, batched so that one call computes many of them.
/// For meshes of one session without history that nothing trains: there a call for each cell costs more than its work.
class FusedCells {
 public:
  /// Parts that follow each other in the list.
  struct Batch {
    std::uint32_t first = 0, count = 0;
    bool is_fused = false;  // computed by one call of linear_each
    kernels::Activation activation = kernels::Activation::linear;
    std::size_t out = 0, in = 0;
  };
  /// The mesh that the list is of.
  struct Mesh {
    const LayerRunner& layers;
    const WeightStore& weights;
    const State& state;
    std::span<const std::unique_ptr<Cell>> cells;
    const actors::Registry* registry;
  };

  explicit FusedCells(const std::vector<RegionPart>& parts);

  /// Batches the list anew when a cell, or where weights lie, has changed.
  void refresh(const Mesh& mesh, const std::vector<RegionPart>& parts);
  std::span<const Batch> batches() const noexcept { return batches_; }
  /// Computes a batch; false: a value is not finite. Odd ticks run the list backwards.
  bool run(const Batch& batch, std::uint64_t tick) const noexcept;

 private:
  void append(const Batch& next);

  std::vector<Batch> batches_;
  std::array<std::vector<kernels::LinearRow>, 2> rows_;  // by the parity of the tick, in that tick's order
  std::uint64_t weights_seen_ = UINT64_MAX, cells_seen_ = UINT64_MAX;
};

}  // namespace weft::mesh
