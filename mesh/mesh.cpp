// SPDX-License-Identifier: Apache-2.0

#include "mesh/mesh.hpp"

#include "mesh/internal/mesh_parts.hpp"
#include "mesh/runtime/cell_hash.hpp"
#include "mesh/runtime/internal/batched_run.hpp"
#include "mesh/runtime/internal/combinational.hpp"

#include "kernels/float_environment.hpp"

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
  if (options.sessions == 0 || options.sessions > kMaxSessions)
    return fail(Errc::invalid_argument, "sessions: " + std::to_string(options.sessions) + " is outside [1, 65536]");
  WEFT_TRY(Graph graph, Graph::build(spec));
  std::optional<topology::Machine> machine = options.machine;
  if (!machine) {
    WEFT_TRY(machine, topology::Machine::discover());
  }
  auto parts = std::make_unique<Parts>(std::move(graph), std::move(options), *machine);
  WEFT_CHECK(parts->place());
  WEFT_TRY(parts->weights, WeightStore::build(parts->graph, parts->node_region, parts->plan, parts->memory,
                                              parts->options.keeps_masters));
  parts->weights.initialize(parts->graph, spec.seed);
  WEFT_CHECK(parts->make_cells());
  WEFT_CHECK(parts->make_executor());
  WEFT_CHECK(parts->open_device());
  parts->sessions_born = parts->options.sessions;
  Mesh mesh(std::move(parts));
  WEFT_CHECK(mesh.rebuild_state({mesh.parts_->options.sessions, 2, false}, 0, std::nullopt));
  mesh.mark_checkpoint();
  return mesh;
}

Status Mesh::set_input(std::string_view port, std::span<const float> values, std::size_t session) {
  const auto node = parts_->graph.find_port(port);
  if (!node) return fail(Errc::unknown_name, "no input is named '" + std::string(port) + "'");
  const kernels::Rows slot = parts_->state->output(*node, parts_->ticks);
  const std::string object = "input '" + std::string(port) + "': ";
  if (session >= slot.rows)
    return fail(Errc::out_of_range, object + "session " + std::to_string(session) + " of " + std::to_string(slot.rows));
  if (values.size() != slot.cols)
    return fail(Errc::shape_mismatch, object + std::to_string(values.size()) + " values where " +
                                          std::to_string(slot.cols) + " are expected");
  WEFT_CHECK(check_values(parts_->graph.nodes()[*node], values));
  if (parts_->device) {
    parts_->device->set_input(*node, session, values, parts_->ticks);
    return {};
  }
  std::copy(values.begin(), values.end(), slot.row(session));
  parts_->engine->feed(*node, {});
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
  const kernels::Rows rows = parts_->state->output(*node, parts_->ticks);
  if (session >= rows.rows)
    return fail(Errc::out_of_range, "output " + to_string(at) + ": session " + std::to_string(session) + " of " +
                                        std::to_string(rows.rows));
  if (parts_->device && parts_->device->is_ahead()) return parts_->device->output(*node, session, parts_->ticks);
  return std::span<const float>(rows.row(session), rows.cols);
}

Status Mesh::halted_error() const {
  const Engine::Halt* halt = parts_->engine->halt();
  if (!halt) return {};
  const std::string_view reason = halt->reason.data();
  return fail(Errc::halted, "cell " + to_string(parts_->cells[halt->cell]->at()) + " failed at tick " +
                                std::to_string(halt->tick) + " (" + std::string(name(halt->kind)) +
                                (reason.empty() ? "" : ": ") + std::string(reason) + "); the mesh stopped at tick " +
                                std::to_string(parts_->ticks) +
                                " and the cell kept its last output. Mend the cause and resume, or choose the policy "
                                "hold, restart or isolate");
}

Status Mesh::run_steps(std::uint64_t steps, std::uint64_t& done) {
  done = 0;
  WEFT_CHECK(halted_error());
  done = parts_->device ? parts_->device->run(*parts_->executor, parts_->ticks, steps)
                        : parts_->engine->run(*parts_->executor, parts_->ticks, steps);
  if (parts_->without_device) parts_->without_device->host_steps += done;
  parts_->ticks += parts_->engine->ticks_in(done);
  return halted_error();
}

Status Mesh::tick(std::uint64_t n) {
  if (parts_->hook)
    return fail(Errc::invalid_argument, "tick() while a learning rule drives the mesh; ask the rule to run");
  std::uint64_t done = 0;
  return run_steps(n, done);
}

Result<std::vector<std::pair<NodeId, const float*>>> Mesh::check_inputs(std::span<const RunInput> inputs,
                                                                        std::uint64_t rows) const {
  std::vector<std::pair<NodeId, const float*>> found;
  for (const RunInput& input : inputs) {
    const auto node = parts_->graph.find_port(input.port);
    if (!node) return fail(Errc::unknown_name, "no input is named '" + std::string(input.port) + "'");
    const std::string object = "input '" + std::string(input.port) + "': ";
    for (const auto& [other, values] : found)
      if (other == *node) return fail(Errc::duplicate_name, object + "given twice");
    const std::uint64_t wanted = rows * parts_->graph.nodes()[*node].width;
    if (input.values.size() != wanted)
      return fail(Errc::shape_mismatch, object + std::to_string(input.values.size()) + " values where " +
                                            std::to_string(wanted) + " are expected");
    WEFT_CHECK(check_values(parts_->graph.nodes()[*node], input.values));
    found.emplace_back(*node, input.values.data());
  }
  return found;
}

