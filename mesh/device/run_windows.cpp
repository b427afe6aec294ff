// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/run_windows.hpp"

#include <algorithm>

namespace weft::mesh {

void RunWindows::reset_feeds() {
  feeds_.clear();
  feeds_.resize(engine_.runner().graph().port_count());
}

void RunWindows::drop() {
  feeds_.clear();
  sinks_.clear();
}

std::size_t RunWindows::row(NodeId node) const noexcept {
  return engine_.runner().state().sessions() * engine_.runner().graph().nodes()[node].width;
}

Result<bool> RunWindows::grow(gpu::Memory& memory, gpu::Buffer& window, std::size_t bytes, const char* what) {
  if (window.bytes() >= bytes) return false;
  WEFT_TRY(window, memory.allocate(bytes, what));
  return true;
}

Result<bool> RunWindows::upload(gpu::VulkanStream& stream, gpu::Memory& memory, const BlockSteps& steps,
                                std::uint64_t block_steps) {
  bool has_grown = false;
  const std::span<const PortFeed> feeds = engine_.buffers().feeds();
  feed_places_.assign(feeds.size(), nullptr);
  for (NodeId port = 0; port < feeds.size(); ++port) {
    if (!feeds[port].base) continue;
    WEFT_TRY(const bool is_new,
             grow(memory, feeds_[port], block_steps * row(port) * sizeof(float), "an input's values"));
    has_grown |= is_new;
    push_feed(stream, port, steps);
    feed_places_[port] = feeds_[port].data();
  }
  const std::span<const OutputSink> sinks = engine_.buffers().sinks();
  sink_places_.clear();
  if (sinks_.size() < sinks.size()) sinks_.resize(sinks.size());
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    WEFT_TRY(const bool is_new,
             grow(memory, sinks_[i], block_steps * row(sinks[i].node) * sizeof(float), "an output's values"));
    has_grown |= is_new;
    sink_places_.push_back({sinks[i].node, sinks_[i].data()});
  }
  WEFT_CHECK(stream.status());
  return has_grown;
}

void RunWindows::push_feed(gpu::VulkanStream& stream, NodeId port, const BlockSteps& steps) {
  const PortFeed& feed = engine_.buffers().feeds()[port];
  const std::uint64_t fired = engine_.ticks_in(steps.first),
                      ticks = engine_.ticks_in(steps.first + steps.count) - fired,
                      before = fired - engine_.ticks_in(steps.block);
  // Rows that follow each other go in one copy.
  const auto row_of = [&](std::uint64_t t) { return std::min((fired + t + 1) / feed.hold, feed.rows - 1); };
  for (std::uint64_t t = 0; t < ticks;) {
    std::uint64_t run = 1;
    while (t + run < ticks && row_of(t + run) == row_of(t) + run) ++run;
    stream.upload(feed.base + row_of(t) * row(port), run * row(port) * sizeof(float),
                  feeds_[port].data() + (before + t) * row(port));
    t += run;
  }
}

Status RunWindows::download(gpu::VulkanStream& stream, std::uint64_t step, std::uint64_t count) {
  const std::uint64_t fired = engine_.ticks_in(step), ticks = engine_.ticks_in(step + count) - fired;
  for (std::size_t i = 0; i < sink_places_.size(); ++i) {
    const std::size_t each = row(sink_places_[i].node);
    WEFT_CHECK(stream.download(sink_places_[i].base, ticks * each * sizeof(float),
                               engine_.buffers().sinks()[i].base + fired * each));
  }
  return {};
}

}  // namespace weft::mesh
