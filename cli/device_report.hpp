// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_statistics.hpp"

#include "core/json.hpp"

namespace weft::cli {

/// The device of a run, as its last event tells it: {"name": "cpu"}, or a device with its steps, those that the CPU did
/// instead and why, and its faults. `statistics`: null where no device was asked for.
Json device_json(const mesh::DeviceStatistics* statistics);

}  // namespace weft::cli
