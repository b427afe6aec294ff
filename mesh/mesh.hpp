// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/fwd.hpp"
#include "mesh/network/network.hpp"
#include "mesh/runtime/address_book.hpp"

#include "actors/fwd.hpp"

#include "scheduler/executor_kind.hpp"

#include "topology/fwd.hpp"
#include "topology/machine.hpp"

#include "core/result.hpp"
#include "core/state_hash.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::mesh {

using ExecutorKind = scheduler::ExecutorKind;

struct MeshOptions {
  std::size_t threads = 0;   // at most, the caller included; 0: all usable cores
  std::size_t sessions = 1;  // independent states over one set of weights
  ExecutorKind executor = ExecutorKind::automatic;
  std::uint64_t executor_seed = 0;  // order of the deterministic executor
  bool pin = true;                  // keep workers on their cores
  /// One more region (thread) for so many bytes that a tick reads; 0: as many regions as threads. A region costs about
  /// 0.1 to 0.4 us a tick, the time one core reads 20 KiB from its second-level cache.
  std::uint64_t grain_bytes = 192 * 1024;
  /// Regions of a thread, at most; 0: as many as are worth it to even out unequal work and to leave cores that others
  /// use, up to 8; with two threads 4 for the executor `graph` and 1 for `automatic`. Without a grain 1, but 4 for
  /// `graph`. The executor `resident` alone has no use for them.
  std::size_t regions_each = 0;
  /// True to keep a float32 master weight although the weight does not learn. Without it a quantized weight takes its
  /// true size, and a later morph starts from the quantized values.
  bool keeps_masters = true;
  /// False to leave weights at zeros, not drawn from the seed, for a caller that restores all of them.
  bool draws_weights = true;
  /// True for one region whose operations take several threads, false for regions with a thread each. None: decided by
  /// the share of work that the largest region would have (docs/architecture.md).
  std::optional<bool> wide = std::nullopt;
  /// Of a wide mesh: multiply-adds from which on an operation is cut up; 0: each that can be.
  double wide_from = 1 << 17;  // kernels::ParallelOptions::kGrainSize
  /// Device of the ticks, with the same bits: `cpu`, or a GPU as gpu::Device::open names it (`vulkan`, `vulkan:N`,
  /// `vulkan:name`); empty: the network's. Layers that a GPU cannot run (docs/gpu.md) run on the CPU.
  std::string device = {};
  bool validates_device = false;  // under Vulkan's validation layers
  /// Timeout of a GPU that finishes nothing at all; the mesh then falls back to the CPU. 0: the default of
  /// gpu::DeviceOptions. Meshes that share a GPU take the first one's.
  std::chrono::milliseconds device_timeout{0};
  std::optional<topology::Machine> machine = std::nullopt;  // none: the running one
  /// Bytes that the mesh, and each learning rule on it, may take by estimate (mesh::estimate_memory); 0: no bound but
  /// the RAM, `ulimit -v` and the control group's limit, which are always asked before anything is allocated.
  std::uint64_t max_memory = 0;
};

/// Inputs of a run for one port: [ticks][sessions][width], row-major.
struct RunInput {
  std::string_view port;
  std::span<const float> values;
};
/// Buffer for what one output commits over a run: [ticks][sessions][width].
struct RunOutput {
  std::string_view output;
  std::span<float> values;
};

/// A network that runs: weights, sessions, cells as actors, and ticks.
///   auto mesh = Mesh::build(spec);  mesh->set_input("in", x);  mesh->tick();  auto y = mesh->output("out");
/// A value moves one link a tick: what is set now reaches a layer `latency` ticks away after as many ticks.
/// @thread one at a time; `post`, `tell`, `ask`, the registry, the activity: any, as long as the mesh exists and is not
/// moved (mesh::tell and mesh::ask by address: at any time)
/// @exact  outputs, states and weights are the same bits on every thread count, executor, ISA and session count
class Mesh {
 public:
  /// Checks the network, places it on the machine, makes weights from `spec.seed`.
  static Result<Mesh> build(const NetworkSpec& spec, MeshOptions options = {});
  /// A mesh from a file: a network file (weights from its seed), or an .entity file with its weights and, where it
  /// holds live state, all sessions as they stood, at their tick. What a learner had under way is left aside; a
  /// learner may be attached anew. @error as the readers and `build`, with the path in front
  static Result<Mesh> load(const std::string& path, MeshOptions options = {});
  Mesh(Mesh&&) noexcept;
  Mesh& operator=(Mesh&&) noexcept;
  ~Mesh();

  /// Puts `values` [width] into a port; it stays until replaced. @error unknown_name, shape_mismatch, not_finite
  Status set_input(std::string_view port, std::span<const float> values, std::size_t session = 0);
  /// Values that the output committed last. Valid until the next tick. @error unknown_name, out_of_range
  Result<std::span<const float>> output(std::string_view name, std::size_t session = 0) const;
  Result<std::span<const float>> output(Coord at, std::size_t session = 0) const;

