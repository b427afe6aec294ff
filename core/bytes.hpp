// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/aligned_buffer.hpp"

#include <cstddef>
#include <span>
#include <string_view>

namespace weft {

/// Owned bytes on a 64-byte boundary, so that aligned blobs inside a file stay aligned in memory.
using ByteBuffer = AlignedBuffer<std::byte>;
/// Bytes someone else owns.
using ByteSpan = std::span<const std::byte>;

inline ByteSpan as_bytes(std::string_view text) noexcept {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(ByteSpan bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace weft
