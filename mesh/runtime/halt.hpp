// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "actors/registry.hpp"
#include "actors/supervisor.hpp"

#include <cstdint>

namespace weft::mesh {

/// The first fault (by tick, then cell) whose policy halts the mesh.
struct Halt {
  std::uint64_t tick = UINT64_MAX;
  std::uint32_t cell = 0;
  actors::FaultKind kind = actors::FaultKind::reported;
  actors::FaultReason reason{};
};

}  // namespace weft::mesh
