// SPDX-License-Identifier: Apache-2.0

#include "topology/memory_limits.hpp"

#include "topology/internal/cgroup.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <optional>

namespace weft::topology {
namespace {

namespace fs = std::filesystem;

using internal::parse_int;
using internal::read_text;
using internal::split;

/// The number behind `key` in lines of "key value"; nothing where it is missing or no number.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key) {
  for (const std::string_view line : split(text, "\n")) {
    const auto words = split(line, " \t");
    if (words.size() < 2 || words[0] != key) continue;
    const auto value = parse_int(words[1]);
    return value && *value >= 0 ? std::optional<std::uint64_t>(static_cast<std::uint64_t>(*value)) : std::nullopt;
  }
  return std::nullopt;
}

std::uint64_t kib(std::string_view text, std::string_view key) { return number_after(text, key).value_or(0) * 1024; }

std::optional<std::uint64_t> number_in(const fs::path& file) {
  const auto text = read_text(file);
  if (!text) return std::nullopt;
  const auto words = split(*text, " \n");
  const auto value = words.empty() ? std::nullopt : parse_int(words[0]);  // "max" is no number: no limit
  if (!value || *value < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*value);
}

std::uint64_t rest(std::uint64_t limit, std::uint64_t used) { return limit > used ? limit - used : 0; }

/// One group's own limit.
std::optional<MemoryLimit> memory_limit_of(const fs::path& group, int version) {
  const fs::path file = group / (version == 2 ? "memory.max" : "memory.limit_in_bytes");
  const auto limit = number_in(file);
  if (!limit) return std::nullopt;
  const std::uint64_t used = number_in(group / (version == 2 ? "memory.current" : "memory.usage_in_bytes")).value_or(0);
  const std::string text = read_text(group / "memory.stat").value_or("");
  const std::string prefix = version == 2 ? "" : "total_";
  const std::uint64_t cache =
      number_after(text, prefix + "inactive_file").value_or(0) + number_after(text, prefix + "active_file").value_or(0);
  return MemoryLimit{*limit, rest(*limit, rest(used, cache)), file.string()};
}

}  // namespace

const MemoryLimit* MemoryLimits::tightest() const noexcept {
  const auto least = std::min_element(limits.begin(), limits.end(),
                                      [](const MemoryLimit& a, const MemoryLimit& b) { return a.free < b.free; });
  return least == limits.end() ? nullptr : &*least;
}

MemoryLimits read_memory_limits(const MemorySources& sources) {
  MemoryLimits found;
  const std::uint64_t ram = kib(sources.meminfo, "MemTotal:") + kib(sources.meminfo, "SwapTotal:");
  if (ram)
    found.limits.push_back(
        {ram, kib(sources.meminfo, "MemAvailable:") + kib(sources.meminfo, "SwapFree:"), "RAM and swap"});
  if (sources.address_space != UINT64_MAX)
    found.limits.push_back(
        {sources.address_space, rest(sources.address_space, kib(sources.status, "VmSize:")), "ulimit -v"});
  std::optional<MemoryLimit> group;
  internal::each_control_group(sources.cgroup_root, sources.membership, "memory",
                               [&](const fs::path& path, int version) {
                                 if (path.empty()) return;
                                 auto limit = memory_limit_of(path, version);
                                 if (!limit || (ram && limit->bytes >= ram)) return;  // v1's "none" is a huge number
                                 if (group && group->free <= limit->free) return;
                                 group = std::move(limit);
                                 found.cgroup_version = version;
                               });
  if (group) found.limits.push_back(*std::move(group));
  return found;
}

MemoryLimits read_memory_limits() {
  MemorySources sources;
  sources.meminfo = read_text("/proc/meminfo").value_or("");
  sources.status = read_text("/proc/self/status").value_or("");
  sources.cgroup_root = "/sys/fs/cgroup";
  sources.membership = read_text("/proc/self/cgroup").value_or("");
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) sources.address_space = limit.rlim_cur;
  return read_memory_limits(sources);
}

}  // namespace weft::topology
