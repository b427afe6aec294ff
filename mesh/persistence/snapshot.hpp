// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/memory/byte_archive.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/cell_record.hpp"
#include "mesh/runtime/halt.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_snapshot.hpp"

#include "core/aligned_buffer.hpp"
#include "core/state_hash.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace weft::mesh {

/// Weights of a snapshot: with `automatic` it has them when a learning rule is attached, an observer may morph some, or
/// a command that changes some waits. `never` leaves them, and the optimizer, as they are when it is restored.
enum class SnapshotWeights : int { automatic, always, never };

/// A mesh at one moment, in memory: Mesh::take_snapshot fills it, Mesh::restore_snapshot goes back to it. Its memory is
/// used again by the next one, so a ring of them serves a game's rollback without allocating.
/// @thread one at a time
class Snapshot {
 public:
  bool empty() const noexcept { return state_id_ == 0; }
  /// The tick that it stands at.
  std::uint64_t ticks() const noexcept { return ticks_; }
  bool holds_weights() const noexcept { return holds_weights_; }
  /// Bytes of values, weights and the rule's own that it holds.
  std::size_t bytes() const noexcept { return live_size_ + (holds_weights_ ? weights_.bytes() : 0) + rule_.size(); }

 private:
  friend class Mesh;
  struct CellPart {
    CellRecord record;
    std::shared_ptr<Cell::Snapshot> snapshot;  // for its restart
  };

  // Whose it is: a load looks at the numbers first, and at what they stand for when they differ.
  std::uint64_t mesh_id_ = 0, state_id_ = 0;
  Hash128 network_;
  State::Options options_;
  Hash128 layout_;
  bool has_rule_ = false;

  std::uint64_t ticks_ = 0, sessions_created_ = 0;
  std::size_t live_size_ = 0;
  AlignedBuffer<std::byte> live_;
  std::uint64_t changes_ = 0;  // Registry::changes
  std::vector<CellPart> cells_;
  std::optional<Halt> halt_;
  SnapshotWeights wanted_ = SnapshotWeights::automatic;
  bool holds_weights_ = false;
  WeightSnapshot weights_;            // without weights: their versions
  std::uint64_t weight_changes_ = 0;  // WeightStore::changes
  ByteArchive rule_;
};

/// One session of a mesh at one moment: outputs, hidden states, inputs, and, while learning, their history.
class SessionSnapshot {
 public:
  bool empty() const noexcept { return size_ == 0; }
  /// Bytes that it holds, rows rounded up to cache lines.
  std::size_t bytes() const noexcept { return size_ * sizeof(float); }

 private:
  friend class Mesh;
  Hash128 network_;
  std::size_t depth_ = 0;
  bool keeps_history_ = false;
  std::size_t size_ = 0;
  AlignedBuffer<float> values_;
};

}  // namespace weft::mesh
