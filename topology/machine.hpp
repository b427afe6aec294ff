// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "topology/quota.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::topology {

/// Size of one cache and how many of them the machine has. Zero size: unknown.
struct CacheInfo {
  std::uint64_t bytes = 0;
  std::uint32_t count = 0;
  std::uint32_t line_bytes = 0;
};

/// One physical core. `index` counts cores in topology order, machine-wide, and is what plans name.
struct CoreInfo {
  std::uint32_t index = 0;
  std::uint32_t package = 0;          ///< position in topology order
  std::uint32_t node = 0;             ///< position in MachineInfo::nodes
  std::vector<std::uint32_t> cpus;    ///< OS numbers of its hardware threads
  std::vector<std::uint32_t> usable;  ///< those that affinity and cpusets allow
};

/// One NUMA node, also when masked.
struct NodeInfo {
  std::uint32_t os_index = 0;
  std::uint64_t memory_bytes = 0;
  std::uint32_t cores = 0;
  std::uint32_t usable_cores = 0;
  bool memory_allowed = true;  ///< cpuset.mems lets this process allocate here
  bool masked() const noexcept { return usable_cores == 0; }
};

/// All that `weft doctor` prints about the machine, as plain values.
struct MachineInfo {
  std::string name;  ///< CPU model, or the synthetic description
  bool synthetic = false;
  std::uint32_t packages = 0;
  std::uint32_t cpus = 0;  ///< hardware threads
  std::vector<NodeInfo> nodes;
  std::vector<CoreInfo> cores;
  CacheInfo l1d, l2, l3;
  std::uint64_t page_bytes = 0;
  std::vector<std::uint64_t> huge_page_bytes;  ///< explicit huge page sizes the kernel offers
  std::string transparent_huge_pages;          ///< always, madvise, never; empty: unknown
  std::vector<std::uint32_t> affinity;         ///< OS numbers of the CPUs this process may run on
  Quota quota;
};

/// The machine as this process may use it: what exists, and what affinity, cpusets and quota leave of it.
/// @thread an immutable value, cheap to copy, shared freely
class Machine {
 public:
  struct SyntheticOptions {
    std::vector<std::uint32_t> masked_cpus{};  ///< OS numbers taken out of the affinity mask
    double quota_cpus = 0;                     ///< 0: unlimited
  };

  /// Reads the running machine.
  /// @error unsupported when hwloc cannot load a topology; what is merely unknown (a cache size) stays zero
  static Result<Machine> discover();
  /// A machine by hwloc's description, such as "node:2 core:8 pu:2"; nothing can be pinned or bound on it.
  /// @error parse_failed for a description hwloc refuses; invalid_argument when every CPU is masked
  static Result<Machine> synthetic(std::string description, SyntheticOptions options);
  static Result<Machine> synthetic(std::string description) { return synthetic(std::move(description), {}); }

  /// The same machine with the cores of one node alone: plans and memory of what runs on it stay there.
  /// @error invalid_argument: no such node, or none of its CPUs is usable
  Result<Machine> on_node(std::uint32_t node) const;
  /// Nodes with a usable CPU where this process may take memory; the first one where there is none such.
  std::vector<std::uint32_t> usable_nodes() const;

  const MachineInfo& info() const noexcept;
  /// CPUs worth using: those allowed by affinity, no more than the quota rounded up; at least 1.
  std::size_t usable_cpus() const noexcept;
  /// Physical cores with a usable hardware thread.
  std::size_t usable_cores() const noexcept;
  /// Several lines for people: packages, nodes, cores, caches, limits.
  std::string describe() const;

  struct Impl;
  const Impl& impl() const noexcept { return *impl_; }

 private:
  explicit Machine(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace weft::topology
