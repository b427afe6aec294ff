// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/runtime/region_plan.hpp"
#include "mesh/runtime/run_io.hpp"
#include "mesh/runtime/state.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace weft::mesh {

/// The caller's memory in a run: values for input ports, and buffers for outputs.
class RunBuffers {
 public:
  RunBuffers(State& state, std::size_t nodes, std::size_t ports)
      : state_(state), feeds_(ports), first_sink_(nodes + 1) {}

  /// The feed of a port for the next runs; base == null: the port keeps its last value.
  void feed(NodeId port, PortFeed feed) noexcept { feeds_[port] = feed; }
  std::span<const PortFeed> feeds() const noexcept { return feeds_; }
  /// An output may have several.
  void set_sinks(std::vector<OutputSink> sinks) {
    sinks_ = std::move(sinks);
    std::stable_sort(sinks_.begin(), sinks_.end(), [](const auto& a, const auto& b) { return a.node < b.node; });
    std::size_t next = 0;
    for (NodeId node = 0; node < first_sink_.size(); ++node) {
      while (next < sinks_.size() && sinks_[next].node < node) ++next;
      first_sink_[node] = next;
    }
  }
  std::span<const OutputSink> sinks() const noexcept { return sinks_; }

  /// Fills the slot that the first tick of a run reads; later ones are written by the port as the run goes on.
  void fill_first(NodeId port, std::uint64_t tick) noexcept {
    const kernels::MatrixView slot = state_.output(port, tick);
    for (std::size_t b = 0; b < slot.rows && feeds_[port].base; ++b)
      std::copy_n(feeds_[port].base + b * slot.cols, slot.cols, slot.row(b));
  }
  /// Commits a port's next value; `fired`: ticks of the run before `tick`.
  void fire_port(NodeId port, std::uint64_t tick, std::uint64_t fired) noexcept {
    const PortFeed& feed = feeds_[port];
    const kernels::MatrixView now = state_.output(port, tick), next = state_.output(port, tick + 1);
    const std::uint64_t row = feed.base ? std::min((fired + 1) / feed.hold, feed.rows - 1) : 0;
    const float* values = feed.base ? feed.base + row * next.rows * next.cols : nullptr;
    for (std::size_t b = 0; b < next.rows; ++b)
      std::copy_n(values ? values + b * next.cols : now.row(b), next.cols, next.row(b));
  }
  /// Copies the values that a cell commits at tick + 1 to their sinks.
  void copy_out(const RegionPart& part, std::uint64_t tick, std::uint64_t fired) const noexcept {
    if (sinks_.empty()) return;
    for (NodeId id = part.first; id < part.first + part.layers; ++id) {
      const kernels::MatrixView y = state_.output(id, tick + 1);
      for (std::size_t s = first_sink_[id]; s < first_sink_[id + 1]; ++s)
        for (std::size_t b = 0; b < y.rows; ++b)
          std::copy_n(y.row(b), y.cols, sinks_[s].base + (fired * y.rows + b) * y.cols);
    }
  }

 private:
  State& state_;
  std::vector<PortFeed> feeds_;
  std::vector<OutputSink> sinks_;        // by node
  std::vector<std::size_t> first_sink_;  // by node
};

}  // namespace weft::mesh
