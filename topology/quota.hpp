// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace weft::topology {

/// CPU time that the control group of this process may use.
struct Quota {
  int cgroup_version = 0;  ///< 1 or 2; 0: no control group found
  double cpus = 0;         ///< CPUs worth of time per period; 0: unlimited
  std::string source;      ///< the file that sets the limit; empty when unlimited
};

/// The tightest limit on the path from this process's control group to the root: `cpu.max` (v2), or
/// `cpu.cfs_quota_us` over `cpu.cfs_period_us` (v1). What cannot be read or parsed limits nothing.
/// @param root        where the control group file systems are mounted ("/sys/fs/cgroup")
/// @param membership  text of /proc/self/cgroup
/// @source Linux, Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst
Quota read_quota(const std::filesystem::path& root, std::string_view membership);

/// The quota of the running process.
Quota read_quota();

}  // namespace weft::topology
