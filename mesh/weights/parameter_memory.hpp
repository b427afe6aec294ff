// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/weights/quantized_weight.hpp"

#include "topology/node_memory.hpp"
#include "topology/plan.hpp"

#include "core/encoding.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::mesh {

/// An array beside every parameter, laid out and placed as the master weights are: gradients, velocities, moments.
class ParameterBuffer {
 public:
  /// The floats beside parameter `i` of the store, spec->stored_size() of them; null where it has none.
  float* data(std::size_t i) const noexcept { return data_[i]; }
  /// Memory that it takes, in whole pages.
  std::uint64_t bytes() const noexcept;

 private:
  friend class ParameterMemory;
  std::vector<float*> data_;
  std::vector<topology::NodeBuffer> buffers_;
};

/// Memory beside the parameters of a network: of each on the NUMA node of the region that owns its layer.
/// @thread const functions: any
class ParameterMemory {
 public:
  ParameterMemory() = default;
  ParameterMemory(const topology::Plan& plan, topology::NodeMemory& memory);
  /// The next parameter, of so many floats.
  void add(std::size_t floats, std::uint32_t region);

  /// Floats from one parameter's beginning to the next one's, so that each begins on a cache line.
  static std::size_t padded(std::size_t floats) noexcept { return (floats + 15) / 16 * 16; }
  /// The same places for arrays of other sizes, in floats by parameter.
  ParameterMemory with_sizes(std::vector<std::size_t> floats) const;
  /// A zeroed array beside some parameters; null beside the others.
  Result<ParameterBuffer> make_buffer(const std::vector<bool>& is_inside) const;
  /// Zeroed memory for the master of parameter `i` alone.
  Result<WeightMemory> make_master(std::size_t i) const;
  /// Arenas for matrices of so many bytes by parameter, where they are large: by NUMA node, as make_quantized takes
  /// them.
  Result<std::vector<WeightArena>> make_arenas(const std::vector<std::size_t>& bytes) const;
  /// A zeroed matrix in another encoding beside parameter `i`.
  Result<QuantizedWeight> make_quantized(std::size_t i, const Encoding& encoding, std::size_t out, std::size_t in,
                                         std::span<WeightArena> arenas = {}) const;

 private:
  std::uint32_t numa_node(std::size_t i) const noexcept { return numa_nodes_[regions_[i]]; }

  topology::NodeMemory* memory_ = nullptr;
  std::vector<std::uint32_t> numa_nodes_;  // by region
  std::vector<std::uint32_t> regions_;     // by parameter
  std::vector<std::size_t> floats_;        // by parameter
};

}  // namespace weft::mesh
