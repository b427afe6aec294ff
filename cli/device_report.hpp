// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_statistics.hpp"

#include "core/json.hpp"

namespace weft::cli {

/// Report of a run's device, as its last event has it: {"name": "cpu"}, or the device with its steps, those that the CPU
/// did instead and why, and its faults. `statistics`: null where no device was asked for.
Json device_json(const mesh::DeviceStatistics* statistics);

}  // namespace weft::cli
