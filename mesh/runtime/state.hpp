// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/memory/batch_copy.hpp"
#include "mesh/network/graph.hpp"

#include "kernels/views.hpp"

#include "topology/node_memory.hpp"
#include "topology/plan.hpp"

#include "core/archive.hpp"
#include "core/state_hash.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::mesh {

/// A value that changes once a tick, with the last `depth` of its ticks kept. Slot t % depth holds what was
/// committed at tick t. Depth 2 is the double buffer: one slot is read while the other is written, and committing moves
/// no bytes. A tick of all the rings of a region lies side by side, so that saving one is one copy.
struct Ring {
  float* base = nullptr;
  std::size_t slot = 0;    // floats from one tick to the next
  std::size_t stride = 0;  // floats from one row (session) to the next
  std::size_t width = 0;
  std::uint64_t mask = 1;  // depth - 1
};

/// The live state of B sessions over one network: outputs, hidden states, and, while learning, the history that targets
/// and gradients are paired with. Rows are sessions; no row reads another.
/// @thread a layer's rings are written by the region that owns it
class State {
 public:
  struct Options {
    std::size_t sessions = 1;
    std::size_t depth = 2;       // ticks kept, a power of two; more than 2 only for learning
    bool keeps_history = false;  // whether inputs, pre-activations and caches of past ticks are kept too
    /// Ticks kept of each node, powers of two from 2 to `depth`; empty: `depth` of all.
    std::vector<std::uint32_t> node_depths = {};
    std::size_t depth_of(NodeId node) const noexcept { return node_depths.empty() ? depth : node_depths[node]; }
    bool operator==(const Options&) const = default;
  };
  static Result<State> build(const Graph& graph, const std::vector<std::uint32_t>& node_region,
                             const topology::Plan& plan, topology::NodeMemory& memory, Options options);
  /// Bytes that `build` would allocate, page rounding left aside; UINT64_MAX: more than can be counted.
  static std::uint64_t bytes_for(const Graph& graph, const Options& options) noexcept;

  std::size_t sessions() const noexcept { return options_.sessions; }
  std::size_t depth() const noexcept { return options_.depth; }
  const Options& options() const noexcept { return options_; }

  /// Output of a node at `tick`. [sessions, width]
  kernels::MatrixView output(NodeId node, std::uint64_t tick) const noexcept { return at(rings_[node].output, tick); }
  /// The combined input that made output(node, tick); data == null when the source is read directly.
  kernels::MatrixView input(NodeId node, std::uint64_t tick) const noexcept { return at(rings_[node].input, tick); }
  kernels::MatrixView preactivation(NodeId node, std::uint64_t tick) const noexcept {
    return at(rings_[node].preactivation, tick);
  }
  kernels::MatrixView cache(NodeId node, std::uint64_t tick) const noexcept { return at(rings_[node].cache, tick); }
  kernels::MatrixView hidden(NodeId node, std::uint64_t tick) const noexcept { return at(rings_[node].hidden, tick); }

  /// Initial state: zero.
  void reset() noexcept;
  /// One session's rows to zero, all ticks; the numbers of its noise streams at `tick` stay.
  void reset_session(std::size_t session, std::uint64_t tick) noexcept;
  /// Gives a session that never drew the noise streams of that number, 1 to 2^48 - 1.
  void set_streams(std::size_t session, std::uint64_t tick, std::uint64_t number) noexcept;
  /// Gives the noise whose place is at `noise` (kernels::kNoiseState floats of a hidden state) the stream `number`.
  static void number_stream(float* noise, std::uint64_t number) noexcept;
  /// The numbers of a layer's noise streams from one tick to another.
  void copy_streams(NodeId node, std::size_t session, std::uint64_t from, std::uint64_t to) noexcept;
  /// Values of a layer or port in one session, as they were published at `tick`.
  template <class Archive>
  void visit_layer(NodeId node, std::size_t session, std::uint64_t tick, Archive& archive) const {
    for (const RingField& field : kRings) visit_row(field, node, session, tick, field.scope, archive);
  }
  /// All of one session, node by node, oldest tick first, so that it may go on in another mesh at another tick.
  template <class Archive>
  void visit_session(std::size_t session, std::uint64_t tick, Archive& archive) const {
    for (NodeId node = 0; node < rings_.size(); ++node)
      for (const RingField& field : kRings)
        for (std::size_t back = options_.depth_of(node); back-- > 0;)
          visit_row(field, node, session, tick - back, back == 0 ? field.scope : Scope::history, archive);
  }
  /// The same of a file whose history is `depth` ticks of every node: `archive.skip` passes over what is not kept here.
  template <class Archive>
  void visit_session_of(std::size_t depth, std::size_t session, std::uint64_t tick, Archive& archive) const {
    for (NodeId node = 0; node < rings_.size(); ++node)
      for (const RingField& field : kRings)
        for (std::size_t back = depth; back-- > 0;)
          if (back < options_.depth_of(node))
            visit_row(field, node, session, tick - back, back == 0 ? field.scope : Scope::history, archive);
          else
            archive.skip((rings_[node].*field.ring).width);
  }
  /// Bytes of one session in `visit_session`, and in `visit_session_of` such a file.
  std::size_t session_bytes() const noexcept { return session_bytes_of(options_.node_depths, options_.depth); }
  std::size_t session_bytes_of(const std::vector<std::uint32_t>& node_depths, std::size_t depth) const noexcept;
  /// Copies the values that both keep of a session, `ticks` of them back from `tick`, out of a state of the same
  /// network.
  void copy_session(const State& from, std::size_t from_session, std::size_t to_session, std::uint64_t tick,
                    std::size_t ticks) noexcept;
  /// The first value of a session's, counted as `visit_session` goes, that neighbours could read (outputs, hidden
  /// states) and that is not finite. What only backward reads may be infinite: tanh of an infinite pre-activation is 1.
  std::optional<std::size_t> first_not_finite(std::size_t session, std::uint64_t tick) const noexcept;
  std::uint64_t bytes() const noexcept;
  /// Its memory: tick after tick of the rings, and of each region by region, outputs and hidden states first.
  template <class Visit>
  void each_slot(Visit&& visit) const {
    for (std::size_t slot = 0; slot < options_.depth; ++slot)
      for (const bool is_live : {true, false})
        for (const Block& block : blocks_) {
          const auto* const data = reinterpret_cast<const float*>(block.buffer.data());
          const std::size_t floats = is_live ? block.live : block.scratch;
          if (slot < block.depth)
            visit(data + (is_live ? 0 : block.depth * block.live) + slot * floats, floats * sizeof(float));
        }
  }