Result<std::vector<OutputSink>> Mesh::check_outputs(std::span<const RunOutput> outputs, std::uint64_t rows) const {
  std::vector<OutputSink> sinks;
  for (const RunOutput& output : outputs) {
    const auto node = parts_->graph.find_output(output.output);
    if (!node) return fail(Errc::unknown_name, "no output is named '" + std::string(output.output) + "'");
    const std::uint64_t wanted = rows * parts_->graph.nodes()[*node].width;
    if (output.values.size() != wanted)
      return fail(Errc::shape_mismatch, "output '" + std::string(output.output) + "': room for " +
                                            std::to_string(output.values.size()) + " values where " +
                                            std::to_string(wanted) + " are expected");
    sinks.push_back({*node, output.values.data()});
  }
  return sinks;
}

Status Mesh::run(std::span<const RunInput> inputs, std::uint64_t ticks, std::span<const RunOutput> outputs) {
  if (parts_->hook)
    return fail(Errc::invalid_argument, "run() while a learning rule drives the mesh; ask the rule to run");
  WEFT_CHECK(halted_error());
  const std::uint64_t rows = ticks * sessions();
  WEFT_TRY(const auto feeds, check_inputs(inputs, rows));
  WEFT_TRY(const auto sinks, check_outputs(outputs, rows));
  if (ticks == 0) return {};
  Parts& p = *parts_;
  if (!p.device && internal::may_batch(p.graph, p.cells, ticks)) {
    const kernels::FlushSubnormals exact;
    internal::Visits visits(*p.board, p.graph, p.cells, p.visits, p.ticks);
    if (internal::run_batched(p.graph, p.weights, *p.state, p.ticks, ticks, feeds, sinks, visits)) {
      p.ticks += ticks;
      if (p.without_device) p.without_device->host_steps += ticks;
      return {};
    }
    // A value was not finite: the ticks are done again one by one, so that supervision sees what it would have seen.
  }
  for (const auto& [node, values] : feeds) p.engine->feed(node, {values, ticks, 1});
  p.engine->set_sinks(sinks);
  std::uint64_t done = 0;
  Status ran = run_steps(ticks, done);
  p.engine->set_sinks({});
  for (const auto& [node, values] : feeds) p.engine->feed(node, {});
  return ran;
}

Status Mesh::forward(std::span<const RunInput> inputs, std::size_t rows, std::span<const RunOutput> outputs) const {
  WEFT_TRY(const auto feeds, check_inputs(inputs, rows));
  WEFT_TRY(const auto sinks, check_outputs(outputs, rows));
  if (rows == 0) return {};
  parts_->sync(false);
  const kernels::FlushSubnormals exact;
  internal::Visits visits(*parts_->board, parts_->graph, parts_->cells, parts_->visits, parts_->ticks);
  return internal::run_combinational(parts_->graph, parts_->weights, rows, feeds, sinks, visits);
}

Status Mesh::hold_copies(std::optional<std::size_t> session, std::span<const RunInput> inputs, std::size_t rows,
                         std::uint64_t ticks, std::span<const RunOutput> outputs) const {
  if (session && *session >= sessions())
    return fail(Errc::out_of_range, "session " + std::to_string(*session) + " of " + std::to_string(sessions()));
  WEFT_TRY(const auto feeds, check_inputs(inputs, rows));
  WEFT_TRY(const auto sinks, check_outputs(outputs, rows));
  if (rows == 0) return {};
  Parts& p = *parts_;
  p.sync(false);
  WEFT_TRY(State scratch, State::build(p.graph, p.node_region, p.plan, p.memory, {rows, 2, false}));
  const auto spread = [&](const kernels::Rows& from, const kernels::Rows& to) {
    for (std::size_t b = 0; b < rows && from.data; ++b) std::copy_n(from.row(*session), from.cols, to.row(b));
  };
  for (NodeId id = 0; id < p.graph.nodes().size() && session; ++id) {
    spread(p.state->output(id, p.ticks), scratch.output(id, 0));
    spread(p.state->hidden(id, p.ticks), scratch.hidden(id, 0));
  }
  const auto engine = Engine::build(p.graph, p.weights, scratch, p.plan, p.node_region, {}, nullptr, nullptr, nullptr,
                                    {}, p.board.get());
  engine->begin_visits(p.visits);
  p.visits += ticks;
  for (const auto& [node, values] : feeds) engine->feed(node, {values, 1, 1});
  engine->run(*p.executor, 0, ticks);
  for (const OutputSink& sink : sinks) {
    const kernels::Rows y = scratch.output(sink.node, ticks);
    for (std::size_t b = 0; b < rows; ++b) std::copy_n(y.row(b), y.cols, sink.base + b * y.cols);
  }
  return {};
}

