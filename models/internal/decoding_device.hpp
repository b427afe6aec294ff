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
/// between. Ids go there, and logits come back.
/// @exact  the CPU's bits
/// @thread one at a time
class DecodingDevice {
 public:
  /// Nothing where the mesh has no device that takes every layer, a state is no TokenwiseState, or
  /// logits cannot be made apart (DecodingPass::splits_head). `passes` and
  /// `states` stay where they are. @error of a device, memory that it has not among them
  static Result<std::optional<DecodingDevice>> make(const mesh::Mesh& mesh, std::span<DecodingPass> passes,
                                                    SequenceStates& states, std::size_t sequences);

  /// Runs pass `pass` of those, whose ids are on the host. Nothing is waited for.
  Status run(std::size_t pass, const DecodingPass::Memory& memory, DecodingPass::Layers layers);
  /// Makes the logits of row 0 of pass `pass` from the features of token `token` of row 0 of pass `from`.
  Status run_head(std::size_t pass, std::size_t from, std::size_t token);
  /// Brings logits of rows of a pass to the host, or features of a token of its row 0: all that was run is done.
  Status download_logits(std::size_t pass, std::size_t row, std::size_t rows);
  Status download_features(std::size_t pass, std::size_t token);
  /// SequenceStates::cut there, and on the host.
  Status cut(std::size_t sequence, std::size_t tokens);
  /// Brings to the host what tokens `first` to `first` + `tokens` left of a sequence, and the counts of tokens, or
  /// there what the host has of them.
  Status download(std::size_t sequence, std::size_t first, std::size_t tokens);
  Status upload(std::size_t sequence, std::size_t first, std::size_t tokens);
  mesh::DeviceProgram::Work take_work() noexcept { return program_.take_work(); }

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
