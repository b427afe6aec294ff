// SPDX-License-Identifier: Apache-2.0

#include "server/served_mesh.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/runtime/halt.hpp"
#include "mesh/weights/weight_store.hpp"

#include "actors/registry.hpp"

#include "core/log.hpp"

#include <sys/stat.h>

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <utility>

namespace weft::server {
namespace {

constexpr std::chrono::milliseconds kPublish{50};
constexpr std::chrono::milliseconds kLookAgain{500};  // the journal is written beside the thread
constexpr std::chrono::microseconds kBlock{5000};     // of a mesh that runs by itself

MeshDescription describe(std::string name, const LiveMesh& live) {
  const mesh::Graph& graph = live.mesh().graph();
  MeshDescription out;
  out.name = std::move(name);
  out.network = graph.spec().name;
  out.directory = live.options().directory;
  out.grid = {graph.spec().grid.z, graph.spec().grid.y, graph.spec().grid.x};
  for (std::size_t port = 0; port < graph.port_count(); ++port)
    out.inputs.push_back({graph.nodes()[port].port, graph.nodes()[port].width});
  for (std::size_t i = 0; i < graph.outputs().size(); ++i)
    out.outputs.push_back({graph.spec().outputs[i].name, graph.nodes()[graph.outputs()[i]].width});
  out.layers = graph.nodes().size() - graph.port_count();
  if (live.learner()) out.learners = live.learner()->options().learners;
  return out;
}

const MeshDescription::End* find(const std::vector<MeshDescription::End>& ends, std::string_view name) noexcept {
  const auto found = std::find_if(ends.begin(), ends.end(), [&](const auto& each) { return each.name == name; });
  return found == ends.end() ? nullptr : &*found;
}

std::string describe(const mesh::Halt& halt) {
  return "cell " + std::to_string(halt.cell) + " at tick " + std::to_string(halt.tick) + ": " +
         std::string(actors::name(halt.kind)) + " " + std::string(halt.reason.data());
}

/// The time at which the newest checkpoint of a data directory was written.
std::optional<std::chrono::system_clock::time_point> newest_checkpoint(const std::string& directory) {
  std::optional<std::chrono::system_clock::time_point> newest;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    struct stat is {};
    if (!entry.path().filename().string().starts_with("ckpt-") || stat(entry.path().c_str(), &is) != 0) continue;
    const auto at = std::chrono::system_clock::from_time_t(is.st_mtime);
    if (!newest || at > *newest) newest = at;
  }
  return newest;
}

/// Same ports and same outputs: rows of both may stand in one batch.
bool fits(const ForwardRequest& a, const ForwardRequest& b) {
  const auto same_port = [](const auto& x, const auto& y) { return x.name == y.name; };
  return a.outputs == b.outputs &&
         std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(), same_port);
}

}  // namespace

const MeshDescription::End* MeshDescription::input(std::string_view port) const noexcept { return find(inputs, port); }
const MeshDescription::End* MeshDescription::output(std::string_view of) const noexcept { return find(outputs, of); }