  /// `n` ticks. A fault that halts the mesh stops it at the next multiple of 256 ticks of the call, or at its end.
  /// @error halted when a cell's fault halted the mesh: names coordinate and tick; invalid_argument: a rule drives it
  Status tick(std::uint64_t n = 1);
  /// Ticks until `budget` has passed, at least one where there is any; returns how many. Another one begins only if one
  /// as long as the last fits too, so the budget is passed by one tick at most. The clock decides how many ticks, and
  /// nothing else: n ticks are the same bits however they were counted. Allocates nothing. @error as tick
  Result<std::uint64_t> tick_for(std::chrono::nanoseconds budget);
  /// As set_input and tick, `ticks` times over, recording outputs; the same bits. Layers outside every loop may be
  /// computed for many ticks at once.
  Status run(std::span<const RunInput> inputs, std::uint64_t ticks, std::span<const RunOutput> outputs = {});
  /// One combinational pass in topological order: outputs for `rows` independent inputs, each as if held until settled.
  /// Feedback links and hidden states read zero; disabled cells compute too. Touches no session. Parts of the rows go
  /// through on all threads, in 64 MiB together whatever the number of rows, or a row a thread where one takes more.
  /// @error unknown_name, shape_mismatch, not_finite; internal when a layer threw: outputs then have some of the rows
  /// inputs [rows][width], outputs [rows][width].
  Status forward(std::span<const RunInput> inputs, std::size_t rows, std::span<const RunOutput> outputs) const;

  /// Ticks committed so far.
  std::uint64_t ticks() const noexcept;

  std::size_t sessions() const noexcept;
  /// A new session at zero state, with noise that no session of this mesh ever had; returns its index.
  Result<std::size_t> add_session();
  /// Later sessions move down by one. @error out_of_range, invalid_argument for the last one
  Status remove_session(std::size_t session);
  /// Back to zero, its inputs too; its noise begins again as it began.
  Status reset_session(std::size_t session);

  /// Copies everything that ticks change into `to`, and back: committed outputs, hidden states, inputs, what a learning
  /// rule reads of the past and has under way, cells with their supervision and commands, a halt; weights as `weights`
  /// says. Ticks after it is restored are those after it was taken, to the bit. Commands sent since answer not_found;
  /// a command that is executed a second time keeps its first answer. No allocation but by the first snapshot of a mesh
  /// into `to`, by commands that wait, and where restoring undoes a change of type.
  /// @error of restore, which then changes nothing: invalid_argument (nothing taken; no weights although they
  ///        changed since, or in another mesh), shape_mismatch (another network, number of sessions, history, rule or
  ///        placement)
  void take_snapshot(Snapshot& to);
  void take_snapshot(Snapshot& to, SnapshotWeights weights);
  Status restore_snapshot(const Snapshot& from);
  /// The same for what is one session's own: outputs, hidden states, inputs, history. Not what a learning rule has
  /// under way for it. Into any session of any mesh of the same network with as deep a history, at any tick.
  /// @error out_of_range, shape_mismatch; invalid_argument (nothing taken)
  Status take_session_snapshot(std::size_t session, SessionSnapshot& to) const;
  Status restore_session_snapshot(std::size_t session, const SessionSnapshot& from);
  /// No two meshes of a process have the same number.
  std::uint64_t number() const noexcept;
  /// mesh::network_digest, computed once.
  /// @thread one at a time
  const Hash128& network_digest() const;

  /// Sends a command to the cell at `cell` (its level is ignored), to be executed at a tick boundary.
  /// @error out_of_range, unknown_name, invalid_argument (no command), full
  /// @thread any
  Result<CommandMessage> post(Coord cell, std::shared_ptr<Command> control);

  /// The address of a cell, or of one layer of it, for senders that do not hold the mesh.
  Address address(Coord at) const noexcept { return {number(), at}; }
  /// Sends a message to the layer at `to`: a command to its cell, or mail (a target, a user's own), which an actor
  /// handles in the next tick that its cell fires. Returns the message's stamp: messages from outside are handled in
  /// the order of their stamps. The pointer tells when it was handled, and the answer.
  /// @error halted: the mesh has stopped; full: tick, then send again; unsupported: the layer handles no such message;
  ///        out_of_range, unknown_name, invalid_argument (no message)
  /// @thread any
  Result<std::uint64_t> tell(Coord to, MessagePointer message);
  /// The same, and wants an answer: `ticks` after it has arrived it is handled no more and answered timed_out; 0: it
  /// waits. The pointer given back has the answer (Message::is_done, wait_for).
  Result<MailPointer> ask(Coord to, MailPointer mail, std::uint64_t ticks = 0);

  /// XXH3-128 over committed outputs, hidden states, weights, optimiser state and tick of one session, per cell, folded
  /// in coordinate order.
  Hash128 state_hash(std::size_t session = 0) const;
  /// The part of it of the cell at position `cell` in coordinate order, without the tick: where two states differ.
  Hash128 cell_hash(std::size_t cell, std::size_t session = 0) const;

  /// Goes on after a fault halted the mesh. The cell that failed keeps its last output until it computes well again.
  void resume() noexcept;

  const Graph& graph() const noexcept;
  const NetworkSpec& spec() const noexcept;
  /// The network with the types that its layers have now.
  NetworkSpec current_spec() const;
  const topology::Plan& plan() const noexcept;
  const actors::Registry& registry() const noexcept;
  const actors::Supervisor& supervisor() const noexcept;
  /// Statistics of the GPU; null when none was requested.
  const DeviceStatistics* device_statistics() const noexcept;
  /// At which cell each region (thread) is while ticks, forward or evaluated copies run: for a watchdog, which must not
  /// outlive the mesh.
  /// @thread any
  const actors::ActivityTable& activity() const noexcept;
  const MeshOptions& options() const noexcept;
  /// Threads that operations of a wide mesh may take; 1: it is not wide.
  std::size_t width() const noexcept;

 private:
  friend struct MeshAccess;  // mesh/mesh_access.hpp
  struct Parts;
  explicit Mesh(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace weft::mesh
