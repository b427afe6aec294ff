// SPDX-License-Identifier: Apache-2.0

#include "cli/run_monitor.hpp"

#include "cli/json_line.hpp"
#include "cli/signals.hpp"
#include "cli/text_format.hpp"
#include "cli/top_place.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include "core/json.hpp"
#include "core/log.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace weft::cli {
namespace {

using actors::ActorStatus;

constexpr std::chrono::milliseconds kPublish{100}, kMeasure{1000};
constexpr std::uint64_t kFaultsASecond = 20;   // told one by one; of more, only how many
constexpr std::chrono::seconds kLookedFor{5};  // after each answer: a second's subscribers keep it going

std::string place(Coord at) {
  return "[" + std::to_string(at.z) + "," + std::to_string(at.y) + "," + std::to_string(at.x) + "]";
}

}  // namespace

RunMonitor::RunMonitor(RunState& state, Reporter& reporter, bool json)
    : state_(state),
      reporter_(reporter),
      json_(json),
      agent_(identity_of(state.mesh())),
      notifier_(ServiceNotifier::from_environment()) {
  const mesh::Mesh& mesh = state.mesh();
  statistics_.weight_bytes = mesh::MeshAccess::weights(mesh).allocated_bytes();
  statistics_.state_bytes = mesh::MeshAccess::state(mesh).bytes();
  statistics_.late = late_counts_of(state_.learner());
}

Result<std::unique_ptr<RunMonitor>> RunMonitor::open(const MonitorRequest& request, RunState& state,
                                                     Reporter& reporter) {
  // Without a log and a manager, a terminal that is closed ends the run as it ever did.
  if (!request.log.empty() || std::getenv("NOTIFY_SOCKET")) watch_hangups();
  std::unique_ptr<RunMonitor> monitor(new RunMonitor(state, reporter, request.json));
  RunMonitor& m = *monitor;
  m.publish();
  actors::WatchdogOptions options;
  options.limit =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(request.hang_limit));
  options.on_hang = *actors::parse_on_hang(request.on_hang);
  options.told = [&m](const actors::Hang& hang) { m.tell(hang); };
  m.watchdog_ = std::make_unique<actors::Watchdog>(state.mesh().activity(), m.agent_.cells.size(), options);
  if (request.socket.empty() && request.directory.empty()) return monitor;
  Status served = m.serve(request);
  if (!served && !request.socket.empty()) return fail(std::move(served).error().within("--socket"));
  if (!served) log_warn("weft top cannot look at this run: " + served.error().text());
  return monitor;
}

Status RunMonitor::serve(const MonitorRequest& request) {
  std::string path = request.socket;
  if (path.empty()) {
    WEFT_TRY(path, socket_for(request.directory));
  }
  const auto take_command = [this](std::uint64_t ticket, const Json& command) {
    return commands_.take(ticket, command);
  };
  WEFT_TRY(server_, TopServer::open(
                        path, [this] { return answer(); }, take_command));
  if (request.directory.empty()) return {};
  noted_in_ = request.directory;
  return note_socket(noted_in_, std::filesystem::absolute(path).string());
}

RunMonitor::~RunMonitor() {
  if (!noted_in_.empty() && server_) forget_socket(noted_in_, std::filesystem::absolute(server_->path()).string());
}

void RunMonitor::found() {
  const agent::Recovery& r = state_.recovery();
  const std::string& data_directory = state_.agent()->directory();
  for (const std::string& damage : r.damages) log_warn("damaged: " + damage);
  if (r.is_new) return log_info("a new agent in " + data_directory);
  log_info("found in " + data_directory + ": checkpoint of tick " + std::to_string(r.checkpoint) + ", " +
           std::to_string(r.records) + " records replayed in " + milliseconds(r.took) + " up to tick " +
           std::to_string(r.at.tick) + ", " + std::to_string(r.torn_bytes) +
           " bytes of an unfinished record dropped, state hash " + to_string(r.hash));
}

