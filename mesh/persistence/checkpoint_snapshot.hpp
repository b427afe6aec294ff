// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/memory/batch_copy.hpp"
#include "mesh/mesh.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/weights/weight_copy.hpp"

#include "core/bytes.hpp"
#include "core/state_hash.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::mesh {

/// A mesh at one tick boundary, copied, so that its file can be made while the mesh goes on. Its room is used again by
/// the next capture of the same mesh. Nothing in it refers to the mesh.
/// @thread one at a time: captured on the mesh's thread, then encoded on any
class CheckpointSnapshot {
 public:
  bool empty() const noexcept { return !plan_; }
  std::uint64_t ticks() const noexcept { return ticks_; }
  /// Sessions captured; 0 without live state.
  std::size_t sessions() const noexcept { return is_live_ ? state_->sessions() : 0; }
  /// Bytes of values and weights that it holds, and how many of them the last capture had to copy.
  std::uint64_t bytes() const noexcept { return weights_.bytes() + (is_live_ ? state_->bytes() : 0); }
  std::uint64_t copied_bytes() const noexcept { return copies_.bytes(); }
  /// Mesh::state_hash as it was, of a capture with live state; `rule` adds what a learning rule keeps for a layer.
  using LayerHash = std::function<void(NodeId, StateHasher&)>;
  Hash128 state_hash(std::size_t session = 0, const LayerHash& rule = {}) const;

 private:
  friend Status capture_without_mark(Mesh& mesh, bool live, CheckpointSnapshot& to);
  friend Result<ByteBuffer> encode_capture(const CheckpointSnapshot& capture, const SnapshotExtras& extras);
  /// What of the mesh never changes.
  struct Plan {
    struct Parameter {
      ParameterSpec spec;
      std::string blob, object;
    };
    NetworkSpec spec;
    std::vector<NodeId> layers;  // nodes of spec.layers
    std::vector<Parameter> parameters;
    std::vector<std::size_t> first;  // node -> its first parameter; one past the end at the back
    struct CellPlan {
      NodeId first = 0;
      std::uint32_t layers = 0;
      std::size_t watchers = 0;
    };
    std::vector<CellPlan> cells;
    bool has_watchers = false;
  };
  void make_plan(const Mesh& mesh);
  void copy_cells(Mesh& mesh);
  NetworkSpec spec() const;

  std::uint64_t mesh_ = 0, state_id_ = 0;
  std::shared_ptr<const Plan> plan_;
  bool is_live_ = false;
  std::uint64_t ticks_ = 0, sessions_born_ = 0;
  std::optional<State> state_;
  WeightCopy weights_;
  BatchCopy copies_;
  std::uint64_t changes_ = 0;  // Registry::changes that cells_ was made under
  std::vector<std::uint64_t> cells_;
  std::optional<Engine::Halt> halt_;
};

/// The fast half of encode_mesh: copies what the file needs, to be called between ticks, on the mesh's threads where it
/// is much; weights that have not moved since `to` captured them last are there already. With `live`, what waits in
/// mailboxes is delivered first, and the state becomes what `restart` goes back to. Allocates nothing after the first
/// capture of a mesh, but where types or orders changed.
/// @error too_large: no memory; the capture is to be thrown away
Status capture_mesh(Mesh& mesh, bool live, CheckpointSnapshot& to);
/// The slow half: the bytes of the .entity file.
/// @error not_finite: a stored weight is not finite and would not be read back; as encode_mesh
/// @thread any, while the mesh goes on
Result<ByteBuffer> encode_capture(const CheckpointSnapshot& capture, const SnapshotExtras& extras = {});

}  // namespace weft::mesh
