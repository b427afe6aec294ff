// SPDX-License-Identifier: Apache-2.0

#include "cli/doctor_system.hpp"

#include "cli/text_format.hpp"

#include "topology/operating_system.hpp"

#include "core/json.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

namespace weft::cli {

Json system_json() {
  const topology::OperatingSystem system = topology::read_operating_system();
  return {{"name", system.name.empty() ? Json() : Json(system.name)},
          {"kernel", system.kernel},
          {"machine", system.machine},
          {"libc", system.libc}};
}

Json disk_json() {
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  const topology::Disk disk = topology::read_disk(error ? "." : here);
  return {{"path", disk.path.string()}, {"bytes", disk.bytes}, {"free", disk.free}, {"read_only", disk.is_read_only}};
}

Json unreached_json(const Json& gpu) {
  const bool has_hardware = std::any_of(gpu["devices"].begin(), gpu["devices"].end(),
                                        [](const Json& device) { return device["kind"] != "cpu"; });
  Json devices = Json::array();
  for (const topology::PciDevice& device : topology::read_pci_devices()) {
    // Vulkan names no bus address: where it has any hardware, a device with a driver of the kernel counts as reached.
    if (!device.driver.empty() && has_hardware) continue;
    devices.push_back({{"address", device.address},
                       {"ids", device.ids},
                       {"kind", device.kind},
                       {"kernel_driver", device.driver.empty() ? Json() : Json(device.driver)},
                       {"problem", device.driver.empty() ? "no driver of the kernel" : "no Vulkan driver"}});
  }
  return devices;
}

void print_system(const Json& system, const Json& disk) {
  const auto text = [](const Json& value) { return value.is_null() ? "unknown" : value.get<std::string>(); };
  std::printf("system       %s; %s, %s, %s\n", text(system["name"]).c_str(), text(system["kernel"]).c_str(),
              text(system["machine"]).c_str(), text(system["libc"]).c_str());
  if (disk["bytes"] == 0)
    std::printf("disk         unknown (%s)\n", text(disk["path"]).c_str());
  else
    std::printf("disk         %s, %s free%s, at %s\n", byte_size(disk["bytes"]).c_str(),
                byte_size(disk["free"]).c_str(), disk["read_only"] == true ? ", read-only" : "",
                text(disk["path"]).c_str());
}

void print_unreached(const Json& devices) {
  for (const Json& device : devices) {
    const std::string driver =
        device["kernel_driver"].is_null() ? "" : " (the kernel has " + device["kernel_driver"].get<std::string>() + ")";
    std::printf("unreached    %s %s, PCI %s: %s%s\n", device["kind"].get<std::string>().c_str(),
                device["ids"].get<std::string>().c_str(), device["address"].get<std::string>().c_str(),
                device["problem"].get<std::string>().c_str(), driver.c_str());
  }
}

}  // namespace weft::cli
