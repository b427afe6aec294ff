// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "topology/machine.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::topology {

/// Core assignment of one thread of a run.
struct CoreAssignment {
  std::uint32_t core = 0;  ///< CoreInfo::index
  std::uint32_t node = 0;  ///< position in MachineInfo::nodes
  bool operator==(const CoreAssignment&) const = default;
};

/// Core assignments for `threads` threads (0: min(usable_cpus, usable cores)). One per usable core, node after node;
/// when there are more threads than usable cores, consecutive threads share a core.
/// Plans and executors both call this, so region i and thread i meet on one core.
std::vector<CoreAssignment> core_assignments(const Machine& machine, std::size_t threads);

/// Keeps the thread that made it on one core; puts the old mask back when destroyed (on that same thread).
/// @thread the creating thread only
class ThreadBinding {
 public:
  /// @error unsupported on synthetic machines or where the OS refuses
  static Result<ThreadBinding> pin(const Machine& machine, std::uint32_t core);
  /// The same with all usable cores of a node.
  static Result<ThreadBinding> pin_to_node(const Machine& machine, std::uint32_t node);
  ThreadBinding(ThreadBinding&&) noexcept;
  ThreadBinding& operator=(ThreadBinding&&) noexcept;
  ~ThreadBinding();

 private:
  struct Impl;
  static Result<ThreadBinding> pin_to(const Machine& machine, const std::vector<std::uint32_t>& cpus,
                                      const std::string& what);
  explicit ThreadBinding(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Node of the core that runs the calling thread now; none on synthetic machines. A few nanoseconds.
std::optional<std::uint32_t> current_node(const Machine& machine) noexcept;

/// True when the calling thread runs on a hardware thread of `core` now. A few nanoseconds.
bool is_on_core(const Machine& machine, std::uint32_t core) noexcept;

/// Moves the calling thread to `core` once, its affinity mask unchanged, so that the system may move it on.
/// False, and nothing done, when its mask does not hold the core or the OS refuses.
bool move_to_core(const Machine& machine, std::uint32_t core) noexcept;

}  // namespace weft::topology
