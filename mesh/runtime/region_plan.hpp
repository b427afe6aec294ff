// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"

#include "scheduler/tick_program.hpp"

#include "topology/plan.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace weft::mesh {

/// A cell of a region, or an input port (no layers).
struct RegionPart {
  std::uint32_t cell = UINT32_MAX;
  NodeId first = 0;
  std::uint32_t layers = 0;
};

/// Cells and ports of a network by the region that runs them. Immutable.
class RegionPlan {
 public:
  struct Region {
    std::vector<RegionPart> interior, boundary;  // boundary: a neighbour reads or writes what they touch
    std::vector<std::uint32_t> neighbours;
    std::uint32_t core = scheduler::kAnyCore;
    std::vector<NodeId> late;  // layers with tied weights, which learn when all have fired
  };

  using Links = std::span<const std::pair<NodeId, NodeId>>;
  /// `extra_links`: links besides the network's own that cells read across as they learn; `mail_links`: those that
  /// cells exchange mail across.
  RegionPlan(const Graph& graph, const topology::Plan& plan, std::vector<std::uint32_t> node_region, Links extra_links,
             Links mail_links = {});

  const std::vector<Region>& regions() const noexcept { return regions_; }
  const Region& region(std::size_t region) const noexcept { return regions_[region]; }
  std::uint32_t region_of_cell(std::size_t cell) const noexcept { return cell_region_[cell]; }
  std::uint32_t cell_of(NodeId node) const noexcept { return node_cell_[node]; }
  bool learns_late(NodeId node) const noexcept { return learns_late_[node]; }

 private:
  void link(const Graph& graph, Links extra_links, Links mail_links);
  void add(const Graph& graph, const RegionPart& part, bool may_run_early);

  std::vector<Region> regions_;
  std::vector<std::uint32_t> node_region_, cell_region_, node_cell_;
  std::vector<std::uint8_t> learns_late_;  // by node
};

}  // namespace weft::mesh
