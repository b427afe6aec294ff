// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "topology/machine.hpp"

#include <hwloc.h>

#include <memory>
#include <string>
#include <vector>

namespace weft::topology {

struct BitmapDeleter {
  void operator()(hwloc_bitmap_t bitmap) const noexcept { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapDeleter>;

inline Bitmap make_bitmap() { return Bitmap(hwloc_bitmap_alloc()); }

/// The loaded topology; never changed after construction, so threads may read it together.
struct Machine::Impl {
  hwloc_topology_t topology = nullptr;
  MachineInfo info;
  Bitmap affinity;  // CPUs this process may use, cpusets applied

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (topology) hwloc_topology_destroy(topology);
  }
};

}  // namespace weft::topology