  /// Bytes that ticks from `tick` on can tell from others: outputs and hidden states as committed; with history, all.
  std::size_t live_bytes() const noexcept;
  /// Copies them out and in, region by region, or, with `copies`, notes what to copy: for states of one layout.
  void take_live(std::uint64_t tick, std::byte* out, BatchCopy* copies) const;
  void restore_live(std::uint64_t tick, const std::byte* in, BatchCopy* copies);
  /// Digest of the memory layout: states over one network with equal layouts restore each other's snapshots.
  const Hash128& layout() const noexcept { return layout_; }
  /// Another one of the same layout, zeroed, and the copies of all bytes of another.
  Result<State> make_copy() const;
  void copy_from(const State& copy, BatchCopy& copies);
  /// No two states that were built have the same number.
  std::uint64_t id() const noexcept { return id_; }
  /// The same for rows of one session, in an order that does not depend on the layout: floats of what ticks can tell,
  /// rows rounded up to cache lines, and their copy out and in.
  std::size_t live_session_size() const noexcept { return live_session_size_; }
  void take_live_session(std::size_t session, std::uint64_t tick, float* out) const noexcept;
  void restore_live_session(std::size_t session, std::uint64_t tick, const float* in) noexcept;

 private:
  struct Rings {
    Ring output, input, preactivation, cache, hidden;
  };
  /// One kind of ring: all that is ever done with rings is done with the rows of this table.
  struct RingField {
    std::string_view name;
    Ring Rings::*ring;
    Scope scope;                                                     // committed: other layers read it too
    std::size_t (*width)(const Node& node, const Options& options);  // 0: the node has none
  };
  static const std::array<RingField, 5> kRings;
  kernels::MatrixView at(const Ring& ring, std::uint64_t tick) const noexcept {
    return {ring.base ? ring.base + (tick & ring.mask) * ring.slot : nullptr, options_.sessions, ring.width,
            ring.stride};
  }
  template <class Archive>
  void visit_row(const RingField& field, NodeId node, std::size_t session, std::uint64_t tick, Scope scope,
                 Archive& archive) const {
    const kernels::MatrixView rows = at(rings_[node].*field.ring, tick);
    if (rows.data) archive(Field{field.name, scope, node}, std::span<float>(rows.row(session), rows.cols));
  }
  template <class Visit>
  void each_live_block(std::uint64_t tick, Visit&& visit) const noexcept;

  /// Rows of one session that stand evenly apart, one a ring: copied by one call. Rows that touch are one.
  struct Extent {
    float* base = nullptr;    // of session 0, slot 0
    std::size_t slot = 0;     // floats from one tick to the next
    std::size_t step = 0;     // floats from one row to the next
    std::size_t session = 0;  // floats from one session to the next
    std::size_t floats = 0;   // of a row
    std::size_t rows = 0;
    std::uint64_t mask = 1;  // depth - 1
  };
  std::vector<Extent> extents(Scope scope, const std::vector<std::uint32_t>& node_block) const;
  template <class Visit>
  void each_extent(std::size_t session, std::uint64_t tick, Visit&& visit) const noexcept;

  Options options_;
  std::vector<Rings> rings_;
  std::vector<Extent> live_extents_, other_extents_;  // what a tick reads, and what learning reads of the past
  std::size_t live_session_size_ = 0;
  std::vector<std::pair<NodeId, std::size_t>>
      noise_;  // by node: where in its hidden state a noise stream's place stands
  /// A region's rings of one depth: that many slots of outputs and hidden states, then as many of what else a firing
  /// leaves.
  struct Block {
    topology::NodeBuffer buffer;
    std::size_t live = 0, scratch = 0;  // floats of a slot
    std::size_t depth = 2;
  };
  std::vector<Block> blocks_;
  topology::NodeMemory* memory_ = nullptr;
  std::uint64_t id_ = 0;
  Hash128 layout_;
};

/// The operand from which a layer made output(node, tick): its one source, or its sources combined.
inline kernels::ConstMatrixView input_at(const Graph& graph, const State& state, NodeId node,
                                         std::uint64_t tick) noexcept {
  const Node& made = graph.nodes()[node];
  if (!made.reads_directly()) return state.input(node, tick);
  return state.output(graph.edges()[made.sources[0]].from, tick - 1);
}

}  // namespace weft::mesh
