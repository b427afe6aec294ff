// SPDX-License-Identifier: Apache-2.0

#include "gpu/device.hpp"

#include <map>
#include <mutex>
#include <string>

namespace weft::gpu {

Result<std::shared_ptr<Device>> Device::share(std::string_view selector, const DeviceOptions& options) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Device>, std::less<>> shared;
  const std::scoped_lock lock(mutex);
  std::weak_ptr<Device>& place = shared[std::string(selector)];
  if (auto held = place.lock(); held && !held->is_lost()) return held;
  WEFT_TRY(std::shared_ptr<Device> opened, open(selector, options));
  place = opened;
  return opened;
}

}  // namespace weft::gpu
