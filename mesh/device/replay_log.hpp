// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/memory/byte_archive.hpp"
#include "mesh/runtime/engine.hpp"
#include "mesh/runtime/observer.hpp"
#include "mesh/runtime/run_io.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::mesh {

/// Steps and inputs since host and device last agreed, with all that the host's memory does not hold to run them again:
/// fed values, the rule's counters, the observers' memory.
class ReplayLog {
 public:
  /// Steps, or an input.
  struct Entry {
    struct Feed {
      NodeId port = 0;
      PortFeed feed;
      std::vector<float> values;
    };
    std::uint64_t tick = 0, first = 0, steps = 0;  // of a run that began at `tick`
    std::vector<Feed> feeds;
    ByteArchive rule;
    NodeId port = 0;
    std::size_t session = 0;
    std::vector<float> input;  // not empty: an input
  };

  explicit ReplayLog(Engine& engine);

  /// Steps [first, first + steps) of a run that begin now; what they are fed is copied by `add_feeds`.
  void begin_run(std::uint64_t tick, std::uint64_t first, std::uint64_t steps);
  /// Copies the feeds of the run's first `ticks` ticks into its entry.
  void add_feeds(std::uint64_t ticks) noexcept;
  /// The run under way ended after fewer steps.
  void end_run(std::uint64_t steps) noexcept;
  void add_input(NodeId port, std::size_t session, std::span<const float> values, std::uint64_t tick);
  void forget() noexcept;
  /// Restores the observers as they were when the log began.
  void restore_observers() noexcept;

  const std::vector<Entry>& entries() const noexcept { return entries_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t steps() const noexcept { return steps_; }

 private:
  std::size_t row(NodeId port) const noexcept;  // floats of a tick

  Engine& engine_;
  std::vector<Entry> entries_;
  std::uint64_t bytes_ = 0, steps_ = 0;
  std::vector<std::vector<float>> spare_;  // of feeds that were logged
  std::vector<Cell*> observing_;           // cells of those
  std::vector<CellRecord> memory_;         // by observing cell: as the log began
};

}  // namespace weft::mesh
