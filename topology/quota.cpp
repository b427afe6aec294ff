// SPDX-License-Identifier: Apache-2.0

#include "topology/quota.hpp"

#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <vector>

namespace weft::topology {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> read_text(const fs::path& path) {
  std::ifstream in(path);
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = text.find_first_of(separators);
    if (end != 0) parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

std::optional<std::int64_t> parse_int(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> ratio(std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;  // -1 is v1's "no limit"
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// One group's own limit. v2: "200000 100000" or "max 100000". v1: two files.
std::optional<double> limit_of(const fs::path& group, int version) {
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

// A group is bounded by all its ancestors. Inside a container the path may be the host's and not exist here:
// the walk then finds only the mount's own root, which is the container's group.
void walk(const fs::path& mount, std::string_view group, int version, Quota& tightest) {
  if (!fs::is_directory(mount)) return;
  if (tightest.cgroup_version == 0) tightest.cgroup_version = version;
  std::vector<fs::path> path{mount};
  for (const std::string_view part : split(group, "/")) {
    if (part == "..") return;  // a process outside its cgroup namespace: nothing here speaks of it
    path.push_back(path.back() / part);
  }
  const char* file = version == 2 ? "cpu.max" : "cpu.cfs_quota_us";
  for (const fs::path& step : path) {
    const auto cpus = limit_of(step, version);
    if (!cpus || (tightest.cpus != 0 && *cpus >= tightest.cpus)) continue;
    tightest = {version, *cpus, (step / file).string()};
  }
}

}  // namespace

Quota read_quota(const fs::path& root, std::string_view membership) {
  Quota tightest;
  for (const std::string_view line : split(membership, "\n")) {  // "hierarchy:controllers:path"
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    if (controllers.empty()) {
      const bool hybrid = fs::is_directory(root / "unified");
      walk(hybrid ? root / "unified" : root, path, 2, tightest);
      continue;
    }
    for (const std::string_view controller : split(controllers, ",")) {
      if (controller != "cpu") continue;
      const bool joint = fs::is_directory(root / controllers);
      walk(joint ? root / controllers : root / "cpu", path, 1, tightest);
    }
  }
  return tightest;
}

Quota read_quota() {
  const auto membership = read_text("/proc/self/cgroup");
  return membership ? read_quota("/sys/fs/cgroup", *membership) : Quota{};
}

}  // namespace weft::topology
