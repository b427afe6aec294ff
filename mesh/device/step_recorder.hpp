// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/graph_recorder.hpp"
#include "mesh/runtime/step_runner.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::mesh {

/// Records steps for a device: the operations that firing and learning would do on the CPU, on the same pointers.
class StepRecorder {
 public:
  /// Sources of recorded ports' values and destinations of outputs, on the device: rows by ticks since the recording
  /// began.
  struct Recording {
    std::uint64_t tick = 0;             // of step 0 of the run
    std::uint64_t first_fired = 0;      // ticks of the run before the recording's first
    std::span<float* const> feeds;      // by port; null: it keeps its value
    std::span<const OutputSink> sinks;  // sorted by node
  };
  /// Parts of a step. Ports are a part by themselves, since the host and a device may both need them.
  enum class Side : int { both, ports, host, device };

  /// `is_host`, `is_custom`: by node (mesh/device/device_assignment.hpp). All must outlive it.
  StepRecorder(GraphRecorder& to, StepRunner& runner, std::span<const std::uint8_t> is_host,
               std::span<const std::uint8_t> is_custom)
      : to_(to), runner_(runner), is_host_(is_host), is_custom_(is_custom) {}

  /// Records step `step` of the run. @thread nothing else uses the mesh meanwhile
  void record(const Recording& recording, std::uint64_t step, Side side = Side::both);

  /// @error internal: a layer threw where its learning was recorded, so what was recorded is not a whole step
  Status status() const;

 private:
  bool is_on(Side side, NodeId node) const noexcept;
  void record_part(const Recording& recording, const RegionPart& part, const RegionStep& at, StepContext* context);
  void record_port(const Recording& recording, NodeId port, const RegionStep& at);
  void record_layer(NodeId node, const RegionStep& at);
  void record_outputs(const Recording& recording, NodeId node, const RegionStep& at);

  GraphRecorder& to_;
  StepRunner& runner_;
  std::span<const std::uint8_t> is_host_, is_custom_;
  bool has_failed_ = false;
};

}  // namespace weft::mesh
