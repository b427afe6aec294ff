// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::mesh {

/// Use that a device makes of a region of host memory that it has a copy of.
enum class RegionUse : int {
  kept,      // values of the mesh: both sides hold them, one of them the newer ones
  constant,  // never written
  own,       // never copied: an operation writes it before any reads it
  scratch,   // the same; each cell may have a copy, so that cells need not wait for each other
  window,    // a ring over samples of which the device holds those of the steps under way
};

/// A range of the host's memory.
struct DeviceRegion {
  const void* host = nullptr;
  std::size_t bytes = 0;
  RegionUse use = RegionUse::kept;
  std::size_t slot = 0;     // of a window: bytes of a sample; the ring holds a power of two of them
  std::uint32_t group = 0;  // the caller's; regions of several groups stay apart
  /// The only node that touches it; kShared: several do, or it is not known.
  std::uint32_t node = kShared;
  bool is_input = false;  // of a window: steps read it and never write it, so it does not come back

  static constexpr std::uint32_t kShared = UINT32_MAX;
};

}  // namespace weft::mesh
