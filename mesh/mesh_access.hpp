// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/mesh.hpp"
#include "mesh/runtime/halt.hpp"
#include "mesh/runtime/run_io.hpp"

#include "actors/registry.hpp"

#include "gpu/fwd.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace weft::scheduler {
class Executor;
}

namespace weft::mesh {

class StepRule;
struct CellRecord;
struct Halt;

/// Parts of a mesh that Weft's other rooms need and its users do not: a learning rule drives it, files restore it,
/// programs report on it. Mutable access to weights or state counts as a write: a device gets all of it again.
/// @thread as Mesh
struct MeshAccess {
  /// As Mesh::build, with faults injected into the driver of its GPU: for tests. Meshes that share a GPU take the first
  /// one's.
  static Result<Mesh> build(const NetworkSpec& spec, MeshOptions options, std::shared_ptr<gpu::FaultInjection> faults);

  static WeightStore& weights(Mesh& mesh) noexcept;
  static const WeightStore& weights(const Mesh& mesh) noexcept;
  /// WeightStore::changes(), which the host counts: of a mesh on a device nothing is brought here.
  static std::uint64_t weight_changes(const Mesh& mesh) noexcept;
  static State& state(Mesh& mesh) noexcept;
  static const State& state(const Mesh& mesh) noexcept;
  static std::span<const std::unique_ptr<Cell>> cells(const Mesh& mesh) noexcept;
  static Engine& engine(Mesh& mesh) noexcept;
  static scheduler::Executor& executor(const Mesh& mesh) noexcept;
  /// Executes what waits for the cells and is due, as the next tick would: so that a checkpoint holds it.
  static void deliver_commands(Mesh& mesh) noexcept;
  /// Makes the present state the one that Policy::restart returns to.
  static void take_cell_snapshots(Mesh& mesh);
  /// The fault that halted the mesh, if one did. @thread any
  static std::optional<Halt> halt(const Mesh& mesh) noexcept;
  /// Brings the host's memory up to a device's, before it is read; `may_write`: or written.
  static void sync(const Mesh& mesh, bool may_write) noexcept;

  /// Joins a learning rule to the ticks (null: takes it off). State is rebuilt with the history the rule needs, of all
  /// nodes or (`node_depths`) of each; sessions keep their committed values.
  static Status attach(Mesh& mesh, StepRule* rule, std::size_t history_depth,
                       std::vector<std::uint32_t> node_depths = {});
  /// Takes a rule off that is attached; for destructors. Where there is no memory for a smaller state, the one with the
  /// rule's history stays, and ticks go on as without it.
  static void detach(Mesh& mesh, const StepRule* rule) noexcept;
  /// Long runs on the CPU end with `interrupted`, at a multiple of 256 steps, once `flag` is not 0; what they began is
  /// the caller's to undo (Mesh::restore_snapshot). The flag outlives the mesh.
  static void stop_by(Mesh& mesh, const std::atomic<int>* flag) noexcept;
  /// The feed of a port for the next runs; base == null: the port keeps its last value.
  static void feed(Mesh& mesh, NodeId port, const PortFeed& feed) noexcept;
  /// Runs `steps` steps of the attached rule (ticks, without one); `done` tells how many were, also after a fault.
  static Status run_steps(Mesh& mesh, std::uint64_t steps, std::uint64_t& done);
  /// Copies beside the run, over the same weights: each of `rows` starts as `session` is now (none: at zero), its
  /// inputs [rows][width] are held for `ticks` ticks; outputs [rows][width] are what it commits last. Touches no
  /// session. Takes memory of copies_at_once() rows, however many there are, on the mesh's device where that takes
  /// every cell.
  static Status evaluate_copies(const Mesh& mesh, std::optional<std::size_t> session, std::span<const RunInput> inputs,
                                std::size_t rows, std::uint64_t ticks, std::span<const RunOutput> outputs);
  /// The same, and what any layers commit last: [rows][width] of each.
  static Status evaluate_layers(const Mesh& mesh, std::optional<std::size_t> session, std::span<const RunInput> inputs,
                                std::size_t rows, std::uint64_t ticks, const std::vector<OutputSink>& sinks);
  /// True where copies run on the mesh's device: it has one, which takes every cell.
  static bool copies_on_device(const Mesh& mesh) noexcept;
  /// The device, for what else is computed there. @pre copies_on_device(mesh)
  static std::shared_ptr<gpu::Device> device(const Mesh& mesh);
  /// Mesh::forward on the device, where the rows are worth it and nothing is kept from tick to tick. False: it is the
  /// CPU's, which also tells of values that are not finite.
  static bool pass_on_device(const Mesh& mesh, std::span<const RunInput> inputs, std::size_t rows,
                             std::span<const RunOutput> outputs);
  /// Rows whose states take kCopyBytes, at least one.
  static std::size_t copies_at_once(const Mesh& mesh) noexcept;
  /// Rows that `evaluate_copies` takes the shortest way for at once; 1 where it matters which session they start from.
  static std::size_t rows_of_one_session(const Mesh& mesh, std::size_t ports_fed, std::uint64_t ticks) noexcept;
  static constexpr std::uint64_t kCopyBytes = std::uint64_t{64} << 20;

  /// Hands what is sent to addresses of the mesh to `deliver` from now on, in place of its cells; empty: it has no
  /// addresses any more. Returns when no delivery is under way by the way before.
  static void deliver_by(Mesh& mesh, AddressEntry::Deliver deliver);
  /// Nothing where a cell of the mesh would take the message. @error as Mesh::tell, but full
  /// @thread any, as long as the mesh exists
  static Status check_delivery(const Mesh& mesh, Coord to, const Message* message);
  /// As Mesh::tell and Mesh::ask (with `reply_within`), of a message that was claimed before.
  static Result<std::uint64_t> deliver(Mesh& mesh, Coord to, const MessagePointer& message,
                                       std::optional<std::uint64_t> reply_within);

  /// Puts a cell's record back, from a file. @error corrupt
  static Status restore_cell(Mesh& mesh, Cell& cell, const CellRecord& from);
  /// Sets the tick counter, when a state is put back.
  static void set_ticks(Mesh& mesh, std::uint64_t ticks) noexcept;
  /// Number of sessions that were ever added; the next one's noise is numbered by it. Saved and put back with a state.
  static std::uint64_t sessions_created(const Mesh& mesh) noexcept;
  static void set_sessions_created(Mesh& mesh, std::uint64_t created) noexcept;

 private:
  /// Runs ticks of a copy, on the device or the CPU. False: they were stopped.
  static bool run_copy(const Mesh& mesh, Engine& engine, std::uint64_t ticks);
};

}  // namespace weft::mesh
