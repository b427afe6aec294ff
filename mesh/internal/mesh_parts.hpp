// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_executor.hpp"
#include "mesh/memory/batch_copy.hpp"
#include "mesh/mesh.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/persistence/snapshot.hpp"
#include "mesh/runtime/address_book.hpp"
#include "mesh/runtime/arrivals.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/engine.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace weft::mesh {

inline constexpr std::size_t kMaxSessions = 65536;

/// Division of a network among a machine's threads.
struct MeshLayout {
  topology::Machine machine;
  topology::Plan plan;
  std::vector<std::uint32_t> node_region;
  Width width;
  topology::NodeMemory memory;
};

/// A mesh's GPU.
struct DeviceSide {
  std::unique_ptr<DeviceRecovery> recovery;  // null: everything runs on the CPU
  std::unique_ptr<DeviceExecutor> run;       // of the mesh's engine, where there is a GPU
  std::optional<DeviceStatistics> missing;   // where a GPU was asked for and there is none
};

/// Cells that act on others, and the way to a mesh's cells for senders that do not hold it.
struct MailSide {
  std::unique_ptr<Arrivals> arrivals;            // all that senders on other threads reach
  std::vector<Cell*> observing;                  // cells with observers
  std::vector<std::pair<NodeId, NodeId>> links;  // that mail takes
  std::optional<AddressEntry> address;           // once the mesh is built
};

/// Parts of a mesh.
struct Mesh::Parts {
  Graph graph;
  MeshOptions options;
  MeshLayout layout;
  WeightStore weights;
  std::unique_ptr<State> state;
  std::vector<std::unique_ptr<Cell>> cells;
  std::unique_ptr<actors::Registry> registry;
  std::unique_ptr<actors::Supervisor> supervisor;
  std::unique_ptr<actors::ActivityTable> activity;  // by region
  MailSide mailing;                                 // before the engine, which needs its arrivals
  std::uint64_t visits = 0;                         // told on it outside `engine`
  std::unique_ptr<scheduler::Executor> executor;
  StepRule* rule = nullptr;
  std::unique_ptr<Engine> engine;
  DeviceSide device;
  std::uint64_t ticks = 0;
  std::uint64_t sessions_created = 0;  // ever, those that were removed too
  std::uint64_t number = 0;            // no two meshes have the same
  std::optional<Hash128> digest;       // of the network, once asked for
  BatchCopy copies;                    // of a state in memory, used again

  Parts(Graph g, MeshOptions o, topology::Machine m);
  /// Answers messages that wait: the mesh has ended.
  ~Parts();

  Status place();
  /// Before anything large is allocated.
  Status check_memory() const;
  bool should_be_wide(const topology::Plan& cut) const noexcept;
  std::size_t regions_each(std::uint64_t bytes, std::size_t threads) const noexcept;
  void keep_tied_together(std::vector<std::uint32_t>& vertex_of,
                          std::vector<topology::Workload::Vertex>& vertices) const;
  Status make_cells();
  Status make_observers();
  CellPlace place_of(NodeId node) const noexcept;
  /// The cell at a place, whatever its level; null: none.
  Cell* find_cell(Coord at) const noexcept;
  /// The place of a layer that would take the message. @thread any
  Result<CellPlace> check_delivery(Coord to, const Message* message) const;
  /// A claimed message into a mailbox. With `reply_within` it is a mail, and a question with so many ticks to its
  /// deadline; 0: none. @error full @thread any
  Result<std::uint64_t> deliver(Coord to, const CellPlace& place, MessagePointer message,
                                std::optional<std::uint64_t> reply_within);
  /// Both. @thread any
  Result<std::uint64_t> tell(Coord to, const MessagePointer& message, std::optional<std::uint64_t> reply_within);
  /// Commands that observers may have under way to cells, by Node::cell.
  std::map<std::size_t, std::size_t> count_commands() const;
  /// Layers that move towards targets, and who reads whose mail; by the node that sends.
  void link_mail(const std::map<NodeId, MadeObserver>& senders);
  Status make_executor();
  void make_engine();
  Status open_device(std::shared_ptr<gpu::FaultInjection> faults);
  Status rebuild_state(State::Options wanted, std::size_t keep_sessions, std::optional<std::size_t> removed);
  Status halted_error() const;
  Status run_steps(std::uint64_t steps, std::uint64_t& done);
  /// Nodes and values of a run's inputs, and of its outputs, once they are found to fit.
  Result<std::vector<std::pair<NodeId, const float*>>> check_inputs(std::span<const RunInput> inputs,
                                                                    std::uint64_t values_per_width) const;
  Result<std::vector<OutputSink>> check_outputs(std::span<const RunOutput> outputs,
                                                std::uint64_t values_per_width) const;
  RuleState* rule_state() const noexcept { return rule ? rule->saved() : nullptr; }
  const Hash128& network_digest();
  void deliver_commands() noexcept;
  void take_cell_snapshots() const;
  void take_cells(Snapshot& to) const;
  Status check_fits(const Snapshot& from);
  void restore_cells(const Snapshot& from);
  /// Brings the host's state and weights up to the device's, before somebody reads them; `may_write`: or writes.
  void sync(bool may_write) const noexcept {
    if (!device.run || device.run->is_running()) return;
    device.run->download();
    if (may_write) device.run->note_host_change();
  }
  /// Empties the list, and reserves capacity for all that a state of so many bytes, and weights, come to. Null where
  /// the state itself is copied at once, being too small to be shared.
  BatchCopy* begin_copies(std::size_t state_bytes, bool with_weights) {
    const bool is_shared = state_bytes >= BatchCopy::kShared;
    copies.clear();
    if (is_shared || with_weights) copies.reserve(layout.plan.regions.size() + 2 * weights.parameters().size());
    return is_shared ? &copies : nullptr;
  }
  /// True when ticks may change weights although nothing learns.
  bool may_change_weights() const noexcept;
};

}  // namespace weft::mesh
