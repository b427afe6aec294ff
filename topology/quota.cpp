// SPDX-License-Identifier: Apache-2.0

#include "topology/quota.hpp"

#include "topology/internal/cgroup.hpp"

#include <cstdint>
#include <optional>

namespace weft::topology {
namespace {

namespace fs = std::filesystem;

using internal::parse_int;
using internal::read_text;
using internal::split;

std::optional<double> ratio(std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;  // -1 is v1's "no limit"
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// One group's own limit. v2: "200000 100000" or "max 100000". v1: two files.
std::optional<double> cpu_limit_of(const fs::path& group, int version) {
  if (version == 2) {
    const auto text = read_text(group / "cpu.max");
    if (!text) return std::nullopt;
    const auto words = split(*text, " \n");
    if (words.empty()) return std::nullopt;
    return ratio(parse_int(words[0]), words.size() > 1 ? parse_int(words[1]) : std::int64_t{100000});
  }
  const auto quota = read_text(group / "cpu.cfs_quota_us");
  const auto period = read_text(group / "cpu.cfs_period_us");
  if (!quota || !period) return std::nullopt;
  const auto quota_words = split(*quota, " \n"), period_words = split(*period, " \n");
  if (quota_words.empty() || period_words.empty()) return std::nullopt;
  return ratio(parse_int(quota_words[0]), parse_int(period_words[0]));
}

}  // namespace

Quota read_quota(const fs::path& root, std::string_view membership) {
  Quota tightest;
  internal::each_control_group(root, membership, "cpu", [&](const fs::path& group, int version) {
    if (tightest.cgroup_version == 0) tightest.cgroup_version = version;
    if (group.empty()) return;
    const auto cpus = cpu_limit_of(group, version);
    if (!cpus || (tightest.cpus != 0 && *cpus >= tightest.cpus)) return;
    const char* const file = version == 2 ? "cpu.max" : "cpu.cfs_quota_us";
    tightest = {version, *cpus, (group / file).string()};
  });
  return tightest;
}

Quota read_quota() {
  const auto membership = internal::read_text("/proc/self/cgroup");
  return membership ? read_quota("/sys/fs/cgroup", *membership) : Quota{};
}

}  // namespace weft::topology
