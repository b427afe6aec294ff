// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

/// "640 B", "1.5 KiB", "12.0 MiB".
std::string byte_size(std::uint64_t bytes);

/// A size as people write it: a whole or decimal number above 0, then nothing or B, K, M, G, T, all but B also with
/// `iB` behind; powers of 1024 each.
/// @error invalid_argument: naming the text and two examples
Result<std::uint64_t> parse_byte_size(std::string_view text);

}  // namespace weft
