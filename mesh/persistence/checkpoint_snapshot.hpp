// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/memory/batch_copy.hpp"
#include "mesh/mesh.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/persistence/mesh_view.hpp"
#include "mesh/runtime/cell_record.hpp"
#include "mesh/runtime/halt.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_snapshot.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace weft::mesh {

/// A mesh at one tick boundary, copied, so that its file can be made while the mesh goes on. Its memory is reused by
/// the next one of the same mesh. Nothing in it refers to the mesh.
/// @thread one at a time: taken on the mesh's thread, then encoded on any
class CheckpointSnapshot {
 public:
  bool empty() const noexcept { return !plan_; }
  std::uint64_t ticks() const noexcept { return ticks_; }
  /// Sessions in it; 0 without live state.
  std::size_t sessions() const noexcept { return is_live_ ? state_->sessions() : 0; }
  /// Bytes of values and weights that it holds, and how many of them taking it had to copy.
  std::uint64_t bytes() const noexcept { return weights_.bytes() + (is_live_ ? state_->bytes() : 0); }
  std::uint64_t copied_bytes() const noexcept { return copies_.bytes(); }
  /// View of the state in it; valid until the next is taken.
  MeshView view() const;

 private:
  friend Status take_without_cell_snapshots(Mesh& mesh, bool live, CheckpointSnapshot& to);

  std::uint64_t mesh_ = 0, state_id_ = 0;
  std::shared_ptr<const MeshPlan> plan_;
  bool is_live_ = false;
  std::uint64_t ticks_ = 0, sessions_created_ = 0;
  std::optional<State> state_;
  WeightSnapshot weights_;
  BatchCopy copies_;
  std::uint64_t changes_ = 0;  // Registry::changes that cells_ was made under
  std::shared_ptr<std::vector<std::uint64_t>> cells_;
  CellRecord record_;  // of one cell after the other, while cells_ is made
  std::optional<Halt> halt_;
};

/// Copies what the mesh's file needs (entity_of), to be called between ticks, on the mesh's threads where it
/// is much; weights that have not moved since `to` was taken last are there already. With `live`, what waits in
/// mailboxes is delivered first, and the state becomes what `restart` goes back to. Allocates nothing after the first
/// snapshot of a mesh, unless types or commands changed.
/// @error too_large: no memory; the snapshot is to be thrown away
Status take_checkpoint_snapshot(Mesh& mesh, bool live, CheckpointSnapshot& to);

}  // namespace weft::mesh
