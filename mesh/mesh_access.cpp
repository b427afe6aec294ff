// SPDX-License-Identifier: Apache-2.0

#include "mesh/mesh_access.hpp"

#include "mesh/internal/mesh_parts.hpp"
#include "mesh/memory/byte_archive.hpp"
#include "mesh/runtime/internal/activity_scope.hpp"
#include "mesh/runtime/internal/combinational.hpp"

#include "kernels/float_environment.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace weft::mesh {

WeightStore& MeshAccess::weights(Mesh& mesh) noexcept {
  mesh.parts_->sync(true);
  return mesh.parts_->weights;
}
const WeightStore& MeshAccess::weights(const Mesh& mesh) noexcept {
  mesh.parts_->sync(false);
  return mesh.parts_->weights;
}
std::uint64_t MeshAccess::weight_changes(const Mesh& mesh) noexcept { return mesh.parts_->weights.changes(); }
State& MeshAccess::state(Mesh& mesh) noexcept {
  mesh.parts_->sync(true);
  return *mesh.parts_->state;
}
const State& MeshAccess::state(const Mesh& mesh) noexcept {
  mesh.parts_->sync(false);
  return *mesh.parts_->state;
}
std::span<const std::unique_ptr<Cell>> MeshAccess::cells(const Mesh& mesh) noexcept { return mesh.parts_->cells; }
Engine& MeshAccess::engine(Mesh& mesh) noexcept { return *mesh.parts_->engine; }
scheduler::Executor& MeshAccess::executor(const Mesh& mesh) noexcept { return *mesh.parts_->executor; }
void MeshAccess::deliver_commands(Mesh& mesh) noexcept { mesh.parts_->deliver_commands(); }
void MeshAccess::take_cell_snapshots(Mesh& mesh) { mesh.parts_->take_cell_snapshots(); }
std::optional<Halt> MeshAccess::halt(const Mesh& mesh) noexcept { return mesh.parts_->mailing.arrivals->halt().get(); }
void MeshAccess::sync(const Mesh& mesh, bool may_write) noexcept { mesh.parts_->sync(may_write); }

Status MeshAccess::attach(Mesh& mesh, StepRule* rule, std::size_t history_depth,
                          std::vector<std::uint32_t> node_depths) {
  Mesh::Parts& p = *mesh.parts_;
  StepRule* const before = std::exchange(p.rule, rule);
  const auto rebuild = [&] {
    const std::size_t sessions = mesh.sessions();
    return p.rebuild_state({sessions, history_depth, rule != nullptr, std::move(node_depths)}, sessions, std::nullopt);
  };
  try {
    if (Status rebuilt = rebuild(); !rebuilt) {
      p.rule = before;
      return rebuilt;
    }
  } catch (...) {
    p.rule = before;
    throw;
  }
  p.take_cell_snapshots();
  return {};
}

void MeshAccess::detach(Mesh& mesh, const StepRule* rule) noexcept {
  Mesh::Parts& p = *mesh.parts_;
  if (p.rule != rule) return;  // it was never quite attached
  try {
    if (attach(mesh, nullptr, 2)) return;
  } catch (const std::bad_alloc&) {
  }
  p.rule = nullptr;
  p.sync(true);
  p.device.run.reset();  // what it has recorded learns
  p.engine->forget_rule();
  for (const auto& cell : p.cells) cell->bind(p.graph, p.weights, *p.state, *p.registry, nullptr);
}

void MeshAccess::stop_by(Mesh& mesh, const std::atomic<int>* flag) noexcept {
  // A device's steps are run again on the CPU where it fails, and must all come to their end.
  if (!mesh.parts_->device.recovery) mesh.parts_->engine->stop_by(flag);
}

void MeshAccess::feed(Mesh& mesh, NodeId port, const PortFeed& feed) noexcept {
  mesh.parts_->engine->buffers().feed(port, feed);
}

Status MeshAccess::run_steps(Mesh& mesh, std::uint64_t steps, std::uint64_t& done) {
  return mesh.parts_->run_steps(steps, done);
}

