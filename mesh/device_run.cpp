// SPDX-License-Identifier: Apache-2.0

#include "mesh/device_run.hpp"

#include "mesh/placement.hpp"

#include "core/log.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <numeric>

namespace weft::mesh {
namespace {

using kernels::Rows;

// Steps between two agreements of host and device: what a fault costs at most, in steps on the CPU.
constexpr std::uint64_t kMostLogged = 1024;
constexpr std::uint64_t kMostLoggedBytes = std::uint64_t{256} << 20;
// Firings in a program: its tables take some 300 bytes for each.
constexpr std::uint64_t kMostFirings = std::uint64_t{1} << 19;
constexpr std::uint64_t kMostSteps = 64;  // in a program
constexpr std::size_t kMostPrograms = 64;
constexpr std::size_t kMostSingleSteps = 1024;  // the same, where each is one step
constexpr std::uint64_t kScratchBytes = std::uint64_t{256} << 20;
// Groups of mirrored memory, in the order in which less and less often changes.
constexpr std::uint32_t kState = 0, kWeights = 1, kHook = 2, kNothing = 3;

}  // namespace

DeviceRun::DeviceRun(DeviceHold& hold, const Graph& graph, WeightStore& weights, State& state, Engine& engine,
                     std::span<const std::unique_ptr<Cell>> cells)
    : hold_(hold), graph_(graph), weights_(weights), state_(state), engine_(engine), cells_(cells) {
  HostPlaces places = host_places(graph);
  is_host_ = std::move(places.is_host);
  has_opaque_ = std::find(places.is_opaque.begin(), places.is_opaque.end(), 1) != places.is_opaque.end();
  figures_.why_host_cells = std::move(places.why);
  if (hold_.is_held()) figures_.device = hold_.device().info().name;
  for (const auto& cell : cells_) figures_.host_cells += is_host_[cell->first()];
  engine_.set_host_nodes(is_host_, std::move(places.is_opaque));
}

DeviceRun::~DeviceRun() {
  if (stream_) static_cast<void>(stream_->finish());
}

bool DeviceRun::is_quiet() const noexcept {
  return std::all_of(cells_.begin(), cells_.end(),
                     [](const auto& cell) { return cell->is_quiet() && !cell->is_marked(); });
}

bool DeviceRun::has_feeds_or_sinks() const noexcept {
  return !engine_.sinks().empty() || std::any_of(engine_.feeds().begin(), engine_.feeds().end(),
                                                 [](const PortFeed& feed) { return feed.base != nullptr; });
}

std::uint64_t DeviceRun::block_steps() const noexcept {
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

std::uint64_t DeviceRun::run(scheduler::Executor& executor, std::uint64_t tick, std::uint64_t steps) noexcept {
  executor_ = &executor;
  outputs_.clear();
  std::uint64_t done = 0;
  const bool is_plain = !engine_.hook() && !has_feeds_or_sinks();  // steps may be done in parts
  if (!hold_.is_held()) {
    const std::uint64_t wait = hold_.wait();
    if (wait >= steps || (wait > 0 && !is_plain)) return run_host(executor, tick, steps);
    done = run_host(executor, tick, wait);
    if (done < wait || engine_.halt()) return done;
    hold_.take(figures_);
  }
  if (hold_.is_held() && !is_quiet() && is_plain && steps - done > 1) {
    // Orders are carried out at one tick's boundary; the device goes on behind it.
    const std::uint64_t first = run_host(executor, tick + done, 1);
    done += first;
    if (first == 0 || engine_.halt()) return done;
  }
  if (!hold_.is_held() || !is_quiet()) return done + run_host(executor, tick + done, steps - done);
  if (steps == done) return done;
  const std::uint64_t left = steps - done;
  bool is_logged = false, is_wrong = false;
  is_running_ = true;
  const auto attempt = [&]() -> Status {
    WEFT_CHECK(prepare());
    if (!mirror_) return {};
    log_run(tick + done, left);
    is_logged = true;
    const std::uint32_t none = 0;
    stream_->upload(&none, sizeof none, notes_.data<void>());
    WEFT_CHECK(reset_counts());
    WEFT_CHECK(run_device(tick + done, left));
    is_wrong = has_host_failed_;
    if (is_wrong) return {};
    WEFT_CHECK(pull_counts());
    std::uint32_t notes = 0;
    WEFT_CHECK(stream_->download(notes_.data<void>(), sizeof notes, &notes));
    is_wrong = notes != 0;
    return {};
  };
  try {
    if (const Status tried = attempt(); !tried) give_up(tried.error());
  } catch (const std::exception& error) {
    give_up(Error(Errc::internal, std::string("vulkan: ") + error.what()));
  }
  is_running_ = false;
  if (is_logged) log_feeds(engine_.ticks_in(left));
  if (!is_logged) {  // the device is not to have it
    if (!hold_.is_held() && is_ahead_) replay(executor, false);
    return done + run_host(executor, tick + done, left);
  }
  if (!hold_.is_held() || is_wrong) return done + replay(executor, true);
  is_ahead_ = true;
  figures_.device_steps += left;
  hold_.note_steps(left);
  if (log_steps_ > kMostLogged || log_bytes_ > kMostLoggedBytes) pull();
  return steps;
}

std::uint64_t DeviceRun::run_host(scheduler::Executor& executor, std::uint64_t tick, std::uint64_t steps) noexcept {
  if (steps == 0) return 0;
  pull();
  is_behind_ = true;
  is_running_ = true;
  const std::uint64_t done = engine_.run(executor, tick, steps);
  is_running_ = false;
  figures_.host_steps += done;
  if (!hold_.is_held()) hold_.note_steps(done);
  return done;
}

Status DeviceRun::prepare() {
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

Status DeviceRun::make_mirror() {
  StepHook* const hook = engine_.hook();
  const std::string before = figures_.why_host;
  figures_.why_host = hook ? hook->why_not_recorded() : std::string();
  if (figures_.host_cells == cells_.size())
    figures_.why_host = has_opaque_ ? "no cell is left for the device: " + figures_.why_host_cells
                                    : "the network keeps all cells on the CPU";
  if (!figures_.why_host.empty()) {
    if (figures_.why_host != before) log_warn("vulkan: the mesh runs on the CPU: " + figures_.why_host);
    return {};
  }
  // What the network says itself needs no telling.
  if (has_opaque_ && figures_.pushes == 0)
    log_info("vulkan: the CPU runs cells of its own beside the device: " + figures_.why_host_cells);
  std::vector<MirrorPiece> pieces;
  state_.each_slot([&](const float* data, std::size_t bytes) {
    pieces.push_back({data, bytes, MirrorUse::kept, 0, kState});
  });
  // Steps without a rule leave the weights as they are.
  weights_.each_array([&](NodeId node, const void* data, std::size_t bytes) {
    pieces.push_back({data, bytes, MirrorUse::kept, 0, kWeights, node});
  });
  std::uint64_t scratch = 0;
  for (const AlignedBuffer<float>& workspace : engine_.workspaces())
    pieces.push_back({workspace.data(), workspace.size() * sizeof(float), MirrorUse::scratch});
  if (hook)
    hook->each_piece([&](MirrorPiece piece) {
      piece.group = kHook;
      pieces.push_back(piece);
    });
  for (const MirrorPiece& piece : pieces)
    if (piece.use == MirrorUse::scratch) scratch += piece.bytes;
  const auto firing = static_cast<std::uint64_t>(std::count(is_host_.begin(), is_host_.end(), 0));
  const std::uint64_t copies = scratch ? std::clamp<std::uint64_t>(kScratchBytes / scratch, 1, firing) : 1;
  const ByteRanges hosts = is_mixed() ? hosts_alone(pieces) : ByteRanges();
  WEFT_TRY(mirror_, DeviceMirror::build(hold_.device(), std::move(pieces), block_steps(), copies, hosts));
  const std::size_t nodes = graph_.nodes().size();
  WEFT_TRY(guards_, hold_.device().memory().allocate((2 * nodes + 1) * sizeof(float), "counts of updates"));
  float* const counts = guards_.data() + nodes;
  recorder_ = std::make_unique<MirrorStream>(
      *stream_, *mirror_, notes_.data<std::uint32_t>(),
      MirrorStream::Guards{guards_.data<std::uint32_t>(), counts, counts + nodes}, nodes);
  feeds_.clear();
  feeds_.resize(graph_.port_count());
  border_ = Border();
  notes_kept_at_ = 0;
  figures_.device_bytes = mirror_->bytes();
  return {};
}

Status DeviceRun::run_device(std::uint64_t tick, std::uint64_t steps) {
  StepHook* const hook = engine_.hook();
  const std::uint64_t block = block_steps();
  // The slot that the first tick reads.
  for (NodeId port = 0; port < engine_.feeds().size(); ++port) {
    const PortFeed& feed = engine_.feeds()[port];
    if (!feed.base) continue;
    const Rows slot = recorder_->there(state_.output(port, tick));
    for (std::size_t b = 0; b < slot.rows; ++b)
      stream_->upload(feed.base + b * slot.cols, slot.cols * sizeof(float), slot.row(b));
  }
  if (is_mixed()) {
    begin_mixed(tick);
    for (std::uint64_t step = 0; step < steps && !has_host_failed_; ++step) WEFT_CHECK(run_mixed_step(tick, step));
    return stream_->status();
  }
  const bool is_alike = !hook && !has_feeds_or_sinks();
  for (std::uint64_t step = 0; step < steps;) {
    const std::uint64_t count = std::min(block, steps - step), times = is_alike ? (steps - step) / count : 1;
    WEFT_CHECK(run_block(tick, step, count, times));
    step += count * times;
  }
  return stream_->status();
}

Status DeviceRun::run_block(std::uint64_t tick, std::uint64_t step, std::uint64_t count, std::uint64_t times) {
  StepHook* const hook = engine_.hook();
  const std::uint64_t now = tick + engine_.ticks_in(step);
  const auto [first, end] = hook ? hook->samples_of(step, now, count) : std::pair<std::uint64_t, std::uint64_t>{0, 0};
  mirror_->move_window(first);
  WEFT_CHECK(push_feeds(step, count));
  WEFT_TRY(const auto recorded, program_of(tick, step, count));
  if (hook) mirror_->push_window(*stream_, end);
  WEFT_CHECK(stream_->run(recorded->program, times));
  WEFT_TRY(const auto handed_over, stream_->submit());
  static_cast<void>(handed_over);
  log_feeds(engine_.ticks_in(step + count));
  if (hook) WEFT_CHECK(mirror_->pull_window(*stream_, end));
  return pull_sinks(step, count);
}

Result<std::shared_ptr<DeviceRun::Recorded>> DeviceRun::program_of(std::uint64_t tick, std::uint64_t step,
                                                                   std::uint64_t count) {
  StepHook* const hook = engine_.hook();
  const std::uint64_t now = tick + engine_.ticks_in(step);
  StateHasher key;
  key.add(now & (state_.depth() - 1));
  key.add(count);
  for (const float* const place : feed_places_) key.add(std::uint64_t{place != nullptr});
  for (const OutputSink& sink : engine_.sinks()) key.add(std::uint64_t{sink.node});
  bool is_kept = true;
  if (hook) {
    const auto of_hook = hook->record_key(step, now, count);
    is_kept = of_hook.has_value();
    if (is_kept) key.add(*of_hook);
    // A settled sample's steps stand at its beginning, since blocks are whole samples or single steps.
    key.add(step % hook->period());
  }
  const Hash128 digest = key.digest();
  const auto name = std::pair(digest.high, digest.low);
  const auto found = is_kept ? programs_.find(name) : programs_.end();
  std::shared_ptr<Recorded> recorded;
  if (found != programs_.end()) {
    recorded = found->second;
    for (const auto& [node, updates] : recorded->updates) hook->add_updates(node, updates);
  } else {
    WEFT_TRY(Recorded made, record(tick, step, count));
    recorded = std::make_shared<Recorded>(std::move(made));
    if (programs_.size() >= (is_mixed() ? kMostSingleSteps : kMostPrograms)) programs_.clear();
    if (is_kept) programs_.emplace(name, recorded);
  }
  for (const NodeId node : recorded->guarded) is_guarded_[node] = 1;
  return recorded;
}

Result<DeviceRun::Recorded> DeviceRun::record(std::uint64_t tick, std::uint64_t step, std::uint64_t count) {
  StepHook* const hook = engine_.hook();
  const Engine::Recording recording{recorder_.get(), tick, engine_.ticks_in(step), feed_places_, sink_places_};
  std::vector<gpu::Touched> by_host, by_device;
  if (is_mixed()) watch_host_parts(recording, step, by_host);
  const auto counts = hook ? hook->update_counts() : std::span<const std::uint64_t>();
  const std::vector<std::uint64_t> before(counts.begin(), counts.end());
  WEFT_CHECK(stream_->begin_program());
  if (is_mixed()) {
    engine_.record_step(recording, step, Engine::Side::ports);
    stream_->watch(&by_device);
    engine_.record_step(recording, step, Engine::Side::device);
    stream_->watch(nullptr);
  } else {
    for (std::uint64_t s = step; s < step + count; ++s) engine_.record_step(recording, s);
  }
  Recorded recorded;
  WEFT_TRY(recorded.program, stream_->end_program());
  WEFT_CHECK(recorder_->status());
  recorded.guarded = recorder_->take_guarded();
  for (const NodeId node : recorded.guarded) hook->add_updates(node, before[node] - counts[node]);  // modulo 2^64: back
  for (NodeId node = 0; node < before.size(); ++node)
    if (counts[node] != before[node]) recorded.updates.emplace_back(node, counts[node] - before[node]);
  ++figures_.programs;
  if (is_mixed()) WEFT_CHECK(open_border(recorded.border, by_host, by_device));
  return recorded;
}

Status DeviceRun::push_feeds(std::uint64_t step, std::uint64_t count) {
  feed_places_.assign(engine_.feeds().size(), nullptr);
  const std::uint64_t fired = engine_.ticks_in(step), ticks = engine_.ticks_in(step + count) - fired;
  for (NodeId port = 0; port < feed_places_.size(); ++port) {
    const PortFeed& feed = engine_.feeds()[port];
    if (!feed.base) continue;
    const std::size_t row = state_.sessions() * graph_.nodes()[port].width;
    Window& window = feeds_[port];
    const std::size_t room = block_steps() * row * sizeof(float);
    if (window.buffer.bytes() < room) {
      programs_.clear();
      WEFT_TRY(window.buffer, hold_.device().memory().allocate(room, "an input's values"));
    }
    // Rows that follow each other go as they lie.
    const auto row_of = [&](std::uint64_t t) { return std::min((fired + t + 1) / feed.hold, feed.rows - 1); };
    for (std::uint64_t t = 0; t < ticks;) {
      std::uint64_t run = 1;
      while (t + run < ticks && row_of(t + run) == row_of(t) + run) ++run;
      stream_->upload(feed.base + row_of(t) * row, run * row * sizeof(float), window.buffer.data() + t * row);
      t += run;
    }
    feed_places_[port] = window.buffer.data();
  }
  sink_places_.clear();
  const auto sinks = engine_.sinks();
  if (sinks_.size() < sinks.size()) sinks_.resize(sinks.size());
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    const std::size_t row = state_.sessions() * graph_.nodes()[sinks[i].node].width;
    const std::size_t room = block_steps() * row * sizeof(float);
    if (sinks_[i].buffer.bytes() < room) {
      programs_.clear();
      WEFT_TRY(sinks_[i].buffer, hold_.device().memory().allocate(room, "an output's values"));
    }
    sink_places_.push_back({sinks[i].node, sinks_[i].buffer.data()});
  }
  return stream_->status();
}

Status DeviceRun::reset_counts() {
  if (!engine_.hook()) return {};
  const std::size_t nodes = graph_.nodes().size();
  is_guarded_.assign(nodes, 0);
  std::vector<float> values(nodes + 1, 0.0f);
  values.back() = -1.0f;
  stream_->upload(values.data(), values.size() * sizeof(float), guards_.data() + nodes);
  return stream_->status();
}

// Whole numbers up to a run's steps, so float32 counts them.
Status DeviceRun::pull_counts() {
  StepHook* const hook = engine_.hook();
  if (!hook || std::find(is_guarded_.begin(), is_guarded_.end(), 1) == is_guarded_.end()) return {};
  std::vector<float> counts(graph_.nodes().size());
  WEFT_CHECK(stream_->download(guards_.data() + counts.size(), counts.size() * sizeof(float), counts.data()));
  for (NodeId node = 0; node < counts.size(); ++node)
    if (is_guarded_[node]) hook->add_updates(node, static_cast<std::uint64_t>(counts[node]));
  return {};
}

Status DeviceRun::pull_sinks(std::uint64_t step, std::uint64_t count) {
  const std::uint64_t fired = engine_.ticks_in(step), ticks = engine_.ticks_in(step + count) - fired;
  for (std::size_t i = 0; i < sink_places_.size(); ++i) {
    const std::size_t row = state_.sessions() * graph_.nodes()[sink_places_[i].node].width;
    WEFT_CHECK(
        stream_->download(sink_places_[i].base, ticks * row * sizeof(float), engine_.sinks()[i].base + fired * row));
  }
  return {};
}

void DeviceRun::log_run(std::uint64_t tick, std::uint64_t steps) {
  StepHook* const hook = engine_.hook();
  const bool has_feeds = std::any_of(engine_.feeds().begin(), engine_.feeds().end(),
                                     [](const PortFeed& feed) { return feed.base != nullptr; });
  log_steps_ += steps;
  logged_before_ = 0;
  if (!hook && !has_feeds && engine_.sinks().empty() && !log_.empty() && log_.back().input.empty() &&
      log_.back().feeds.empty() && !log_.back().has_sinks) {
    logged_before_ = log_.back().steps;
    log_.back().steps += steps;  // ticks with what was there go on as one run
    return;
  }
  Logged& run = log_.emplace_back();
  run.tick = tick;
  run.steps = steps;
  run.has_sinks = !engine_.sinks().empty();
  const std::uint64_t ticks = engine_.ticks_in(steps);
  for (NodeId port = 0; port < engine_.feeds().size(); ++port) {
    const PortFeed& feed = engine_.feeds()[port];
    if (!feed.base) continue;
    const std::size_t row = state_.sessions() * graph_.nodes()[port].width;
    const std::uint64_t rows = std::min(feed.rows, ticks / feed.hold + 1);
    std::vector<float> values;
    if (!spare_.empty()) {  // its memory is known to the system already
      values = std::move(spare_.back());
      spare_.pop_back();
    }
    values.clear();
    values.reserve(rows * row);  // filled while the device works
    run.feeds.push_back({port, {nullptr, rows, feed.hold}, std::move(values)});
    log_bytes_ += rows * row * sizeof(float);
  }
  if (hook) hook->save_host(run.hook);
  log_bytes_ += run.hook.size();
}

void DeviceRun::log_feeds(std::uint64_t ticks) noexcept {
  if (log_.empty()) return;
  for (Logged::Feed& logged : log_.back().feeds) {
    const PortFeed& feed = engine_.feeds()[logged.port];
    const std::size_t row = state_.sessions() * graph_.nodes()[logged.port].width;
    const std::uint64_t rows = std::min(logged.feed.rows, ticks / feed.hold + 1);
    logged.values.insert(logged.values.end(), feed.base + logged.values.size(), feed.base + rows * row);
  }
}

void DeviceRun::forget_log() noexcept {
  for (Logged& entry : log_)
    for (Logged::Feed& feed : entry.feeds) spare_.push_back(std::move(feed.values));
  log_.clear();
  log_bytes_ = log_steps_ = 0;
  border_.forget();
}

std::uint64_t DeviceRun::replay(scheduler::Executor& executor, bool is_under_way) noexcept {
  ++figures_.replays;
  StepHook* const hook = engine_.hook();
  const std::vector<PortFeed> feeds(engine_.feeds().begin(), engine_.feeds().end());
  const std::vector<OutputSink> sinks(engine_.sinks().begin(), engine_.sinks().end());
  is_running_ = true;  // whoever asks for the host's memory gets it as it is
  StateBytes now;
  if (hook && !is_under_way) hook->save_host(now);
  border_.take_back();
  std::uint64_t done = 0;
  for (const Logged& entry : log_) {
    if (!entry.input.empty()) {
      std::copy(entry.input.begin(), entry.input.end(), state_.output(entry.port, entry.tick).row(entry.session));
      continue;
    }
    for (NodeId port = 0; port < feeds.size(); ++port) engine_.feed(port, {});
    for (const Logged::Feed& feed : entry.feeds)
      engine_.feed(feed.port, {feed.values.data(), feed.feed.rows, feed.feed.hold});
    if (hook) hook->load_host(entry.hook);
    // What earlier runs were asked for they have given.
    engine_.set_sinks(is_under_way && &entry == &log_.back() ? sinks : std::vector<OutputSink>());
    done = engine_.run(executor, entry.tick, entry.steps);
    figures_.host_steps += done;
  }
  for (NodeId port = 0; port < feeds.size(); ++port) engine_.feed(port, feeds[port]);
  engine_.set_sinks(sinks);
  if (hook && !is_under_way) hook->load_host(now);
  is_running_ = false;
  forget_log();
  is_ahead_ = false;
  is_behind_ = true;
  return done - std::min(done, logged_before_);
}

void DeviceRun::give_up(const Error& error) noexcept {
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

void DeviceRun::set_input(NodeId port, std::size_t session, std::span<const float> values,
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

std::span<const float> DeviceRun::output(NodeId node, std::size_t session, std::uint64_t tick) noexcept {
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

void DeviceRun::pull() noexcept {
  if (!is_ahead_ || is_running_) return;
  ++figures_.pulls;
  if (Status pulled = mirror_->pull(*stream_, engine_.hook() ? kNothing : kWeights, border_.by_host()); !pulled) {
    give_up(pulled.error());
    replay(*executor_, false);
    return;
  }
  forget_log();
  is_ahead_ = false;
}

}  // namespace weft::mesh
