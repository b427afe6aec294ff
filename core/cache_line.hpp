// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

namespace weft {

/// Floats, rounded up to whole cache lines, so that rows begin where vectors do.
constexpr std::size_t padded(std::size_t floats) noexcept { return (floats + 15) / 16 * 16; }
/// Bytes, rounded up to whole cache lines.
constexpr std::size_t cache_lines(std::size_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

}  // namespace weft
