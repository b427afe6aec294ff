// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/device_executor.hpp"

#include "mesh/device/device_assignment.hpp"

#include "core/log.hpp"

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>

namespace weft::mesh {
namespace {

using kernels::Rows;

// Steps between two agreements of host and device: what a fault costs at most, in steps on the CPU.
constexpr std::uint64_t kMostLogged = 1024;
constexpr std::uint64_t kMostLoggedBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kPullsLogged = 4;  // or so many times what a pull brings, that pulls may be seldom
// Of what inputs bring, in a part of a block: later parts cross the bus while the device is at work on earlier ones.
constexpr std::uint64_t kPartBytes = std::uint64_t{4} << 20;
// Firings in a program: its tables take some 300 bytes for each.
constexpr std::uint64_t kMostFirings = std::uint64_t{1} << 19;
constexpr std::uint64_t kMostSteps = 64;  // in a program
// Cells' periods together of which a program's steps see every phase; with longer ones programs are single steps.
constexpr std::uint64_t kMostPhases = 8;
constexpr std::uint64_t kScratchBytes = std::uint64_t{256} << 20;
// Groups of mirrored memory, in the order in which less and less often changes.
constexpr std::uint32_t kState = 0, kWeights = 1, kHook = 2, kNothing = 3;

}  // namespace

DeviceExecutor::DeviceExecutor(DeviceRecovery& hold, const Graph& graph, WeightStore& weights, State& state,
                               Engine& engine, std::span<const std::unique_ptr<Cell>> cells)
    : hold_(hold), graph_(graph), weights_(weights), state_(state), engine_(engine), cells_(cells) {
  HostPlaces places = host_places(graph);
  is_host_ = std::move(places.is_host);
  is_asked_ = places.is_asked;
  figures_.why_host_cells = std::move(places.why);
  if (hold_.is_held()) figures_.device = hold_.device().info().name;
  for (const auto& cell : cells_) {
    figures_.host_cells += is_host_[cell->first()];
    for (Watcher& watcher : cell->watchers()) watchers_.push_back(&watcher);
  }
  engine_.set_host_nodes(is_host_, std::move(places.is_opaque));
}

DeviceExecutor::~DeviceExecutor() {
  if (stream_) static_cast<void>(stream_->finish());
}

bool DeviceExecutor::has_feeds_or_sinks() const noexcept {
  return !engine_.sinks().empty() || std::any_of(engine_.feeds().begin(), engine_.feeds().end(),
                                                 [](const PortFeed& feed) { return feed.base != nullptr; });
}

std::uint64_t DeviceExecutor::block_steps() const noexcept {
  if (is_mixed()) return 1;
  const std::uint64_t depth = state_.depth();
  const std::uint64_t firings = std::max<std::uint64_t>(graph_.nodes().size(), 1);
  StepHook* const hook = engine_.hook();
  // So many steps, and rings, boxes and phases stand where they stood.
  const std::uint64_t base = hook ? hook->period() * depth : depth;
  if (!hook && !has_feeds_or_sinks()) return base;
  const std::uint64_t most = std::clamp<std::uint64_t>(kMostFirings / firings, base, std::max(base, kMostSteps));
  return most / base * base;
}

std::uint64_t DeviceExecutor::part_steps() const noexcept {
  const std::uint64_t base = state_.depth() * (engine_.hook() ? engine_.hook()->period() : 1);
  std::uint64_t bytes = 1;  // of a tick
  for (NodeId port = 0; port < engine_.feeds().size(); ++port)
    if (engine_.feeds()[port].base) bytes += state_.sessions() * graph_.nodes()[port].width * sizeof(float);
  return std::max(kPartBytes / (bytes * std::max<std::uint64_t>(engine_.ticks_in(base), 1)), std::uint64_t{1}) * base;
}

std::uint64_t DeviceExecutor::steps_at_once() const {
  const std::uint64_t block = block_steps(), period = engine_.firing_period();
  if (period == 1 || is_mixed()) return block;
  if (period > kMostPhases) return 1;
  if (engine_.hook() || has_feeds_or_sinks()) return block;
  const std::uint64_t all = std::lcm(block, period);
  return all * graph_.nodes().size() > kMostFirings ? 1 : all;
}

std::uint64_t DeviceExecutor::quiet_steps(std::uint64_t tick, std::uint64_t step, std::uint64_t steps) const {
  const std::uint64_t fired = engine_.ticks_in(step), ticks = engine_.quiet_ticks(tick + fired);
  if (engine_.ticks_in(steps) - fired <= ticks) return steps - step;
  std::uint64_t end = step;
  while (engine_.ticks_in(end + 1) - fired <= ticks) ++end;
  return end - step;
}

std::uint64_t DeviceExecutor::run(scheduler::Executor& executor, std::uint64_t tick, std::uint64_t steps) noexcept {
  executor_ = &executor;
  outputs_.clear();
  std::uint64_t done = 0;
  if (!hold_.is_held()) {
    const std::uint64_t wait = hold_.wait();
    const bool is_plain = !engine_.hook() && !has_feeds_or_sinks();  // it may go back in the middle
    if (wait >= steps || (wait > 0 && !is_plain)) return run_host(executor, tick, 0, steps);
    done = run_host(executor, tick, 0, wait);
    if (!engine_.halt()) hold_.take(figures_);
  }
  while (done < steps && !engine_.halt()) {
    const std::uint64_t quiet = hold_.is_held() ? quiet_steps(tick, done, steps) : 0;
    if (quiet > 0)
      done += run_quiet(executor, tick, done, quiet);
    else  // orders are carried out at one tick's boundary; the device goes on behind it
      done += run_host(executor, tick, done, hold_.is_held() ? 1 : steps - done);
  }
  // A halt ends the run where it would have ended on the CPU.
  if (const std::uint64_t past = done % engine_.block(); past != 0 && done < steps)
    done += run_host(executor, tick, done, std::min(engine_.block() - past, steps - done));
  return done;
}

std::uint64_t DeviceExecutor::run_quiet(scheduler::Executor& executor, std::uint64_t tick, std::uint64_t first,
                                        std::uint64_t steps) noexcept {
  std::uint64_t done = steps;
  bool is_logged = false, is_wrong = false;
  is_running_ = true;
  const auto attempt = [&]() -> Status {
    WEFT_CHECK(prepare());
    if (!mirror_) return {};
    log_run(tick, first, steps);
    is_logged = true;
    const std::uint32_t none = 0;
    stream_->upload(&none, sizeof none, notes_.data<void>());
    WEFT_CHECK(reset_counts());
    WEFT_TRY(const std::uint64_t ran, run_device(tick, first, first + steps));
    is_wrong = has_host_failed_;
    if (is_wrong) return {};
    WEFT_CHECK(pull_counts());
    std::uint32_t notes = 0;
    WEFT_CHECK(stream_->download(notes_.data<void>(), sizeof notes, &notes));
    is_wrong = notes != 0;
    if (!is_wrong) done = ran;
    return {};
  };
  try {
    if (const Status tried = attempt(); !tried) give_up(tried.error());
  } catch (const std::exception& error) {
    give_up(Error(Errc::internal, std::string("vulkan: ") + error.what()));
  }
  is_running_ = false;
  if (is_logged) log_feeds(engine_.ticks_in(first + done));
  if (!is_logged) {  // the device is not to have it
    if (!hold_.is_held() && is_ahead_) replay(executor, false);
    return run_host(executor, tick, first, steps);
  }
  if (!hold_.is_held() || is_wrong) return replay(executor, true);
  is_ahead_ = true;
  log_.back().steps = done;
  log_steps_ -= steps - done;
  figures_.device_steps += done;
  hold_.note_steps(done);
  if (engine_.has_orders()) {
    // They are no part of the log, so it ends before them.
    pull();
    engine_.send_orders();
  } else if (log_steps_ > kMostLogged ||
             log_bytes_ > std::max(kMostLoggedBytes, kPullsLogged * landings_[0].bytes.size())) {
    if (is_mixed())
      pull();  // the host's own cells go on from its memory
    else
      land();
  }
  return done;
}

std::uint64_t DeviceExecutor::run_host(scheduler::Executor& executor, std::uint64_t tick, std::uint64_t first,
                                       std::uint64_t steps) noexcept {
  if (steps == 0) return 0;
  pull();
  is_behind_ = true;
  is_running_ = true;
  const std::uint64_t done = engine_.run(executor, tick, steps, first);
  is_running_ = false;
  figures_.host_steps += done;
  if (!hold_.is_held()) hold_.note_steps(done);
  return done;
}

Status DeviceExecutor::prepare() {
  if (!stream_) {
    WEFT_TRY(stream_, hold_.device().make_stream());
    WEFT_TRY(notes_, hold_.device().memory().allocate(sizeof(std::uint32_t), "what a run notes"));
  }
  if (weights_seen_ != weights_.changes() || (!mirror_ && figures_.why_host.empty())) {
    programs_.clear();
    recorder_.reset();
    mirror_.reset();
    weights_seen_ = weights_.changes();
    WEFT_CHECK(make_mirror());
    is_behind_ = true;
  }
  if (!mirror_ || !is_behind_) return {};
  mirror_->push(*stream_);
  ++figures_.pushes;
  is_behind_ = false;
  return stream_->status();
}

Status DeviceExecutor::make_mirror() {
  StepHook* const hook = engine_.hook();
  const std::string before = figures_.why_host;
  figures_.why_host = hook ? hook->why_not_recorded() : std::string();
  if (figures_.host_cells == cells_.size())
    figures_.why_host = is_asked_ ? "the network keeps all cells on the CPU"
                                  : "no cell is left for the device: " + figures_.why_host_cells;
  if (!figures_.why_host.empty()) {
    if (figures_.why_host != before) log_warn("vulkan: the mesh runs on the CPU: " + figures_.why_host);
    return {};
  }
  // What the network says itself needs no telling.
  if (!is_asked_ && figures_.pushes == 0)
    log_info("vulkan: the CPU runs cells of its own beside the device: " + figures_.why_host_cells);
  std::vector<DeviceRegion> pieces;
  state_.each_slot([&](const float* data, std::size_t bytes) {
    pieces.push_back({data, bytes, RegionUse::kept, 0, kState});
  });
  // Steps without a rule leave the weights as they are.
  weights_.each_array([&](NodeId node, const void* data, std::size_t bytes) {
    pieces.push_back({data, bytes, RegionUse::kept, 0, kWeights, node});
  });
  std::uint64_t scratch = 0;
  for (const AlignedBuffer<float>& workspace : engine_.workspaces())
    pieces.push_back({workspace.data(), workspace.size() * sizeof(float), RegionUse::scratch});
  if (hook)
    hook->each_piece([&](DeviceRegion piece) {
      piece.group = kHook;
      pieces.push_back(piece);
    });
  for (const DeviceRegion& piece : pieces)
    if (piece.use == RegionUse::scratch) scratch += piece.bytes;
  const auto firing = static_cast<std::uint64_t>(std::count(is_host_.begin(), is_host_.end(), 0));
  const std::uint64_t copies = scratch ? std::clamp<std::uint64_t>(kScratchBytes / scratch, 1, firing) : 1;
  const ByteRanges hosts = is_mixed() ? hosts_alone(pieces) : ByteRanges();
  WEFT_TRY(mirror_, DeviceBuffers::build(hold_.device(), std::move(pieces), block_steps(), copies, hosts));
  const std::size_t nodes = graph_.nodes().size();
  WEFT_TRY(guards_, hold_.device().memory().allocate((2 * nodes + 1) * sizeof(float), "counts of updates"));
  float* const counts = guards_.data() + nodes;
  recorder_ = std::make_unique<GraphRecorder>(
      *stream_, *mirror_, notes_.data<std::uint32_t>(),
      StepGuards(*stream_, {guards_.data<std::uint32_t>(), counts, counts + nodes}, nodes));
  feeds_.clear();
  feeds_.resize(graph_.port_count());
  border_ = HostDeviceExchange();
  notes_kept_at_ = 0;
  figures_.device_bytes = mirror_->bytes();
  return {};
}

Result<std::uint64_t> DeviceExecutor::run_device(std::uint64_t tick, std::uint64_t first, std::uint64_t end) {
  StepHook* const hook = engine_.hook();
  const std::uint64_t block = steps_at_once();
  // The slot that the first tick reads.
  for (NodeId port = 0; port < engine_.feeds().size() && first == 0; ++port) {
    const PortFeed& feed = engine_.feeds()[port];
    if (!feed.base) continue;
    const Rows slot = recorder_->there(state_.output(port, tick));
    if (slot.stride == slot.cols) {
      stream_->upload(feed.base, slot.rows * slot.cols * sizeof(float), slot.data);
      continue;
    }
    for (std::size_t b = 0; b < slot.rows; ++b)
      stream_->upload(feed.base + b * slot.cols, slot.cols * sizeof(float), slot.row(b));
  }
  std::uint64_t step = first;
  if (is_mixed()) {
    begin_mixed(tick, first == 0);
    while (step < end && !has_host_failed_ && !engine_.has_orders()) WEFT_CHECK(run_mixed_step(tick, step++));
    WEFT_CHECK(stream_->status());
    return step - first;
  }
  const bool is_alike = !hook && !has_feeds_or_sinks() && block % engine_.firing_period() == 0;
  while (step < end) {
    std::uint64_t count = std::min(block, end - step);
    // Behind a step of the host's, up to the next sample.
    if (const std::uint64_t past = hook ? step % hook->period() : 0) count = std::min(count, hook->period() - past);
    const std::uint64_t times = is_alike ? (end - step) / count : 1;
    WEFT_CHECK(run_block(tick, step, count, times));
    step += count * times;
  }
  WEFT_CHECK(stream_->status());
  return step - first;
}

Status DeviceExecutor::run_block(std::uint64_t tick, std::uint64_t step, std::uint64_t count, std::uint64_t times) {
  StepHook* const hook = engine_.hook();
  const std::uint64_t now = tick + engine_.ticks_in(step);
  const auto [first, end] = hook ? hook->samples_of(step, now, count) : std::pair<std::uint64_t, std::uint64_t>{0, 0};
  mirror_->move_window(first);
  if (hook) mirror_->push_window(*stream_, end);
  const std::uint64_t most = has_feeds_or_sinks() ? part_steps() : count;
  for (std::uint64_t done = 0; done < count; done += most) {
    const Steps part{step + done, std::min(most, count - done), step, first};
    WEFT_CHECK(push_feeds(part));
    WEFT_TRY(const auto recorded, program_of(tick, part));
    WEFT_CHECK(stream_->run(recorded->program, times));
    WEFT_TRY(const auto handed_over, stream_->submit());
    static_cast<void>(handed_over);
  }
  log_feeds(engine_.ticks_in(step + count));
  if (hook) WEFT_CHECK(mirror_->pull_window(*stream_, end));
  return pull_sinks(step, count);
}

void DeviceExecutor::give_up(const Error& error) noexcept {
  // Memory may be dropped when nothing is at work on it any more.
  if (stream_) static_cast<void>(stream_->finish());
  programs_.clear();
  recorder_.reset();
  mirror_.reset();
  feeds_.clear();
  sinks_.clear();
  notes_ = gpu::Buffer();
  guards_ = gpu::Buffer();
  fetched_ = gpu::Buffer();
  stream_.reset();
  hold_.let_go(error, figures_);
}

void DeviceExecutor::set_input(NodeId port, std::size_t session, std::span<const float> values,
                               std::uint64_t tick) noexcept {
  float* const here = state_.output(port, tick).row(session);
  if (!is_ahead_ || is_host_[port]) std::copy(values.begin(), values.end(), here);
  engine_.feed(port, {});
  if (!mirror_ || is_behind_) return;
  const Rows there = recorder_->there(state_.output(port, tick));
  stream_->upload(values.data(), values.size_bytes(), there.row(session));
  if (!is_ahead_) return;
  Logged& input = log_.emplace_back();
  input.tick = tick;
  input.port = port;
  input.session = session;
  input.input.assign(values.begin(), values.end());
  log_bytes_ += values.size_bytes();
}

std::span<const float> DeviceExecutor::output(NodeId node, std::size_t session, std::uint64_t tick) noexcept {
  if (is_host_[node]) {
    const Rows here = state_.output(node, tick);
    return {here.row(session), here.cols};
  }
  std::vector<float>& kept = outputs_[{node, session}];
  if (kept.empty()) {
    const Rows there = recorder_->there(state_.output(node, tick));
    kept.resize(there.cols);
    if (Status read = stream_->download(there.row(session), kept.size() * sizeof(float), kept.data()); !read) {
      give_up(read.error());
      replay(*executor_, false);
      const Rows here = state_.output(node, tick);
      kept.assign(here.row(session), here.row(session) + here.cols);
    }
  }
  return kept;
}

void DeviceExecutor::pull() noexcept {
  if (!is_ahead_ || is_running_) return;
  if (!land()) return;
  landings_[0].settle();
  has_landed_ = is_ahead_ = false;
}

bool DeviceExecutor::land() noexcept {
  ++figures_.pulls;
  Readback& to = landings_[has_landed_];
  if (Status landed = mirror_->land(*stream_, engine_.hook() ? kNothing : kWeights, border_.by_host(), to); !landed) {
    give_up(landed.error());
    replay(*executor_, false);
    return false;
  }
  if (has_landed_) std::swap(landings_[0], landings_[1]);
  has_landed_ = true;
  forget_log();
  return true;
}

}  // namespace weft::mesh