void RunMonitor::started() {
  const Clock::time_point now = Clock::now();
  last_.measure = now;
  measured_ticks_ = state_.mesh().ticks();
  measured_samples_ = state_.stream().progress().samples;
  statistics_.phase = "running";
  measure(now);
  publish();
  notifier_.ready(status_line());
  log_info(agent_.network + ": running, at tick " + std::to_string(statistics_.run.ticks));
}

void RunMonitor::progressed() {
  if (take_hangup()) {
    reopen_log_file();
    log_info("log opened anew");
  }
  notifier_.alive();
  tell_faults();
  take_commands();
  const Clock::time_point now = Clock::now();
  if (now - last_.publish < kPublish) return;
  measure(now);
  publish();
  if (!notifier_.is_active() || now - last_.status < kMeasure) return;
  last_.status = now;
  notifier_.status(status_line());
}

void RunMonitor::take_commands() {
  if (!server_) return;
  commands_.execute_all({state_.agent(), state_.learner(), &state_.setup().spec, state_.setup().durability},
                        [this](std::uint64_t ticket, std::string line) { server_->reply(ticket, std::move(line)); });
}

void RunMonitor::close_commands() {
  if (!server_) return;
  commands_.close("the run is " + statistics_.phase + ", and executes no commands any more",
                  [this](std::uint64_t ticket, std::string line) { server_->reply(ticket, std::move(line)); });
}

void RunMonitor::enters(const char* phase) {
  statistics_.phase = phase;
  if (statistics_.phase != "saving") close_commands();
  tell_faults();
  measure(Clock::now());
  publish();
  notifier_.alive();
  if (statistics_.phase == "stopping" || statistics_.phase == "done") {
    notifier_.stopping(status_line());
    log_info(agent_.network + ": " + statistics_.phase + ", at tick " + std::to_string(statistics_.run.ticks));
  }
}

void RunMonitor::saved(std::uint64_t bytes, std::chrono::duration<double> pause) {
  measure(Clock::now());
  statistics_.saved = {statistics_.run.progress.samples, statistics_.run.ticks, bytes, Clock::now(), pause.count()};
  if (statistics_.phase == "saving") statistics_.phase = "running";
  publish();
  notifier_.alive();
}

bool RunMonitor::wants_layers() {
  const Clock::time_point now = Clock::now();
  const Clock::time_point looked{Clock::duration(last_.look.load(std::memory_order_relaxed))};
  if (now - looked > kLookedFor || now - last_.layers < kMeasure) return false;
  last_.layers = now;
  return true;
}

void RunMonitor::layers(std::vector<learning::LayerDiagnostics> measured) {
  if (measured.size() > LiveStatistics::kMostLayers) measured.resize(LiveStatistics::kMostLayers);
  statistics_.layers = std::move(measured);
}

