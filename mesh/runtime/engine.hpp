// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_region.hpp"
#include "mesh/memory/byte_archive.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include "actors/activity_board.hpp"
#include "actors/supervisor.hpp"

#include "scheduler/executor.hpp"

#include "kernels/cpu_stream.hpp"
#include "kernels/linear.hpp"

#include "topology/plan.hpp"

#include "core/state_hash.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weft::mesh {

/// What a learning rule adds to a run: which steps are ticks, and what each layer does in a step once its cell has
/// fired. A step obeys the scheduler's neighbour rule, so `learn` may read what neighbours wrote in earlier steps.
/// @thread learn: the thread of the region that owns `node`, regions at once
class StepHook {
 public:
  virtual ~StepHook() = default;
  /// Whether step `step` of the run is a tick (the layers fire).
  virtual bool fires(std::uint64_t step) const noexcept = 0;
  /// Number of ticks among the steps [0, step).
  virtual std::uint64_t fired_before(std::uint64_t step) const noexcept = 0;
  /// The layer's learning in this step; `tick` counts committed ticks at the step's beginning.
  virtual void learn(std::size_t region, NodeId node, std::uint64_t step, std::uint64_t tick) noexcept = 0;
  /// How many of a layer's rows, the first ones, will be learned from as they fire in this step (ForwardArgs).
  virtual std::size_t training_rows([[maybe_unused]] NodeId node, [[maybe_unused]] std::uint64_t step,
                                    [[maybe_unused]] std::uint64_t tick) const noexcept {
    return 0;
  }
  /// The rms of the layer's last gradient before this step; 0 before the first. For layers whose reader looks at it.
  virtual float gradient_size([[maybe_unused]] NodeId node, [[maybe_unused]] std::uint64_t step) const noexcept {
    return 0.0f;
  }
  /// Adds what the rule keeps for a layer (optimiser state) to the state hash.
  virtual void hash_layer([[maybe_unused]] NodeId node, [[maybe_unused]] StateHasher& hasher) const {}
  /// Appends what the rule keeps for a layer (optimiser state), for the layer's cell to go back to.
  virtual void remember_layer([[maybe_unused]] NodeId node, [[maybe_unused]] std::vector<float>& kept) const {}
  /// Goes back to what was remembered; returns what follows it. Runs as `learn` does.
  virtual const float* restart_layer([[maybe_unused]] NodeId node, const float* kept) noexcept { return kept; }
  /// Everything that its steps change besides mesh and weights; without `with_weights` also not what goes with these
  /// (optimiser state). Between runs.
  virtual void save_state([[maybe_unused]] ByteArchive& to, [[maybe_unused]] bool with_weights) const {}
  /// Puts it back. @error shape_mismatch: a rule of another shape saved it; nothing changes then
  virtual Status load_state([[maybe_unused]] const ByteArchive& from, [[maybe_unused]] bool with_weights) { return {}; }
  /// Links besides the network's own that `learn` reads across; pairs of nodes.
  virtual std::vector<std::pair<NodeId, NodeId>> extra_links() const { return {}; }

  // --- for a device that records the steps (mesh/device/device_executor.hpp)
  /// Why `learn` cannot be recorded: it does more than call operations of the engine's stream. Empty: it can be.
  virtual std::string why_not_recorded() const { return "the learning rule does not say how"; }
  /// The memory that its steps touch besides mesh and weights. Windows are rings over samples.
  virtual void each_piece([[maybe_unused]] const std::function<void(const DeviceRegion&)>& visit) const {}
  /// Steps after which a recorded run repeats itself.
  virtual std::uint64_t period() const noexcept { return 1; }
  /// Samples [first, second) of which `count` steps from `step` on touch windows; `tick` is `step`'s.
  virtual std::pair<std::uint64_t, std::uint64_t> samples_of([[maybe_unused]] std::uint64_t step,
                                                             [[maybe_unused]] std::uint64_t tick,
                                                             [[maybe_unused]] std::uint64_t count) const {
    return {0, 0};
  }
  /// What these steps' operations hang on besides the tick's place in the rings; nothing: on more than can be told.
  virtual std::optional<Hash128> record_key([[maybe_unused]] std::uint64_t step, [[maybe_unused]] std::uint64_t tick,
                                            [[maybe_unused]] std::uint64_t count) const {
    return std::nullopt;
  }
  /// Counts of updates by node, and what is added to them where recorded steps run again.
  virtual std::span<const std::uint64_t> update_counts() const noexcept { return {}; }
  /// Whether a device may find that a node has nothing to learn in a step, and count its updates itself.
  virtual bool may_skip([[maybe_unused]] NodeId node) const noexcept { return false; }
  virtual void add_updates([[maybe_unused]] NodeId node, [[maybe_unused]] std::uint64_t updates) noexcept {}
  /// What of it the host alone changes as it runs: counters, labels, update counts; and back.
  virtual void save_host([[maybe_unused]] ByteArchive& to) const {}
  virtual void load_host([[maybe_unused]] const ByteArchive& from) {}
};

