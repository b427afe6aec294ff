// SPDX-License-Identifier: Apache-2.0

#include "topology/internal/cgroup.hpp"

#include <charconv>
#include <fstream>
#include <iterator>

namespace weft::topology::internal {
namespace {

namespace fs = std::filesystem;

using Visit = std::function<void(const fs::path&, int)>;

void walk(const fs::path& mount, std::string_view group, int version, const Visit& visit) {
  if (!fs::is_directory(mount)) return;
  std::vector<fs::path> path{mount};
  for (const std::string_view part : split(group, "/")) {
    if (part == "..") {  // a process outside its cgroup namespace: nothing here speaks of it
      path.clear();
      break;
    }
    path.push_back(path.back() / part);
  }
  if (path.empty()) path.push_back({});  // the hierarchy exists all the same
  for (const fs::path& step : path) visit(step, version);
}

}  // namespace

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

void each_control_group(const fs::path& root, std::string_view membership, std::string_view controller,
                        const Visit& visit) {
  for (const std::string_view line : split(membership, "\n")) {  // "hierarchy:controllers:path"
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    if (controllers.empty()) {
      const bool hybrid = fs::is_directory(root / "unified");
      walk(hybrid ? root / "unified" : root, path, 2, visit);
      continue;
    }
    for (const std::string_view each : split(controllers, ",")) {
      if (each != controller) continue;
      const bool joint = fs::is_directory(root / controllers);
      walk(joint ? root / controllers : root / controller, path, 1, visit);
    }
  }
}

}  // namespace weft::topology::internal
