// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"
#include "mesh/runtime/state.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::mesh {

/// Memory that something will take, by what it is for.
struct MemoryEstimate {
  std::vector<std::pair<std::string, std::uint64_t>> parts;

  /// Zero bytes are no part. Sums that cannot be counted stay at UINT64_MAX.
  void add(std::string name, std::uint64_t bytes);
  std::uint64_t total() const noexcept;
  /// "weights 16.0 GiB, state 8.0 MiB".
  std::string text() const;
};

/// Bytes of a layer's own weights as they are stored: codes, scales, zero points, vectors; lane padding counted.
std::uint64_t weight_bytes(const Node& layer) noexcept;
/// Bytes of a zeroed array beside every parameter of the network: a gradient, a moment.
std::uint64_t parameter_buffer_bytes(const Graph& graph) noexcept;

struct MemoryQuestion {
  std::size_t sessions = 1;
  bool keeps_masters = true;
  std::size_t threads = 1;
};
/// Memory of a mesh over `graph`, before anything of it is allocated: the network itself (places, links and cells, as
/// measured), weights with their masters, states and workspaces. A device needs as much again as weights and states.
MemoryEstimate estimate_memory(const Graph& graph, const MemoryQuestion& question);

/// Bytes that may be taken now: `max_memory` (0: no bound), or less where a limit of the system is tighter.
std::uint64_t free_memory(std::uint64_t max_memory);

/// Refuses what does not fit: into `max_memory` (0: no bound), into the RAM, the address space and the control group as
/// they are now. Below 16 MiB nothing is asked.
/// @error too_large: naming `object`, its parts, both sizes and what to do
Status check_memory(std::string_view object, const MemoryEstimate& estimate, std::uint64_t max_memory);

/// The same for a network of so many layers, before they are made. Nothing is known yet but their number.
Status check_layers_fit(std::string_view object, std::uint64_t layers, std::uint64_t max_memory);

}  // namespace weft::mesh
