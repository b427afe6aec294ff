// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/fwd.hpp"

#include <cstdint>

namespace weft::mesh {

/// Values for an input port over a run: tick f of the run reads row f / hold, the last row again after the end.
struct PortFeed {
  const float* base = nullptr;  // [rows][sessions][width]
  std::uint64_t rows = 0;
  std::uint64_t hold = 1;
};

/// Destination of the values that an output commits in a run: tick f to base + f * sessions * width.
struct OutputSink {
  NodeId node = 0;
  float* base = nullptr;
};

}  // namespace weft::mesh
