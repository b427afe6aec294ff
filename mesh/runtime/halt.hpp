// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "actors/registry.hpp"
#include "actors/supervisor.hpp"

#include <atomic>
#include <cstdint>
#include <optional>

namespace weft::mesh {

/// The first fault (by tick, then cell) whose policy halts the mesh.
struct Halt {
  std::uint64_t tick = UINT64_MAX;
  std::uint32_t cell = 0;
  actors::FaultKind kind = actors::FaultKind::reported;
  actors::FaultReason reason{};
};

/// The halt of a mesh, if there is one.
/// @thread any
class HaltRecord {
 public:
  /// One load, for every step.
  bool is_set() const noexcept { return is_set_.load(std::memory_order_acquire); }
  /// A copy: others may note an earlier one, or clear it, at any time.
  std::optional<Halt> get() const noexcept;
  /// Notes a halt, or keeps the one that came first.
  void note(const Halt& halt) noexcept;
  void clear() noexcept;

 private:
  class Hold;
  mutable std::atomic_flag lock_;
  std::atomic<bool> is_set_{false};
  Halt first_;
};

}  // namespace weft::mesh
