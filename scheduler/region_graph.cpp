// SPDX-License-Identifier: Apache-2.0

#include "scheduler/internal/region_graph.hpp"

#include "scheduler/internal/alone.hpp"
#include "scheduler/internal/core_watch.hpp"

#include <tbb/flow_graph.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <tuple>

namespace weft::scheduler::internal {
namespace {

using Message = tbb::flow::continue_msg;
// Lightweight: done by the thread that brings the last message, without a task.
using Gate = tbb::flow::continue_node<Message, tbb::flow::lightweight>;
using Step = tbb::flow::multifunction_node<Message, std::tuple<Message, Message, Message, Message>>;
using Ports = Step::output_ports_type;

constexpr std::size_t kLine = 128;
constexpr int kNaps = 4;                // of up to 50 ms
constexpr std::size_t kGraphsKept = 4;  // a mesh's own steps, and the copies of its batches

}  // namespace

/// State of each thread, and the place where those sleep whose cores others use.
struct RegionGraph::Workers {
  struct alignas(kLine) Worker {
    CoreWatch watch;
  };
  Workers(std::size_t count, std::size_t arenas) : all(count), backing_off(new std::atomic<std::uint32_t>[arenas]()) {}

  /// @param closing of a graph, set by `close`
  void sleep_until(Nanoseconds end, const bool& closing) {
    std::unique_lock lock(guard);
    closed.wait_until(lock, std::chrono::steady_clock::time_point(end), [&] { return closing; });
  }
  void close(bool& closing) {
    const std::lock_guard lock(guard);
    closing = true;
    closed.notify_all();
  }

  std::vector<Worker> all;
  std::unique_ptr<std::atomic<std::uint32_t>[]> backing_off;  // threads of an arena
  std::mutex guard;
  std::condition_variable closed;
};

class RegionGraph::Graph {
 public:
  Graph(const TickProgram& program, const Arenas& arenas, const Options& options, Workers& workers);
  ~Graph();
  bool fits(const TickProgram& program) const noexcept;
  std::uint64_t run(TickProgram& program, std::uint64_t first, std::uint64_t end) noexcept;

 private:
  // A graph counts its tasks up and down in one number, which threads would wait for one after the other: so each
  // region has its own.
  struct alignas(kLine) Tasks {
    explicit Tasks(tbb::task_group_context& context) : graph(context) {}
    tbb::flow::graph graph;
  };
  struct alignas(kLine) Region {
    std::uint64_t steps = 0;  // done since the graph was made; read and written between the messages of its nodes
    std::size_t arena = 0;
    std::unique_ptr<Tasks> tasks;
    std::unique_ptr<Gate> gates[2];  // of steps of even and of odd number
    std::unique_ptr<Step> step;
    std::vector<std::uint32_t> remote;  // neighbours in other arenas, whose messages must be put there
  };

  void assign_arenas();
  void make_nodes(std::uint32_t r);
  void connect(std::uint32_t r);
  void run_step(std::uint32_t r, Ports& ports) noexcept;
  void run_block(std::uint64_t limit) noexcept;
  void end_region() noexcept;
  void send(std::uint32_t region, std::uint64_t step) noexcept;
  void rest_if_core_is_taken(std::size_t arena) noexcept;
  std::uint64_t step_of(const Region& region) const noexcept { return first_ + (region.steps - steps_before_); }

  const Arenas& arenas_;
  const Options& options_;
  Workers& workers_;
  const bool watches_;  // threads watch their cores
  // The shape that it was made for.
  std::vector<std::uint32_t> neighbours_, ends_;  // neighbours of r: [ends_[r], ends_[r + 1])
  std::vector<std::uint32_t> cores_;

  tbb::task_group_context context_{tbb::task_group_context::isolated};
  std::unique_ptr<tbb::flow::graph> block_;  // no nodes: what the caller waits on, working meanwhile
  std::vector<Region> regions_;

