// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/engine.hpp"

#include "mesh/device/graph_recorder.hpp"
#include "mesh/network/source_combine.hpp"

#include "kernels/statistics.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <numeric>
#include <set>

namespace weft::mesh {

using kernels::ConstRows;
using kernels::Rows;

namespace {
constexpr std::size_t kPrefetchLines = 128;
constexpr std::size_t kLine = 16;  // floats
}  // namespace

std::unique_ptr<Engine> Engine::build(const Graph& graph, WeightStore& weights, State& state,
                                      const topology::Plan& plan, const std::vector<std::uint32_t>& node_region,
                                      std::span<const std::unique_ptr<Cell>> cells, actors::Supervisor* supervisor,
                                      actors::Registry* registry, StepHook* hook, const Width& width,
                                      actors::ActivityBoard* board) {
  std::unique_ptr<Engine> engine(new Engine(graph, weights, state));
  engine->node_region_ = node_region;
  engine->cells_ = cells;
  engine->supervisor_ = supervisor;
  engine->registry_ = registry;
  engine->hook_ = hook;
  engine->board_ = board;
  engine->feeds_.resize(graph.port_count());
  engine->streams_.resize(plan.regions.size());
  if (plan.regions.size() == 1) engine->width_ = width;
  engine->workspace_stride_ = (graph.workspace_size() + kLine - 1) / kLine * kLine;
  for (std::size_t r = 0; r < plan.regions.size(); ++r)
    engine->workspaces_.emplace_back(engine->workspace_stride_ * engine->width_.threads);
  engine->late_.resize(plan.regions.size());
  engine->make_units();
  engine->make_regions(plan);
  return engine;
}

void Engine::make_units() {
  for (NodeId id = 0; id < graph_.nodes().size(); ++id) {
    const Node& node = graph_.nodes()[id];
    Unit unit;
    if (!node.is_port()) {
      unit.layer = node.layer.get();
      unit.weights = weights_.view(id);
      unit.has_weights = !node.layer->parameters().empty();
      unit.reads_directly = node.reads_directly();
      unit.trains_otherwise = node.layer->trains_otherwise();
      // A matrix is better read by halves than twice: its products are cut up by outputs.
      // Noise may be numbered by rows (gumbel.hpp), so its layers see them all.
      unit.fires_by_sessions =
          width_.threads > 1 && node.layer->mixing_matrix() < 0 && node.layer->noise_states().empty();
      unit.work = node.layer->multiply_adds();
      unit.direct = graph_.edges()[node.sources[0]].from;
    }
    units_.push_back(unit);
  }
  for (NodeId id = 0; id < graph_.nodes().size(); ++id)
    for (const NodeId owner : graph_.nodes()[id].owners) units_[id].learns_late = units_[owner].learns_late = true;
  for (NodeId id = 0; id < units_.size(); ++id)
    if (units_[id].learns_late) late_[node_region_[id]].push_back(id);
}

void Engine::make_regions(const topology::Plan& plan) {
  const std::size_t count = plan.regions.size();
  regions_ = std::vector<Region>(count);
  link_regions(count);
  for (std::size_t r = 0; r < count; ++r) regions_[r].core = plan.regions[r].assignment.core;
  look_for_orders();  // cells may hold some from before this engine was made

  const auto is_interior = [&](const Part& part) {
    for (NodeId id = part.first; id < part.first + std::max(part.layers, 1u); ++id) {
      const Node& node = graph_.nodes()[id];
      const auto is_elsewhere = [&](NodeId other) { return node_region_[other] != node_region_[id]; };
      for (std::uint32_t e : node.sources)
        if (is_elsewhere(graph_.edges()[e].from)) return false;
      for (std::uint32_t e : node.readers)
        if (is_elsewhere(graph_.edges()[e].to)) return false;
    }
    return true;
  };
  // A learning rule may read across links that the network does not have, so its cells all wait for the neighbours.
  const bool may_run_early = hook_ == nullptr || hook_->extra_links().empty();
  const auto add = [&](const Part& part) {
    Region& region = regions_[node_region_[part.first]];
    (may_run_early && is_interior(part) ? region.interior : region.boundary).push_back(part);
  };
  for (NodeId port = 0; port < graph_.port_count(); ++port) add({UINT32_MAX, port, 0});
  node_cell_.assign(graph_.port_count(), UINT32_MAX);
  std::uint32_t next_cell = 0;
  for (NodeId id = static_cast<NodeId>(graph_.port_count()); id < graph_.nodes().size();) {
    Part part{next_cell++, id, 0};
    const std::size_t cell = graph_.nodes()[id].cell;
    for (; id < graph_.nodes().size() && graph_.nodes()[id].cell == cell; ++id) ++part.layers;
    node_cell_.resize(id, part.cell);
    cell_region_.push_back(node_region_[part.first]);
    add(part);
  }
  for (Region& region : regions_) {
    make_course(region.interior, region.interior_course);
    make_course(region.boundary, region.boundary_course);
  }
}

void Engine::link_regions(std::size_t count) {
  std::vector<std::set<std::uint32_t>> sets(count);
  const auto link = [&](NodeId a, NodeId b) {
    const std::uint32_t from = node_region_[a], to = node_region_[b];
    if (from == to) return;
    sets[from].insert(to);
    sets[to].insert(from);
  };
  for (const Edge& edge : graph_.edges()) link(edge.from, edge.to);
  if (hook_)
    for (const auto& [a, b] : hook_->extra_links()) link(a, b);
  for (std::size_t r = 0; r < count; ++r) regions_[r].neighbours.assign(sets[r].begin(), sets[r].end());
}

void Engine::set_sinks(std::vector<OutputSink> sinks) {
  for (Unit& unit : units_) unit.sinks = 0;
  sinks_ = std::move(sinks);
  std::stable_sort(sinks_.begin(), sinks_.end(), [](const auto& a, const auto& b) { return a.node < b.node; });
  for (std::uint32_t i = 0; i < sinks_.size(); ++i) {
    Unit& unit = units_[sinks_[i].node];
    if (unit.sinks++ == 0) unit.first_sink = i;
  }
}

std::uint64_t Engine::run(scheduler::Executor& executor, std::uint64_t tick, std::uint64_t steps,
                          std::uint64_t first) noexcept {
  base_tick_ = tick;
  for (NodeId port = 0; port < feeds_.size() && first == 0; ++port) feed_first_tick(port);
  is_running_ = true;
  std::uint64_t done = 0;
  do {
    first_step_ = first + done;
    // The executor counts blocks from where it begins.
    const std::uint64_t past = first_step_ % block();
    const std::uint64_t ran = executor.run(*this, past ? std::min(block() - past, steps - done) : steps - done);
    done += ran;
    serial_ += ran;
  } while (done < steps && !halt());
  first_step_ = 0;
  is_running_ = false;
  return done;
}

// The slot that a run's first tick reads; later ones are written by the port as the run goes.
void Engine::feed_first_tick(NodeId port) noexcept {
  const PortFeed& feed = feeds_[port];
  const Rows slot = state_.output(port, base_tick_);
  for (std::size_t b = 0; b < slot.rows && feed.base; ++b)
    std::copy_n(feed.base + b * slot.cols, slot.cols, slot.row(b));
}

void Engine::set_host_nodes(std::vector<std::uint8_t> is_host, std::vector<std::uint8_t> is_opaque) {
  is_host_ = std::move(is_host);
  is_opaque_ = std::move(is_opaque);
  for (Region& region : regions_) {
    const auto choose = [&](const std::vector<Part>& from, std::vector<Part>& to) {
      to.clear();
      for (const Part& part : from)
        if (is_host_[part.first]) to.push_back(part);
    };
    choose(region.interior, region.host_interior);
    choose(region.boundary, region.host_boundary);
  }
}

void Engine::begin_host_parts(std::uint64_t tick, bool is_first) noexcept {
  base_tick_ = tick;
  has_failed_.store(false, std::memory_order_relaxed);
  for (NodeId port = 0; port < feeds_.size() && is_first; ++port)
    if (is_host_[port]) feed_first_tick(port);
}

bool Engine::run_host_parts(scheduler::Executor& executor, std::uint64_t step) noexcept {
  is_partial_ = true;
  first_step_ = step;
  executor.run(*this, 1);
  first_step_ = 0;
  is_partial_ = false;
  ++serial_;
  return !has_failed_.load(std::memory_order_relaxed);  // the run's end made it visible
}

void Engine::run_interior(std::size_t region, std::uint64_t step) noexcept {
  Region& here = regions_[region];
  if (is_partial_) return run_parts(here.host_interior, nullptr, region, first_step_);
  run_parts(here.interior, &here.interior_course, region, first_step_ + step);
}

void Engine::run_boundary(std::size_t region, std::uint64_t step) noexcept {
  Region& here = regions_[region];
  step += first_step_;
  run_parts(is_partial_ ? here.host_boundary : here.boundary, is_partial_ ? nullptr : &here.boundary_course, region,
            step);
  // Who fires first depends on the placement; with shared weights nobody may learn before all have fired.
  if (!hook_ || late_[region].empty()) return;
  const std::uint64_t tick = base_tick_ + hook_->fired_before(step);
  for (const NodeId id : late_[region]) {
    if (is_partial_ && !is_host_[id]) continue;
    if (board_) board_->enter(region, node_cell_[id], serial_ + step - first_step_);
    hook_->learn(region, id, step, tick);
  }
  if (board_) board_->leave(region);
}

void Engine::run_parts(const std::vector<Part>& parts, Course* course, std::size_t region,
                       std::uint64_t step) noexcept {
  const bool fires = hook_ == nullptr || hook_->fires(step);
  const std::uint64_t fired = hook_ ? hook_->fired_before(step) : step;
  const std::uint64_t tick = base_tick_ + fired;
  regions_[region].writes = tick + fires;
  // The interior comes first in every step, even when it is empty.
  if (fires && &parts == &regions_[region].interior) deliver(region, tick);
  if (parts.empty()) return;
  if (board_) board_->begin(region, tick);
  // Every other tick runs backwards: what the last tick touched last is still in cache and is used first, where a
  // region's weights are a little larger than the cache. No value depends on the order of parts.
  const auto in_order = [&](std::size_t size, std::size_t n) { return (tick & 1) ? size - 1 - n : n; };
  const auto at = [&](std::size_t n) -> const Part& { return parts[in_order(parts.size(), n)]; };
  const auto run_one = [&](std::size_t n) {
    const Part& part = at(n);
    if (part.layers == 0) {
      if (fires) fire_port(part.first, fired);
      return;
    }
    if (board_) board_->enter(region, part.cell, serial_ + step - first_step_);
    if (fires) fire_cell(part, at(std::min(n + 1, parts.size() - 1)), region, tick, fired, step);
    if (!hook_) return;
    for (NodeId id = part.first; id < part.first + part.layers; ++id)
      if (!units_[id].learns_late) hook_->learn(region, id, step, tick);
  };
  if (!course || !may_run_together()) {
    for (std::size_t n = 0; n < parts.size(); ++n) run_one(n);
  } else {
    draw(parts, *course);
    std::size_t n = 0;
    for (std::size_t s = 0; s < course->stretches.size(); ++s) {
      const Stretch& stretch = course->stretches[in_order(course->stretches.size(), s)];
      const std::size_t end = n + stretch.count;
      if (stretch.is_together) {
        if (board_) board_->enter(region, at(n).cell, serial_ + step - first_step_);
        run_together(parts, *course, stretch, region, tick, fired);
        n = end;
      }
      for (; n < end; ++n) run_one(n);
    }
  }
  if (board_) board_->leave(region);
}

void Engine::deliver(std::size_t region, std::uint64_t tick) noexcept {
  if (holds_mail_) return;
  Region& here = regions_[region];
  // Relaxed is enough to look; the exchange pairs with the release in post, so the messages are seen.
  if (here.posted.load(std::memory_order_relaxed) == 0 && !here.has_deferred) return;
  here.posted.exchange(0, std::memory_order_acquire);
  here.has_deferred = false;
  for (const auto* parts : {&here.interior, &here.boundary})
    for (const Part& part : *parts) {
      if (part.layers == 0 || cells_.empty()) continue;
      Cell& cell = *cells_[part.cell];
      cell.run_deferred(tick);  // sent earlier than what is delivered now
      cell.deliver(tick, *registry_);
      here.has_deferred |= !cell.deferred().empty();
    }
}

bool Engine::has_mail() const noexcept {
  return std::any_of(regions_.begin(), regions_.end(),
                     [](const Region& region) { return region.posted.load(std::memory_order_acquire) != 0; });
}

const Engine::SchedulingExceptions& Engine::unrest() const {
  constexpr std::uint64_t kLongest = std::uint64_t{1} << 32;  // of a period that is worked out
  const std::uint64_t now = registry_->changes();
  if (now == unrest_.seen) return unrest_;
  SchedulingExceptions all;
  std::set<std::uint64_t> periods;
  StateHasher who;
  for (const auto& cell : cells_) {
    if (cell->is_reset_ordered()) all.first_order = 0;
    if (!cell->deferred().empty()) all.first_order = std::min(all.first_order, cell->deferred().front()->not_before);
    if (cell->is_enabled() && cell->period() == 1 && !cell->is_marked()) continue;
    if (cell->is_enabled() && cell->is_marked()) all.marked.push_back(cell->period());
    if (cell->is_enabled() && cell->period() != 1) periods.insert(cell->period());
    for (const std::uint64_t word : {std::uint64_t{cell->id()}, cell->is_enabled() ? cell->period() : 0,
                                     std::uint64_t{registry_->status(cell->id()) == actors::ActorStatus::isolated}})
      who.add(word);
  }
  all.periods.assign(periods.begin(), periods.end());
  for (const std::uint64_t period : periods)
    all.period = std::max(all.period, period) > kLongest ? UINT64_MAX : std::lcm(all.period, period);
  all.who = who.digest();
  all.seen = now;
  return unrest_ = std::move(all);
}

std::uint64_t Engine::quiet_ticks(std::uint64_t tick) const {
  const SchedulingExceptions& now = unrest();
  if (has_mail() || now.first_order <= tick) return 0;
  std::uint64_t quiet = now.first_order == UINT64_MAX ? UINT64_MAX : now.first_order - tick;
  for (const std::uint64_t period : now.marked) quiet = std::min(quiet, (period - tick % period) % period);
  return quiet;
}

void Engine::add_firing(std::uint64_t tick, std::uint64_t ticks, StateHasher& hasher) const {
  const SchedulingExceptions& now = unrest();
  hasher.add(now.who);
  for (const std::uint64_t period : now.periods)
    for (std::uint64_t t = tick; t < tick + ticks; ++t) hasher.add(std::uint64_t{t % period == 0});
}

bool Engine::has_orders() const noexcept {
  return std::any_of(regions_.begin(), regions_.end(), [](const Region& region) { return !region.orders.empty(); });
}

void Engine::send_orders() {
  for (Region& from : regions_)
    for (auto& [cell, message] : std::exchange(from.orders, {})) {
      cells_[cell]->keep(std::move(message));
      registry_->add_messages(cells_[cell]->id(), 1);
      regions_[cell_region_[cell]].has_deferred = true;
    }
}

void Engine::forget_orders() noexcept {
  for (Region& region : regions_) region.orders.clear();
}

void Engine::forget_mail() noexcept {
  for (Region& region : regions_) region.posted.store(0, std::memory_order_relaxed);
}

bool Engine::has_deferred() const noexcept {
  return std::any_of(regions_.begin(), regions_.end(), [](const Region& region) { return region.has_deferred; });
}

void Engine::look_for_orders() noexcept {
  for (Region& region : regions_) region.has_deferred = true;
}

void Engine::deliver_all(std::uint64_t tick) noexcept {
  for (std::size_t r = 0; r < regions_.size(); ++r) deliver(r, tick);
}

Status Engine::post(std::size_t cell, CommandMessage message) {
  if (auto sent = cells_[cell]->mailbox().push(std::move(message)); !sent)
    return fail(Errc::full, "cell " + to_string(cells_[cell]->at()) + ": its mailbox holds " +
                                std::to_string(cells_[cell]->mailbox().capacity()) +
                                " orders that no tick has taken yet; tick, then send again");
  regions_[cell_region_[cell]].posted.fetch_add(1, std::memory_order_release);  // pairs with the exchange in deliver
  return {};
}

void Engine::fire_port(NodeId port, std::uint64_t fired) noexcept {
  const PortFeed& feed = feeds_[port];
  const Rows now = state_.output(port, base_tick_ + fired), next = state_.output(port, base_tick_ + fired + 1);
  const std::uint64_t row = feed.base ? std::min((fired + 1) / feed.hold, feed.rows - 1) : 0;
  const float* values = feed.base ? feed.base + row * next.rows * next.cols : nullptr;
  for (std::size_t b = 0; b < next.rows; ++b)
    std::copy_n(values ? values + b * next.cols : now.row(b), next.cols, next.row(b));
}

void Engine::fire_layer(NodeId id, std::size_t region, std::uint64_t tick, std::uint64_t step) {
  kernels::OpStream& stream = this->stream(region);
  const Unit& unit = units_[id];
  ForwardArgs args;
  args.weights = unit.weights;
  if (unit.reads_directly) {
    args.x = state_.output(unit.direct, tick);
  } else {
    const Rows x = state_.input(id, tick + 1);
    combine_sources(
        stream, graph_, graph_.nodes()[id], [&](const Edge& edge) { return ConstRows(state_.output(edge.from, tick)); },
        x);
    args.x = x;
  }
  args.y = state_.output(id, tick + 1);
  args.z = state_.preactivation(id, tick + 1);
  args.cache = state_.cache(id, tick + 1);
  args.state = state_.hidden(id, tick);
  args.next_state = state_.hidden(id, tick + 1);
  args.workspace = workspaces_[region].data();
  if (hook_ && unit.trains_otherwise) args.training_rows = hook_->training_rows(id, step, tick);
  if (recording_ && is_opaque_[id])
    // Weights are its own: no device has them.
    recording_->touch({args.x, args.state}, {args.z, args.y, args.cache, args.next_state});
  else if (unit.fires_by_sessions && !recording_)
    forward(unit, stream, args);
  else
    unit.layer->forward(stream, args);
}

// Every row stands alone, so sessions may fire on several threads.
void Engine::forward(const Unit& unit, kernels::OpStream& stream, const ForwardArgs& args) {
  std::atomic<bool> threw{false};
  std::exception_ptr thrown;
  const auto fire = [&](kernels::OpStream& own, std::size_t first, std::size_t count) {
    const auto rows = [&](auto all) {
      return decltype(all){all.data ? all.row(first) : nullptr, count, all.cols, all.stride};
    };
    ForwardArgs part = args;
    part.x = rows(args.x), part.z = rows(args.z), part.y = rows(args.y), part.cache = rows(args.cache);
    part.state = rows(args.state), part.next_state = rows(args.next_state);
    part.training_rows = std::min(count, args.training_rows - std::min(first, args.training_rows));
    if (args.workspace) part.workspace = own.workspace_of(args.workspace);
    try {
      unit.layer->forward(own, part);
    } catch (...) {
      if (!threw.exchange(true)) thrown = std::current_exception();
    }
  };
  const std::size_t sessions = args.y.rows;
  // With fewer sessions than threads, operations are cut up instead.
  if (sessions < width_.threads)
    fire(stream, 0, sessions);
  else
    stream.split(sessions, unit.work * static_cast<double>(sessions), fire);
  if (thrown) std::rethrow_exception(thrown);
}

void Engine::use_team(scheduler::Team* team) noexcept {
  kernels::CpuStream& stream = streams_.front();
  if (!team) return stream.set_help(nullptr);
  const kernels::Help help{kernels::ParallelFor(*team), std::min(team->size(), width_.threads), workspace_stride_,
                           width_.worthwhile};
  stream.set_help(&help);
}

std::uint64_t Engine::forks() const noexcept {
  std::uint64_t all = 0;
  for (const kernels::CpuStream& stream : streams_) all += stream.forks();
  return all;
}

ConstRows Engine::input_at(NodeId node, std::uint64_t tick) const noexcept {
  const Unit& unit = units_[node];
  return unit.reads_directly ? ConstRows(state_.output(unit.direct, tick - 1)) : ConstRows(state_.input(node, tick));
}

void Engine::prefetch(const Part& part) const noexcept {
  const Unit& unit = units_[part.first];
  __builtin_prefetch(unit.layer);
  if (!cells_.empty()) __builtin_prefetch(cells_[std::min<std::size_t>(part.cell, cells_.size() - 1)].get());
  if (!unit.has_weights) return;
  const auto* const codes = static_cast<const std::byte*>(unit.weights.data->codes);
  for (std::size_t line = 0; line < kPrefetchLines; ++line) __builtin_prefetch(codes + 64 * line);
}

// Weights that `linear` may ask for early; of other types its panels are no guess at where the codes lie.
kernels::ConstPanels Engine::panels_of(const Part& part) const noexcept {
  const Unit& unit = units_[part.first];
  if (!unit.has_weights || unit.weights.data->dtype != Dtype::float32) return {};
  return unit.weights.data->panels();
}

void Engine::fire_cell(const Part& part, const Part& next, std::size_t region, std::uint64_t tick, std::uint64_t fired,
                       std::uint64_t step) noexcept {
  Cell* cell = cells_.empty() ? nullptr : cells_[part.cell].get();
  kernels::OpStream& stream = streams_[region];
  if (cell && cell->take_reset()) {
    zero_output(part, tick);
  } else if (cell && !cell->fires(tick)) {
    keep_output(part, tick, false);
  } else {
    try {
      const NodeId last = part.first + part.layers - 1;
      for (NodeId id = part.first; id < last; ++id) fire_layer(id, region, tick, step);
      streams_[region].expect(panels_of(next));
      fire_layer(last, region, tick, step);
      // The memory is idle while this cell's output is looked over; the next cell's weights may come meanwhile.
      prefetch(next);
      if (!is_finite(part, stream, tick)) {
        fail_firing(part, tick, actors::FaultKind::output_not_finite);
      } else if (cell) {
        if (cell->is_marked()) {
          cell->set_marked(false);
          registry_->set_status(cell->id(), actors::ActorStatus::running);
        }
        if (!cell->watchers().empty()) watch(*cell, tick, step, region);
      }
    } catch (const std::exception& error) {
      fail_firing(part, tick, actors::FaultKind::threw, error.what());
    } catch (...) {
      fail_firing(part, tick, actors::FaultKind::threw);
    }
  }
  copy_to_sinks(part, tick, fired);
}

void Engine::copy_to_sinks(const Part& part, std::uint64_t tick, std::uint64_t fired) noexcept {
  for (NodeId id = part.first; id < part.first + part.layers; ++id) {
    const Rows y = state_.output(id, tick + 1);
    for (std::uint32_t s = 0; s < units_[id].sinks; ++s)
      for (std::size_t b = 0; b < y.rows; ++b)
        std::copy_n(y.row(b), y.cols, sinks_[units_[id].first_sink + s].base + (fired * y.rows + b) * y.cols);
  }
}

void Engine::watch(Cell& cell, std::uint64_t tick, std::uint64_t step, std::size_t region) noexcept {
  for (Watcher& watcher : cell.watchers()) {
    const WatchRule& rule = watcher.rule();
    double value = 0;
    if (rule.look == WatchRule::Look::gradient_storm) {
      if (hook_) value = static_cast<double>(hook_->gradient_size(watcher.watched().node, step));
    } else {
      const std::size_t column = watcher.watched_source() * kernels::kStatistics +
                                 static_cast<std::size_t>(std::min(rule.look, WatchRule::Look::rms));
      const Rows y = state_.output(watcher.node(), tick + 1);
      for (std::size_t b = 0; b < y.rows; ++b) value += static_cast<double>(y.row(b)[column]);
      value /= static_cast<double>(y.rows);
    }
    const Watcher::Place watched = watcher.watched(), spare = watcher.spare();
    if (!watcher.look(tick, value)) continue;
    switch (rule.action) {
      case WatchRule::Action::morph:
        order(watcher, watched, CommandKind::morph, tick, region);
        break;
      case WatchRule::Action::reset:
        order(watcher, watched, CommandKind::reset, tick, region);
        break;
      case WatchRule::Action::swap:
        order(watcher, watched, CommandKind::reset, tick, region);
        order(watcher, watched, CommandKind::disable, tick, region);
        order(watcher, spare, CommandKind::enable, tick, region);
        break;
    }
  }
}

void Engine::order(const Watcher& watcher, const Watcher::Place& to, CommandKind kind, std::uint64_t tick,
                   std::size_t region) {
  auto control = std::make_shared<Command>();
  control->kind = kind;
  control->level = to.level;
  control->sender = watcher.node() + 1;
  control->encoding = watcher.rule().encoding;
  // The watched cell's region is a neighbour, so it has seen this order at its tick after the next whoever runs first;
  // a tick later it is carried out, always from among the kept ones.
  control->not_before = tick + 3;
  if (is_partial_) {
    regions_[region].orders.emplace_back(to.cell, std::move(control));
    return;
  }
  // Four watchers' orders fit the mailbox: full is it only of orders from outside, and then this one is dropped, as
  // theirs are.
  (void)post(to.cell, std::move(control)).has_value();
}

bool Engine::is_finite(const Part& part, kernels::OpStream& stream, std::uint64_t tick) noexcept {
  for (NodeId id = part.first; id < part.first + part.layers; ++id) {
    if (!stream.is_finite({state_.output(id, tick + 1)})) return false;
    const Rows hidden = state_.hidden(id, tick + 1);
    if (hidden.data && !stream.is_finite({hidden})) return false;
  }
  return true;
}

void Engine::fail_firing(const Part& part, std::uint64_t tick, actors::FaultKind kind, const char* reason) noexcept {
  if (!is_partial_) keep_output(part, tick, kind == actors::FaultKind::output_not_finite);  // else it is taken back
  answer_fault(part.cell, tick, kind, reason);
}

void Engine::keep_output(const Part& part, std::uint64_t tick, bool faulty_rows_only) noexcept {
  const std::size_t sessions = state_.sessions();
  const auto is_faulty = [&](std::size_t b) {
    for (NodeId id = part.first; id < part.first + part.layers; ++id)
      for (const Rows rows : {state_.output(id, tick + 1), state_.hidden(id, tick + 1)})
        if (rows.data && !std::all_of(rows.row(b), rows.row(b) + rows.cols, [](float v) { return std::isfinite(v); }))
          return true;
    return false;
  };
  for (std::size_t b = 0; b < sessions; ++b) {
    if (faulty_rows_only && !is_faulty(b)) continue;
    for (NodeId id = part.first; id < part.first + part.layers; ++id) {
      // Also what backward pairs with the output: nothing of a dropped firing stays, finite or not.
      for (const auto ring : kRings) {
        const Rows from = (state_.*ring)(id, tick), to = (state_.*ring)(id, tick + 1);
        if (from.data) std::copy_n(from.row(b), from.cols, to.row(b));
      }
    }
  }
}

void Engine::zero_output(const Part& part, std::uint64_t tick) noexcept {
  for (NodeId id = part.first; id < part.first + part.layers; ++id) {
    for (const Rows rows : {state_.output(id, tick + 1), state_.hidden(id, tick + 1)})
      for (std::size_t b = 0; b < rows.rows && rows.data; ++b) std::fill_n(rows.row(b), rows.cols, 0.0f);
    for (std::size_t b = 0; b < state_.sessions(); ++b) state_.copy_streams(id, b, tick, tick + 1);
  }
}

void Engine::answer_fault(std::uint32_t cell, std::uint64_t tick, actors::FaultKind kind, const char* reason) noexcept {
  if (is_partial_) return has_failed_.store(true, std::memory_order_relaxed);  // read when the step has been run
  if (!supervisor_) return;
  const actors::FaultReason said = actors::fault_reason(reason);
  const actors::Decision decision = supervisor_->decide({cell, tick, kind, said});
  cells_[cell]->set_marked(decision.action != actors::Policy::restart);
  switch (decision.action) {
    case actors::Policy::halt:
      return note_halt({tick, cell, kind, said});
    case actors::Policy::hold:
      return;
    case actors::Policy::restart:
      return cells_[cell]->restart(is_running_ ? regions_[cell_region_[cell]].writes : tick);
    case actors::Policy::isolate:
      return cells_[cell]->set_enabled(false);
  }
}

void Engine::note_halt(const Halt& halt) noexcept {
  // Once in the life of a run, so a spin lock costs nothing; the earliest fault wins, whoever gets here first.
  while (halt_lock_.test_and_set(std::memory_order_acquire)) {
  }
  if (std::tie(halt.tick, halt.cell) < std::tie(first_halt_.tick, first_halt_.cell)) first_halt_ = halt;
  halt_lock_.clear(std::memory_order_release);
  halted_.store(true, std::memory_order_release);  // pairs with the acquire in halt
}

void Engine::clear_halt() noexcept {
  if (!halt()) return;
  first_halt_ = {};
  halted_.store(false, std::memory_order_release);
}

void Engine::report_fault(NodeId node, std::uint64_t tick, actors::FaultKind kind, const char* reason) noexcept {
  if (!cells_.empty() && !is_isolated(node)) answer_fault(node_cell_[node], tick, kind, reason);
}

bool Engine::is_isolated(NodeId node) const noexcept {
  return registry_ && registry_->status(node_cell_[node]) == actors::ActorStatus::isolated;
}

}  // namespace weft::mesh
