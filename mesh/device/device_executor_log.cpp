// SPDX-License-Identifier: Apache-2.0
// What came since host and device last agreed, and how the CPU lives it again.

#include "mesh/device/device_executor.hpp"

#include <algorithm>
#include <utility>

namespace weft::mesh {

void DeviceExecutor::log_run(std::uint64_t tick, std::uint64_t first, std::uint64_t steps) {
  StepHook* const hook = engine_.hook();
  if (log_.empty()) {
    watched_.clear();
    for (const Watcher* watcher : watchers_) watched_.push_back(watcher->words());
  }
  log_steps_ += steps;
  Logged& run = log_.emplace_back();
  run.tick = tick;
  run.first = first;
  run.steps = steps;
  const std::uint64_t ticks = engine_.ticks_in(first + steps);
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

void DeviceExecutor::log_feeds(std::uint64_t ticks) noexcept {
  if (log_.empty()) return;
  for (Logged::Feed& logged : log_.back().feeds) {
    const PortFeed& feed = engine_.feeds()[logged.port];
    const std::size_t row = state_.sessions() * graph_.nodes()[logged.port].width;
    const std::uint64_t rows = std::min(logged.feed.rows, ticks / feed.hold + 1);
    logged.values.insert(logged.values.end(), feed.base + logged.values.size(), feed.base + rows * row);
  }
}

void DeviceExecutor::forget_log() noexcept {
  for (Logged& entry : log_)
    for (Logged::Feed& feed : entry.feeds) spare_.push_back(std::move(feed.values));
  log_.clear();
  log_bytes_ = log_steps_ = 0;
  border_.forget();
}

std::uint64_t DeviceExecutor::replay(scheduler::Executor& executor, bool is_under_way) noexcept {
  ++figures_.replays;
  StepHook* const hook = engine_.hook();
  const std::vector<PortFeed> feeds(engine_.feeds().begin(), engine_.feeds().end());
  const std::vector<OutputSink> sinks(engine_.sinks().begin(), engine_.sinks().end());
  is_running_ = true;  // whoever asks for the host's memory gets it as it is
  ByteArchive now;
  if (hook && !is_under_way) hook->save_host(now);
  if (std::exchange(has_landed_, false)) landings_[0].settle();
  border_.take_back();
  for (std::size_t i = 0; i < watchers_.size(); ++i) {
    const bool restored = watchers_[i]->restore(watched_[i]);
    WEFT_ASSERT(restored, "a watcher takes what it gave");
  }
  engine_.forget_orders();
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
    const bool is_past = !is_under_way || &entry != &log_.back();
    // What earlier runs were asked for they have given.
    engine_.set_sinks(is_past ? std::vector<OutputSink>() : sinks);
    engine_.hold_mail(is_past);
    done = engine_.run(executor, entry.tick, entry.steps, entry.first);
    figures_.host_steps += done;
  }
  for (NodeId port = 0; port < feeds.size(); ++port) engine_.feed(port, feeds[port]);
  engine_.set_sinks(sinks);
  engine_.hold_mail(false);
  if (hook && !is_under_way) hook->load_host(now);
  is_running_ = false;
  forget_log();
  is_ahead_ = false;
  is_behind_ = true;
  return done;
}

}  // namespace weft::mesh
