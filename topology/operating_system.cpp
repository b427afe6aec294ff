// SPDX-License-Identifier: Apache-2.0

#include "topology/operating_system.hpp"

#include "topology/internal/cgroup.hpp"

#include <gnu/libc-version.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include <algorithm>
#include <string_view>
#include <system_error>

namespace weft::topology {
namespace {

namespace fs = std::filesystem;

/// A file of sysfs without its line end.
std::string line_of(const fs::path& path) {
  std::string text = internal::read_text(path).value_or("");
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::string without_0x(std::string text) { return text.rfind("0x", 0) == 0 ? text.substr(2) : text; }

/// The value of a line KEY=value or KEY="value".
std::string value_of(const std::string& text, std::string_view key) {
  for (const std::string_view line : internal::split(text, "\n")) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || line.substr(0, equals) != key) continue;
    std::string_view value = line.substr(equals + 1);
    if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front())
      value = value.substr(1, value.size() - 2);
    return std::string(value);
  }
  return {};
}

}  // namespace

std::string system_name(const std::string& os_release) {
  std::string pretty = value_of(os_release, "PRETTY_NAME");
  return pretty.empty() ? value_of(os_release, "NAME") : pretty;
}

OperatingSystem read_operating_system() {
  OperatingSystem system;
  system.name = system_name(internal::read_text("/etc/os-release").value_or(""));
  if (utsname name{}; uname(&name) == 0) {
    system.kernel = std::string(name.sysname) + " " + name.release;
    system.machine = name.machine;
  }
  system.libc = std::string("glibc ") + gnu_get_libc_version();
  return system;
}

Disk read_disk(const fs::path& path) {
  Disk disk{path};
  struct statvfs found {};
  if (statvfs(path.c_str(), &found) != 0) return disk;
  disk.bytes = std::uint64_t{found.f_frsize} * found.f_blocks;
  disk.free = std::uint64_t{found.f_frsize} * found.f_bavail;
  disk.is_read_only = (found.f_flag & ST_RDONLY) != 0;
  return disk;
}

std::vector<PciDevice> read_pci_devices(const fs::path& bus) {
  std::vector<PciDevice> devices;
  std::error_code error;
  for (fs::directory_iterator each(bus, error), end; !error && each != end; each.increment(error)) {
    const fs::path& at = each->path();
    const std::string base = without_0x(line_of(at / "class")).substr(0, 2);
    if (base != "03" && base != "12") continue;
    std::error_code none;  // without a link: no driver
    devices.push_back({at.filename(), without_0x(line_of(at / "vendor")) + ":" + without_0x(line_of(at / "device")),
                       base == "03" ? "display" : "accelerator", fs::read_symlink(at / "driver", none).filename()});
  }
  std::sort(devices.begin(), devices.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
  return devices;
}

}  // namespace weft::topology