void RunMonitor::tell_faults() {
  const auto& events = state_.mesh().supervisor().events();
  const std::uint64_t before = next_event_;
  if (events.appended() != before) {
    const Clock::time_point now = Clock::now();
    if (now - last_.faults >= std::chrono::seconds(1)) last_.faults = now, faults_told_ = 0;
    std::uint64_t told = 0;
    for (const actors::SupervisionEvent& event : events.read(next_event_)) {
      known_.try_emplace(event.fault.actor, ActorStatus::running);
      // Until the block's end a cell that halted the mesh goes on failing.
      const bool is_new = event.decision.action != actors::Policy::halt || halted_.insert(event.fault.actor).second;
      if (!is_new || faults_told_ >= kFaultsASecond) continue;
      ++faults_told_, ++told;
      const auto& [fault, decision] = event;
      const std::string_view reason = fault.reason.data();
      reporter_.interrupt();
      log_warn("cell " + place(at(fault.actor)) + " failed at tick " + std::to_string(fault.tick) + " (" +
               std::string(name(fault.kind)) + (reason.empty() ? "" : ": ") + std::string(reason) +
               "): " + std::string(name(decision.action)) + (decision.escalated ? ", as no restart is left" : "") +
               (decision.action == actors::Policy::restart
                    ? ", restart " + std::to_string(decision.restarts_used) + " of " +
                          std::to_string(state_.mesh().supervisor().rule(fault.actor).max_restarts)
                    : ""));
      if (json_)
        print_json({{"event", "fault"},
                    {"cell", cell_json(at(fault.actor))},
                    {"tick", fault.tick},
                    {"kind", name(fault.kind)},
                    {"reason", reason.empty() ? Json() : Json(reason)},
                    {"decision", name(decision.action)},
                    {"escalated", decision.escalated},
                    {"restarts_used", decision.restarts_used}});
    }
    if (const std::uint64_t untold = next_event_ - before - told; untold > 0) {
      log_warn("and " + std::to_string(untold) + " more faults");
      if (json_) print_json({{"event", "faults_dropped"}, {"count", untold}});
    }
  }
  if (!known_.empty()) tell_standings();
}

void RunMonitor::tell_standings() {
  const actors::Registry& registry = state_.mesh().registry();
  for (auto& [actor, known] : known_) {
    const ActorStatus status = registry.status(actor);
    if (status == known) continue;
    const actors::ActorView view = registry.view(actor);
    log_info("cell " + place(at(actor)) + " is " + std::string(name(status)) + ", was " + std::string(name(known)));
    if (json_)
      print_json({{"event", "supervision"},
                  {"cell", cell_json(at(actor))},
                  {"tick", state_.mesh().ticks()},
                  {"status", name(status)},
                  {"was", name(known)},
                  {"faults", view.faults},
                  {"restarts", view.restarts}});
    known = status;
  }
}

// On the watchdog's thread, while the run loop may stand for good.
void RunMonitor::tell(const actors::Hang& hang) {
  const std::string which = "cell " + place(at(hang.actor)) + ", tick " + std::to_string(hang.tick);
  char time[32];
  std::snprintf(time, sizeof time, "%.3g s", in_seconds(hang.stood));
  if (hang.is_over)
    log_warn(which + ": goes on, after about " + time);
  else
    log_error(which + ": hangs, has not returned for " + time);
  if (!json_) return;
  Json event{{"event", hang.is_over ? "hang_over" : "hang"}};
  event.update(hang_json(hang, at(hang.actor)));
  print_json(event);
}

void RunMonitor::measure(Clock::time_point now) {
  LiveStatistics& f = statistics_;
  RunStatistics& run = f.run;
  run.ticks = state_.mesh().ticks();
  run.progress = state_.stream().progress();
  // The first second's rate is that of what there is of it.
  const double passed = std::chrono::duration<double>(now - last_.measure).count();
  if (passed > 0 && (now - last_.measure >= kMeasure || now - agent_.started < kMeasure)) {
    run.ticks_per_second = static_cast<double>(run.ticks - measured_ticks_) / passed;
    run.samples_per_second = static_cast<double>(run.progress.samples - measured_samples_) / passed;
  }
  if (now - last_.measure >= kMeasure)
    last_.measure = now, measured_ticks_ = run.ticks, measured_samples_ = run.progress.samples;

  measure_cells(state_.mesh(), agent_, f);
}

void RunMonitor::publish() {
  last_.publish = Clock::now();
  publisher_.publish(statistics_);
}

// On the server's thread: of the run loop's it sees what was published, of the mesh nothing.
std::string RunMonitor::answer() {
  last_.look.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  return statistics_text_of(agent_, publisher_.read(), *watchdog_);
}

std::string RunMonitor::status_line() const {
  return statistics_.phase + ", " + statistics_text(to_json(statistics_.run));
}

bool RunMonitor::reader_is_gone() noexcept { return stdout_is_broken(); }

}  // namespace weft::cli
