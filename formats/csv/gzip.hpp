// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace weft::formats {

/// True when the bytes begin as gzip (RFC 1952) does.
bool is_gzip(ByteSpan bytes) noexcept;

/// Unpacks all members. `max_bytes` bounds the result, so a small file cannot fill the memory.
/// @error corrupt: damaged, cut short, or followed by something else; too_large: the result passes max_bytes
Result<std::string> gunzip(ByteSpan bytes, std::size_t max_bytes, std::string_view source_name);

}  // namespace weft::formats
