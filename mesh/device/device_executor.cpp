// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/device_executor.hpp"

#include "core/log.hpp"

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>

namespace weft::mesh {
namespace {

using kernels::MatrixView;

// Steps between two agreements of host and device: what a fault costs at most, in steps on the CPU.
constexpr std::uint64_t kMostLogged = 1024;
constexpr std::uint64_t kMostLoggedBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kDownloadsLogged = 4;  // or this many times the size of a download, so that downloads are rare
// Of what inputs bring, in a part of a block: later parts cross the bus while the device is at work on earlier ones.
constexpr std::uint64_t kUploadBytes = std::uint64_t{4} << 20;
// Firings in a graph: its tables take some 300 bytes for each.
constexpr std::uint64_t kMostFirings = std::uint64_t{1} << 19;
constexpr std::uint64_t kMostSteps = 64;  // in a graph
// Cells' periods together of which a graph's steps see every phase; with longer ones graphs are single steps.
constexpr std::uint64_t kMostPhases = 8;

}  // namespace

DeviceExecutor::DeviceExecutor(DeviceRecovery& recovery, Engine& engine)
    : recovery_(recovery),
      engine_(engine),
      places_(host_places(engine.runner().graph())),
      image_(recovery, engine, places_.is_host, places_.is_custom),
      windows_(engine),
      mixed_(engine, image_, statistics_, places_.is_host),
      graphs_(engine, image_, windows_, statistics_),
      log_(engine) {
  statistics_.why_host_cells = places_.why;
  if (recovery_.is_held()) statistics_.device = recovery_.device().info().name;
  for (const auto& cell : engine_.runner().cells()) statistics_.host_cells += places_.is_host[cell->first()];
  if (is_mixed()) graphs_.divide(mixed_);
}

void DeviceExecutor::count_on(const DeviceStatistics& before) {
  statistics_.device_steps += before.device_steps;
  statistics_.copy_steps += before.copy_steps;
  statistics_.copy_replays += before.copy_replays;
  statistics_.host_steps += before.host_steps;
  statistics_.replays += before.replays;
  statistics_.graphs += before.graphs;
  statistics_.uploads += before.uploads;
  statistics_.downloads += before.downloads;
  statistics_.exchanged_bytes += before.exchanged_bytes;
  statistics_.faults += before.faults;
  statistics_.restarts += before.restarts;
  statistics_.last_fault = before.last_fault;
  if (recovery_.is_held()) return;
  statistics_.device = before.device;
  statistics_.why_host = before.why_host;
}

DeviceExecutor::~DeviceExecutor() { image_.finish(); }

RecordableRule* DeviceExecutor::rule() const noexcept {
  return engine_.rule() ? engine_.rule()->recordable() : nullptr;
}

bool DeviceExecutor::has_feeds_or_sinks() const noexcept {
  const RunBuffers& buffers = engine_.buffers();
  return !buffers.sinks().empty() || std::any_of(buffers.feeds().begin(), buffers.feeds().end(),
                                                 [](const PortFeed& feed) { return feed.base != nullptr; });
}

std::uint64_t DeviceExecutor::base_steps() const noexcept {
  const std::uint64_t depth = engine_.runner().state().depth();
  return rule() ? rule()->period() * depth : depth;
}

std::uint64_t DeviceExecutor::block_steps() const noexcept {
  if (is_mixed()) return 1;
  const std::uint64_t firings = std::max<std::uint64_t>(node_count(), 1), base = base_steps();
  if (!engine_.rule() && !has_feeds_or_sinks()) return base;
  const std::uint64_t most = std::clamp<std::uint64_t>(kMostFirings / firings, base, std::max(base, kMostSteps));
  return most / base * base;
}

std::uint64_t DeviceExecutor::part_steps() const noexcept {
  const std::uint64_t base = base_steps();
  std::uint64_t bytes = 1;  // of a tick
  const std::span<const PortFeed> feeds = engine_.buffers().feeds();
  for (NodeId port = 0; port < feeds.size(); ++port)
    if (feeds[port].base)
      bytes += engine_.runner().state().sessions() * engine_.runner().graph().nodes()[port].width * sizeof(float);
  return std::max(kUploadBytes / (bytes * std::max<std::uint64_t>(engine_.ticks_in(base), 1)), std::uint64_t{1}) * base;
}

std::uint64_t DeviceExecutor::steps_at_once() const {
  const std::uint64_t block = block_steps(), period = engine_.exceptions().firing_period();
  if (period == 1 || is_mixed()) return block;
  if (period > kMostPhases) return 1;
  if (engine_.rule() || has_feeds_or_sinks()) return block;
  const std::uint64_t all = std::lcm(block, period);
  return all * node_count() > kMostFirings ? 1 : all;
}

std::uint64_t DeviceExecutor::steady_steps(std::uint64_t tick, std::uint64_t step, std::uint64_t steps) const {
  if (engine_.commands().has_mail()) return 0;
  const std::uint64_t fired = engine_.ticks_in(step), ticks = engine_.exceptions().steady_ticks(tick + fired);
  if (engine_.ticks_in(steps) - fired <= ticks) return steps - step;
  std::uint64_t end = step;
  while (engine_.ticks_in(end + 1) - fired <= ticks) ++end;
  return end - step;
}

std::uint64_t DeviceExecutor::run(scheduler::Executor& executor, std::uint64_t tick, std::uint64_t steps) noexcept {
  executor_ = &executor;
  outputs_.clear();
  std::uint64_t done = 0;
  if (!recovery_.is_held()) {
    const std::uint64_t wait = recovery_.wait();
    const bool is_plain = !engine_.rule() && !has_feeds_or_sinks();  // it may go back in the middle
    if (wait >= steps || (wait > 0 && !is_plain)) return run_host(executor, tick, 0, steps);
    done = run_host(executor, tick, 0, wait);
    if (!engine_.is_halted()) recovery_.acquire(statistics_);
  }
  while (done < steps && !engine_.is_halted()) {
    const std::uint64_t quiet = recovery_.is_held() ? steady_steps(tick, done, steps) : 0;
    if (quiet > 0)
      done += run_steady(executor, tick, done, quiet);
    else  // commands are applied at one tick's boundary; the device goes on behind it
      done += run_host(executor, tick, done, recovery_.is_held() ? 1 : steps - done);
  }
  // A halt ends the run where it would have ended on the CPU.
  if (const std::uint64_t past = done % engine_.block(); past != 0 && done < steps)
    done += run_host(executor, tick, done, std::min(engine_.block() - past, steps - done));
  return done;
}

Result<std::optional<std::uint64_t>> DeviceExecutor::try_device(std::uint64_t tick, std::uint64_t first,
                                                                std::uint64_t steps) {
  RecordableRule* const rule = this->rule();
  WEFT_CHECK(image_.counts().reset(image_.stream(), rule != nullptr));
  WEFT_TRY(const std::uint64_t ran, run_device(tick, first, first + steps));
  if (is_mixed() && mixed_.host().has_failed()) return std::optional<std::uint64_t>();
  if (rule) WEFT_CHECK(image_.counts().download_updates(image_.stream(), *rule));
  WEFT_TRY(const std::uint32_t flags, image_.counts().download_flags(image_.stream()));
  return flags == 0 ? std::optional(ran) : std::nullopt;
}

std::uint64_t DeviceExecutor::run_steady(scheduler::Executor& executor, std::uint64_t tick, std::uint64_t first,
                                         std::uint64_t steps) noexcept {
  bool is_logged = false;
  std::optional<std::uint64_t> done;
  is_running_ = true;
  const auto attempt = [&]() -> Status {
    WEFT_CHECK(prepare());
    if (!image_.exists()) return {};
    log_.begin_run(tick, first, steps);
    is_logged = true;
    WEFT_TRY(done, try_device(tick, first, steps));
    return {};
  };
  try {
    if (const Status tried = attempt(); !tried) fall_back(tried.error());
  } catch (const std::exception& error) {
    fall_back(Error(Errc::internal, std::string("vulkan: ") + error.what()));
  }
  is_running_ = false;
  if (is_logged) log_.add_feeds(engine_.ticks_in(first + done.value_or(steps)));
  if (!is_logged) {  // the device is not to have it
    if (!recovery_.is_held() && is_ahead_) replay(executor, false);
    return run_host(executor, tick, first, steps);
  }
  if (!recovery_.is_held() || !done) return replay(executor, true);
  settle(*done);
  return *done;
}

void DeviceExecutor::settle(std::uint64_t done) noexcept {
  is_ahead_ = true;
  log_.end_run(done);
  statistics_.device_steps += done;
  recovery_.note_steps(done);
  if (mixed_.host().has_commands()) {
    // They are no part of the log, so it ends before them.
    download();
    mixed_.host().send_commands(engine_.commands());
  } else if (log_.steps() > kMostLogged ||
             log_.bytes() > std::max(kMostLoggedBytes, kDownloadsLogged * readbacks_[0].bytes.size())) {
    if (is_mixed())
      download();  // the host's own cells go on from its memory
    else
      read_back();
  }
}

std::uint64_t DeviceExecutor::run_host(scheduler::Executor& executor, std::uint64_t tick, std::uint64_t first,
                                       std::uint64_t steps) noexcept {
  if (steps == 0) return 0;
  download();
  is_behind_ = true;
  is_running_ = true;
  const std::uint64_t done = engine_.run(executor, tick, steps, first);
  is_running_ = false;
  statistics_.host_steps += done;
  if (!recovery_.is_held()) recovery_.note_steps(done);
  return done;
}

Status DeviceExecutor::prepare() {
  WEFT_CHECK(image_.open());
  if (image_.is_outdated() || (!image_.exists() && statistics_.why_host.empty())) {
    graphs_.clear();
    image_.reset();
    WEFT_CHECK(make_image());
    is_behind_ = true;
  }
  if (!image_.exists() || !is_behind_) return {};
  image_.buffers().upload(image_.stream());
  ++statistics_.uploads;
  is_behind_ = false;
  return image_.stream().status();
}

Status DeviceExecutor::make_image() {
  const std::string before = statistics_.why_host;
  statistics_.why_host = engine_.rule() && !rule() ? "the learning rule does not say how" : "";
  // A copy that is measured has no cells.
  if (statistics_.host_cells > 0 && statistics_.host_cells == engine_.runner().cells().size())
    statistics_.why_host = places_.is_asked ? "the network keeps all cells on the CPU"
                                            : "no cell is left for the device: " + statistics_.why_host_cells;
  if (!statistics_.why_host.empty()) {
    if (statistics_.why_host != before) log_warn("vulkan: the mesh runs on the CPU: " + statistics_.why_host);
    return {};
  }
  // A placement that the network states is not reported.
  if (!places_.is_asked && statistics_.uploads == 0)
    log_info("vulkan: the CPU runs cells of its own beside the device: " + statistics_.why_host_cells);
  const std::uint64_t window = block_steps() + (rule() ? rule()->samples_ahead() : 0);
  WEFT_CHECK(image_.make(window, [&](std::span<const DeviceRegion> regions) {
    return is_mixed() ? mixed_.hosts_alone(regions) : ByteRanges();
  }));
  windows_.reset_feeds();
  mixed_.reset();
  statistics_.device_bytes = image_.buffers().bytes();
  return {};
}

// The slot that the first tick reads.
void DeviceExecutor::push_first_inputs(std::uint64_t tick) {
  const std::span<const PortFeed> feeds = engine_.buffers().feeds();
  for (NodeId port = 0; port < feeds.size(); ++port) {
    const PortFeed& feed = feeds[port];
    if (!feed.base) continue;
    const MatrixView slot = image_.recorder().to_device(engine_.runner().state().output(port, tick));
    if (slot.stride == slot.cols) {
      image_.stream().upload(feed.base, slot.rows * slot.cols * sizeof(float), slot.data);
      continue;
    }
    for (std::size_t b = 0; b < slot.rows; ++b)
      image_.stream().upload(feed.base + b * slot.cols, slot.cols * sizeof(float), slot.row(b));
  }
}

std::pair<std::uint64_t, std::uint64_t> DeviceExecutor::samples_of(std::uint64_t tick, std::uint64_t step,
                                                                   std::uint64_t count) const {
  if (!rule()) return {0, 0};
  return rule()->samples_of(step, tick + engine_.ticks_in(step), count);
}

Result<std::shared_ptr<StepGraph>> DeviceExecutor::graph_of(std::uint64_t tick, const BlockSteps& steps) {
  WEFT_TRY(const bool has_moved, windows_.upload(image_.stream(), image_.memory(), steps, block_steps()));
  if (has_moved) graphs_.clear();
  return graphs_.of(tick, steps);
}

Result<std::uint64_t> DeviceExecutor::run_mixed(std::uint64_t tick, std::uint64_t first, std::uint64_t end) {
  mixed_.begin(tick, first == 0);
  std::uint64_t step = first;
  for (; step < end && !mixed_.host().has_failed() && !mixed_.host().has_commands(); ++step) {
    const auto [sample, samples_end] = samples_of(tick, step, 1);
    image_.buffers().move_window(sample);
    WEFT_TRY(const auto graph, graph_of(tick, {step, 1, step, sample}));
    mixed_.keep(graph->crossing, tick + engine_.ticks_in(step));
    if (rule()) image_.buffers().upload_window(image_.stream(), samples_end);
    WEFT_CHECK(mixed_.run(*executor_, graph->commands, graph->crossing, windows_, step, samples_end));
  }
  WEFT_CHECK(image_.stream().status());
  return step - first;
}

Result<std::uint64_t> DeviceExecutor::run_device(std::uint64_t tick, std::uint64_t first, std::uint64_t end) {
  if (first == 0) push_first_inputs(tick);
  if (is_mixed()) return run_mixed(tick, first, end);
  const std::uint64_t block = steps_at_once();
  RecordableRule* const rule = this->rule();
  const bool is_alike = !rule && !has_feeds_or_sinks() && block % engine_.exceptions().firing_period() == 0;
  std::uint64_t step = first;
  while (step < end) {
    std::uint64_t count = std::min(block, end - step);
    // Behind a step of the host's, up to the next sample.
    const std::uint64_t period = rule ? rule->period() : 1;
    if (const std::uint64_t past = step % period) count = std::min(count, period - past);
    const std::uint64_t times = is_alike ? (end - step) / count : 1;
    WEFT_CHECK(run_block(tick, step, count, times));
    step += count * times;
  }
  WEFT_CHECK(image_.stream().status());
  return step - first;
}

Status DeviceExecutor::run_block(std::uint64_t tick, std::uint64_t step, std::uint64_t count, std::uint64_t times) {
  const auto [first, end] = samples_of(tick, step, count);
  image_.buffers().move_window(first);
  if (rule()) image_.buffers().upload_window(image_.stream(), end);
  const std::uint64_t most = has_feeds_or_sinks() ? part_steps() : count;
  for (std::uint64_t done = 0; done < count; done += most) {
    const BlockSteps part{step + done, std::min(most, count - done), step, first};
    WEFT_TRY(const auto graph, graph_of(tick, part));
    WEFT_CHECK(image_.stream().run(graph->commands, times));
    WEFT_TRY([[maybe_unused]] const auto handed_over, image_.stream().submit());
    // While the device is at work on this part; all at the end would leave it waiting.
    log_.add_feeds(engine_.ticks_in(part.first + part.count));
  }
  if (rule()) WEFT_CHECK(image_.buffers().download_window(image_.stream(), end));
  return windows_.download(image_.stream(), step, count);
}

void DeviceExecutor::fall_back(const Error& error) noexcept {
  // Memory may be dropped when nothing is at work on it any more.
  image_.finish();
  graphs_.clear();
  windows_.drop();
  mixed_.drop();
  image_.drop();
  recovery_.release(error, statistics_);
}

void DeviceExecutor::set_input(NodeId port, std::size_t session, std::span<const float> values,
                               std::uint64_t tick) noexcept {
  const MatrixView slot = engine_.runner().state().output(port, tick);
  if (!is_ahead_ || places_.is_host[port]) std::copy(values.begin(), values.end(), slot.row(session));
  engine_.buffers().feed(port, {});
  if (!image_.exists() || is_behind_) return;
  image_.stream().upload(values.data(), values.size_bytes(), image_.recorder().to_device(slot).row(session));
  if (is_ahead_) log_.add_input(port, session, values, tick);
}

std::span<const float> DeviceExecutor::output(NodeId node, std::size_t session, std::uint64_t tick) noexcept {
  const MatrixView here = engine_.runner().state().output(node, tick);
  if (places_.is_host[node]) return {here.row(session), here.cols};
  std::vector<float>& kept = outputs_[{node, session}];
  if (kept.empty()) {
    const MatrixView there = image_.recorder().to_device(here);
    kept.resize(there.cols);
    if (Status read = image_.stream().download(there.row(session), kept.size() * sizeof(float), kept.data()); !read) {
      fall_back(read.error());
      replay(*executor_, false);
      kept.assign(here.row(session), here.row(session) + here.cols);
    }
  }
  return kept;
}

void DeviceExecutor::download() noexcept {
  if (!is_ahead_ || is_running_) return;
  if (!read_back()) return;
  readbacks_[0].settle();
  has_readback_ = is_ahead_ = false;
}

bool DeviceExecutor::read_back() noexcept {
  ++statistics_.downloads;
  Readback& to = readbacks_[has_readback_];
  const std::uint32_t groups = engine_.rule() ? DeviceImage::kAll : DeviceImage::kWeights;
  if (Status read = image_.buffers().read_back(image_.stream(), groups, mixed_.by_host(), to); !read) {
    fall_back(read.error());
    replay(*executor_, false);
    return false;
  }
  if (has_readback_) std::swap(readbacks_[0], readbacks_[1]);
  has_readback_ = true;
  forget_log();
  return true;
}

void DeviceExecutor::forget_log() noexcept {
  log_.forget();
  mixed_.forget();
}

std::uint64_t DeviceExecutor::replay(scheduler::Executor& executor, bool is_under_way) noexcept {
  ++statistics_.replays;
  RecordableRule* const rule = this->rule();
  RunBuffers& buffers = engine_.buffers();
  const std::vector<PortFeed> feeds(buffers.feeds().begin(), buffers.feeds().end());
  const std::vector<OutputSink> sinks(buffers.sinks().begin(), buffers.sinks().end());
  is_running_ = true;  // code that asks for the host's memory gets it as it is
  ByteArchive now;
  if (rule) rule->take_host_snapshot(now);
  if (std::exchange(has_readback_, false)) readbacks_[0].settle();
  mixed_.take_back();
  log_.restore_observers();
  mixed_.host().forget_commands();
  std::uint64_t done = 0;
  for (const ReplayLog::Entry& entry : log_.entries()) {
    const bool is_past = !is_under_way || &entry != &log_.entries().back();
    // The outputs of earlier runs were given when they ran.
    buffers.set_sinks(is_past ? std::vector<OutputSink>() : sinks);
    engine_.commands().hold(is_past);
    done = replay_entry(executor, entry);
  }
  for (NodeId port = 0; port < feeds.size(); ++port) buffers.feed(port, feeds[port]);
  buffers.set_sinks(sinks);
  engine_.commands().hold(false);
  if (rule && !is_under_way) rule->restore_host_snapshot(now);
  is_running_ = false;
  forget_log();
  is_ahead_ = false;
  is_behind_ = true;
  return done;
}

std::uint64_t DeviceExecutor::replay_entry(scheduler::Executor& executor, const ReplayLog::Entry& entry) noexcept {
  if (!entry.input.empty()) {
    const MatrixView slot = engine_.runner().state().output(entry.port, entry.tick);
    std::copy(entry.input.begin(), entry.input.end(), slot.row(entry.session));
    return 0;
  }
  RunBuffers& buffers = engine_.buffers();
  for (NodeId port = 0; port < buffers.feeds().size(); ++port) buffers.feed(port, {});
  for (const ReplayLog::Entry::Feed& feed : entry.feeds)
    buffers.feed(feed.port, {feed.values.data(), feed.feed.rows, feed.feed.hold});
  if (rule()) rule()->restore_host_snapshot(entry.rule);
  const std::uint64_t done = engine_.run(executor, entry.tick, entry.steps, entry.first);
  statistics_.host_steps += done;
  return done;
}

}  // namespace weft::mesh