/// Values for an input port over a run: tick f of the run reads row f / hold, the last row again after the end.
struct PortFeed {
  const float* base = nullptr;  // [rows][sessions][width]
  std::uint64_t rows = 0;
  std::uint64_t hold = 1;
};

/// Where the values an output commits in a run go: tick f to base + f * sessions * width.
struct OutputSink {
  NodeId node = 0;
  float* base = nullptr;
};

/// How many threads one region's operations may take, and what makes one worth it.
struct Width {
  std::size_t threads = 1;
  double worthwhile = kernels::Help::kWorthwhile;
};

/// Runs ticks of one State over a network: the region graph, the firing of cells, control and supervision.
/// @thread run: one at a time; post: any
class Engine final : public scheduler::TickProgram {
 public:
  /// The parts must outlive the engine. `supervisor` null: no cells, only layers (a scratch state, nobody supervises).
  /// On `board` each region says at which cell it is.
  static std::unique_ptr<Engine> build(const Graph& graph, WeightStore& weights, State& state,
                                       const topology::Plan& plan, const std::vector<std::uint32_t>& node_region,
                                       std::span<const std::unique_ptr<Cell>> cells, actors::Supervisor* supervisor,
                                       actors::Registry* registry, StepHook* hook, const Width& width = {},
                                       actors::ActivityBoard* board = nullptr);

  /// The first step's visits on the board are told apart from others by this number, the next step's by the next.
  void begin_visits(std::uint64_t serial) noexcept { serial_ = serial; }

  /// The feed of a port for the next runs; base == null: the port keeps its last value.
  void feed(NodeId port, PortFeed feed) noexcept { feeds_[port] = feed; }
  void set_sinks(std::vector<OutputSink> sinks);

  /// Runs `steps` steps of a run that began at `tick`, from its step `first` on; returns how many were done. A halt
  /// ends them where it would end the whole run.
  std::uint64_t run(scheduler::Executor& executor, std::uint64_t tick, std::uint64_t steps,
                    std::uint64_t first = 0) noexcept;
  /// Ticks among the first `steps` steps.
  std::span<const PortFeed> feeds() const noexcept { return feeds_; }
  std::span<const OutputSink> sinks() const noexcept { return sinks_; }
  StepHook* hook() const noexcept { return hook_; }
  /// The memory for intermediate results of operations, by region.
  std::span<const AlignedBuffer<float>> workspaces() const noexcept { return workspaces_; }
  std::uint64_t ticks_in(std::uint64_t steps) const noexcept { return hook_ ? hook_->fired_before(steps) : steps; }

  /// Sends an order to a cell. @error full
  Status post(std::size_t cell, CommandMessage message);

  /// A fault of the cell that holds `node`, found while learning at `tick`, or between runs, at the tick committed
  /// last. Nothing for a cell that is isolated.
  void report_fault(NodeId node, std::uint64_t tick, actors::FaultKind kind, const char* reason = "") noexcept;
  /// Whether supervision has disabled the layer's cell. @thread as StepHook::learn
  bool is_isolated(NodeId node) const noexcept;
  /// The first fault (by tick, then cell) whose policy halts the mesh; nothing when there was none.
  struct Halt {
    std::uint64_t tick = UINT64_MAX;
    std::uint32_t cell = 0;
    actors::FaultKind kind = actors::FaultKind::reported;
    actors::FaultReason reason{};
  };
  const Halt* halt() const noexcept { return halted_.load(std::memory_order_acquire) ? &first_halt_ : nullptr; }
  void clear_halt() noexcept;
  /// Halts the mesh, or keeps the halt that came first.
  /// @thread any
  void note_halt(const Halt& halt) noexcept;

