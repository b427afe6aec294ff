// SPDX-License-Identifier: Apache-2.0
// Steps as programs: recorded once, kept under what they depend on, with what they are fed and give out.

#include "mesh/device/device_executor.hpp"

#include <algorithm>

namespace weft::mesh {

namespace {

constexpr std::size_t kMostPrograms = 64;
constexpr std::size_t kMostSingleSteps = 1024;  // the same, where each is one step

}  // namespace

Result<std::shared_ptr<DeviceExecutor::Recorded>> DeviceExecutor::program_of(std::uint64_t tick, const Steps& steps) {
  StepHook* const hook = engine_.hook();
  const std::uint64_t now = tick + engine_.ticks_in(steps.first);
  StateHasher key;
  key.add(now & (state_.depth() - 1));
  key.add(steps.count);
  key.add(steps.first - steps.block);
  for (const float* const place : feed_places_) key.add(std::uint64_t{place != nullptr});
  for (const OutputSink& sink : engine_.sinks()) key.add(std::uint64_t{sink.node});
  engine_.add_firing(now, engine_.ticks_in(steps.first + steps.count) - engine_.ticks_in(steps.first), key);
  bool is_kept = true;
  if (hook) {
    const auto of_hook = hook->record_key(steps.first, now, steps.count);
    is_kept = of_hook.has_value();
    if (is_kept) key.add(*of_hook);
    // A settled sample's steps stand at its beginning, since blocks are whole samples or single steps.
    key.add(steps.first % hook->period());
    key.add(hook->samples_of(steps.first, now, steps.count).first - steps.sample);  // its place in the window
  }
  const Hash128 digest = key.digest();
  const auto name = std::pair(digest.high, digest.low);
  const auto found = is_kept ? programs_.find(name) : programs_.end();
  std::shared_ptr<Recorded> recorded;
  if (found != programs_.end()) {
    recorded = found->second;
    for (const auto& [node, updates] : recorded->updates) hook->add_updates(node, updates);
  } else {
    WEFT_TRY(Recorded made, record(tick, steps));
    recorded = std::make_shared<Recorded>(std::move(made));
    if (programs_.size() >= (steps.count == 1 ? kMostSingleSteps : kMostPrograms)) programs_.clear();
    if (is_kept) programs_.emplace(name, recorded);
  }
  for (const NodeId node : recorded->guarded) is_guarded_[node] = 1;
  return recorded;
}

Result<DeviceExecutor::Recorded> DeviceExecutor::record(std::uint64_t tick, const Steps& steps) {
  StepHook* const hook = engine_.hook();
  const Engine::Recording recording{recorder_.get(), tick, engine_.ticks_in(steps.block), feed_places_, sink_places_};
  std::vector<gpu::Touched> by_host, by_device;
  if (is_mixed()) watch_host_parts(recording, steps.first, by_host);
  const auto counts = hook ? hook->update_counts() : std::span<const std::uint64_t>();
  const std::vector<std::uint64_t> before(counts.begin(), counts.end());
  WEFT_CHECK(stream_->begin_program());
  if (is_mixed()) {
    engine_.record_step(recording, steps.first, Engine::Side::ports);
    stream_->watch(&by_device);
    engine_.record_step(recording, steps.first, Engine::Side::device);
    stream_->watch(nullptr);
  } else {
    for (std::uint64_t s = 0; s < steps.count; ++s) engine_.record_step(recording, steps.first + s);
  }
  Recorded recorded;
  WEFT_TRY(recorded.program, stream_->end_program());
  WEFT_CHECK(recorder_->status());
  recorded.guarded = recorder_->guards().take();
  for (const NodeId node : recorded.guarded) hook->add_updates(node, before[node] - counts[node]);  // modulo 2^64: back
  for (NodeId node = 0; node < before.size(); ++node)
    if (counts[node] != before[node]) recorded.updates.emplace_back(node, counts[node] - before[node]);
  ++figures_.programs;
  if (is_mixed()) WEFT_CHECK(open_border(recorded.border, by_host, by_device));
  return recorded;
}

Status DeviceExecutor::push_feeds(const Steps& steps) {
  feed_places_.assign(engine_.feeds().size(), nullptr);
  const std::uint64_t fired = engine_.ticks_in(steps.first),
                      ticks = engine_.ticks_in(steps.first + steps.count) - fired,
                      before = fired - engine_.ticks_in(steps.block);
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
      stream_->upload(feed.base + row_of(t) * row, run * row * sizeof(float),
                      window.buffer.data() + (before + t) * row);
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

Status DeviceExecutor::reset_counts() {
  if (!engine_.hook()) return {};
  const std::size_t nodes = graph_.nodes().size();
  is_guarded_.assign(nodes, 0);
  std::vector<float> values(nodes + 1, 0.0f);
  values.back() = -1.0f;
  stream_->upload(values.data(), values.size() * sizeof(float), guards_.data() + nodes);
  return stream_->status();
}

// Whole numbers up to a run's steps, so float32 counts them.
Status DeviceExecutor::pull_counts() {
  StepHook* const hook = engine_.hook();
  if (!hook || std::find(is_guarded_.begin(), is_guarded_.end(), 1) == is_guarded_.end()) return {};
  std::vector<float> counts(graph_.nodes().size());
  WEFT_CHECK(stream_->download(guards_.data() + counts.size(), counts.size() * sizeof(float), counts.data()));
  for (NodeId node = 0; node < counts.size(); ++node)
    if (is_guarded_[node]) hook->add_updates(node, static_cast<std::uint64_t>(counts[node]));
  return {};
}

Status DeviceExecutor::pull_sinks(std::uint64_t step, std::uint64_t count) {
  const std::uint64_t fired = engine_.ticks_in(step), ticks = engine_.ticks_in(step + count) - fired;
  for (std::size_t i = 0; i < sink_places_.size(); ++i) {
    const std::size_t row = state_.sessions() * graph_.nodes()[sink_places_[i].node].width;
    WEFT_CHECK(
        stream_->download(sink_places_[i].base, ticks * row * sizeof(float), engine_.sinks()[i].base + fired * row));
  }
  return {};
}

}  // namespace weft::mesh
