// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace weft::topology {

/// One bound on the memory of this process.
struct MemoryLimit {
  std::uint64_t bytes = 0;  ///< the bound
  std::uint64_t free = 0;   ///< as much of it as is not in use
  std::string source;       ///< "RAM", "ulimit -v", or the control group's file
};

/// All bounds that are known; each holds on its own.
struct MemoryLimits {
  std::vector<MemoryLimit> limits;
  int cgroup_version = 0;  ///< of the tightest control group that limits memory; 0: none does

  /// The bound with the least free memory; null where none is known.
  const MemoryLimit* tightest() const noexcept;
};

/// Sources of `read_memory_limits`; a test hands over its own.
struct MemorySources {
  std::string meminfo;                       ///< text of /proc/meminfo
  std::string status;                        ///< text of /proc/self/status
  std::filesystem::path cgroup_root;         ///< mount of the control groups ("/sys/fs/cgroup")
  std::string membership;                    ///< text of /proc/self/cgroup
  std::uint64_t address_space = UINT64_MAX;  ///< soft RLIMIT_AS; UINT64_MAX: unlimited
};

/// RAM with swap (`MemAvailable` and `SwapFree` are free), the address space (RLIMIT_AS less `VmSize`) and the tightest
/// control group: `memory.max` less `memory.current` (v2), `memory.limit_in_bytes` less `memory.usage_in_bytes` (v1),
/// where page cache counts as free. A group's limit above the RAM is none. Text that cannot be parsed limits nothing.
/// @source Linux, Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst; man 5 proc; man 2 getrlimit
MemoryLimits read_memory_limits(const MemorySources& sources);

/// The limits of the running process, as they are now.
MemoryLimits read_memory_limits();

}  // namespace weft::topology
