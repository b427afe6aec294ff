// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "bridge/fields.hpp"
#include "bridge/network_plan.hpp"

#include "core/shape.hpp"

#include <string>
#include <utility>
#include <vector>

namespace weft::bridge::internal {

/// One cell to be placed: its type, what it reads and gives.
struct PlannedLayer {
  std::string type;
  Shape reads, gives;
  std::size_t out = 0;  // features, or channels, that it is told; 0: none
  mesh::Options options{};
};

/// Writes a plan layer by layer: layer i of the payload becomes the cell [0, 0, i, 0].
class PlanWriter {
 public:
  /// `reshapes`: a layer may read as many values in another shape.
  PlanWriter(Bedrock bedrock, const std::string& name, std::size_t layers, bool reshapes);

  void add_port(const std::string& name, Shape shape);
  /// From here on layers read this port.
  void read_port(std::size_t port);
  /// Shape of what the next layer reads.
  const Shape& present() const noexcept { return present_; }
  std::size_t placed() const noexcept { return placed_; }
  bool reshapes() const noexcept { return reshapes_; }

  /// @error shape_mismatch: what it reads is not what stands before it
  Status place(const Fields& fields, PlannedLayer layer);
  /// A layer that adds up two sources of the same shape.
  Status place_sum(const Fields& fields, mesh::Source a, mesh::Source b, Shape shape);
  /// A parameter of the layer placed last; `counted` in weight_bytes.
  void add_parameter(const std::string& name, std::vector<float> values, bool counted = true);
  /// Place of the layer placed last.
  Coord last() const noexcept { return Coord{0, 0, static_cast<std::uint32_t>(placed_ - 1), 0}; }

  NetworkPlan plan;
  /// Ends the network: its output is the layer placed last.
  NetworkPlan finish(std::size_t output_dim) &&;

 private:
  void note_shape(const Shape& shape);

  mesh::NetworkBuilder builder_;
  const bool reshapes_;
  std::size_t placed_ = 0;
  std::vector<mesh::PortSpec> ports_;
  Shape present_;
  mesh::Source source_;
  std::string before_;  // what gives `present_`, in words
};

}  // namespace weft::bridge::internal
