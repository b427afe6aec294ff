// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/error_schedule.hpp"
#include "learning/options.hpp"
#include "learning/rules/rule.hpp"

#include "mesh/network/graph.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace weft::learning {

inline constexpr std::uint32_t kNoMessage = UINT32_MAX;
inline constexpr std::uint32_t kNoRecord = UINT32_MAX;

/// Place of one message: written by the reader of a link in step s, read by its source in step s + 1.
struct MessageSlot {
  std::size_t offset = 0;  // floats from the beginning of a half
  std::size_t width = 0, stride = 0;
};

/// Work of a layer for errors from `distance` links away.
struct Hop {
  std::uint32_t distance = 0;
  std::vector<std::uint32_t> inbox;   // messages to add up, in reader order
  std::vector<std::uint32_t> outbox;  // by source position; kNoMessage: that source has no use for it
  std::uint32_t state_in = kNoMessage, state_out = kNoMessage;  // the layer's own hidden state
  bool sends = false;
  std::uint32_t record = kNoRecord;  // among the layer's activation records
  bool has_record() const noexcept { return record != kNoRecord; }
};

/// Way of a hop's error through time: it is there `age` steps after the outputs published (negative: before they do),
/// and is about what the layer published `back` ticks before them.
struct Meeting {
  std::int64_t age = 0, back = 0;
};

/// Ticks of a settled sample in which a layer fires: those in which a new input can reach it.
struct FiringWindow {
  std::uint32_t first = 0, last = UINT32_MAX;
};

struct LayerPlan {
  std::int32_t output = -1;      // index among the network's outputs
  std::int32_t traced_for = -1;  // the output whose error moves its traces (traces)
  std::vector<Hop> hops;
  std::vector<std::uint32_t> groups;  // of tied weights that it takes part in
  std::uint32_t reach = 0;            // ticks that it, or a layer tied to it, looks back
  std::uint32_t arrival = 0;          // ticks from the inputs, of an output the latency: local rules
  std::uint32_t settled = 0;          // first tick of a settled sample in which all that it reads is of the sample
  std::uint32_t delay = 0;            // steps from what it published to the first error about it, of a pipelined sample
  float step_size = 0.0f;             // of a step, over the mean square of the input and the layer's factor of the
                                      // rate; 0: it does not hang on that
  bool is_outer = false;              // a step's gradients are the outer product of one error and one input
  bool keeps_products = false;        // outer products in its gradients stay out of memory until traces take them in
  bool moves = false;                 // learning makes updates of it; one without weights counts them alone
};

/// Layers that compute with the weights of one of them: their gradients add up, and the weights move once, after the
/// last of them.
struct TiedGroup {
  mesh::NodeId owner = 0;
  std::vector<mesh::NodeId> users;  // that learn, ascending
  std::uint32_t reach = 0;          // the largest distance of a user
};

/// True where a layer's weights are one matrix that every value of the input meets once: Dense, token by token.
bool is_one_product(const mesh::Node& node) noexcept;

/// Samples of a run, and those that labels and scores are kept of.
struct RingSizes {
  std::uint64_t chunk = 0;  // at most
  std::uint64_t ring = 0;   // a power of two
};
/// @param depth  of the rule's errors, in links
RingSizes ring_sizes(const mesh::Graph& graph, const LearningOptions& options, std::uint32_t latency,
                     std::uint32_t depth) noexcept;

/// Everything about a learner that its network and options settle before the first step.
struct LearningPlan {
  std::vector<LayerPlan> layers;  // by node
  std::vector<TiedGroup> tied;
  std::vector<MessageSlot> messages;
  std::size_t message_floats = 0;             // of one half, for all learners
  std::vector<std::uint32_t> error_messages;  // dfa: by output, its error
  std::uint32_t latency = 0;                  // ticks from a sample's input to the outputs
  std::uint32_t hold = 0;                     // ticks a sample is held (settle)
  std::uint32_t depth = 0, deepest = 0;       // distances; depth is 2 at least
  History history;
  std::vector<FiringWindow> windows;  // by node; empty: all fire in each tick
  std::uint32_t travel = 0;           // steps of a settled sample after its ticks
  std::uint64_t chunk = 0;            // RingSizes
  std::uint64_t ring = 0;
  bool moves_together =
      false;  // all layers, once the norm of all gradients or traces, or the largest utility, is known

  /// @param settled  the outputs' tick is the layer's: a settled sample no longer changes
  Meeting meeting(ErrorPath path, mesh::NodeId node, const Hop& hop, bool settled) const noexcept;
  /// Step of a settled sample in which the norms of all layers are added, and then that in which the layers move
  /// (moves_together).
  std::uint64_t norm_step() const noexcept { return std::uint64_t{hold} + travel - 2; }
  std::uint64_t move_step() const noexcept { return norm_step() + 1; }
  /// The layer that adds the norms of all.
  mesh::NodeId adder() const noexcept { return static_cast<mesh::NodeId>(layers.size() - 1); }

  /// @error invalid_argument: a network without outputs, an output no input reaches, more learners than sessions
  static Result<LearningPlan> build(const mesh::Graph& graph, std::size_t sessions, const LearningOptions& options);
};

}  // namespace weft::learning