  /// Delivers what waits for the cells, as the next tick would: so that a checkpoint holds it.
  void deliver_all(std::uint64_t tick) noexcept;
  /// Whether orders lie in mailboxes; and forgets that they do, when they were taken out.
  bool has_mail() const noexcept;
  void forget_mail() noexcept;
  /// Leaves orders where they lie: ticks that are lived again were lived without them.
  void hold_mail(bool does) noexcept { holds_mail_ = does; }
  /// Ticks from this one on before one in which a cell does more than fire, or not, as its period says: it gets an
  /// order, or is marked and fires. Cells are looked at only if one has changed since they were.
  std::uint64_t quiet_ticks(std::uint64_t tick) const;
  /// After so many ticks the same cells fire again.
  std::uint64_t firing_period() const { return unrest().period; }
  /// Adds which cells fire in these ticks.
  void add_firing(std::uint64_t tick, std::uint64_t ticks, StateHasher& hasher) const;
  /// Whether cells keep orders for later.
  bool has_deferred() const noexcept;
  /// Cells were given orders other than by `post`.
  void look_for_orders() noexcept;

  kernels::OpStream& stream(std::size_t region) noexcept { return recording_ ? *recording_ops_ : streams_[region]; }
  /// Whether one of the values, which an operation just made for `node` to learn by, is not 0. While steps are recorded
  /// nobody knows: yes, and what `begin_move` and `end_move` of the node enclose in this step will not happen if it is
  /// no.
  bool any_nonzero(NodeId node, std::span<const float> values) noexcept;
  /// The layer's own backward. While steps are recorded, one that computes otherwise than by operations is not asked.
  void backward(std::size_t region, NodeId node, const BackwardArgs& args);
  /// Around the optimiser's step for a node's weights.
  void begin_move(NodeId node) noexcept;
  void end_move(NodeId node) noexcept;

  /// Where recorded ports' values come from and outputs' go to, on the device: rows by ticks since the recording began.
  struct Recording {
    GraphRecorder* stream = nullptr;
    std::uint64_t tick = 0;             // of step 0 of the run
    std::uint64_t first_fired = 0;      // ticks of the run before the recording's first
    std::span<float* const> feeds;      // by port; null: it keeps its value
    std::span<const OutputSink> sinks;  // sorted by node
  };
  /// Parts of a step. Ports are their own, since the host and a device may both want them.
  enum class Side : int { both, ports, host, device };
  /// Records what a step does, learning included, instead of doing it.
  /// @thread nobody else's while it runs
  void record_step(const Recording& recording, std::uint64_t step, Side side = Side::both);

  /// Which nodes stay on the host while a device runs the others: whole cells, sharers of weights together, and the
  /// ports that they read.
  /// `is_opaque`: layers that compute otherwise than by operations; they are on the host.
  void set_host_nodes(std::vector<std::uint8_t> is_host, std::vector<std::uint8_t> is_opaque);
  /// Before steps that the host does in part; `is_first`: the run's first is among them.
  void begin_host_parts(std::uint64_t tick, bool is_first) noexcept;
  /// The host's parts of one step, without orders and supervision; the tick is quiet. False: one of them failed, and
  /// its step is not what it should be.
  bool run_host_parts(scheduler::Executor& executor, std::uint64_t step) noexcept;
  /// What watchers order meanwhile is held back until the step counts.
  bool has_orders() const noexcept;
  /// Has it lie where the next tick would put it.
  void send_orders();
  void forget_orders() noexcept;
  /// Room for Layer::workspace_size() of any layer, for the thread that runs the region.
  float* workspace(std::size_t region) noexcept { return workspaces_[region].data(); }
  std::uint32_t region_of(NodeId node) const noexcept { return node_region_[node]; }
  /// What `node` read when it made output(node, tick).
  kernels::ConstRows input_at(NodeId node, std::uint64_t tick) const noexcept;

