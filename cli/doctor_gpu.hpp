// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <nlohmann/json_fwd.hpp>

namespace weft::cli {

/// Every Vulkan device, its limits and features, and what its self-test said; or why there is none.
nlohmann::ordered_json gpu_json();
void print_gpu(const nlohmann::ordered_json& gpu);

}  // namespace weft::cli
