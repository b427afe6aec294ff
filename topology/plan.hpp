// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "topology/core_assignment.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weft::topology {

/// Workload to place: cells in grid order, their cost, and the links between them.
struct Workload {
  struct Vertex {
    std::uint64_t bytes = 0;  ///< weights and buffers read per tick
    double work = 0;          ///< any measure of work, the same for all (operations, nanoseconds)
  };
  std::vector<Vertex> vertices{};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> links{};  ///< pairs of vertices that exchange values
  std::size_t threads = 0;                                       ///< wanted threads; 0: as many as pay
  std::size_t regions_each = 1;                                  ///< regions of one thread, at most
  /// With threads = 0, a further region is opened only for each so many bytes a tick: waking and
  /// awaiting another core costs about what a core needs to read this much.
  std::uint64_t grain_bytes = 64 * 1024;
};

/// Assignment of blocks of cells to cores. Results of a mesh never depend on it.
struct Plan {
  struct Region {
    std::uint32_t begin = 0, end = 0;  ///< vertices [begin, end)
    CoreAssignment assignment;
    std::uint64_t bytes = 0;
    double work = 0;
    std::vector<std::uint32_t> neighbours;  ///< regions it shares a link with: symmetric, ascending, without itself
    bool operator==(const Region&) const = default;
  };
  std::vector<Region> regions;  ///< in vertex order; none is empty unless there are no vertices
  std::size_t threads = 0;      ///< number of core_assignments considered
  std::uint64_t cut_links = 0;  ///< links whose ends lie in different regions
  bool operator==(const Plan&) const = default;

  /// The region that holds `vertex`.
  std::uint32_t region_of(std::uint32_t vertex) const noexcept;
  std::string describe() const;
};

/// Cuts the cells into contiguous blocks, one (or `regions_each`) per thread, balanced by bytes and work; among nearly
/// balanced boundaries the one that cuts fewest links wins, then the most balanced, then the lowest. Pure: the same
/// machine and workload give the same plan. Links out of range are an error.
/// @error out_of_range when a link names a vertex that does not exist; too_large above 2^32 - 1 vertices
Result<Plan> place(const Machine& machine, const Workload& workload);

}  // namespace weft::topology
