// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/internal/decoding_pass.hpp"

#include "mesh/device/device_program.hpp"
#include "mesh/mesh.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace weft::models::internal {

/// Passes of a batch on the mesh's device, which holds the weights, the states of all sequences and all that lies
/// between. Ids go there, and logits come back, or the features of a pass without them.
/// @exact  the CPU's bits
/// @thread one at a time
class DecodingDevice {
 public:
  /// Nothing where the mesh has no device that takes every layer, a state is no TokenwiseState, or
  /// logits cannot be made apart (DecodingPass::splits_head). `passes` and
  /// `states` stay where they are. @error of a device, memory that it has not among them
  static Result<std::optional<DecodingDevice>> make(const mesh::Mesh& mesh, std::span<DecodingPass> passes,
                                                    SequenceStates& states, std::size_t sequences);

  /// Runs pass `pass` of those, whose ids, or for the head its input, are on the host.
  Status run(std::size_t pass, const DecodingPass::Memory& memory, DecodingPass::Layers layers);
  /// SequenceStates::cut there.
  Status cut(std::size_t sequence, std::size_t tokens);
  /// Brings a sequence's states to the host, and those of the host there.
  Status download(std::size_t sequence);
  Status upload(std::size_t sequence);

 private:
  DecodingDevice(const mesh::Mesh& mesh, std::span<DecodingPass> passes, SequenceStates& states,
                 mesh::DeviceProgram program)
      : mesh_(&mesh), passes_(passes), states_(&states), program_(std::move(program)) {}

  const mesh::Mesh* mesh_;
  std::span<DecodingPass> passes_;
  SequenceStates* states_;
  mesh::DeviceProgram program_;
};

}  // namespace weft::models::internal
