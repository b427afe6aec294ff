// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace weft::topology {

/// The system that a process runs under.
struct OperatingSystem {
  std::string name;     ///< "Debian GNU/Linux 12 (bookworm)"; empty: it does not say
  std::string kernel;   ///< "Linux 6.1.0"
  std::string machine;  ///< "x86_64"
  std::string libc;     ///< "glibc 2.36"
};
OperatingSystem read_operating_system();
/// The system's name in the text of /etc/os-release: PRETTY_NAME, or NAME. Empty: neither is there.
std::string system_name(const std::string& os_release);

/// The file system that holds a path.
struct Disk {
  std::filesystem::path path;
  std::uint64_t bytes = 0, free = 0;  ///< free: for this user
  bool is_read_only = false;
};
/// Zero bytes where it cannot be asked.
Disk read_disk(const std::filesystem::path& path);

/// A display or computing device on the PCI bus, whether a driver was found for it or not.
struct PciDevice {
  std::string address;  ///< "0000:01:00.0"
  std::string ids;      ///< vendor and device, "10de:2330"
  std::string kind;     ///< "display" or "accelerator"
  std::string driver;   ///< the kernel's, "nvidia"; empty: none
};
/// Sorted by address. Empty where there is no such bus: GPUs of most ARM boards stand on others.
/// @source PCI Code and ID Assignment: base classes 03h and 12h; Linux, Documentation/ABI/testing/sysfs-bus-pci
std::vector<PciDevice> read_pci_devices(const std::filesystem::path& bus = "/sys/bus/pci/devices");

}  // namespace weft::topology
