// SPDX-License-Identifier: Apache-2.0

#include "mesh/mesh.hpp"

#include "mesh/internal/mesh_parts.hpp"
#include "mesh/memory/memory_estimate.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/runtime/cell_hash.hpp"
#include "mesh/runtime/fault_origins.hpp"
#include "mesh/runtime/internal/batched_run.hpp"
#include "mesh/runtime/internal/combinational.hpp"

#include "kernels/float_environment.hpp"

#include "core/size_limit.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

namespace weft::mesh {

Mesh::Mesh(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Mesh::Mesh(Mesh&&) noexcept = default;
Mesh& Mesh::operator=(Mesh&&) noexcept = default;
Mesh::~Mesh() = default;

Result<Mesh> Mesh::build(const NetworkSpec& spec, MeshOptions options) {
  return MeshAccess::build(spec, std::move(options), nullptr);
}

Result<Mesh> MeshAccess::build(const NetworkSpec& spec, MeshOptions options,
                               std::shared_ptr<gpu::FaultInjection> faults) {
  if (options.sessions == 0 || options.sessions > kMaxSessions)
    return fail(Errc::invalid_argument, "sessions: " + std::to_string(options.sessions) + " is outside [1, 65536]");
  WEFT_CHECK(check_layers_fit("network '" + spec.name + "'", spec.layers.size(), options.max_memory));
  WEFT_TRY(Graph graph, Graph::build(spec));
  std::optional<topology::Machine> machine = options.machine;
  if (!machine) {
    WEFT_TRY(machine, topology::Machine::discover());
  }
  auto parts = std::make_unique<Mesh::Parts>(std::move(graph), std::move(options), *machine);
  WEFT_CHECK(parts->place());
  WEFT_CHECK(parts->check_memory());
  WEFT_TRY(parts->weights, WeightStore::build(parts->graph, parts->layout.node_region, parts->layout.plan,
                                              parts->layout.memory, parts->options.keeps_masters));
  if (parts->options.draws_weights) parts->weights.initialize(parts->graph, spec.seed);
  WEFT_CHECK(parts->make_cells());
  WEFT_CHECK(parts->make_executor());
  WEFT_CHECK(parts->open_device(std::move(faults)));
  parts->sessions_created = parts->options.sessions;
  Mesh mesh(std::move(parts));
  WEFT_CHECK(mesh.parts_->rebuild_state({mesh.parts_->options.sessions, 2, false}, 0, std::nullopt));
  mesh.parts_->take_cell_snapshots();
  Mesh::Parts& built = *mesh.parts_;
  built.mailing.address.emplace(
      built.number, [&built](Coord to, const MessagePointer& message, std::optional<std::uint64_t> reply_within) {
        return built.tell(to, message, reply_within);
      });
  return mesh;
}

Status Mesh::set_input(std::string_view port, std::span<const float> values, std::size_t session) {
  const auto node = parts_->graph.find_port(port);
  if (!node) return fail(Errc::unknown_name, "no input is named '" + std::string(port) + "'");
  const kernels::MatrixView slot = parts_->state->output(*node, parts_->ticks);
  const std::string object = "input '" + std::string(port) + "': ";
  if (session >= slot.rows)
    return fail(Errc::out_of_range, object + "session " + std::to_string(session) + " of " + std::to_string(slot.rows));
  if (values.size() != slot.cols)
    return fail(Errc::shape_mismatch, object + std::to_string(values.size()) + " values where " +
                                          std::to_string(slot.cols) + " are expected");
  WEFT_CHECK(check_values(parts_->graph.nodes()[*node], values));
  if (parts_->device.run) {
    parts_->device.run->set_input(*node, session, values, parts_->ticks);
    return {};
  }
  std::copy(values.begin(), values.end(), slot.row(session));
  parts_->engine->buffers().feed(*node, {});
  return {};
}

Result<std::span<const float>> Mesh::output(std::string_view name, std::size_t session) const {
  for (const OutputSpec& output : spec().outputs)
    if (output.name == name) return this->output(output.at, session);
  return fail(Errc::unknown_name, "no output is named '" + std::string(name) + "'");
}

Result<std::span<const float>> Mesh::output(Coord at, std::size_t session) const {
  const auto node = parts_->graph.find_layer(at);
  if (!node) return fail(Errc::unknown_name, "no layer stands at " + to_string(at));
  const kernels::MatrixView rows = parts_->state->output(*node, parts_->ticks);
  if (session >= rows.rows)
    return fail(Errc::out_of_range, "output " + to_string(at) + ": session " + std::to_string(session) + " of " +
                                        std::to_string(rows.rows));
  if (parts_->device.run && parts_->device.run->is_ahead())
    return parts_->device.run->output(*node, session, parts_->ticks);
  return std::span<const float>(rows.row(session), rows.cols);
}

Status Mesh::tick(std::uint64_t n) {
  if (parts_->rule)
    return fail(Errc::invalid_argument, "a tick while a learning rule drives the mesh; its learner ticks it");
  std::uint64_t done = 0;
  return parts_->run_steps(n, done);
}

Result<std::uint64_t> Mesh::tick_for(std::chrono::nanoseconds budget) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now(), end = start + std::max(budget, std::chrono::nanoseconds(0));
  std::uint64_t ticks = 0;
  for (Clock::time_point now = start; now < end;) {
    const Clock::time_point before = now;
    WEFT_CHECK(tick());
    ++ticks;
    now = Clock::now();
    if (now + (now - before) > end) break;
  }
  return ticks;
}

Status Mesh::run(std::span<const RunInput> inputs, std::uint64_t ticks, std::span<const RunOutput> outputs) {
  if (parts_->rule)
    return fail(Errc::invalid_argument, "a run while a learning rule drives the mesh; its learner ticks it");
  WEFT_CHECK(parts_->halted_error());
  const std::uint64_t rows = product_or_most(ticks, sessions());
  WEFT_TRY(const auto feeds, parts_->check_inputs(inputs, rows));
  WEFT_TRY(const auto sinks, parts_->check_outputs(outputs, rows));
  if (ticks == 0) return {};
  Parts& p = *parts_;
  if (!p.device.run && internal::may_batch(p.graph, p.cells, ticks)) {
    internal::Visits visits(*p.activity, p.graph, p.cells, p.visits, p.ticks);
    if (internal::run_batched(p.graph, p.weights, *p.state, p.ticks, ticks, feeds, sinks, visits, *p.executor)) {
      p.ticks += ticks;
      if (p.device.missing) p.device.missing->host_steps += ticks;
      return {};
    }
    // A value was not finite: the ticks are done again one by one, so that supervision sees what it would have seen.
  }
  for (const auto& [node, values] : feeds) p.engine->buffers().feed(node, {values, ticks, 1});
  p.engine->buffers().set_sinks(sinks);
  std::uint64_t done = 0;
  Status ran = parts_->run_steps(ticks, done);
  p.engine->buffers().set_sinks({});
  for (const auto& [node, values] : feeds) p.engine->buffers().feed(node, {});
  return ran;
}

Status Mesh::forward(std::span<const RunInput> inputs, std::size_t rows, std::span<const RunOutput> outputs) const {
  WEFT_TRY(const auto feeds, parts_->check_inputs(inputs, rows));
  WEFT_TRY(const auto sinks, parts_->check_outputs(outputs, rows));
  if (rows == 0) return {};
  // One pass says what ticks do. Failures there are told of here.
  if (MeshAccess::pass_on_device(*this, inputs, rows, outputs)) return {};
  parts_->sync(false);
  Parts& p = *parts_;
  return internal::run_combinational(p.graph, p.weights, rows, feeds, sinks,
                                     {*p.executor, *p.activity, p.cells, p.visits, p.ticks});
}

Result<CommandMessage> Mesh::post(Coord at, std::shared_ptr<Command> control) {
  if (!spec().grid.contains(at))
    return fail(Errc::out_of_range, "cell " + to_string(at) + " is outside the grid " + to_string(spec().grid));
  if (!control) return fail(Errc::invalid_argument, "cell " + to_string(at) + ": no command to post");
  Cell* const cell = parts_->find_cell(at);
  if (!cell) return fail(Errc::unknown_name, "no layer stands in cell " + to_string(at));
  const std::string object = "cell " + to_string(at) + ": ";
  WEFT_CHECK(check_message(object, *control));
  if (!control->claim()) return sent_before(object);
  control->sender = 0;
  if (auto sent = parts_->mailing.arrivals->receive(cell->id(), control); !sent) {
    control->release();
    return fail(std::move(sent).error());
  }
  return control;
}

void Mesh::Parts::deliver_commands() noexcept {
  for (Cell* cell : mailing.observing) cell->collect_mail(ticks);
  if (!engine->commands().has_mail() && !engine->commands().has_deferred()) return;
  sync(true);
  engine->commands().deliver_all(ticks);
}

Hash128 Mesh::state_hash(std::size_t session) const {
  const Parts& p = *parts_;
  p.sync(false);
  StateHasher hasher;
  hasher.add(p.ticks);
  for (std::size_t cell = 0; cell < p.cells.size(); ++cell) hasher.add(cell_hash(cell, session));
  return hasher.digest();
}

Hash128 Mesh::cell_hash(std::size_t index, std::size_t session) const {
  const Parts& p = *parts_;
  WEFT_ASSERT(session < sessions(), "session " + std::to_string(session) + " of " + std::to_string(sessions()));
  WEFT_ASSERT(index < p.cells.size(), "cell " + std::to_string(index) + " of " + std::to_string(p.cells.size()));
  p.sync(false);
  const Cell& cell = *p.cells[index];
  CellRecord record;
  cell.record(*p.supervisor, record);
  std::function<void(NodeId, StateHasher&)> rule;
  if (RuleState* const saved = p.rule_state())
    rule = [saved](NodeId id, StateHasher& to) {
      HashArchive archive(to);
      std::as_const(*saved).visit_layer(id, archive);
    };
  return internal::hash_cell(
      record, {cell.first(), cell.layers()}, *p.state, session, p.ticks,
      [&](NodeId id, HashArchive& archive) { p.weights.visit_layer(id, archive); }, rule);
}

NetworkSpec Mesh::current_spec() const {
  NetworkSpec now = spec();
  for (LayerSpec& layer : now.layers)
    internal::set_encoding(layer, MeshAccess::weights(*this).encoding(*graph().find_layer(layer.at)));
  return now;
}

void Mesh::resume() noexcept { parts_->mailing.arrivals->halt().clear(); }

void Mesh::Parts::take_cell_snapshots() const {
  sync(false);
  for (const auto& cell : cells)
    if (supervisor->rule(cell->id()).policy == actors::Policy::restart ||
        restarts_inside(graph, cell->first(), cell->layers()))
      cell->take_snapshot(ticks);
}

std::uint64_t Mesh::ticks() const noexcept { return parts_->ticks; }
std::uint64_t Mesh::number() const noexcept { return parts_->number; }
std::size_t Mesh::sessions() const noexcept { return parts_->state->sessions(); }
const Graph& Mesh::graph() const noexcept { return parts_->graph; }
const NetworkSpec& Mesh::spec() const noexcept { return parts_->graph.spec(); }
std::size_t Mesh::width() const noexcept { return parts_->layout.width.threads; }
const topology::Plan& Mesh::plan() const noexcept { return parts_->layout.plan; }
const actors::Registry& Mesh::registry() const noexcept { return *parts_->registry; }
const actors::Supervisor& Mesh::supervisor() const noexcept { return *parts_->supervisor; }
const actors::ActivityTable& Mesh::activity() const noexcept { return *parts_->activity; }
const MeshOptions& Mesh::options() const noexcept { return parts_->options; }
const DeviceStatistics* Mesh::device_statistics() const noexcept {
  if (parts_->device.run) return &parts_->device.run->statistics();
  return parts_->device.missing ? &*parts_->device.missing : nullptr;
}

}  // namespace weft::mesh