namespace {

constexpr std::size_t kFewRows = 8;

/// True where outputs are a function of the inputs alone once these were held for so many ticks: one pass in
/// topological order gives the same bits.
bool forgets_its_state(const Graph& graph, std::size_t ports_fed, std::uint64_t ticks) noexcept {
  const auto& nodes = graph.nodes();
  return ports_fed == graph.port_count() && ticks >= graph.settle_ticks() &&
         std::none_of(graph.edges().begin(), graph.edges().end(), [](const Edge& edge) { return edge.is_feedback; }) &&
         std::none_of(nodes.begin(), nodes.end(),
                      [](const Node& node) { return !node.is_port() && node.layer->state_size() > 0; });
}

}  // namespace

bool MeshAccess::copies_on_device(const Mesh& mesh) noexcept {
  const DeviceSide& device = mesh.parts_->device;
  return device.run && device.recovery->is_held() && device.run->statistics().host_cells == 0 &&
         device.run->statistics().why_host.empty();
}

std::shared_ptr<gpu::Device> MeshAccess::device(const Mesh& mesh) {
  return mesh.parts_->device.recovery->shared_device();
}

bool MeshAccess::pass_on_device(const Mesh& mesh, std::span<const RunInput> inputs, std::size_t rows,
                                std::span<const RunOutput> outputs) {
  const std::uint64_t ticks = mesh.graph().settle_ticks();
  if (!copies_on_device(mesh) || rows <= kFewRows || !forgets_its_state(mesh.graph(), inputs.size(), ticks))
    return false;
  const DeviceStatistics& told = mesh.parts_->device.run->statistics();
  const std::uint64_t before = told.copy_replays;
  return evaluate_copies(mesh, std::nullopt, inputs, rows, ticks, outputs) && told.copy_replays == before;
}

bool MeshAccess::run_copy(const Mesh& mesh, Engine& engine, std::uint64_t ticks) {
  Mesh::Parts& p = *mesh.parts_;
  // A few rows take less time than their copy's way to the device.
  if (engine.runner().state().sessions() <= kFewRows || !copies_on_device(mesh))
    return engine.run(*p.executor, 0, ticks) == ticks;
  // A fault of the copy is its own affair: the mesh finds out by itself.
  DeviceRecovery recovery = p.device.recovery->of_copy();
  DeviceExecutor device(recovery, engine);
  const bool is_done = device.run(*p.executor, 0, ticks) == ticks;
  device.download();
  p.device.run->count_copy(device.statistics());
  return is_done;
}

std::size_t MeshAccess::copies_at_once(const Mesh& mesh) noexcept {
  const std::uint64_t one = State::bytes_for(mesh.graph(), {1, 2, false});
  return static_cast<std::size_t>(std::max<std::uint64_t>(kCopyBytes / std::max<std::uint64_t>(one, 1), 1));
}

std::size_t MeshAccess::rows_of_one_session(const Mesh& mesh, std::size_t ports_fed, std::uint64_t ticks) noexcept {
  return forgets_its_state(mesh.graph(), ports_fed, ticks) ? kFewRows : 1;
}

Status MeshAccess::evaluate_copies(const Mesh& mesh, std::optional<std::size_t> session,
                                   std::span<const RunInput> inputs, std::size_t rows, std::uint64_t ticks,
                                   std::span<const RunOutput> outputs) {
  WEFT_TRY(const auto sinks, mesh.parts_->check_outputs(outputs, rows));
  return evaluate_layers(mesh, session, inputs, rows, ticks, sinks);
}

