// SPDX-License-Identifier: Apache-2.0

#include "cli/live_monitor.hpp"

#include "cli/top_place.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include "core/log.hpp"

#include <chrono>
#include <filesystem>
#include <utility>

namespace weft::cli {
namespace {

constexpr std::chrono::milliseconds kLookEvery{100}, kRateOver{1000};

}  // namespace

LiveMonitor::LiveMonitor(mesh::Mesh& mesh, CommandPlace target)
    : mesh_(mesh), target_(target), agent_(identity_of(mesh)) {
  statistics_.weight_bytes = mesh::MeshAccess::weights(std::as_const(mesh)).allocated_bytes();
  statistics_.state_bytes = mesh::MeshAccess::state(std::as_const(mesh)).bytes();
  statistics_.acting = LiveStatistics::Acting{};  // not emplace: clang 14 takes it for not constructible there
  measured_ticks_ = mesh.ticks();
}

Result<std::unique_ptr<LiveMonitor>> LiveMonitor::open(const Place& place, mesh::Mesh& mesh, CommandPlace target) {
  std::unique_ptr<LiveMonitor> monitor(new LiveMonitor(mesh, target));
  monitor->publish();
  actors::WatchdogOptions options;
  options.told = [all = &monitor->agent_](const actors::Hang& hang) {
    log_warn("cell " + cell_json(all->cells[hang.actor]).dump() + ", tick " + std::to_string(hang.tick) +
             (hang.is_over ? ": goes on" : ": hangs"));
  };
  monitor->watchdog_ = std::make_unique<actors::Watchdog>(mesh.activity(), monitor->agent_.cells.size(), options);
  if (!place.is_on()) return monitor;
  Status served = monitor->serve(place);
  if (!served && !place.socket.empty()) return fail(std::move(served).error().within("--socket"));
  if (!served) log_warn("weft top cannot look at this agent: " + served.error().text());
  return monitor;
}

Status LiveMonitor::serve(const Place& place) {
  std::string path = place.socket;
  if (path.empty()) {
    WEFT_TRY(path, socket_for(place.directory));
  }
  WEFT_TRY(server_, TopServer::open(
                        path, [this] { return statistics_text_of(agent_, publisher_.read(), *watchdog_); },
                        [this](std::uint64_t ticket, const Json& command) { return commands_.take(ticket, command); }));
  if (place.directory.empty()) return {};
  noted_in_ = place.directory;
  return note_socket(noted_in_, std::filesystem::absolute(path).string());
}

LiveMonitor::~LiveMonitor() {
  if (!noted_in_.empty() && server_) forget_socket(noted_in_, std::filesystem::absolute(server_->path()).string());
}

void LiveMonitor::progressed(const LiveStatistics::Acting& now) {
  const auto reply = [this](std::uint64_t ticket, std::string line) { server_->reply(ticket, std::move(line)); };
  if (server_) commands_.execute_all(target_, reply);
  const Clock::time_point time = Clock::now();
  LiveStatistics& f = statistics_;
  const bool is_first = f.phase != "running";
  if (!is_first && time - published_ < kLookEvery) return;
  f.phase = "running";
  const double passed = std::chrono::duration<double>(time - measured_).count(), before = f.acting->steps_per_second;
  *f.acting = now;
  f.acting->steps_per_second = before;
  f.run.ticks = mesh_.ticks();
  if (is_first) measured_steps_ = now.steps, measured_ticks_ = f.run.ticks, measured_ = time;
  // The first second's rate is that of what there is of it.
  if (!is_first && passed > 0 && (time - measured_ >= kRateOver || time - agent_.started < kRateOver)) {
    f.run.ticks_per_second = static_cast<double>(f.run.ticks - measured_ticks_) / passed;
    f.acting->steps_per_second = static_cast<double>(now.steps - measured_steps_) / passed;
  }
  if (time - measured_ >= kRateOver) measured_ = time, measured_ticks_ = f.run.ticks, measured_steps_ = now.steps;
  publish();
}

void LiveMonitor::publish() {
  published_ = Clock::now();
  measure_cells(mesh_, agent_, statistics_);
  if (target_.agent) {
    const agent::AgentStatistics now = target_.agent->statistics();
    statistics_.journal = LiveStatistics::Journal{to_string(target_.durability), now.acknowledged.tick,
                                                  now.waiting_bytes, now.journal_bytes, now.last_error.value_or("")};
    statistics_.failed_checkpoints = now.checkpoint.failed;
    if (const std::uint64_t tick = now.checkpoint.at.tick;
        now.checkpoint.written > 0 && (!statistics_.saved || statistics_.saved->ticks != tick))
      statistics_.saved = LiveStatistics::Saved{0, tick, now.checkpoint.bytes, published_,
                                                std::chrono::duration<double>(now.checkpoint.pause).count()};
  }
  publisher_.publish(statistics_);
}

void LiveMonitor::enters(const char* phase) {
  statistics_.phase = phase;
  if (server_)
    commands_.close(std::string("the agent is ") + phase + ", and executes no commands any more",
                    [this](std::uint64_t ticket, std::string line) { server_->reply(ticket, std::move(line)); });
  publish();
}

}  // namespace weft::cli
