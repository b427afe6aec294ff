// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/device_recovery.hpp"

#include "gpu/memory.hpp"

#include "core/log.hpp"

#include <algorithm>
#include <exception>
#include <string>

namespace weft::mesh {

void DeviceRecovery::release(const Error& error, DeviceStatistics& statistics) noexcept {
  ++statistics.faults;
  statistics.last_fault = error.text();
  statistics.why_host = error.text();
  statistics.device_bytes = 0;
  if (steps_ >= kProven) {
    tries_ = 0;
    wait_ = kFirstWait;
  }
  is_held_ = false;
  steps_ = 0;
  const std::string name = device_->info().name;
  // A lost one would keep its memory from the one that is opened instead.
  if (device_->is_lost())
    device_.reset();
  else
    device_->memory().trim();
  log_warn("the mesh goes on on the CPU, and nothing is lost: fault " + std::to_string(statistics.faults) + " of " +
           name + ": " + error.text() + "; " + next());
}

std::string DeviceRecovery::next() const {
  return wait() == kNever ? "it is not tried again, after " + std::to_string(kMostTries) + " tries"
                          : "it is tried again after " + std::to_string(wait()) + " steps on the CPU";
}

std::uint64_t DeviceRecovery::wait() const noexcept {
  if (tries_ >= kMostTries) return kNever;
  return wait_ - std::min(wait_, steps_);
}

void DeviceRecovery::acquire(DeviceStatistics& statistics) noexcept {
  ++tries_;
  wait_ *= 2;
  steps_ = 0;
  const auto open = [&]() -> Result<std::shared_ptr<gpu::Device>> {
    try {
      return gpu::Device::share(selector_, options_);
    } catch (const std::exception& error) {
      return fail(Errc::internal, std::string("vulkan: ") + error.what());
    }
  };
  auto opened = open();
  if (!opened) {
    statistics.why_host = opened.error().text();
    log_warn("the mesh stays on the CPU: " + opened.error().text() + "; " + next());
    return;
  }
  device_ = std::move(*opened);
  is_held_ = true;
  ++statistics.restarts;
  statistics.device = device_->info().name;
  statistics.why_host.clear();
  log_warn("the mesh is on " + statistics.device + " again");
}

}  // namespace weft::mesh
