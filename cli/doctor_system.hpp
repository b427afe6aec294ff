// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"

namespace weft::cli {

/// The operating system, and the disk that the working directory is on.
Json system_json();
Json disk_json();
/// Devices that `gpu`, of gpu_json(), does not reach: without a driver of the kernel, or of Vulkan.
Json unreached_json(const Json& gpu);
void print_system(const Json& system, const Json& disk);
void print_unreached(const Json& devices);

}  // namespace weft::cli
