// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <cstdint>
#include <limits>
#include <string_view>

namespace weft::gpu {

/// Groups of most shaders where limits allow them, and on all other devices: what Vulkan 1.2 has every device allow.
inline constexpr std::uint32_t kWideThreads = 256, kWideSharedBytes = 32 << 10;
inline constexpr std::uint32_t kLeastThreads = 128, kLeastSharedBytes = 16 << 10;

/// Limits of a device's work groups.
struct Limits {
  std::uint32_t threads = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t shared_bytes = std::numeric_limits<std::uint32_t>::max();
};

/// Limits that devices are taken to have at most: of "threads=128,shared=16384", either part alone, or "" for none.
/// @error  invalid_argument: another key, or no number; the message has the text
Result<Limits> parse_limits(std::string_view text);
/// The same of the environment variable WEFT_GPU_LIMITS.
Result<Limits> limits_of_environment();

}  // namespace weft::gpu