  std::size_t region_count() const noexcept override { return regions_.size(); }
  std::span<const std::uint32_t> neighbours(std::size_t region) const noexcept override {
    return regions_[region].neighbours;
  }
  std::uint32_t own_core(std::size_t region) const noexcept override { return regions_[region].core; }
  void run_interior(std::size_t region, std::uint64_t step) noexcept override;
  void run_boundary(std::size_t region, std::uint64_t step) noexcept override;
  bool should_stop(std::uint64_t) noexcept override { return halt() != nullptr; }
  bool wants_team() const noexcept override { return width_.threads > 1; }
  void use_team(scheduler::Team* team) noexcept override;
  /// Operations and layers that were cut up among threads so far.
  std::uint64_t forks() const noexcept;

 private:
  // What a tick reads of a layer, close together: the graph's nodes carry names and lists that a tick never needs.
  struct Unit {
    const Layer* layer = nullptr;
    ConstWeights weights;
    NodeId direct = 0;  // the one source, when read directly
    bool reads_directly = false;
    bool trains_otherwise = false;
    std::uint32_t first_sink = 0, sinks = 0;  // into sinks_: an output may have several names
    bool has_weights = false;                 // of the first parameter, for prefetching
    bool learns_late = false;                 // it shares weights
    bool fires_by_sessions = false;           // on several threads, each its sessions
    double work = 0;                          // of a session's forward
  };
  struct Part {  // a cell, or an input port
    std::uint32_t cell = UINT32_MAX;
    NodeId first = 0;
    std::uint32_t layers = 0;
  };
  /// Parts that follow each other in a list of them.
  struct Stretch {
    std::uint32_t first = 0, count = 0;
    bool is_together = false;  // computed by one call of linear_each
    kernels::Activation activation = kernels::Activation::linear;
    std::size_t out = 0, in = 0;
  };
  /// A list of parts as stretches, which cover it. Drawn anew when a cell or where weights lie has changed.
  struct Course {
    std::vector<Stretch> stretches;
    std::array<std::vector<kernels::LinearRow>, 2> rows;  // by the parity of the tick, in that tick's order
    std::uint64_t weights_seen = UINT64_MAX, cells_seen = UINT64_MAX;
  };
  struct Region {
    std::vector<Part> interior, boundary;
    Course interior_course, boundary_course;
    std::vector<Part> host_interior, host_boundary;  // those of them that stay on the host
    std::vector<std::uint32_t> neighbours;
    std::uint32_t core = scheduler::kAnyCore;
    alignas(64) std::atomic<std::uint32_t> posted{0};  // orders sent to cells of this region and not yet delivered
    bool has_deferred = false;
    std::uint64_t writes = 0;  // the slot that a cell's restart goes into: what this step commits
    std::vector<std::pair<std::uint32_t, CommandMessage>> orders;  // of watchers, to cells; held back
  };
  /// What keeps cells from firing in every tick and from doing no more.
  struct SchedulingExceptions {
    std::uint64_t seen = UINT64_MAX;         // Registry::changes() when the cells were looked at
    std::uint64_t first_order = UINT64_MAX;  // the tick in which the first one that was kept is carried out
    std::vector<std::uint64_t> marked;       // periods of cells that are marked and enabled
    std::vector<std::uint64_t> periods;      // other than 1, each once
    std::uint64_t period = 1;                // all of them; UINT64_MAX: a long one
    Hash128 who;
  };
  const SchedulingExceptions& unrest() const;

