// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"

namespace weft::cli {

/// Every Vulkan device, its limits and features, and what its self-test said; or why there is none.
Json gpu_json();
void print_gpu(const Json& gpu);

}  // namespace weft::cli