ServedMesh::ServedMesh(std::string name, std::unique_ptr<LiveMesh> mesh, Options options)
    : options_(std::move(options)), description_(describe(std::move(name), *mesh)), mesh_(std::move(mesh)) {
  node_ = options_.node;
  publish(true);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the program's
  thread_ = std::thread([this] { work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ServedMesh::~ServedMesh() {
  if (const Status stopped = stop(false); !stopped) log_error(stopped.error().text());
}

std::shared_ptr<const MeshStatistics> ServedMesh::statistics() const {
  const std::lock_guard hold(mutex_);
  return statistics_;
}

std::size_t ServedMesh::waiting() const {
  const std::lock_guard hold(mutex_);
  return jobs_.size();
}

void ServedMesh::submit(ExchangePointer exchange, Act act) {
  queue({std::move(exchange), std::move(act), std::nullopt, Clock::now()});
}

void ServedMesh::submit(ExchangePointer exchange, ForwardRequest forward) {
  queue({std::move(exchange), {}, std::move(forward), Clock::now()});
}

void ServedMesh::queue(Job job) {
  std::optional<HttpResponse> refusal;
  {
    const std::lock_guard hold(mutex_);
    if (stops_)
      refusal = error_response(503, "unavailable_error", "mesh '" + name() + "' is being unloaded");
    else if (jobs_.size() >= options_.queue)
      refusal = error_response(
          429, "rate_limit_error",
          "mesh '" + name() + "': " + std::to_string(jobs_.size()) + " requests wait already; try again later");
    else
      jobs_.push_back(std::move(job));
  }
  if (!refusal) {
    counters_.queued.fetch_add(1, std::memory_order_relaxed);
    changed_.notify_one();
    return;
  }
  counters_.rejected.fetch_add(1, std::memory_order_relaxed);
  job.exchange->respond(*std::move(refusal));
}

void ServedMesh::set_pace(Pace pace) {
  const std::lock_guard hold(mutex_);
  pace_ = pace;
  changed_.notify_one();
}

std::optional<std::chrono::nanoseconds> ServedMesh::time_to_spare() const {
  const std::lock_guard hold(mutex_);
  if (!pace_.runs) return std::nullopt;
  if (pace_.tick_rate == 0) return std::chrono::nanoseconds(0);
  return std::max<std::chrono::nanoseconds>(next_tick_ - Clock::now(), std::chrono::nanoseconds(0));
}

CellFrames& ServedMesh::cell_frames() {
  if (!cell_frames_) cell_frames_ = std::make_unique<CellFrames>(mesh_->mesh());
  return *cell_frames_;
}

std::optional<NumaNode> ServedMesh::node() const {
  const std::lock_guard hold(mutex_);
  return node_;
}

Status ServedMesh::move_to(const NumaNode& node) {
  std::shared_mutex* const readers = cell_frames_ ? &cell_frames_->place() : nullptr;
  // Memory lies where it is touched first: the new mesh is made by a thread of that node.
  Status moved;
  std::thread([&] {
    const OnNode stays(node);
    try {
      moved = mesh_->move_to(node.machine, readers);
    } catch (const std::bad_alloc&) {
      moved = fail(Errc::too_large, "mesh '" + name() + "': not enough memory for it twice, as moving it takes");
    } catch (const std::exception& unforeseen) {
      moved = fail(Errc::internal, "mesh '" + name() + "': it stays where it is: " + unforeseen.what());
    }
  }).join();
  if (!moved) return moved;
  const std::lock_guard hold(mutex_);
  node_ = node;
  return {};
}

Status ServedMesh::stop(bool takes_checkpoint) {
  {
    const std::lock_guard hold(mutex_);
    stops_ = true;
    changed_.notify_one();
  }
  if (!thread_.joinable()) return {};
  thread_.join();
  events_.end();
  return takes_checkpoint && mesh_->has_directory() ? mesh_->checkpoint() : Status();
}

// --- the mesh's thread

/// Takes what waits; nothing where it is time to tick, to publish or to end.
std::deque<ServedMesh::Job> ServedMesh::next_jobs() {
  std::unique_lock hold(mutex_);
  const auto is_work = [this] { return !jobs_.empty() || stops_; };
  if (!is_work()) {
    if (pace_.runs && pace_.tick_rate > 0)
      changed_.wait_until(hold, next_tick_, is_work);
    else if (!pace_.runs && has_changed_)
      changed_.wait_until(hold, published_ + kPublish, [&] { return is_work() || pace_.runs; });
    else if (!pace_.runs)
      changed_.wait_for(hold, kLookAgain, [&] { return is_work() || pace_.runs; });
  }
  return std::exchange(jobs_, {});
}

void ServedMesh::work() {
  std::optional<NumaNode> at = node();
  auto stays = std::make_unique<OnNode>(at);
  while (true) {
    if (const auto now = node(); now && at && now->index != at->index) {
      stays.reset();
      at = now;
      stays = std::make_unique<OnNode>(at);
    }
    std::deque<Job> jobs = next_jobs();
    if (jobs.empty()) {
      const std::lock_guard hold(mutex_);
      if (stops_ && jobs_.empty()) return;
    }
    if (!jobs.empty()) {
      has_changed_ = true;
      execute(std::move(jobs));
    }
    run_block();
    acknowledge();
    publish(false);
  }
}

bool ServedMesh::is_gone(const Job& job) {
  if (job.exchange->is_cancelled()) {
    counters_.cancelled_queued.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  if (Clock::now() - job.queued < options_.longest_wait) return false;
  counters_.timed_out.fetch_add(1, std::memory_order_relaxed);
  job.exchange->respond(
      error_response(503, "unavailable_error", "mesh '" + name() + "': this request waited too long for others"));
  return true;
}

void ServedMesh::execute(std::deque<Job> jobs) {
  std::vector<Job> batch;
  std::size_t rows = 0;
  const auto flush = [&] {
    if (!batch.empty()) execute_batch(batch);
    batch.clear();
    rows = 0;
  };
  for (Job& job : jobs) {
    if (is_gone(job)) {
      job.exchange.reset();
      continue;
    }
    const bool joins =
        job.forward &&
        (batch.empty() || (fits(*batch[0].forward, *job.forward) && rows + job.forward->rows <= options_.batch_rows));
    if (!joins) flush();
    if (job.forward) {
      rows += job.forward->rows;
      batch.push_back(std::move(job));
    } else {
      execute(job);
    }
  }
  flush();
}

void ServedMesh::execute(Job& job) {
  const std::uint64_t before = mesh_->mesh().ticks();
  const auto begin = Clock::now();
  const auto act = [&]() -> Result<Answer> {
    try {
      return job.act(*mesh_);
    } catch (const std::bad_alloc&) {
      return fail(Errc::too_large, "mesh '" + name() + "': not enough memory for this request");
    } catch (const std::exception& unforeseen) {
      return fail(Errc::internal, "mesh '" + name() + "': " + unforeseen.what());
    }
  };
  auto answer = act();
  count_ticks(before, begin);
  if (!answer) {
    if (answer.error().code() == Errc::internal) log_error(answer.error().text());
    job.exchange->respond(error_response(answer.error()));
  } else if (answer->waits && mesh_->has_directory()) {
    waiting_.push_back({std::move(job.exchange), std::move(answer->format)});
  } else {
    job.exchange->respond(std::move(answer->format));
  }
  job.exchange.reset();
}

/// One pass for all; where it fails, one for each, so that a mistake is answered to who made it.
void ServedMesh::execute_batch(std::span<Job> jobs) {
  if (forward(jobs) || jobs.size() == 1) return;
  for (Job& job : jobs) forward({&job, 1});
}

bool ServedMesh::forward(std::span<Job> jobs) {
  const ForwardRequest& first = *jobs[0].forward;
  std::size_t rows = 0;
  for (const Job& job : jobs) rows += job.forward->rows;
  std::vector<std::vector<float>> joined(first.inputs.size());
  std::vector<mesh::RunInput> inputs;
  for (std::size_t i = 0; i < first.inputs.size(); ++i) {
    for (const Job& job : jobs) {
      const auto& values = job.forward->inputs[i].values;
      joined[i].insert(joined[i].end(), values.begin(), values.end());
    }
    inputs.push_back({first.inputs[i].name, joined[i]});
  }
  auto values = std::make_shared<std::vector<std::vector<float>>>();
  std::vector<mesh::RunOutput> outputs;
  values->reserve(first.outputs.size());
  for (const std::string& each : first.outputs) {
    values->emplace_back(rows * description_.output(each)->width);
    outputs.push_back({each, values->back()});
  }
  const Status done = mesh_->mesh().forward(inputs, rows, outputs);
  if (!done) {
    if (jobs.size() == 1) jobs[0].exchange->respond(error_response(done.error()));
    return false;
  }
  counters_.forward_rows.fetch_add(rows, std::memory_order_relaxed);
  counters_.forward_batches.fetch_add(1, std::memory_order_relaxed);
  count_weights(1);
  std::size_t at = 0;
  for (Job& job : jobs) {
    const std::size_t count = job.forward->rows;
    job.exchange->respond([values, at, rows, count, format = std::move(job.forward->format)] {
      std::vector<std::span<const float>> mine;
      for (const auto& each : *values) {
        const std::size_t width = each.size() / rows;
        mine.push_back(std::span(each).subspan(at * width, count * width));
      }
      return format(std::move(mine));
    });
    at += count;
    job.exchange.reset();
  }
  return true;
}

/// One wait for the device, for all that was done since the last one.
void ServedMesh::acknowledge() {
  if (waiting_.empty()) return;
  const Status kept = mesh_->acknowledge();
  for (Waiting& each : waiting_)
    if (kept)
      each.exchange->respond(std::move(each.format));
    else
      each.exchange->respond(error_response(
          507, "storage_error", "it was done, but is not on the device: " + kept.error().text(), "not_kept"));
  waiting_.clear();
}

void ServedMesh::run_block() {
  Pace pace;
  {
    const std::lock_guard hold(mutex_);
    pace = pace_;
  }
  const auto begin = Clock::now();
  if (!pace.runs || (pace.tick_rate > 0 && begin < next_tick_)) return;
  std::uint64_t ticks = pace.tick_rate > 0 ? 1 : block_;
  const std::uint64_t now = mesh_->mesh().ticks();
  if (pace.until_tick) ticks = std::min(ticks, *pace.until_tick - std::min(*pace.until_tick, now));
  const Status done = ticks > 0 ? mesh_->tick(ticks) : Status();
  count_ticks(now, begin);
  has_changed_ = true;
  const auto took = Clock::now() - begin;
  if (took < kBlock / 2 && block_ < 4096) block_ *= 2;
  if (took > kBlock * 2 && block_ > 1) block_ /= 2;
  if (pace.tick_rate > 0) {
    const auto period = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / pace.tick_rate));
    next_tick_ = std::max(next_tick_ + period, begin);  // what was missed is not made up for
  }
  if (done && ticks > 0) return;
  if (!done) log_warn("mesh '" + name() + "': " + done.error().text());
  const std::lock_guard hold(mutex_);
  pace_.runs = false;
}

void ServedMesh::count_ticks(std::uint64_t before, Clock::time_point begin) {
  const std::uint64_t ticks = mesh_->mesh().ticks() - std::min(before, mesh_->mesh().ticks());
  if (ticks == 0) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  counters_.tick_seconds.add(seconds / static_cast<double>(ticks), ticks);
  count_weights(ticks);
}

void ServedMesh::count_weights(std::uint64_t times) {
  const auto on = node();
  if (!on) return;
  const mesh::Mesh& mesh = mesh_->mesh();
  counters_.weights_read.add(mesh::MeshAccess::weights(mesh).allocated_bytes() * times, local_share(mesh.plan(), *on));
}

std::optional<std::chrono::system_clock::time_point> ServedMesh::checkpoint_time(const MeshStatistics* before,
                                                                                 std::uint64_t written) const {
  if (!before) return newest_checkpoint(description_.directory);
  return written != before->agent->checkpoint.written ? std::chrono::system_clock::now() : before->checkpoint_time;
}

void ServedMesh::publish(bool is_due) {
  const auto now = Clock::now();
  if (!is_due && (now - published_ < kPublish || (!has_changed_ && !mesh_->has_directory()))) return;
  auto made = std::make_shared<MeshStatistics>();
  const mesh::Mesh& mesh = mesh_->mesh();
  const ServedState& state = mesh_->state();
  made->tick = mesh.ticks();
  made->samples = mesh_->scores().samples();
  made->weight_version = state.weight_version;
  made->weight_label = state.weight_label;
  made->weight_bytes = mesh::MeshAccess::weights(mesh).allocated_bytes();
  made->accuracy = mesh_->scores().accuracy();
  made->mean_loss = mesh_->scores().mean_loss();
  made->drift = mesh_->scores().drift().last();
  made->drifts = mesh_->scores().drift().drifts();
  if (const learning::Learner* const learner = mesh_->learner();
      learner && learner->options().late != learning::Late::none)
    made->late = learner->late_counts();
  made->sessions = state.sessions;
  made->supervision = mesh.supervisor().counters();
  for (std::size_t i = 0; i < actors::kActorStatusCount; ++i)
    made->cells[i] = mesh.registry().count(static_cast<actors::ActorStatus>(i));
  made->agent = mesh_->statistics();
  for (const auto& each : mesh_->kept_versions()) made->kept_weights.push_back({each.version, each.label});
  if (const auto* const device = mesh.device_statistics()) made->device = *device;
  if (const auto halt = mesh::MeshAccess::halt(mesh)) made->halted = describe(*halt);
  const double seconds = std::chrono::duration<double>(now - published_).count();
  const auto before = statistics();
  if (made->agent) made->checkpoint_time = checkpoint_time(before.get(), made->agent->checkpoint.written);
  if (before && seconds > 0) made->ticks_per_second = static_cast<double>(made->tick - published_tick_) / seconds;
  made->phase = made->halted ? "halted" : "running";
  published_ = now;
  published_tick_ = made->tick;
  has_changed_ = false;
  if (before) tell_changes(*before, *made);
  const std::lock_guard hold(mutex_);
  statistics_ = std::move(made);
}

void ServedMesh::tell_changes(const MeshStatistics& before, const MeshStatistics& now) {
  if (now.supervision != before.supervision) {
    Json faults = Json::object();
    for (std::size_t i = 0; i < now.supervision.faults.size(); ++i)
      faults[std::string(actors::name(static_cast<actors::FaultKind>(i)))] = now.supervision.faults[i];
    events_.publish("faults", "fault",
                    {{"tick", now.tick}, {"faults", faults}, {"escalations", now.supervision.escalations}});
  }
  if (now.drift.number != before.drift.number)
    events_.publish("drift", "drift",
                    {{"kind", now.drift.is_recovery ? "recovered" : "drift"},
                     {"tick", now.tick},
                     {"sample", now.drift.sample},
                     {"metric", "accuracy"},
                     {"before", now.drift.before},
                     {"after", now.drift.after},
                     {"recovery_samples", now.drift.is_recovery ? Json(now.drift.since) : Json()}});
  if (now.late && now.late->expired != (before.late ? before.late->expired : 0))
    events_.publish("expired", "expired",
                    {{"tick", now.tick},
                     {"count", now.late->expired - (before.late ? before.late->expired : 0)},
                     {"expired", now.late->expired},
                     {"observed", now.late->observed}});
  if (now.phase != before.phase) events_.publish("phase", "phase", {{"phase", now.phase}, {"tick", now.tick}});
  if (now.sessions != before.sessions)
    events_.publish("sessions", "sessions", {{"sessions", now.sessions}, {"tick", now.tick}});
  if (!now.agent || !before.agent) return;
  const auto& written = now.agent->checkpoint;
  if (written.written != before.agent->checkpoint.written)
    events_.publish("checkpoints", "checkpoint",
                    {{"tick", written.at.tick},
                     {"bytes", written.bytes},
                     {"pause_s", std::chrono::duration<double>(written.pause).count()}});
}

}  // namespace weft::server