  Engine(const Graph& graph, WeightStore& weights, State& state) : graph_(graph), weights_(weights), state_(state) {}
  void make_units();
  void make_regions(const topology::Plan& plan);
  void link_regions(std::size_t regions);
  void run_parts(const std::vector<Part>& parts, Course* course, std::size_t region, std::uint64_t step) noexcept;
  void make_course(const std::vector<Part>& parts, Course& course) const;
  bool may_run_together() const noexcept;
  void draw(const std::vector<Part>& parts, Course& course) const noexcept;
  std::optional<Stretch> row_of(const Part& part) const noexcept;
  void run_together(const std::vector<Part>& parts, const Course& course, const Stretch& stretch, std::size_t region,
                    std::uint64_t tick, std::uint64_t fired) noexcept;
  void copy_to_sinks(const Part& part, std::uint64_t tick, std::uint64_t fired) noexcept;
  void feed_first_tick(NodeId port) noexcept;
  bool is_on(Side side, NodeId node) const noexcept;
  void deliver(std::size_t region, std::uint64_t tick) noexcept;
  void prefetch(const Part& part) const noexcept;
  kernels::ConstPanels panels_of(const Part& part) const noexcept;
  void fire_port(NodeId port, std::uint64_t fired) noexcept;
  void fire_cell(const Part& part, const Part& next, std::size_t region, std::uint64_t tick, std::uint64_t fired,
                 std::uint64_t step) noexcept;
  void record_part(const Recording& recording, const Part& part, std::size_t region, std::uint64_t step);
  void record_port(const Recording& recording, NodeId port, std::uint64_t fired);
  void fire_layer(NodeId node, std::size_t region, std::uint64_t tick, std::uint64_t step);
  void forward(const Unit& unit, kernels::OpStream& stream, const ForwardArgs& args);
  void watch(Cell& cell, std::uint64_t tick, std::uint64_t step, std::size_t region) noexcept;
  /// A firing that failed leaves what stood there before, and is told.
  void fail_firing(const Part& part, std::uint64_t tick, actors::FaultKind kind, const char* reason = "") noexcept;
  void order(const Watcher& watcher, const Watcher::Place& to, CommandKind kind, std::uint64_t tick,
             std::size_t region);
  bool is_finite(const Part& part, kernels::OpStream& stream, std::uint64_t tick) noexcept;
  /// What a firing leaves, a tick's in a slot.
  static constexpr std::array kRings{&State::output, &State::hidden, &State::input, &State::preactivation,
                                     &State::cache};
  void keep_output(const Part& part, std::uint64_t tick, bool faulty_rows_only) noexcept;
  void zero_output(const Part& part, std::uint64_t tick) noexcept;
  void answer_fault(std::uint32_t cell, std::uint64_t tick, actors::FaultKind kind, const char* reason = "") noexcept;

  const Graph& graph_;
  WeightStore& weights_;
  State& state_;
  std::span<const std::unique_ptr<Cell>> cells_;
  actors::Supervisor* supervisor_ = nullptr;
  actors::Registry* registry_ = nullptr;
  mutable SchedulingExceptions unrest_;
  StepHook* hook_ = nullptr;
  GraphRecorder* recording_ = nullptr;  // while a step is recorded
  kernels::OpStream* recording_ops_ = nullptr;
  actors::ActivityBoard* board_ = nullptr;
  bool is_running_ = false;
  std::vector<std::uint8_t> is_host_;  // by node; empty: nobody divides steps
  std::vector<std::uint8_t> is_opaque_;
  bool holds_mail_ = false;
  bool is_partial_ = false;       // while the host's parts run
  std::uint64_t first_step_ = 0;  // of the run, which the executor calls 0
  std::atomic<bool> has_failed_{false};
  std::uint64_t serial_ = 0;  // of the run's first step, among all steps ever run
  std::vector<std::uint32_t> node_region_;
  std::vector<std::uint32_t> cell_region_;
  std::vector<std::uint32_t> node_cell_;
  std::vector<std::vector<NodeId>> late_;  // by region: layers that share weights, which learn when all have fired
  std::vector<Unit> units_;
  std::vector<OutputSink> sinks_;  // by node
  std::vector<Region> regions_;
  std::vector<kernels::CpuStream> streams_;
  Width width_;
  std::size_t workspace_stride_ = 0;
  std::vector<AlignedBuffer<float>> workspaces_;  // by region; of a wide one, one for each thread
  std::vector<PortFeed> feeds_;
  std::uint64_t base_tick_ = 0;

  std::atomic<bool> halted_{false};
  std::atomic_flag halt_lock_;
  Halt first_halt_;
};

}  // namespace weft::mesh