Status MeshAccess::evaluate_layers(const Mesh& mesh, std::optional<std::size_t> session,
                                   std::span<const RunInput> inputs, std::size_t rows, std::uint64_t ticks,
                                   const std::vector<OutputSink>& sinks) {
  if (session && *session >= mesh.sessions())
    return fail(Errc::out_of_range, "session " + std::to_string(*session) + " of " + std::to_string(mesh.sessions()));
  Mesh::Parts& p = *mesh.parts_;
  WEFT_TRY(const auto feeds, p.check_inputs(inputs, rows));
  if (rows == 0) return {};
  p.sync(false);
  // A copy's state and engine take longer to make than a row of a small mesh to compute.
  const bool is_small = rows <= kFewRows && p.layout.plan.regions.size() == 1 && mesh.width() == 1;
  if (is_small && forgets_its_state(p.graph, feeds.size(), ticks)) {
    // The copy tells of values that are not finite.
    if (internal::run_combinational(p.graph, p.weights, rows, feeds, sinks,
                                    {*p.executor, *p.activity, p.cells, p.visits, p.ticks}))
      return {};
  }
  const NodeId nodes = static_cast<NodeId>(p.graph.nodes().size());
  ByteArchive committed;
  WriteArchive out(committed, scopes::kSession);
  for (NodeId id = 0; session && id < nodes; ++id) p.state->visit_layer(id, *session, p.ticks, out);
  const auto evaluate_part = [&](std::size_t first, std::size_t count) -> Status {
    WEFT_TRY(State scratch,
             State::build(p.graph, p.layout.node_region, p.layout.plan, p.layout.memory, {count, 2, false}));
    for (std::size_t b = 0; session && b < count; ++b) {
      ReadArchive in(committed.bytes(), scopes::kSession);
      for (NodeId id = 0; id < nodes; ++id) scratch.visit_layer(id, b, 0, in);
    }
    Engine engine({.graph = p.graph,
                   .weights = p.weights,
                   .state = scratch,
                   .plan = p.layout.plan,
                   .node_region = p.layout.node_region,
                   .activity = p.activity.get()});
    engine.begin_visits(p.visits);
    p.visits += ticks;
    for (const auto& [node, values] : feeds)
      engine.buffers().feed(node, {values + first * p.graph.nodes()[node].width, 1, 1});
    engine.stop_by(p.engine->stop_flag());
    if (!run_copy(mesh, engine, ticks)) return fail(Errc::interrupted, "stopped before all outputs settled");
    for (const OutputSink& sink : sinks) {
      const kernels::MatrixView y = scratch.output(sink.node, ticks);
      for (std::size_t b = 0; b < count; ++b) std::copy_n(y.row(b), y.cols, sink.base + (first + b) * y.cols);
    }
    return {};
  };
  // A row is the same in any company.
  const std::size_t most = copies_at_once(mesh);
  for (std::size_t first = 0; first < rows; first += most)
    WEFT_CHECK(evaluate_part(first, std::min(most, rows - first)));
  return {};
}

void MeshAccess::deliver_by(Mesh& mesh, AddressEntry::Deliver deliver) {
  std::optional<AddressEntry>& address = mesh.parts_->mailing.address;
  address.reset();
  if (deliver) address.emplace(mesh.number(), std::move(deliver));
}

Status MeshAccess::check_delivery(const Mesh& mesh, Coord to, const Message* message) {
  WEFT_TRY([[maybe_unused]] const CellPlace place, mesh.parts_->check_delivery(to, message));
  return {};
}

Result<std::uint64_t> MeshAccess::deliver(Mesh& mesh, Coord to, const MessagePointer& message,
                                          std::optional<std::uint64_t> reply_within) {
  WEFT_TRY(const CellPlace place, mesh.parts_->check_delivery(to, message.get()));
  return mesh.parts_->deliver(to, place, message, reply_within);
}

Status MeshAccess::restore_cell(Mesh& mesh, Cell& cell, const CellRecord& from) {
  return cell.restore(from, *mesh.parts_->supervisor, mesh.parts_->ticks);
}
void MeshAccess::set_ticks(Mesh& mesh, std::uint64_t ticks) noexcept { mesh.parts_->ticks = ticks; }
std::uint64_t MeshAccess::sessions_created(const Mesh& mesh) noexcept { return mesh.parts_->sessions_created; }
void MeshAccess::set_sessions_created(Mesh& mesh, std::uint64_t created) noexcept {
  mesh.parts_->sessions_created = created;
}

}  // namespace weft::mesh
