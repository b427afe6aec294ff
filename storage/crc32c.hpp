// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/bytes.hpp"

#include <cstdint>

namespace weft::storage {

/// CRC-32C (Castagnoli) of `bytes`, going on from the checksum of what came before them (0: nothing).
/// @source RFC 3720, section 12.1 and appendix B.4; eight bytes a step after Kounavis and Berry 2005
std::uint32_t crc32c(ByteSpan bytes, std::uint32_t before = 0) noexcept;

}  // namespace weft::storage