  // The plan of a block, written by the caller while no region runs: the messages that set the regions off
  // publish it.
  TickProgram* program_ = nullptr;
  std::uint64_t first_ = 0, limit_ = 0;
  std::uint64_t steps_before_ = 0;                        // that every region had done when the run began
  alignas(kLine) std::atomic<std::uint32_t> running_{0};  // regions short of the limit
  ParkingSpot caller_;                                    // where it sleeps while others use its core
  bool closing_ = false;                                  // guarded by workers_
};

RegionGraph::Graph::Graph(const TickProgram& program, const Arenas& arenas, const Options& options, Workers& workers)
    : arenas_(arenas),
      options_(options),
      workers_(workers),
      watches_(options.watches_cores && pays_to_back_off(program.region_count(), arenas.cores().size())),
      regions_(program.region_count()) {
  for (std::uint32_t r = 0; r < regions_.size(); ++r) {
    const auto list = program.neighbours(r);
    ends_.push_back(static_cast<std::uint32_t>(neighbours_.size()));
    neighbours_.insert(neighbours_.end(), list.begin(), list.end());
    cores_.push_back(program.own_core(r));
  }
  ends_.push_back(static_cast<std::uint32_t>(neighbours_.size()));
  assign_arenas();
  // A graph belongs to the arena in which it is made.
  arenas_.nodes().front()->arena.execute([&] { block_ = std::make_unique<tbb::flow::graph>(); });
  for (std::size_t n = 0; n < arenas_.nodes().size(); ++n)
    arenas_.nodes()[n]->arena.execute([&] {
      for (Region& region : regions_)
        if (region.arena == n) region.tasks = std::make_unique<Tasks>(context_);
    });
  for (std::uint32_t r = 0; r < regions_.size(); ++r) make_nodes(r);
  for (std::uint32_t r = 0; r < regions_.size(); ++r) connect(r);
  // As if a step had been done before the first.
  for (std::uint32_t r = 0; r < regions_.size(); ++r)
    for (std::uint32_t i = ends_[r]; i < ends_[r + 1]; ++i) regions_[r].gates[0]->try_put(Message());
  // At zero a graph looks for whoever waits for it: for nobody, before it ends.
  for (Region& region : regions_) region.tasks->graph.reserve_wait();
}

// Once no task is left anywhere none can come: every region lacks its own message.
RegionGraph::Graph::~Graph() {
  workers_.close(closing_);
  for (Region& region : regions_) {
    region.tasks->graph.release_wait();
    region.tasks->graph.wait_for_all();
  }
}

bool RegionGraph::Graph::fits(const TickProgram& program) const noexcept {
  if (program.region_count() != regions_.size()) return false;
  for (std::uint32_t r = 0; r < regions_.size(); ++r) {
    if (program.own_core(r) != cores_[r]) return false;
    const auto list = program.neighbours(r);
    if (!std::equal(list.begin(), list.end(), neighbours_.begin() + ends_[r], neighbours_.begin() + ends_[r + 1]))
      return false;
  }
  return true;
}

// A region belongs to the node where its memory lies; without a known core, blocks of regions to consecutive workers.
void RegionGraph::Graph::assign_arenas() {
  const auto nodes = arenas_.nodes();
  const auto cores = arenas_.cores();
  for (std::size_t r = 0; r < regions_.size() && nodes.size() > 1; ++r) {
    std::size_t worker = r * cores.size() / regions_.size();
    for (std::size_t m = 0; m < cores.size(); ++m)
      if (cores[m].core == cores_[r]) {
        worker = m;
        break;
      }
    const NodeArena* own = &arenas_.of(worker);
    for (std::size_t n = 0; n < nodes.size(); ++n)
      if (nodes[n].get() == own) regions_[r].arena = n;
  }
}

void RegionGraph::Graph::make_nodes(std::uint32_t r) {
  Region& region = regions_[r];
  for (std::uint32_t i = ends_[r]; i < ends_[r + 1]; ++i)
    if (regions_[neighbours_[i]].arena != region.arena) region.remote.push_back(neighbours_[i]);
  tbb::flow::graph& graph = region.tasks->graph;
  region.step = std::make_unique<Step>(graph, tbb::flow::unlimited,
                                       [this, r](const Message&, Ports& ports) { run_step(r, ports); });
  // Messages of other arenas come without an edge.
  for (auto& gate : region.gates)
    gate = std::make_unique<Gate>(graph, static_cast<int>(region.remote.size()), [](const Message& m) { return m; });
}

void RegionGraph::Graph::connect(std::uint32_t r) {
  Region& region = regions_[r];
  const auto connect_to = [&](const std::size_t parity, auto& to_neighbours, auto& to_itself) {
    for (std::uint32_t i = ends_[r]; i < ends_[r + 1]; ++i) {
      Region& neighbour = regions_[neighbours_[i]];
      if (neighbour.arena == region.arena) tbb::flow::make_edge(to_neighbours, *neighbour.gates[parity]);
    }
    tbb::flow::make_edge(to_itself, *region.gates[parity]);
    tbb::flow::make_edge(*region.gates[parity], *region.step);
  };
  connect_to(0, tbb::flow::output_port<0>(*region.step), tbb::flow::output_port<2>(*region.step));
  connect_to(1, tbb::flow::output_port<1>(*region.step), tbb::flow::output_port<3>(*region.step));
}

void RegionGraph::Graph::run_step(std::uint32_t r, Ports& ports) noexcept {
  Region& region = regions_[r];
  const std::uint64_t step = step_of(region);
  {
    const HookScope scope(options_.hooks);
    program_->run_interior(r, step);
    program_->run_boundary(r, step);
  }
  const std::uint64_t next = ++region.steps;
  const bool is_odd = (next & 1) != 0;
  is_odd ? std::get<1>(ports).try_put(Message()) : std::get<0>(ports).try_put(Message());
  for (const std::uint32_t neighbour : region.remote) send(neighbour, next);
  if (step + 1 == limit_) return end_region();
  const std::size_t arena = region.arena;
  // Last: a thread takes what it set off last, others steal the rest. Nothing of the region may be touched from here
  // on: its next step may be running.
  is_odd ? std::get<3>(ports).try_put(Message()) : std::get<2>(ports).try_put(Message());
  if (watches_) rest_if_core_is_taken(arena);
}

// Puts a message into the gate of a step from outside its arena. Enqueued, not spawned: oneTBB may miss to wake workers
// for what is spawned, as somebody is expected to wait in the arena and take it. The graph waits for what is under way.
void RegionGraph::Graph::send(std::uint32_t r, std::uint64_t step) noexcept {
  Region& region = regions_[r];
  Gate& gate = *region.gates[step & 1];
  tbb::flow::graph& graph = region.tasks->graph;
  graph.reserve_wait();
  arenas_.nodes()[region.arena]->arena.enqueue([&gate, &graph] {
    gate.try_put(Message());
    graph.release_wait();
  });
}

// The last one ends the block, and touches nothing afterwards but what the caller waits on: the next one may be under
// way.
void RegionGraph::Graph::end_region() noexcept {
  // Acquire and release: the caller sees all that the regions wrote.
  if (running_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  light_fence();
  if (caller_.is_armed()) caller_.unpark();
  block_->release_wait();
}

// Others may steal the tasks that this thread has set off, so nobody waits for it. The caller does not sleep here: it
// takes no regions in the next blocks.
void RegionGraph::Graph::rest_if_core_is_taken(std::size_t arena) noexcept {
  const WorkerRange& workers = arenas_.nodes()[arena]->workers;
  const auto worker = workers.worker_here();
  if (!worker) return;
  CoreWatch& watch = workers_.all[*worker].watch;
  if (!watch.is_due() || !watch.is_taken(thread_times()) || *worker == 0) return;
  std::atomic<std::uint32_t>& backing_off = workers_.backing_off[arena];
  if (backing_off.fetch_add(1, std::memory_order_relaxed) < most_backing_off(workers.threads()))
    workers_.sleep_until(watch.backoff_ends(), closing_);
  backing_off.fetch_sub(1, std::memory_order_relaxed);
  watch.restart();
}

void RegionGraph::Graph::run_block(std::uint64_t limit) noexcept {
  limit_ = limit;
  running_.store(static_cast<std::uint32_t>(regions_.size()), std::memory_order_relaxed);
  block_->reserve_wait();
  CoreWatch& watch = workers_.all[0].watch;
  const bool is_backing_off = watches_ && now() < watch.backoff_ends();
  for (std::uint32_t r = 0; r < regions_.size(); ++r) {
    const std::uint64_t step = regions_[r].steps;
    regions_[r].arena == 0 && !is_backing_off ? static_cast<void>(regions_[r].gates[step & 1]->try_put(Message()))
                                              : send(r, step);
  }
  if (is_backing_off) {
    // No regions for the caller: it sleeps, and helps if nobody wakes it in good time.
    int naps = 0;
    for (; naps < kNaps && running_.load(std::memory_order_acquire) != 0; ++naps) {
      caller_.arm();
      if (running_.load(std::memory_order_seq_cst) == 0 || caller_.park()) break;
    }
    caller_.disarm();
    if (naps == kNaps) watch.end_backoff(now());
    watch.restart();
  }
  block_->wait_for_all();
}

std::uint64_t RegionGraph::Graph::run(TickProgram& program, std::uint64_t first, std::uint64_t end) noexcept {
  program_ = &program;
  first_ = first;
  steps_before_ = regions_.front().steps;
  const std::uint64_t block = program.block() == 0 ? end - first : program.block();
  std::uint64_t limit = first + std::min(block, end - first);
  workers_.all[0].watch.restart();
  arenas_.nodes().front()->arena.execute([&] {
    for (;; limit += std::min(block, end - limit)) {
      run_block(limit);
      if (limit == end) return;
      const HookScope scope(options_.hooks);
      if (program.should_stop(limit)) return;
    }
  });
  return limit;
}

RegionGraph::RegionGraph(const Arenas& arenas, Options options)
    : arenas_(arenas),
      options_(options),
      workers_(std::make_unique<Workers>(arenas.cores().size(), arenas.nodes().size())) {}

RegionGraph::~RegionGraph() = default;

RegionGraph::Graph* RegionGraph::graph_of(const TickProgram& program) noexcept {
  const auto found = std::find_if(graphs_.begin(), graphs_.end(), [&](const auto& g) { return g->fits(program); });
  if (found != graphs_.end()) {
    std::rotate(graphs_.begin(), found, found + 1);
    return graphs_.front().get();
  }
  try {
    auto made = std::make_unique<Graph>(program, arenas_, options_, *workers_);
    if (graphs_.size() == kGraphsKept) graphs_.pop_back();
    graphs_.insert(graphs_.begin(), std::move(made));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  return graphs_.front().get();
}

bool RegionGraph::run(TickProgram& program, std::uint64_t first, std::uint64_t end, std::uint64_t& done) noexcept {
  Graph* graph = graph_of(program);
  if (!graph) return false;
  done = graph->run(program, first, end);
  return true;
}

void RegionGraph::prepare() noexcept {
  try {
    for (const auto& node : arenas_.nodes()) node->arena.enqueue([] {});
  } catch (const std::exception&) {  // a hint, never needed
  }
}

}  // namespace weft::scheduler::internal
