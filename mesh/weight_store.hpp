// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/graph.hpp"

#include "topology/node_memory.hpp"
#include "topology/plan.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weft::mesh {

/// An array beside every parameter, laid out and placed as the weights are: gradients, velocities, moments.
class ParameterBuffer {
 public:
  /// The floats beside parameter `i` of the store, spec->stored_size() of them.
  float* data(std::size_t i) const noexcept { return data_[i]; }

 private:
  friend class WeightStore;
  std::vector<float*> data_;
  std::vector<topology::NodeBuffer> buffers_;
};

/// The master weights of every layer, float32, in the layout the kernels read, each on the NUMA node of its region.
/// A version counts the changes of each parameter, so that derived (packed) forms know when they are stale.
/// @thread a parameter is written by the region that owns its layer, or between ticks by the owner of the mesh
class WeightStore {
 public:
  struct Parameter {
    NodeId node = 0;
    std::uint32_t index = 0;  // into Layer::parameters()
    const ParameterSpec* spec = nullptr;
    float* data = nullptr;  // spec->stored_size() floats, 64-byte aligned
    std::uint64_t version = 0;
  };

  /// Room for all parameters of `graph`, zeroed; `plan` counts cells as units, region by region.
  static Result<WeightStore> build(const Graph& graph, const std::vector<std::uint32_t>& node_region,
                                   const topology::Plan& plan, topology::NodeMemory& memory);
  /// A zeroed array beside every parameter.
  Result<ParameterBuffer> make_buffer() const;
  /// Fills every parameter from the network's seed and its layer's place.
  void initialize(const Graph& graph, std::uint64_t seed);

  std::span<Parameter> parameters() noexcept { return parameters_; }
  std::span<const Parameter> parameters() const noexcept { return parameters_; }
  /// Parameters of one layer.
  std::span<Parameter> of(NodeId node) noexcept;
  std::span<const Parameter> of(NodeId node) const noexcept;
  /// Nodes of the network, ports counted.
  std::size_t node_count() const noexcept { return first_.size() - 1; }
  /// Position of a layer's first parameter in `parameters()`.
  std::size_t first(NodeId node) const noexcept { return first_[node]; }
  /// The same as the ops take them.
  ConstWeights view(NodeId node) const noexcept { return {pointers_.data() + first_[node]}; }

  /// Row-major copies out of and into a parameter.
  std::vector<float> read(const Parameter& parameter) const;
  /// @error shape_mismatch: wrong number of values; not_finite: naming the first index; the parameter is untouched
  Status write(Parameter& parameter, std::span<const float> values, std::string_view object);

  /// Changes the stored type of a layer's weights.
  /// @error unsupported: anything but float32, in this version
  Status morph(const Node& node, Dtype dtype);

  /// Bytes of all parameters, padding counted.
  std::uint64_t bytes() const noexcept;
  /// Number of weights, padding not counted.
  std::uint64_t count() const noexcept;

 private:
  std::vector<Parameter> parameters_;
  std::vector<const float*> pointers_;
  std::vector<std::uint32_t> first_;  // node -> its first parameter; one past the end at the back
  ParameterBuffer masters_;
  std::vector<std::uint32_t> parameter_region_, region_node_;
  topology::NodeMemory* memory_ = nullptr;
};

}  // namespace weft::mesh