Result<CommandMessage> Mesh::post(Coord at, std::shared_ptr<Command> control) {
  if (!spec().grid.contains(at))
    return fail(Errc::out_of_range, "cell " + to_string(at) + " is outside the grid " + to_string(spec().grid));
  if (!control) return fail(Errc::invalid_argument, "cell " + to_string(at) + ": no order to post");
  at.l = 0;
  const auto& cells = parts_->cells;
  const auto found =
      std::lower_bound(cells.begin(), cells.end(), at, [](const auto& c, Coord b) { return c->at() < b; });
  if (found == cells.end() || (*found)->at() != at)
    return fail(Errc::unknown_name, "no layer stands in cell " + to_string(at));
  WEFT_CHECK(parts_->engine->post((*found)->id(), control));
  return control;
}

void Mesh::deliver_orders() noexcept {
  Parts& p = *parts_;
  if (!p.engine->has_mail() && !p.engine->has_deferred()) return;
  p.sync(true);
  p.engine->deliver_all(p.ticks);
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
  Cell& cell = *p.cells[index];
  std::vector<std::uint64_t> monitors;
  for (const Watcher& watcher : cell.watchers()) {
    const auto words = watcher.words();
    monitors.insert(monitors.end(), words.begin(), words.end());
  }
  const internal::CellPart part{cell.is_enabled(), cell.period(), monitors, cell.first(), cell.layers()};
  std::function<void(NodeId, StateHasher&)> rule;
  if (p.hook) rule = [&](NodeId id, StateHasher& to) { p.hook->hash_layer(id, to); };
  return internal::hash_cell(
      part, *p.state, session, p.ticks, [&](NodeId id, HashArchive& archive) { p.weights.visit_layer(id, archive); },
      rule);
}

NetworkSpec Mesh::current_spec() const {
  NetworkSpec now = spec();
  for (LayerSpec& layer : now.layers) internal::set_encoding(layer, weights().encoding(*graph().find_layer(layer.at)));
  return now;
}

void Mesh::resume() noexcept { parts_->engine->clear_halt(); }

void Mesh::mark_checkpoint() {
  parts_->sync(false);
  for (const auto& cell : parts_->cells)
    if (parts_->supervisor->rule(cell->id()).policy == actors::Policy::restart) cell->remember(parts_->ticks);
}

Status Mesh::attach(StepHook* hook, std::size_t history_depth) {
  parts_->hook = hook;
  WEFT_CHECK(rebuild_state({sessions(), history_depth, hook != nullptr}, sessions(), std::nullopt));
  mark_checkpoint();
  return {};
}

void Mesh::restore_supervision(actors::ActorId cell, const actors::ActorView& view) noexcept {
  parts_->registry->restore(cell, view);
}
Status Mesh::restore_restarts(actors::ActorId cell, std::vector<std::uint64_t> ticks) {
  return parts_->supervisor->restore(cell, std::move(ticks));
}

std::uint64_t Mesh::ticks() const noexcept { return parts_->ticks; }
std::uint64_t Mesh::number() const noexcept { return parts_->number; }
std::uint64_t Mesh::sessions_born() const noexcept { return parts_->sessions_born; }
void Mesh::set_sessions_born(std::uint64_t born) noexcept { parts_->sessions_born = born; }
void Mesh::set_ticks(std::uint64_t ticks) noexcept { parts_->ticks = ticks; }
std::size_t Mesh::sessions() const noexcept { return parts_->state->sessions(); }
const Graph& Mesh::graph() const noexcept { return parts_->graph; }
std::size_t Mesh::width() const noexcept { return parts_->width.threads; }
const topology::Plan& Mesh::plan() const noexcept { return parts_->plan; }
const actors::Registry& Mesh::registry() const noexcept { return *parts_->registry; }
const actors::Supervisor& Mesh::supervisor() const noexcept { return *parts_->supervisor; }
const actors::ActivityBoard& Mesh::activity() const noexcept { return *parts_->board; }
const MeshOptions& Mesh::options() const noexcept { return parts_->options; }
// Who may write is taken to write: the device gets all of it again.
WeightStore& Mesh::weights() noexcept {
  parts_->sync(true);
  return parts_->weights;
}
const WeightStore& Mesh::weights() const noexcept {
  parts_->sync(false);
  return parts_->weights;
}
State& Mesh::state() noexcept {
  parts_->sync(true);
  return *parts_->state;
}
const State& Mesh::state() const noexcept {
  parts_->sync(false);
  return *parts_->state;
}
const DeviceStatistics* Mesh::device_figures() const noexcept {
  if (parts_->device) return &parts_->device->figures();
  return parts_->without_device ? &*parts_->without_device : nullptr;
}
std::span<const std::unique_ptr<Cell>> Mesh::cells() const noexcept { return parts_->cells; }
const Engine::Halt* Mesh::halt() const noexcept { return parts_->engine->halt(); }
Engine& Mesh::engine() noexcept { return *parts_->engine; }
scheduler::Executor& Mesh::executor() noexcept { return *parts_->executor; }

}  // namespace weft::mesh
