// SPDX-License-Identifier: Apache-2.0

#include "mesh/internal/mesh_parts.hpp"

#include "mesh/memory/memory_estimate.hpp"
#include "mesh/runtime/fault_origins.hpp"

#include "kernels/float_environment.hpp"

#include "core/log.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <numeric>
#include <optional>

namespace weft::mesh {
namespace {

// One per thread: threads that run ticks hold the contract's floating-point mode for the length of a run.
thread_local std::optional<kernels::FlushSubnormals> exact_mode;
thread_local int exact_depth = 0;

std::uint64_t enter_exact(void*) noexcept {
  if (exact_depth++ == 0) exact_mode.emplace();
  return 0;
}
void leave_exact(void*, std::uint64_t) noexcept {
  if (--exact_depth == 0) exact_mode.reset();
}

constexpr scheduler::ThreadHooks kExactMode{enter_exact, leave_exact, nullptr};

}  // namespace

Mesh::Parts::Parts(Graph g, MeshOptions o, topology::Machine m)
    : graph(std::move(g)), options(std::move(o)), layout{m, {}, {}, {}, topology::NodeMemory(m)} {
  static std::atomic<std::uint64_t> last{0};
  number = last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Cells whose layers share weights become one vertex of placement: the weights have one writer.
void Mesh::Parts::keep_tied_together(std::vector<std::uint32_t>& vertex_of,
                                     std::vector<topology::Workload::Vertex>& vertices) const {
  std::vector<std::uint32_t> joins(vertices.size());
  std::iota(joins.begin(), joins.end(), 0u);
  const auto root = [&](std::uint32_t vertex) {
    while (joins[vertex] != vertex) vertex = joins[vertex] = joins[joins[vertex]];
    return vertex;
  };
  bool shares = false;
  for (NodeId id = 0; id < graph.nodes().size(); ++id)
    for (const NodeId owner : graph.nodes()[id].owners) {
      const std::uint32_t here = root(vertex_of[id]), there = root(vertex_of[owner]);
      joins[std::max(here, there)] = std::min(here, there);
      shares = true;
    }
  if (!shares) return;
  std::vector<std::uint32_t> place(vertices.size());
  std::vector<topology::Workload::Vertex> joined;
  for (std::uint32_t vertex = 0; vertex < vertices.size(); ++vertex) {
    const std::uint32_t first = root(vertex);
    if (first == vertex) {
      place[vertex] = static_cast<std::uint32_t>(joined.size());
      joined.push_back(vertices[vertex]);
      continue;
    }
    place[vertex] = place[first];
    joined[place[first]].bytes += vertices[vertex].bytes;
    joined[place[first]].work += vertices[vertex].work;
  }
  for (NodeId id = static_cast<NodeId>(graph.port_count()); id < graph.nodes().size(); ++id)
    vertex_of[id] = place[vertex_of[id]];
  vertices = std::move(joined);
}

// Work that one thread does in some 50 us, most of it in one region however the cells are cut.
bool Mesh::Parts::should_be_wide(const topology::Plan& cut) const noexcept {
  constexpr double kLeastWork = 1 << 21, kLargestShare = 0.7;
  if (options.grain_bytes == 0) return false;  // as many regions as threads are asked for
  double all = 0, largest = 0;
  for (const topology::Plan::Region& region : cut.regions) {
    all += region.work;
    largest = std::max(largest, region.work);
  }
  return all >= kLeastWork && largest > kLargestShare * all;
}

// Of a thread, so that a thread which is done early finds another's region to take.
std::size_t Mesh::Parts::regions_each(std::uint64_t bytes, std::size_t threads) const noexcept {
  // A region takes about a microsecond for 32 KiB, and a tenth of one to be looked after.
  const std::uint64_t least_bytes = (threads < 3 ? 512 : 64) * 1024, kMost = threads < 3 ? 4 : 8;
  if (options.regions_each) return options.regions_each;
  if (options.executor == ExecutorKind::resident || options.executor == ExecutorKind::deterministic) return 1;
  const bool is_graph = options.executor == ExecutorKind::graph;
  if (options.grain_bytes == 0) return is_graph ? 4 : 1;
  // Two threads gain little by it, and lose a part of each sweep's cache where regions meet.
  if (threads < 3 && !is_graph) return 1;
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(bytes / (least_bytes * threads), 1, kMost));
}

Status Mesh::Parts::place() {
  topology::Workload workload;
  std::vector<std::uint32_t> vertex_of(graph.nodes().size(), 0);
  std::uint64_t total = 0;
  for (NodeId id = static_cast<NodeId>(graph.port_count()); id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    if (workload.vertices.empty() || graph.nodes()[id - 1].is_port() || graph.nodes()[id - 1].cell != node.cell)
      workload.vertices.emplace_back();
    vertex_of[id] = static_cast<std::uint32_t>(workload.vertices.size() - 1);
    const std::uint64_t bytes = node.layer->bytes_touched(node.encoding, options.sessions);
    workload.vertices.back().bytes += bytes;
    workload.vertices.back().work += node.layer->multiply_adds() * static_cast<double>(options.sessions);
    total += bytes;
  }
  keep_tied_together(vertex_of, workload.vertices);
  for (const Edge& edge : graph.edges())
    if (!graph.nodes()[edge.from].is_port()) workload.links.emplace_back(vertex_of[edge.from], vertex_of[edge.to]);
  std::size_t threads =
      options.threads ? options.threads : std::min(layout.machine.usable_cpus(), layout.machine.usable_cores());
  const std::size_t most = options.executor == ExecutorKind::deterministic && options.threads == 0 ? 1 : threads;
  if (options.grain_bytes) threads = std::clamp<std::uint64_t>(total / options.grain_bytes, 1, threads);
  workload.threads = std::min(threads, most);
  WEFT_TRY(layout.plan, topology::place(layout.machine, workload));
  if (most > 1 && (options.wide ? *options.wide : should_be_wide(layout.plan))) {
    layout.width = {most, options.wide_from};
    workload.threads = 1;
    WEFT_TRY(layout.plan, topology::place(layout.machine, workload));
  }

  workload.regions_each = regions_each(total, layout.plan.regions.size());
  if (workload.threads > 1 && workload.regions_each > 1) {
    WEFT_TRY(layout.plan, topology::place(layout.machine, workload));
  }

  layout.node_region.assign(graph.nodes().size(), 0);
  for (NodeId id = static_cast<NodeId>(graph.port_count()); id < graph.nodes().size(); ++id)
    layout.node_region[id] = layout.plan.region_of(vertex_of[id]);
  for (NodeId port = 0; port < graph.port_count(); ++port)
    if (!graph.nodes()[port].readers.empty())
      layout.node_region[port] = layout.node_region[graph.edges()[graph.nodes()[port].readers.front()].to];
  return {};
}

Status Mesh::Parts::check_memory() const {
  const std::size_t threads = std::max<std::size_t>(layout.plan.regions.size(), layout.width.threads);
  return mesh::check_memory("network '" + graph.spec().name + "'",
                            estimate_memory(graph, {options.sessions, options.keeps_masters, threads}),
                            options.max_memory);
}

Status Mesh::Parts::make_cells() {
  const std::map<std::size_t, std::size_t> commands = count_commands();
  for (NodeId id = static_cast<NodeId>(graph.port_count()); id < graph.nodes().size();) {
    const NodeId first = id;
    while (id < graph.nodes().size() && graph.nodes()[id].cell == graph.nodes()[first].cell) ++id;
    Coord at = graph.nodes()[first].at;
    at.l = 0;
    const auto told = commands.find(graph.nodes()[first].cell);
    const std::size_t of_observers = told == commands.end() ? 0 : told->second;
    cells.push_back(std::make_unique<Cell>(static_cast<actors::ActorId>(cells.size()), at, first, id - first,
                                           std::bit_ceil(Cell::kMailboxCapacity + of_observers), of_observers));
  }
  WEFT_CHECK(make_observers());
  for (const auto& cell : cells)
    if (!cell->observers().empty()) mailing.observing.push_back(cell.get());
  registry = std::make_unique<actors::Registry>(cells.size());
  supervisor = std::make_unique<actors::Supervisor>(*registry);
  std::vector<std::uint32_t> regions;
  for (const auto& cell : cells) regions.push_back(layout.node_region[cell->first()]);
  mailing.arrivals = std::make_unique<Arrivals>(cells, std::move(regions), layout.plan.regions.size());
  activity = std::make_unique<actors::ActivityTable>(layout.plan.regions.size());
  for (const auto& cell : cells) WEFT_CHECK(supervisor->set_rule(cell->id(), graph.spec().supervision));
  for (const LayerSpec& layer : graph.spec().layers) {
    if (!layer.policy) continue;
    const NodeId node = *graph.find_layer(layer.at);
    const auto cell =
        std::upper_bound(cells.begin(), cells.end(), node, [](NodeId id, const auto& c) { return id < c->first(); }) -
        1;
    actors::SupervisionRule own = graph.spec().supervision;
    own.policy = *layer.policy;
    WEFT_CHECK(supervisor->set_rule((*cell)->id(), own));
  }
  for (const auto& cell : cells)
    if (restarts_inside(graph, cell->first(), cell->layers())) supervisor->reserve_restarts(cell->id());
  return {};
}

Status Mesh::Parts::make_executor() {
  if (options.executor == ExecutorKind::deterministic) {
    executor = scheduler::make_deterministic_executor(options.executor_seed, kExactMode, layout.width.threads);
    return {};
  }
  scheduler::ExecutorOptions wanted;
  wanted.kind = options.executor;
  wanted.threads = options.threads;
  wanted.pin = options.pin;
  wanted.hooks = kExactMode;
  // Without a grain every region is a thread's own, however little it does.
  if (options.grain_bytes == 0) wanted.alone_below = std::chrono::nanoseconds(0);
  WEFT_TRY(executor, scheduler::make_executor(layout.machine, wanted));
  return {};
}

Status Mesh::Parts::open_device(std::shared_ptr<gpu::FaultInjection> faults) {
  const std::string& name = options.device.empty() ? graph.spec().device : options.device;
  if (!is_device_name(name))
    return fail(Errc::unknown_name,
                "device '" + name + "': expected cpu, vulkan, vulkan:NUMBER or vulkan:PART-OF-A-NAME");
  if (options.device_timeout.count() < 0)
    return fail(Errc::out_of_range,
                "device_timeout: " + std::to_string(options.device_timeout.count()) + " ms; 0 or more are expected");
  if (name == "cpu") return {};
  gpu::DeviceOptions wanted;
  wanted.validate = options.validates_device;
  wanted.timeout = options.device_timeout;
  wanted.faults = std::move(faults);
  auto opened = gpu::Device::share(name, wanted);
  // Without a device the CPU gives the same bits; a name that fits no device is a mistake.
  if (!opened && opened.error().code() == Errc::unknown_name) return fail(opened.error());
  if (opened) {
    device.recovery = std::make_unique<DeviceRecovery>(name, std::move(*opened));
  } else {
    log_warn("the mesh runs on the CPU: " + opened.error().text());
    device.missing.emplace().why_host = opened.error().text();
  }
  return {};
}

void Mesh::Parts::make_engine() {
  sync(true);
  const DeviceStatistics statistics = device.run ? device.run->statistics() : DeviceStatistics();
  auto made = std::make_unique<Engine>(RunSetup{graph, weights, *state, layout.plan, layout.node_region, cells,
                                                supervisor.get(), registry.get(), rule, layout.width, activity.get(),
                                                mailing.links, mailing.arrivals.get()});
  // Without memory, nothing has changed until here.
  device.run.reset();
  if (engine) made->stop_by(engine->stop_flag());
  engine = std::move(made);
  for (const auto& cell : cells) cell->bind(graph, weights, *state, *registry, rule_state());
  if (!device.recovery) return;
  device.run = std::make_unique<DeviceExecutor>(*device.recovery, *engine);
  device.run->count_on(statistics);
}

}  // namespace weft::mesh
