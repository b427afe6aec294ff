// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "bridge/network_plan.hpp"
#include "bridge/samples.hpp"

#include "mesh/mesh.hpp"

#include "core/result.hpp"

#include <string>
#include <vector>

namespace weft::bridge {

/// The mesh of a plan, with its weights.
/// @thread one at a time
class Model {
 public:
  /// @error as mesh::Mesh::build
  static Result<Model> build(NetworkPlan plan);

  const NetworkPlan& plan() const noexcept { return plan_; }
  /// A pass without ticks for each sample: rows of `plan().output_dim` numbers, one behind the other.
  /// @error not_finite: "output not finite (sample s, index i)"; too_large: more than 2^27 numbers
  Result<std::vector<float>> forward(const FittedSamples& samples) const;
  /// Writes the mesh as an .entity file, and makes the directories above it. The file appears whole or not at all;
  /// signals that end the program wait as long. @error storage
  Status save(const std::string& path);

 private:
  Model(NetworkPlan plan, mesh::Mesh mesh) : plan_(std::move(plan)), mesh_(std::move(mesh)) {}
  NetworkPlan plan_;
  mesh::Mesh mesh_;
};

}  // namespace weft::bridge
