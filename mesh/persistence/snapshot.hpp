// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/memory/byte_archive.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/halt.hpp"
#include "mesh/runtime/observer.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_copy.hpp"

#include "actors/registry.hpp"

#include "core/aligned_buffer.hpp"
#include "core/state_hash.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace weft::mesh {

/// Choice of weights in a snapshot: `automatic` saves them when a learning rule is attached, an observer may morph
/// some, or a command that changes some waits. `never` leaves weights and optimiser as they are when it is loaded.
enum class SaveWeights : int { automatic, always, never };

/// A mesh at one moment, in memory: what Mesh::save_state fills and Mesh::load_state goes back to. Its room is used
/// again by the next save, so a ring of them serves a game's rollback without allocating.
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
  /// A cell without its layers' values.
  struct CellCopy {
    bool is_enabled = true, is_reset_pending = false, is_marked = false;
    std::uint64_t period = 1;
    actors::ActorView view;
    std::vector<std::uint64_t> restarts;
    std::vector<CommandMessage> deferred;
    std::shared_ptr<Cell::Memory> memory;
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
  std::vector<CellCopy> cells_;
  std::vector<std::array<std::uint64_t, Observer::kWords>> observers_;
  std::optional<Halt> halt_;
  SaveWeights wanted_ = SaveWeights::automatic;
  bool holds_weights_ = false;
  WeightCopy weights_;                // without weights: their versions
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
