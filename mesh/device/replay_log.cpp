// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/replay_log.hpp"

#include "mesh/device/recordable_rule.hpp"

#include <algorithm>
#include <utility>

namespace weft::mesh {

ReplayLog::ReplayLog(Engine& engine) : engine_(engine) {
  for (const auto& cell : engine.runner().cells())
    if (!cell->observers().empty()) observing_.push_back(cell.get());
}

std::size_t ReplayLog::row(NodeId port) const noexcept {
  return engine_.runner().state().sessions() * engine_.runner().graph().nodes()[port].width;
}

void ReplayLog::begin_run(std::uint64_t tick, std::uint64_t first, std::uint64_t steps) {
  if (entries_.empty()) {
    memory_.resize(observing_.size());
    for (std::size_t i = 0; i < observing_.size(); ++i) {
      observing_[i]->collect_mail(tick + engine_.ticks_in(first));
      observing_[i]->record_observers(memory_[i]);
    }
  }
  steps_ += steps;
  Entry& run = entries_.emplace_back();
  run.tick = tick;
  run.first = first;
  run.steps = steps;
  const std::uint64_t ticks = engine_.ticks_in(first + steps);
  const std::span<const PortFeed> feeds = engine_.buffers().feeds();
  for (NodeId port = 0; port < feeds.size(); ++port) {
    const PortFeed& feed = feeds[port];
    if (!feed.base) continue;
    const std::uint64_t rows = std::min(feed.rows, ticks / feed.hold + 1);
    std::vector<float> values;
    if (!spare_.empty()) {  // its memory is known to the system already
      values = std::move(spare_.back());
      spare_.pop_back();
    }
    values.clear();
    values.reserve(rows * row(port));  // filled while the device works
    run.feeds.push_back({port, {nullptr, rows, feed.hold}, std::move(values)});
    bytes_ += rows * row(port) * sizeof(float);
  }
  if (StepRule* const rule = engine_.rule()) rule->recordable()->take_host_snapshot(run.rule);
  bytes_ += run.rule.size();
}

void ReplayLog::add_feeds(std::uint64_t ticks) noexcept {
  if (entries_.empty()) return;
  for (Entry::Feed& logged : entries_.back().feeds) {
    const PortFeed& feed = engine_.buffers().feeds()[logged.port];
    const std::uint64_t rows = std::min(logged.feed.rows, ticks / feed.hold + 1);
    logged.values.insert(logged.values.end(), feed.base + logged.values.size(), feed.base + rows * row(logged.port));
  }
}

void ReplayLog::end_run(std::uint64_t steps) noexcept {
  steps_ -= entries_.back().steps - steps;
  entries_.back().steps = steps;
}

void ReplayLog::add_input(NodeId port, std::size_t session, std::span<const float> values, std::uint64_t tick) {
  Entry& input = entries_.emplace_back();
  input.tick = tick;
  input.port = port;
  input.session = session;
  input.input.assign(values.begin(), values.end());
  bytes_ += values.size_bytes();
}

void ReplayLog::forget() noexcept {
  for (Entry& entry : entries_)
    for (Entry::Feed& feed : entry.feeds) spare_.push_back(std::move(feed.values));
  entries_.clear();
  bytes_ = steps_ = 0;
}

void ReplayLog::restore_observers() noexcept {
  for (std::size_t i = 0; i < observing_.size(); ++i) {
    const Status restored = observing_[i]->restore_observers(memory_[i]);
    WEFT_ASSERT(restored, "an observer takes what it gave");
    observing_[i]->restore_mail(memory_[i], entries_.empty() ? 0 : entries_.front().tick);
  }
}

}  // namespace weft::mesh
