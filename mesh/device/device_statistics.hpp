// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>

namespace weft::mesh {

/// Statistics of a device's work for a mesh.
struct DeviceStatistics {
  std::string device;              // its name
  std::uint64_t device_steps = 0;  // run there
  std::uint64_t copy_steps = 0;    // of copies that were measured, run there
  std::uint64_t copy_replays = 0;  // runs of those that were replayed on the CPU
  std::uint64_t host_steps = 0;    // run on the CPU although a device was asked for, those run again counted in
  std::uint64_t replays = 0;       // runs replayed on the CPU: a value was not finite, or the device failed
  std::uint64_t faults = 0;        // of the device: lost, hung, out of memory, a validation error
  std::uint64_t restarts = 0;      // how often it was taken again after one
  std::string last_fault;          // empty: there was none
  std::uint64_t graphs = 0;        // recorded
  std::uint64_t uploads = 0, downloads = 0;  // of the whole mesh
  std::uint64_t device_bytes = 0;
  std::uint64_t host_cells = 0;       // that stay on the host while the device runs the others
  std::string why_host_cells;         // which, and why
  std::uint64_t exchanged_bytes = 0;  // between those and the others, both ways
  std::string why_host;               // why the CPU does it all; empty when it does not
};

}  // namespace weft::mesh
